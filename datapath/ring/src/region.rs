//! The memory of a pool with its book-keeping, alive until its last frame is home.
//!
//! ```text
//!            take ◀── local list ◀── the owner's thread drops a frame
//!                         ▲
//!                         │ all at once, when the local list is empty
//!                         │
//!                    remote stack ◀── any other thread drops a frame
//! ```
//!
//! # Who frees it
//!
//! Handles on the pool live on one thread, the owner's; frames anywhere. Every
//! frame is in exactly one of four places: held (by handles, raw ones
//! included), in the local list, in the remote stack, or, after the owner went,
//! counted home. When the last pool handle goes, the owner turns the remote
//! stack into a count of what is home: what was in it and in the local list.
//! That is one compare-and-swap, so a frame that comes home meanwhile either
//! was in the stack and is counted with it, or finds the mark and counts
//! itself. From then on every homecoming is one increment of the same word.
//! The word's modification order is total and the count only grows, so exactly
//! one thread, the owner or a frame's last holder, sees it reach the number of
//! frames; that one frees the memory. Nobody else can be using it: no pool
//! handle is left, each frame's last handle is gone, and a thread touches
//! nothing of the region after its own increment.

use core::any::Any;
use core::ptr::NonNull;

use crate::layout::Layout;
use crate::remote::{NONE, Remote};
use crate::slot::Slot;
use crate::sync::{AtomicU64, Cell, Line, Ordering::Relaxed, Witness};

/// The identity of each thread that has made no pool.
const NO_OWNER: u64 = 0;
/// The owner of a region without a pool.
const ORPHANED: u64 = u64::MAX;

// Constant and without destructor: readable even while the thread ends. A frame that comes home needs it, so it is one load.
#[cfg(not(loom))]
thread_local!(static TOKEN: core::cell::Cell<u64> = const { core::cell::Cell::new(NO_OWNER) });
#[cfg(loom)]
loom::thread_local!(static TOKEN: core::cell::Cell<u64> = core::cell::Cell::new(NO_OWNER));

/// The identity of the calling thread, which makes a pool. No second one gets it.
fn introduce() -> u64 {
    // Not loom's: a number that is unique is no part of what is modelled.
    static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(NO_OWNER + 1);
    TOKEN.with(|token| {
        if token.get() == NO_OWNER {
            token.set(NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed));
        }
        token.get()
    })
}

#[derive(Debug)]
pub(crate) struct Region {
    // Written before it is shared, read by everybody.
    pub(crate) base: NonNull<u8>,
    /// Where frame 0 starts while it is free, the end of its chunk, and the room of a free frame.
    first: NonNull<u8>,
    first_end: NonNull<u8>,
    pub(crate) room: usize,
    pub(crate) layout: Layout,
    slots: Box<[Slot]>,
    /// The thread whose frames come home to `local`, or [`ORPHANED`].
    /// Written by that thread only: any other compares it with its own token
    /// and finds them different, whichever value it reads.
    owner: AtomicU64,
    /// Stands for the memory as a whole in the model checker.
    witness: Witness,
    local: Line<Local>,
    remote: Line<Remote>,
    /// Whoever owns the memory; dropped last.
    _keep: Box<dyn Any + Send>,
}

/// The owner's half: touched by its thread only.
#[derive(Debug)]
struct Local {
    first: Cell<u32>,
    count: Cell<u32>,
    pools: Cell<usize>,
}

