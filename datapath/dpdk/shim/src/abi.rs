//! The ABI: what `libdpdk_shim.so` exports, and the crate `am-dpdk` calls. This one file is compiled into both, so they
//! can differ only by [`VERSION`].
//!
//! The library exports one symbol, [`SYMBOL`]: a function without arguments that returns the [`Table`]. The table's
//! first field is the version. If the version differs, nothing else is read. A negative result is a negated error
//! number of the system.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, AtomicU32};

/// Changes with anything in this file.
pub const VERSION: u32 = 4;

/// The name of the exported function; its type is [`Entry`].
pub const SYMBOL: &[u8] = b"am_dpdk_shim\0";

/// The type of that function.
pub type Entry = unsafe extern "C" fn() -> *const Table;

/// Called for each message of DPDK, on any thread: level as in its `rte_log.h`, text, bytes of text.
pub type Log = unsafe extern "C" fn(level: u32, text: *const c_char, length: usize);

/// A frame, as it is passed across the ABI.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its index in the pool.
    pub index: u32,
    /// Where in its chunk it starts.
    pub start: u32,
    /// Its length. For a frame that was sent: how many handles return.
    pub len: u32,
}

/// Counts that are read without a call. [`Memory::pool`] points to them.
#[repr(C)]
#[derive(Debug)]
pub struct Counts {
    /// Frames that a driver may take to receive into.
    pub blanks: AtomicU32,
    /// Entries that [`Table::home`] would return.
    pub home: AtomicU32,
}

/// The memory of a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The pool, as its owner sees it.
    pub pool: *mut Counts,
    /// The first byte of chunk 0.
    pub base: *mut u8,
    /// Bytes from the start of a chunk to the start of the next.
    pub stride: u32,
    /// Bytes at the start of each chunk that DPDK uses.
    pub headroom: u32,
}

/// The wanted settings of a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Entries of its receive queue; 0: the driver's default.
    pub rx: u16,
    /// Entries of its transmit queue; 0: the driver's default.
    pub tx: u16,
    /// Its MTU; 0: unchanged.
    pub mtu: u16,
}

/// A port's properties.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Port {
    /// DPDK's number for it.
    pub id: u16,
    /// Entries of its receive queue.
    pub rx: u16,
    /// Entries of its transmit queue.
    pub tx: u16,
    /// Its MTU.
    pub mtu: u16,
    /// Its link address.
    pub address: [u8; 6],
    /// Its NUMA node, or -1.
    pub socket: c_int,
    /// The driver's name, ended by a zero.
    pub driver: [c_char; 32],
}

/// A driver's counters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Frames that were dropped for lack of room.
    pub missed: u64,
    /// Frames that arrived damaged.
    pub rx_errors: u64,
    /// Failed attempts to get a frame to receive into.
    pub no_memory: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
}

/// All functions of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The shim's [`VERSION`].
    pub version: u32,
    /// Start DPDK with a program's arguments, its name first. May be called once a process.
    pub start: unsafe extern "C" fn(count: c_int, arguments: *mut *mut c_char, log: Log) -> c_int,
    /// Find or make a device, named as DPDK names it, and its port. On the system's side the device is open afterwards.
    pub probe:
        unsafe extern "C" fn(device: *const c_char, name: *const c_char, wanted: Wanted, port: *mut Port) -> c_int,
    /// Make a pool of `frames` frames with `room` bytes each.
    pub make:
        unsafe extern "C" fn(name: *const c_char, frames: u32, room: u32, socket: c_int, memory: *mut Memory) -> c_int,
    /// Free a pool that no port uses.
    pub free: unsafe extern "C" fn(pool: *mut Counts),
    /// Whether a device sees a frame of the pool at two separate addresses. No driver may have such a frame.
    pub is_torn: unsafe extern "C" fn(pool: *mut Counts, index: u32) -> bool,
    /// Give the port frames of the pool to receive into. They must not be in use.
    pub give: unsafe extern "C" fn(pool: *mut Counts, indices: *const u32, count: u32),
    /// Take up to `most` of them back: `indices` has room for as many. Returns how many.
    pub take_back: unsafe extern "C" fn(pool: *mut Counts, indices: *mut u32, most: u32) -> u32,
    /// Take back up to `most` sent frames: `frames` has room for as many. Returns how many.
    pub home: unsafe extern "C" fn(pool: *mut Counts, frames: *mut Frame, most: u32) -> u32,
    /// Take back all handles on a frame; returns how many. Only after the port was closed.
    pub recall: unsafe extern "C" fn(pool: *mut Counts, index: u32) -> u32,
    /// Start the port: from here on frames move.
    pub open: unsafe extern "C" fn(port: *const Port, pool: *mut Counts) -> c_int,
    /// Let the device filter by the EtherType. Returns 0 if it does.
    pub flow: unsafe extern "C" fn(port: u16, ethertype: u16) -> c_int,
    /// Have the device accept frames to one more link address, and if it cannot filter by one more, all frames. Returns 0 if it does, or if
    /// its driver filters by no address.
    pub accept: unsafe extern "C" fn(port: u16, address: *const [u8; 6]) -> c_int,
    /// No longer accept frames to an address that was added, where the device filters by it.
    pub refuse: unsafe extern "C" fn(port: u16, address: *const [u8; 6]) -> c_int,
    /// Close the port, open or only probed, and remove its device.
    pub close: unsafe extern "C" fn(port: u16) -> c_int,
    /// Stop the port and start it again, on a thread of DPDK. The port must not be used until `done` is not 0: then 1
    /// means open, a negative value failed. Returns whether the restart was begun.
    pub restart: unsafe extern "C" fn(port: u16, done: *const AtomicI32) -> c_int,
    /// 1: the link is up; 0: it is down; negative: the device is gone.
    pub link: unsafe extern "C" fn(port: u16) -> c_int,
    /// Read the driver's counters.
    pub stats: unsafe extern "C" fn(port: u16, stats: *mut Stats) -> c_int,
    /// Receive up to `most` frames: `frames` has room for as many. Invalid ones are added to `odd`. For this and the next
    /// two, the port is open with this pool, and used by this thread only.
    pub receive:
        unsafe extern "C" fn(port: u16, pool: *mut Counts, frames: *mut Frame, most: u16, odd: *mut u32) -> u16,
    /// Send frames of the pool, which the caller holds, and does not write until they have returned. Returns how many
    /// from the first on were taken.
    pub send: unsafe extern "C" fn(port: u16, pool: *mut Counts, frames: *const Frame, count: u16) -> u16,
    /// Send copies, made in receive buffers. The frames stay with the caller.
    pub send_copies: unsafe extern "C" fn(port: u16, pool: *mut Counts, frames: *const Frame, count: u16) -> u16,
    /// Have the driver return sent frames. Negative: it has no call for that. With `nudge` it gets a send call without
    /// frames instead, in which some drivers do it; others do not support such a call.
    pub sent: unsafe extern "C" fn(port: u16, pool: *mut Counts, nudge: bool) -> c_int,
}

// SAFETY: the table has only numbers and pointers to functions, and is never changed.
unsafe impl Sync for Table {}
