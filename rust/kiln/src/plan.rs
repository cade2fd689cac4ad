// SPDX-License-Identifier: MIT
//! Plans: how the keys of a ragged batch are divided, found once a step for the calls of all layers.

use crate::tensor::{allocate, Memory};
use crate::{sys, Device, Held, Result};
use std::os::raw::c_void;
use std::sync::Arc;

/// A plan with its memory. It is empty until [`crate::Operators::paged_plan_make`] or [`crate::Operators::mla_plan_make`] has filled
/// it, as each step does; calls refuse an empty one. Its memory is used again where no queued work holds it any more.
///
/// ```no_run
/// # use kiln::*;
/// # fn step(ops: &Operators, stream: &Stream, scratch: &mut Workspace, lengths: &Tensor, layers: &[PagedAttentionArgs]) -> Result<()> {
/// let mut plan = PagedPlan::new();
/// let what = PagedPlanArgs { lengths: Some(lengths), rows: 3, heads: 8, key_heads: 2, size: 64, ..Default::default() };
/// ops.paged_plan_make(stream, &what, &mut plan)?;
/// for layer in layers {
///     ops.paged_attention(stream, scratch, &PagedAttentionArgs { plan: Some(&plan), ..*layer })?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Plan<T> {
    value: Box<T>, // which calls point to
    memory: Option<Memory>,
    bytes: usize,
}

/// For [`crate::Operators::paged_attention`].
pub type PagedPlan = Plan<sys::kiln_paged_plan>;
/// For [`crate::Operators::mla_decode`] and [`crate::Operators::mla_decode_sparse`].
pub type MlaPlan = Plan<sys::kiln_mla_plan>;

impl<T: Copy + Default> Plan<T> {
    /// An empty one.
    pub fn new() -> Self {
        Plan { value: Box::default(), memory: None, bytes: 0 }
    }

    /// The struct of C; it lives as long as this object.
    pub fn as_c(&self) -> *const T {
        &*self.value
    }

    // Memory that nobody else has: what was planned before is gone.
    pub(crate) fn reserve(&mut self, device: &Device, bytes: usize) -> Result<*mut c_void> {
        self.value = Box::default();
        let free = self.memory.as_ref().filter(|m| bytes <= self.bytes && m.device.is(device) && Arc::strong_count(m) == 1);
        if let Some(memory) = free {
            return Ok(memory.data);
        }
        let memory = allocate(device, bytes)?;
        let data = memory.data;
        self.memory = Some(memory);
        self.bytes = bytes;
        Ok(data)
    }

    pub(crate) fn set(&mut self, made: T) {
        *self.value = made;
    }

    pub(crate) fn held(&self) -> Option<Held> {
        self.memory.clone().map(|memory| memory as Held)
    }
}

impl<T: Copy + Default> Default for Plan<T> {
    fn default() -> Self {
        Self::new()
    }
}