impl Region {
    /// A region with all frames free, owned by this thread, with one pool handle.
    pub(crate) fn open(base: NonNull<u8>, layout: Layout, keep: Box<dyn Any + Send>) -> NonNull<Region> {
        let region = Region {
            base,
            // SAFETY: the headroom is shorter than a chunk.
            first: unsafe { base.add(layout.headroom) },
            // SAFETY: there is at least one chunk.
            first_end: unsafe { base.add(layout.stride) },
            room: layout.stride - layout.headroom,
            layout,
            slots: (0..layout.frames).map(|_| Slot::new()).collect(),
            owner: AtomicU64::new(introduce()),
            witness: Witness::default(),
            local: Line(Local { first: Cell::new(NONE), count: Cell::new(0), pools: Cell::new(1) }),
            remote: Line(Remote::new()),
            _keep: keep,
        };
        // Frame 0 is taken first.
        (0..layout.frames as u32).rev().for_each(|index| region.push_local(index));
        NonNull::from(Box::leak(Box::new(region)))
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot {
        debug_assert!((index as usize) < self.layout.frames);
        // SAFETY: there is a slot for each frame, and only frames' numbers get
        // here: from the lists, which start with all of them, and from handles.
        unsafe { self.slots.get_unchecked(index as usize) }
    }

    /// The first byte of a frame's chunk.
    #[inline]
    pub(crate) fn chunk(&self, index: u32) -> NonNull<u8> {
        debug_assert!((index as usize) < self.layout.frames);
        // SAFETY: chunks 0..frames are all in the memory at `base`.
        unsafe { self.base.add(index as usize * self.layout.stride) }
    }

    /// The end of a frame's chunk.
    #[inline]
    pub(crate) fn chunk_end(&self, index: u32) -> NonNull<u8> {
        debug_assert!((index as usize) < self.layout.frames);
        // SAFETY: as for the chunk.
        unsafe { self.first_end.add(index as usize * self.layout.stride) }
    }

    /// Where a free frame starts.
    #[inline]
    pub(crate) fn start(&self, index: u32) -> NonNull<u8> {
        debug_assert!((index as usize) < self.layout.frames);
        // SAFETY: as for the chunk, which is longer than its headroom.
        unsafe { self.first.add(index as usize * self.layout.stride) }
    }

    /// A free frame, off its list. Only for the owner.
    #[inline]
    pub(crate) fn pop(&self) -> Option<u32> {
        let local = &self.local.0;
        if local.first.get() == NONE && !self.fetch_remote() {
            return None;
        }
        let index = local.first.get();
        local.first.set(self.slot(index).next.load(Relaxed));
        local.count.set(local.count.get() - 1);
        Some(index)
    }

    /// Move the remote stack into the local list, which is empty. Returns whether there was any.
    #[cold]
    #[inline(never)]
    fn fetch_remote(&self) -> bool {
        let (local, all) = (&self.local.0, self.remote.0.take_all());
        local.first.set(all.first);
        local.count.set(all.count);
        all.first != NONE
    }

    /// The frame that `pop` gives next, if it is known. Only for the owner.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u32> {
        let first = self.local.0.first.get();
        (first != NONE).then_some(first)
    }

    /// Only for the owner.
    #[inline]
    fn push_local(&self, index: u32) {
        let local = &self.local.0;
        self.slot(index).next.store(local.first.get(), Relaxed);
        local.first.set(index);
        local.count.set(local.count.get() + 1);
    }

    /// Free frames, in both lists. Only for the owner.
    pub(crate) fn available(&self) -> usize {
        self.local.0.count.get() as usize + self.remote.0.count()
    }

    /// One more handle on the pool. Only for the owner.
    pub(crate) fn add_pool(&self) {
        let pools = &self.local.0.pools;
        pools.set(pools.get() + 1);
    }
}

// The following may free the region, on this thread or, from the moment they
// have given up what kept it alive, on another. So they take no `&Region`: a
// reference argument promises that its target lives until the call returns.

/// A frame comes home.
///
/// # Safety
/// The caller dropped the last handle of frame `index`, and does nothing more
/// with the region.
// Not inlined: frames are dropped in many places, and code that is cold after each system call is faster if it is
// short.
#[inline(never)]
pub(crate) unsafe fn come_home(region: NonNull<Region>, index: u32) {
    // SAFETY: the region lives, since this frame is not home yet.
    let this = unsafe { region.as_ref() };
    if cfg!(debug_assertions) {
        this.slot(index).no_handle();
    }
    if this.owner.load(Relaxed) == TOKEN.with(core::cell::Cell::get) {
        return this.push_local(index);
    }
    // SAFETY: handed on.
    unsafe { come_home_from_afar(region, index) }
}

/// As [`come_home`], on another thread than the owner's or without an owner.
///
/// # Safety
/// As for [`come_home`].
#[inline(never)]
unsafe fn come_home_from_afar(region: NonNull<Region>, index: u32) {
    // SAFETY: the region lives, since this frame is not home yet.
    let this = unsafe { region.as_ref() };
    this.witness.read();
    let frames = this.layout.frames;
    if this.remote.0.push(index, this.slot(index)) == frames {
        // SAFETY: all frames are home and the pool is gone: see "who frees it".
        unsafe { free(region) }
    }
}

/// One pool handle less.
///
/// # Safety
/// The caller is the owner, had a handle on the pool, and does nothing more
/// with the region.
pub(crate) unsafe fn drop_pool(region: NonNull<Region>) {
    // SAFETY: the region lives, since the caller's handle does.
    let this = unsafe { region.as_ref() };
    let local = &this.local.0;
    local.pools.set(local.pools.get() - 1);
    if local.pools.get() > 0 {
        return;
    }
    // From here on this thread's frames come home like everybody else's.
    this.owner.store(ORPHANED, Relaxed);
    this.witness.read();
    let frames = this.layout.frames;
    if this.remote.0.orphan(local.count.get()) == frames {
        // SAFETY: all frames are home and the pool is gone: see "who frees it".
        unsafe { free(region) }
    }
}

/// Free the memory and all about it.
///
/// # Safety
/// All frames are home and the pool is gone; the caller saw this happen.
#[cold]
unsafe fn free(region: NonNull<Region>) {
    // SAFETY: `open` leaked this box, and the count reaches all frames only once.
    let region = unsafe { Box::from_raw(region.as_ptr()) };
    region.witness.write();
    drop(region);
}
