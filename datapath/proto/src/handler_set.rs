//! Which handlers an endpoint has, and which messages were refused because it has none: see [`crate::refusals`].

use std::collections::HashSet;

use am_wire::{Class, Flow, Seq};

/// Which messages no handler exists for, by flow, class and number.
pub(crate) type RefusedSeqs = HashSet<(Flow, Class, Seq)>;

/// The handlers that an endpoint has in one class.
#[derive(Debug)]
pub(crate) struct HandlerSet([u64; 4]);

impl HandlerSet {
    pub(crate) const ALL: HandlerSet = HandlerSet([u64::MAX; 4]);
    pub(crate) const NONE: HandlerSet = HandlerSet([0; 4]);

    #[inline(always)]
    pub(crate) fn has(&self, handler: u8) -> bool {
        self.0[usize::from(handler >> 6)] >> (handler & 63) & 1 == 1
    }

    pub(crate) fn add(&mut self, handler: u8) {
        self.0[usize::from(handler >> 6)] |= 1 << (handler & 63);
    }
}
