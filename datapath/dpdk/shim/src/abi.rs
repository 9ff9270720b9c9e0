//! The border: what `libdpdk_shim.so` exports, and the crate `dpdk` calls. This
//! one file is compiled into both, so that they cannot differ but by [`VERSION`].
//!
//! There is one symbol, [`SYMBOL`], a function without arguments that returns
//! the [`Table`]. Its first field is the version, and where that is another
//! nothing else is looked at. A result below zero is an error number of the
//! system's, negated.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, AtomicU32};

/// Changes with anything in this file.
pub const VERSION: u32 = 2;

/// The name of the one function that is looked up; its type is [`Entry`].
pub const SYMBOL: &[u8] = b"am_dpdk_shim\0";

/// The type of that function.
pub type Entry = unsafe extern "C" fn() -> *const Table;

/// Called for each message of DPDK's, on whichever thread: level as in its
/// `rte_log.h`, text, bytes of text.
pub type Log = unsafe extern "C" fn(level: u32, text: *const c_char, length: usize);

/// A frame on its way over the border.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its number in the pool.
    pub index: u32,
    /// Where in its chunk it starts.
    pub start: u32,
    /// Its length. Of a frame that was sent: how many handles come back.
    pub len: u32,
}

/// What can be read without a call. It is where [`Memory::pool`] points to.
#[repr(C)]
#[derive(Debug)]
pub struct Counts {
    /// Frames that a driver may take to receive into.
    pub blanks: AtomicU32,
    /// Entries that [`Table::home`] would give.
    pub home: AtomicU32,
}

/// The memory of a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The pool to its owner.
    pub pool: *mut Counts,
    /// The first byte of chunk 0.
    pub base: *mut u8,
    /// Bytes from the start of a chunk to the start of the next.
    pub stride: u32,
    /// Bytes of each chunk, at its start, that are DPDK's.
    pub headroom: u32,
}

/// What a port is to be.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Entries of its receive queue, 0: as its driver likes.
    pub rx: u16,
    /// And of its transmit queue.
    pub tx: u16,
    /// Its MTU, 0: as it is.
    pub mtu: u16,
}

/// A port as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Port {
    /// DPDK's number of it.
    pub id: u16,
    /// Entries of its receive queue.
    pub rx: u16,
    /// And of its transmit queue.
    pub tx: u16,
    /// Its MTU.
    pub mtu: u16,
    /// Its true address.
    pub address: [u8; 6],
    /// The NUMA node that it is at, or -1.
    pub socket: c_int,
    /// The driver's name, ended by a zero.
    pub driver: [c_char; 32],
}

/// What a driver counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Frames that it had no room for.
    pub missed: u64,
    /// Frames that arrived broken.
    pub rx_errors: u64,
    /// Times that there was no frame to receive into.
    pub no_memory: u64,
    /// Frames that it could not send.
    pub tx_errors: u64,
}

/// Everything that there is to call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// [`VERSION`] of whoever made it.
    pub version: u32,
    /// Start DPDK: arguments as of a program, its name first. Once a process.
    pub start: unsafe extern "C" fn(count: c_int, arguments: *mut *mut c_char, log: Log) -> c_int,
    /// Find or make a device, named as DPDK names it, and its port. On the system's side it is open then.
    pub probe:
        unsafe extern "C" fn(device: *const c_char, name: *const c_char, wanted: Wanted, port: *mut Port) -> c_int,
    /// A pool of frames with so much room.
    pub make:
        unsafe extern "C" fn(name: *const c_char, frames: u32, room: u32, socket: c_int, memory: *mut Memory) -> c_int,
    /// The end of a pool that no port uses.
    pub free: unsafe extern "C" fn(pool: *mut Counts),
    /// Whether a frame of the pool is in two places to a device, so that no driver may have it.
    pub is_torn: unsafe extern "C" fn(pool: *mut Counts, index: u32) -> bool,
    /// Frames of the pool for its port to receive into.
    pub give: unsafe extern "C" fn(pool: *mut Counts, indices: *const u32, count: u32),
    /// Some of them back: up to `most`; returns how many.
    pub take_back: unsafe extern "C" fn(pool: *mut Counts, indices: *mut u32, most: u32) -> u32,
    /// Frames that were sent, up to `most`; returns how many.
    pub home: unsafe extern "C" fn(pool: *mut Counts, frames: *mut Frame, most: u32) -> u32,
    /// Handles on a frame that are left here. For when the port is closed; afterwards none is.
    pub recall: unsafe extern "C" fn(pool: *mut Counts, index: u32) -> u32,
    /// Open the port: from here on frames move.
    pub open: unsafe extern "C" fn(port: *const Port, pool: *mut Counts) -> c_int,
    /// Let the device itself look for the EtherType. Returns 0 where it does.
    pub flow: unsafe extern "C" fn(port: u16, ethertype: u16) -> c_int,
    /// Close the port, open or only probed, and take its device away.
    pub close: unsafe extern "C" fn(port: u16) -> c_int,
    /// Stop the port and open it again, on a thread of DPDK's: nobody uses the port until `done` is other than 0,
    /// then 1 for open or below 0. Whether it was begun.
    pub restart: unsafe extern "C" fn(port: u16, done: *const AtomicI32) -> c_int,
    /// 1: its link is up, 0: it is down; below 0: the device is gone.
    pub link: unsafe extern "C" fn(port: u16) -> c_int,
    /// What the driver counts.
    pub stats: unsafe extern "C" fn(port: u16, stats: *mut Stats) -> c_int,
    /// Frames that have arrived, up to `most`; how many made no sense is added to `odd`.
    pub receive:
        unsafe extern "C" fn(port: u16, pool: *mut Counts, frames: *mut Frame, most: u16, odd: *mut u32) -> u16,
    /// Send: returns how many from the first on were taken.
    pub send: unsafe extern "C" fn(port: u16, pool: *mut Counts, frames: *const Frame, count: u16) -> u16,
    /// The same with copies, in blanks: the frames stay with the caller.
    pub send_copies: unsafe extern "C" fn(port: u16, pool: *mut Counts, frames: *const Frame, count: u16) -> u16,
    /// Have the driver give back what it has sent. Below 0: it has no call for it. With `nudge` it is told to send
    /// nothing instead, at which some do it; others are not made for that.
    pub sent: unsafe extern "C" fn(port: u16, nudge: bool) -> c_int,
}

// SAFETY: it is numbers and pointers to functions, written once.
unsafe impl Sync for Table {}
