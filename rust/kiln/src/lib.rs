// SPDX-License-Identifier: MIT
//! Kiln from Rust: tile kernels and operators on the CPU and on NVIDIA GPUs. The C library does the work
//! (`kiln_sys` is its interface as it is); this crate has owners, lifetimes and `Result`s.
//!
//! ```no_run
//! use kiln::{Arg, Device, Kernel, Program, Stream, Tensor, Type};
//!
//! fn main() -> kiln::Result<()> {
//!     let device = Device::open("cpu")?;                                            // or "cuda:0"
//!     let program = Program::from_file("kernels/elementwise/add.tile")?;
//!     let add = Kernel::build(&device, &program, "add", "T=f32")?;
//!     let x = Tensor::new(&device, Type::F32, &[2, 3])?;
//!     let y = Tensor::new(&device, Type::F32, &[2, 3])?;
//!     x.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//!     let stream = Stream::default_of(&device);
//!     add.launch(&stream, &[Arg::Tensor(&x), Arg::Tensor(&x), Arg::Tensor(&y)])?;   // in the order of the source
//!     stream.wait()?;
//!     Ok(())
//! }
//! ```
//!
//! **Memory.** A [`Tensor`] shares the memory that it is a view of; the memory goes with the last tensor over it. A [`Stream`] keeps
//! what its queued work uses until [`Stream::wait`], or until it goes, which waits. On the CPU all work is done when a call
//! returns.
//!
//! **Threads.** Devices, programs, kernels and operators may be used from any thread. Tensors, streams and workspaces stay on theirs:
//! nothing would order what two threads do with one piece of memory.
//!
//! **Contents.** Memory of a new tensor holds any bytes; every bit pattern is a value of the types that [`Element`] names.

#![warn(missing_docs)]

#[allow(missing_docs, clippy::vec_box, clippy::ptr_arg)]
mod generated;
mod kernel;
mod plan;
mod tensor;

pub use generated::*;
pub use kernel::{Arg, Kernel, Operators, Program};
pub use kiln_sys as sys;
pub use plan::{MlaPlan, PagedPlan, Plan};
pub use tensor::{Element, Tensor, Workspace};

/// What queued work uses: memory, and handles that have its code.
pub(crate) type Held = Arc<dyn std::any::Any>;

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::raw::{c_char, c_void};
use std::sync::Arc;

/// What failed: the kind, and Kiln's message, which names the argument, its value and what was expected. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind.
    pub status: Status,
    /// The message.
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A `Result` of this crate.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn fail<T>(status: Status, message: impl Into<String>) -> Result<T> {
    Err(Error { status, message: message.into() })
}

pub(crate) fn check(status: sys::kiln_status) -> Result<()> {
    if status == sys::KILN_OK {
        return Ok(());
    }
    // The message is this thread's, and stays until its next failing call.
    let message = unsafe { text_of(sys::kiln_error_message()) };
    fail(Status::from_c(status).unwrap_or(Status::DeviceFailed), message)
}

pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| fail(Status::BadArgument, format!("a text with a zero byte: {:?}", text)))
}

/// The library's version.
pub fn version() -> String {
    unsafe { text_of(sys::kiln_version()) }
}

// ---- devices

struct OpenDevice(*mut sys::kiln_device);

// The C functions of devices may be called from any thread.
unsafe impl Send for OpenDevice {}
unsafe impl Sync for OpenDevice {}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        unsafe { sys::kiln_device_close(self.0) }
    }
}

/// A use of a device; clones share it, and what is made from it keeps it open.
#[derive(Clone)]
pub struct Device(Arc<OpenDevice>);

impl Device {
    /// "cpu", "cuda:0" ...
    pub fn open(name: &str) -> Result<Device> {
        let name = c_text(name)?;
        let mut opened = std::ptr::null_mut();
        check(unsafe { sys::kiln_device_open(name.as_ptr(), &mut opened) })?;
        Ok(Device(Arc::new(OpenDevice(opened))))
    }

    /// As opened.
    pub fn name(&self) -> String {
        unsafe { text_of(sys::kiln_device_name(self.as_ptr())) }
    }

    /// "NVIDIA H200, sm_90, 132 SMs".
    pub fn description(&self) -> String {
        unsafe { text_of(sys::kiln_device_describe(self.as_ptr())) }
    }

