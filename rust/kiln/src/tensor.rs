// SPDX-License-Identifier: MIT
//! Memory, tensors over it, and scratch memory.

use crate::{check, fail, sys, Device, Held, Result, Status, Stream, Type};
use std::os::raw::{c_int, c_void};
use std::rc::Rc;
use std::sync::Arc;

/// Device memory; freed with its last owner. Not for other threads, as tensors are not.
pub(crate) struct Allocation {
    pub(crate) device: Device,
    pub(crate) data: *mut c_void,
}

pub(crate) type Memory = Arc<Allocation>;

impl Drop for Allocation {
    fn drop(&mut self) {
        unsafe { sys::kiln_free(self.device.as_ptr(), self.data) }
    }
}

pub(crate) fn allocate(device: &Device, bytes: usize) -> Result<Memory> {
    let mut data = std::ptr::null_mut();
    check(unsafe { sys::kiln_alloc(device.as_ptr(), bytes, &mut data) })?;
    #[allow(clippy::arc_with_non_send_sync)]
    Ok(Arc::new(Allocation { device: device.clone(), data }))
}

/// Numbers of the host that stand for elements of a type. f16, bf16 and the types of 8 bits and fewer are their bits, as `u16`
/// and `u8`.
///
/// # Safety
/// Every bit pattern of it is a value, and it has no padding.
pub unsafe trait Element: Copy + Default + 'static {}
unsafe impl Element for f64 {}
unsafe impl Element for f32 {}
unsafe impl Element for i64 {}
unsafe impl Element for i32 {}
unsafe impl Element for i16 {}
unsafe impl Element for i8 {}
unsafe impl Element for u64 {}
unsafe impl Element for u32 {}
unsafe impl Element for u16 {}
unsafe impl Element for u8 {}

/// A view of device memory with a type, a shape and strides. Clones, slices and reshaped ones share the memory.
#[derive(Clone)]
pub struct Tensor {
    value: Box<sys::kiln_tensor>, // which calls point to
    memory: Memory,
    device: Device,
    not_sync: std::marker::PhantomData<Rc<()>>,
}

impl Tensor {
    /// A row-major one in memory of its own, which holds any bytes.
    pub fn new(device: &Device, element: Type, shape: &[i64]) -> Result<Tensor> {
        let mut value = describe(device, std::ptr::null_mut(), element, shape)?;
        let memory = allocate(device, unsafe { sys::kiln_tensor_bytes(&*value) })?;
        value.data = memory.data;
        Ok(Tensor { value, memory, device: device.clone(), not_sync: std::marker::PhantomData })
    }

    /// A row-major one with these elements.
    pub fn from_slice<T: Element>(device: &Device, element: Type, shape: &[i64], elements: &[T]) -> Result<Tensor> {
        let made = Tensor::new(device, element, shape)?;
        made.upload(elements)?;
        Ok(made)
    }

    /// Its extents.
    pub fn shape(&self) -> &[i64] {
        &self.value.shape[..self.value.rank as usize]
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        unsafe { sys::kiln_tensor_bytes(&*self.value) }
    }

    /// The device that its memory is of.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether its elements stand side by side, row-major.
    pub fn is_contiguous(&self) -> bool {
        let mut stride = 1;
        for d in (0..self.value.rank as usize).rev() {
            if self.value.has_strides && self.value.shape[d] != 1 && self.value.strides[d] != stride {
                return false;
            }
            stride *= self.value.shape[d];
        }
        true
    }

    /// `extent` elements of dimension `dim`, from `first` on.
    pub fn slice(&self, dim: usize, first: i64, extent: i64) -> Result<Tensor> {
        let mut made = self.clone();
        check(unsafe { sys::kiln_tensor_slice(&*self.value, dim as c_int, first, extent, &mut *made.value) })?;
        Ok(made)
    }

