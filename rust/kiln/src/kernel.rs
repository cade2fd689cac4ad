// SPDX-License-Identifier: MIT
//! Programs, kernels, and the handle of the operators.

use crate::{c_text, check, sys, text_of, Device, Held, Result, Stream, Tensor, Workspace};
use std::os::raw::c_int;
use std::sync::Arc;

struct Loaded(*mut sys::kiln_program);

// The C functions of programs, kernels and operators may be called from any thread.
unsafe impl Send for Loaded {}
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        unsafe { sys::kiln_program_free(self.0) }
    }
}

/// A source file with what it imports; clones share it.
#[derive(Clone)]
pub struct Program(Arc<Loaded>);

impl Program {
    /// Of a `.tile` file. The error's message has the diagnostics.
    pub fn from_file(path: &str) -> Result<Program> {
        let path = c_text(path)?;
        let mut loaded = std::ptr::null_mut();
        check(unsafe { sys::kiln_program_load_file(path.as_ptr(), &mut loaded) })?;
        Ok(Program(Arc::new(Loaded(loaded))))
    }

    /// Of a text; `name` is shown in messages, and imports are first searched in its folder.
    pub fn from_text(name: &str, text: &str) -> Result<Program> {
        let (name, text) = (c_text(name)?, c_text(text)?);
        let mut loaded = std::ptr::null_mut();
        check(unsafe { sys::kiln_program_load_text(name.as_ptr(), text.as_ptr(), &mut loaded) })?;
        Ok(Program(Arc::new(Loaded(loaded))))
    }
}

/// An argument of a launch.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// An integer, or a bool as 0 or 1.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// An optional tensor that is absent.
    None,
}

struct BuiltKernel {
    handle: *mut sys::kiln_kernel,
    device: Device,
    _program: Program,
}

unsafe impl Send for BuiltKernel {}
unsafe impl Sync for BuiltKernel {}

impl Drop for BuiltKernel {
    fn drop(&mut self) {
        unsafe { sys::kiln_kernel_free(self.handle) }
    }
}

/// A kernel or an operator of a program, built for a device; clones share it. It stays until its queued work is done.
#[derive(Clone)]
pub struct Kernel(Arc<BuiltKernel>);

impl Kernel {
    /// bindings: "T=bf16, BM=64, LSE=none": build parameters, shape symbols fixed at build time, absent tensors.
    pub fn build(device: &Device, program: &Program, name: &str, bindings: &str) -> Result<Kernel> {
        let (name, bindings) = (c_text(name)?, c_text(bindings)?);
        let mut built = std::ptr::null_mut();
        check(unsafe {
            sys::kiln_kernel_build(device.as_ptr(), (program.0).0, name.as_ptr(), bindings.as_ptr(), std::ptr::null(), &mut built)
        })?;
        Ok(Kernel(Arc::new(BuiltKernel { handle: built, device: device.clone(), _program: program.clone() })))
    }

    /// The emitted C or CUDA C; empty for operators.
    pub fn source(&self) -> String {
        unsafe { text_of(sys::kiln_kernel_source(self.0.handle)) }
    }

    /// Queues one run, with the arguments in the order of the source.
    pub fn launch(&self, stream: &Stream, args: &[Arg<'_>]) -> Result<()> {
        let (c, held) = arguments(self, args);
        stream.fits(&self.0.device)?;
        check(unsafe { sys::kiln_launch(self.0.handle, stream.as_ptr(), c.as_ptr(), c.len() as c_int) })?;
        stream.hold(held);
        Ok(())
    }

    /// The same for an operator that has temporaries.
    pub fn launch_with(&self, stream: &Stream, scratch: &mut Workspace, args: &[Arg<'_>]) -> Result<()> {
        let (c, mut held) = arguments(self, args);
        let (n, mut bytes) = (c.len() as c_int, 0);
        stream.fits(&self.0.device)?;
        check(unsafe { sys::kiln_workspace_size(self.0.handle, c.as_ptr(), n, &mut bytes) })?;
        scratch.reserve(bytes, stream)?;
        check(unsafe {
            sys::kiln_launch_with(self.0.handle, stream.as_ptr(), c.as_ptr(), n, scratch.as_ptr(), scratch.bytes())
        })?;
        held.extend(scratch.held());
        stream.hold(held);
        Ok(())
    }
}

fn arguments(kernel: &Kernel, args: &[Arg<'_>]) -> (Vec<sys::kiln_arg>, Vec<Held>) {
    let mut held: Vec<Held> = vec![kernel.0.clone()];
    let c = args
        .iter()
        .map(|arg| match *arg {
            Arg::Tensor(t) => {
                held.push(t.held());
                sys::kiln_arg { kind: sys::KILN_ARG_TENSOR, value: sys::kiln_arg_value { tensor: t.as_c() } }
            }
            Arg::Int(integer) => sys::kiln_arg { kind: sys::KILN_ARG_INT, value: sys::kiln_arg_value { integer } },
            Arg::Float(real) => sys::kiln_arg { kind: sys::KILN_ARG_FLOAT, value: sys::kiln_arg_value { real } },
            Arg::None => sys::kiln_arg { kind: sys::KILN_ARG_NONE, value: sys::kiln_arg_value { integer: 0 } },
        })
        .collect();
    (c, held)
}

/// The library's operators on a device; clones share them. Their methods are named as the functions of C are, without `kiln_`.
#[derive(Clone)]
pub struct Operators(Arc<OpenOperators>);

struct OpenOperators {
    handle: *mut sys::kiln_ops,
    device: Device,
}

unsafe impl Send for OpenOperators {}
unsafe impl Sync for OpenOperators {}

impl Drop for OpenOperators {
    fn drop(&mut self) {
        unsafe { sys::kiln_ops_close(self.handle) }
    }
}

impl Operators {
    /// Opens them; each builds its kernels at the first call.
    pub fn open(device: &Device) -> Result<Operators> {
        let mut opened = std::ptr::null_mut();
        check(unsafe { sys::kiln_ops_open(device.as_ptr(), std::ptr::null(), &mut opened) })?;
        Ok(Operators(Arc::new(OpenOperators { handle: opened, device: device.clone() })))
    }

    /// The device that they are of.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The handle of C, for what is in `kiln_sys` alone.
    pub fn as_ptr(&self) -> *mut sys::kiln_ops {
        self.0.handle
    }

    pub(crate) fn held(&self) -> Held {
        self.0.clone()
    }
}
