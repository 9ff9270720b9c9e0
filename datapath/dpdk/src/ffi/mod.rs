//! The only calls of the shim: its functions, in the form that the rest of this crate uses.
//!
//! A [`Port`] moves frames for one thread at a time: each call that does so borrows it mutably. Its [`Chunks`] live
//! until the port is closed and the last frame has returned.

mod port;
mod port_lock;

use std::env;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use am_ring::{Frame, Layout, Pool};

pub(crate) use port::{Port, Probed};
use port_lock::PortLock;

use crate::abi::{self, Counts, Memory, Table};
use crate::log;

/// Frames that one call of the shim moves.
pub(crate) const BURST: usize = 64;

/// Receive buffers that a driver always has: twice what it takes at once.
pub(crate) const RX_LEVEL: usize = 2 * BURST;

/// Turn a negative result into the system's error.
fn check_result(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// The variables that DPDK's drivers of NVIDIA's NICs set in the program's environment, on any machine.
const DRIVERS_SET: [&str; 3] = ["RDMAV_HUGEPAGES_SAFE", "MLX5_DEVICE_FATAL_CLEANUP", "MLX4_DEVICE_FATAL_CLEANUP"];

/// Start DPDK with a program's arguments, ended by a null.
///
/// # Errors
/// DPDK's; see [`log`] for the reason.
pub(crate) fn start(table: &Table, arguments: &'static mut [*mut c_char]) -> io::Result<()> {
    for name in DRIVERS_SET.into_iter().filter(|name| env::var_os(name).is_none()) {
        // A driver that added it would move the environment while another thread starts a command, which then fails.
        // The standard library's lock keeps that thread away from here, and a driver replaces the value in place.
        // SAFETY: other threads may read variables only by the standard library's calls, as for every program that
        // starts DPDK, whose drivers set the same ones.
        unsafe { env::set_var(name, "1") };
    }
    let count = arguments.len() as c_int - 1;
    // SAFETY: `count` strings that live as long as the process. The caller holds the lock on all of DPDK and calls this
    // once.
    check_result(unsafe { (table.start)(count, arguments.as_mut_ptr(), log::on_message) }).map(drop)
}

/// The memory of a pool, freed when dropped.
#[derive(Debug)]
pub(crate) struct Chunks {
    table: &'static Table,
    memory: Memory,
    frames: u32,
}

// SAFETY: its fields are constant. The memory that they point to is used as `Port` and `Pool` say. Any thread may free
// it: DPDK's allocator has a lock.
unsafe impl Send for Chunks {}
// SAFETY: as above.
unsafe impl Sync for Chunks {}

impl Chunks {
    /// Allocate `frames` chunks for frames of `room` bytes.
    ///
    /// # Errors
    /// DPDK has too little memory.
    pub(crate) fn new(table: &'static Table, name: &str, frames: u32, room: u32, socket: c_int) -> io::Result<Chunks> {
        let name = CString::new(name)?;
        let mut memory = Memory { pool: ptr::null_mut(), base: ptr::null_mut(), stride: 0, headroom: 0 };
        // SAFETY: DPDK has been started, since `table` exists; the pointers are a string, and memory to write to.
        check_result(unsafe { (table.make)(name.as_ptr(), frames, room, socket, &mut memory) })?;
        Ok(Chunks { table, memory, frames })
    }

    /// A pool of frames over this memory.
    ///
    /// # Errors
    /// DPDK returned an invalid address or layout.
    pub(crate) fn pool(self: &Arc<Chunks>) -> io::Result<Pool> {
        let Memory { base, stride, headroom, .. } = self.memory;
        let layout = Layout { frames: self.frames as usize, stride: stride as usize, headroom: headroom as usize };
        let base = NonNull::new(base).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: the memory has this size, was initialised when it was made, and stays until the clone is dropped.
        // DPDK uses only the headroom of each chunk, and the frames that `Port` has given to it.
        unsafe { Pool::over(base, layout, Box::new(Arc::clone(self))) }.map_err(io::Error::other)
    }

    /// Take the frames that no driver may use out of a new pool. A device sees such a frame at two separate addresses.
    pub(crate) fn take_discontiguous(&self, pool: &Pool) -> Vec<Frame> {
        let is_torn = |index| {
            // SAFETY: the pool has a frame of that index.
            unsafe { (self.table.is_torn)(self.memory.pool, index) }
        };
        if !(0..self.frames).any(is_torn) {
            return Vec::new();
        }
        let all: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        all.into_iter().filter(|frame| is_torn(frame.index() as u32)).collect()
    }

    /// Return sent frames to the pool. Returns the number of handles.
    #[inline]
    pub(crate) fn reap(&self, lock: &PortLock, pool: &Pool) -> usize {
        let mut handles = 0;
        self.take_sent(lock, &mut |frame| {
            handles += frame.len as usize;
            // SAFETY: the handles were made raw when the driver took them. The shim returns each once.
            unsafe { self.drop_handles(pool, frame.index, frame.len) };
        });
        handles
    }

    /// Take back the frames that drivers have sent. `len` of each is its number of handles.
    #[inline]
    pub(crate) fn take_sent(&self, lock: &PortLock, each: &mut impl FnMut(abi::Frame)) {
        let mut home = [const { MaybeUninit::<abi::Frame>::uninit() }; BURST];
        loop {
            // SAFETY: the array has room for `BURST` entries.
            let take = || unsafe { (self.table.home)(self.memory.pool, home.as_mut_ptr().cast(), BURST as u32) };
            let count = lock.with(take) as usize;
            // SAFETY: the call has written this many.
            home[..count].iter().for_each(|frame| each(unsafe { frame.assume_init() }));
            if count < BURST {
                return;
            }
        }
    }

    /// # Safety
    /// This many handles on the frame were made raw, and have no owner now.
    #[inline]
    unsafe fn drop_handles(&self, pool: &Pool, index: u32, handles: u32) {
        for _ in 0..handles {
            // SAFETY: the caller's.
            drop(unsafe { pool.from_raw_at(index, self.memory.headroom, 0) });
        }
    }

    fn counts(&self) -> &Counts {
        // SAFETY: the counts live as long as the pool, and are atomic.
        unsafe { &*self.memory.pool }
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // SAFETY: the port holds one of these, and is closed before it drops it. Each pool of frames holds one as well.
        unsafe { (self.table.free)(self.memory.pool) }
    }
}