    /// How many devices of a kind there are: "cpu" (1), "cuda" (0 without a driver).
    pub fn count(kind: &str) -> usize {
        c_text(kind).map_or(0, |kind| unsafe { sys::kiln_device_count(kind.as_ptr()) }.max(0) as usize)
    }

    /// The handle of C.
    pub fn as_ptr(&self) -> *mut sys::kiln_device {
        (self.0).0
    }

    pub(crate) fn is(&self, other: &Device) -> bool {
        self.as_ptr() == other.as_ptr()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

// ---- streams

/// Work in one stream runs in the order in which it was queued. The memory that queued work uses stays until [`Stream::wait`].
pub struct Stream {
    device: Device,
    handle: *mut sys::kiln_stream, // null: the device's default one
    held: RefCell<Vec<Held>>,
    not_sync: PhantomData<*mut ()>,
}

impl Stream {
    fn of(device: &Device, handle: *mut sys::kiln_stream) -> Stream {
        Stream { device: device.clone(), handle, held: RefCell::default(), not_sync: PhantomData }
    }

    /// The device's default stream.
    pub fn default_of(device: &Device) -> Stream {
        Stream::of(device, std::ptr::null_mut())
    }

    /// A stream of its own.
    pub fn open(device: &Device) -> Result<Stream> {
        let mut opened = std::ptr::null_mut();
        check(unsafe { sys::kiln_stream_open(device.as_ptr(), &mut opened) })?;
        Ok(Stream::of(device, opened))
    }

    /// The caller's `CUstream` or `cudaStream_t`.
    ///
    /// # Safety
    /// `native` is a stream of this device, and stays one for as long as this object lives.
    pub unsafe fn wrap(device: &Device, native: *mut c_void) -> Result<Stream> {
        let mut wrapped = std::ptr::null_mut();
        check(sys::kiln_stream_wrap(device.as_ptr(), native, &mut wrapped))?;
        Ok(Stream::of(device, wrapped))
    }

    /// Waits until its work is done, and returns the errors of that work.
    pub fn wait(&self) -> Result<()> {
        let done = check(unsafe { sys::kiln_stream_wait(self.device.as_ptr(), self.handle) });
        self.held.borrow_mut().clear();
        done
    }

    /// The device that it is of.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The handle of C; null: the default stream.
    pub fn as_ptr(&self) -> *mut sys::kiln_stream {
        self.handle
    }

    pub(crate) fn fits(&self, device: &Device) -> Result<()> {
        if self.device.is(device) {
            return Ok(());
        }
        fail(Status::BadDevice, format!("the stream is of {}, and the call is for {}", self.device.name(), device.name()))
    }

    // What has been queued uses this. Long runs without a wait do not pile up the same memory again and again.
    pub(crate) fn hold(&self, used: Vec<Held>) {
        let mut held = self.held.borrow_mut();
        for one in used {
            if !held.iter().any(|other| Arc::as_ptr(other).cast::<()>() == Arc::as_ptr(&one).cast::<()>()) {
                held.push(one);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.held.borrow().is_empty() {
            let _ = self.wait();
        }
        unsafe { sys::kiln_stream_close(self.handle) }
    }
}

// ---- events

/// A place in a stream, to be waited for or to measure time between.
pub struct Event {
    handle: *mut sys::kiln_event,
    _device: Device,
}

impl Event {
    /// One that was not recorded yet.
    pub fn new(device: &Device) -> Result<Event> {
        let mut opened = std::ptr::null_mut();
        check(unsafe { sys::kiln_event_open(device.as_ptr(), &mut opened) })?;
        Ok(Event { handle: opened, _device: device.clone() })
    }

    /// Records it after all work queued on the stream so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        check(unsafe { sys::kiln_event_record(self.handle, stream.as_ptr()) })
    }

    /// Waits for the work queued before it.
    pub fn wait(&self) -> Result<()> {
        check(unsafe { sys::kiln_event_wait(self.handle) })
    }

    /// Waits for `end` and returns the time from this one to it.
    pub fn milliseconds_to(&self, end: &Event) -> Result<f64> {
        let mut ms = 0.0;
        check(unsafe { sys::kiln_event_elapsed(self.handle, end.handle, &mut ms) })?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        unsafe { sys::kiln_event_close(self.handle) }
    }
}
