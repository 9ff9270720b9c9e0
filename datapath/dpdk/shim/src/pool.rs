//! Pools and bursts: the C functions, with the signatures of the table.

use std::ffi::{c_char, c_int};

use crate::abi::{Counts, Frame, Memory};
use crate::{dpdk, eal};

// The types of the ABI and of the C code have the same layout.
const _: () = assert!(size_of::<Frame>() == size_of::<dpdk::am_frame>());
const _: () = assert!(size_of::<Counts>() == size_of::<dpdk::am_counts>());

/// The counts are the first field of a pool.
fn of(pool: *mut Counts) -> *mut dpdk::am_pool {
    pool.cast()
}

/// The mempool from which the pool's port allocates.
///
/// # Safety
/// `pool` is one of [`make`].
pub(crate) unsafe fn mempool(pool: *mut Counts) -> *mut dpdk::rte_mempool {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_pool_mempool(of(pool)) }
}

/// # Safety
/// `name` is a string, `memory` may be written.
pub(crate) unsafe extern "C" fn make(
    name: *const c_char,
    frames: u32,
    room: u32,
    socket: c_int,
    memory: *mut Memory,
) -> c_int {
    // SAFETY: guaranteed by the caller. The pool is used after it was made.
    unsafe {
        let pool = dpdk::am_pool_make(name, frames, room, socket);
        if pool.is_null() {
            return eal::error();
        }
        memory.write(Memory {
            pool: dpdk::am_pool_counts(pool).cast(),
            base: dpdk::am_pool_base(pool).cast(),
            stride: dpdk::am_pool_stride(pool),
            headroom: dpdk::am_pool_headroom(pool),
        });
    }
    0
}

/// # Safety
/// `pool` is one of [`make`], and not used again.
pub(crate) unsafe extern "C" fn free(pool: *mut Counts) {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_pool_free(of(pool)) }
}

/// # Safety
/// `pool` is one of [`make`], and has a frame of that index.
pub(crate) unsafe extern "C" fn is_torn(pool: *mut Counts, index: u32) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_is_torn(of(pool), index) }
}

/// # Safety
/// `pool` is one of [`make`]; the indices are of its frames that are not in use.
pub(crate) unsafe extern "C" fn give(pool: *mut Counts, indices: *const u32, count: u32) {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_give(of(pool), indices, count) }
}

/// # Safety
/// `pool` is one of [`make`], `indices` has room for `most`.
pub(crate) unsafe extern "C" fn take_back(pool: *mut Counts, indices: *mut u32, most: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_take_back(of(pool), indices, most) }
}

/// # Safety
/// `pool` is one of [`make`], `frames` has room for `most`.
pub(crate) unsafe extern "C" fn home(pool: *mut Counts, frames: *mut Frame, most: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_home(of(pool), frames.cast(), most) }
}

/// # Safety
/// `pool` is one of [`make`], and no port uses it any more; it has a frame of that index.
pub(crate) unsafe extern "C" fn recall(pool: *mut Counts, index: u32) -> u32 {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_recall(of(pool), index) }
}

/// # Safety
/// The port is open with this pool, and used by this thread only; `frames` has room for `most`.
pub(crate) unsafe extern "C" fn receive(
    port: u16,
    pool: *mut Counts,
    frames: *mut Frame,
    most: u16,
    odd: *mut u32,
) -> u16 {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_rx(port, of(pool), frames.cast(), most, odd) }
}

/// # Safety
/// The port is open with this pool, and used by this thread only. The frames are of the pool, held by the caller, and
/// not written until they have returned.
pub(crate) unsafe extern "C" fn send(port: u16, pool: *mut Counts, frames: *const Frame, count: u16) -> u16 {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_tx(port, of(pool), frames.cast(), count) }
}

/// # Safety
/// The port is open with this pool, and used by this thread only. The frames are of the pool, and held by the caller.
pub(crate) unsafe extern "C" fn send_copies(port: u16, pool: *mut Counts, frames: *const Frame, count: u16) -> u16 {
    // SAFETY: guaranteed by the caller.
    unsafe { dpdk::am_tx_copy(port, of(pool), frames.cast(), count) }
}