    /// The same elements in another shape; of a contiguous tensor.
    pub fn reshaped(&self, shape: &[i64]) -> Result<Tensor> {
        let mut made = self.clone();
        if !self.is_contiguous() {
            return fail(Status::BadShape, "Tensor::reshaped: the tensor is not contiguous");
        }
        let rank = check_rank(shape)?;
        made.value =
            Box::new(unsafe { sys::kiln_tensor_of(self.value.device, self.value.data, self.value.r#type, rank, shape.as_ptr()) });
        if made.bytes() != self.bytes() {
            return fail(Status::BadShape, "Tensor::reshaped: another number of elements");
        }
        Ok(made)
    }

    /// Copies all elements of a contiguous tensor from the host; returns when the copy is done. Does not wait for queued work.
    pub fn upload<T: Element>(&self, host: &[T]) -> Result<()> {
        self.check_copy(std::mem::size_of_val(host))?;
        check(unsafe {
            sys::kiln_upload(self.device.as_ptr(), self.value.data, host.as_ptr().cast(), std::mem::size_of_val(host))
        })
    }

    /// Copies all elements of a contiguous tensor to the host. Does not wait for queued work: [`Stream::wait`] does.
    pub fn download_into<T: Element>(&self, host: &mut [T]) -> Result<()> {
        self.check_copy(std::mem::size_of_val(host))?;
        check(unsafe {
            sys::kiln_download(self.device.as_ptr(), host.as_mut_ptr().cast(), self.value.data, std::mem::size_of_val(host))
        })
    }

    /// The same into a vector.
    pub fn download<T: Element>(&self) -> Result<Vec<T>> {
        let mut host = vec![T::default(); self.bytes() / std::mem::size_of::<T>()];
        self.download_into(&mut host)?;
        Ok(host)
    }

    /// The struct of C; it lives as long as this object.
    pub fn as_c(&self) -> *const sys::kiln_tensor {
        &*self.value
    }

    pub(crate) fn held(&self) -> Held {
        self.memory.clone()
    }

    fn check_copy(&self, bytes: usize) -> Result<()> {
        if !self.is_contiguous() {
            return fail(Status::BadShape, "Tensor: only contiguous tensors are copied as a whole");
        }
        if bytes != self.bytes() {
            return fail(Status::BadShape, format!("Tensor: the tensor has {} bytes, the slice {}", self.bytes(), bytes));
        }
        Ok(())
    }
}

fn check_rank(shape: &[i64]) -> Result<c_int> {
    if shape.len() > sys::KILN_MAX_RANK as usize {
        return fail(Status::BadShape, format!("Tensor: {} dimensions, of at most {}", shape.len(), sys::KILN_MAX_RANK));
    }
    Ok(shape.len() as c_int)
}

fn describe(device: &Device, data: *mut c_void, element: Type, shape: &[i64]) -> Result<Box<sys::kiln_tensor>> {
    let rank = check_rank(shape)?;
    if shape.iter().any(|&n| n < 0) {
        return fail(Status::BadShape, format!("Tensor: a negative extent in {:?}", shape));
    }
    if shape.iter().try_fold(8i64, |n, &extent| n.checked_mul(extent.max(1))).is_none() {
        return fail(Status::BadShape, format!("Tensor: {:?} has more elements than memory", shape));
    }
    Ok(Box::new(unsafe { sys::kiln_tensor_of(device.as_ptr(), data, element as u32, rank, shape.as_ptr()) }))
}

/// Scratch memory that grows to what calls ask for. Calls that may run at the same time need one each.
pub struct Workspace {
    device: Device,
    memory: Option<Memory>,
    bytes: usize,
}

impl Workspace {
    /// An empty one.
    pub fn new(device: &Device) -> Workspace {
        Workspace { device: device.clone(), memory: None, bytes: 0 }
    }

    /// Makes it at least so large. The old memory stays until the stream's earlier work is done.
    pub fn reserve(&mut self, bytes: usize, stream: &Stream) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        stream.hold(self.held().into_iter().collect());
        self.bytes = 0;
        self.memory = Some(allocate(&self.device, bytes)?);
        self.bytes = bytes;
        Ok(())
    }

    /// How large it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.memory.as_ref().map_or(std::ptr::null_mut(), |memory| memory.data)
    }

    pub(crate) fn held(&self) -> Option<Held> {
        self.memory.clone().map(|memory| memory as Held)
    }
}
