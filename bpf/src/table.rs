//! The steering table: memory shared with the kernel's program, so that a flow
//! opens and closes with one store.

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use am_wire::bounce::Back;
use am_wire::{Flow, gate};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::object::Object;
use crate::{Config, LoadError};

/// Sockets that a program can steer to.
const SOCKETS: usize = 256;

/// The largest index that a socket can have: a flow's entry is its socket's index plus one, in a byte.
pub(crate) const LAST_SOCKET: u8 = u8::MAX - 1;

/// `struct table` in `decide.h`.
#[repr(C)]
struct Layout {
    flows: [AtomicU16; Flow::COUNT],
    full: AtomicU32,
    unknown_flow: AtomicU32,
    backs: [[AtomicU64; Back::BYTES / 8]; Flow::COUNT],
    known: [AtomicU64; gate::SOURCES],
}

/// The mapped table.
#[derive(Debug)]
pub(crate) struct Table {
    memory: NonNull<Layout>,
    /// By socket: the receive queue that it is bound to.
    queues: Box<[AtomicU8; SOCKETS]>,
}

// SAFETY: the memory is mapped until the last use (drop takes `self` by value)
// and consists of atomics alone.
unsafe impl Send for Table {}
// SAFETY: as above; everything behind a shared reference is atomic.
unsafe impl Sync for Table {}

impl Table {
    /// Bytes of the map's one element.
    const BYTES: usize = size_of::<Layout>();

    /// The table of a loaded object, without flows.
    pub(crate) fn of(object: &mut Object, config: &Config) -> Result<Table, LoadError> {
        let map = object.array("tables")?;
        let size = map.info().map_err(|error| LoadError::Object(error.to_string()))?.value_size();
        if size as usize != Self::BYTES {
            return Err(LoadError::Object(format!("its table has {size} bytes, not {}", Self::BYTES)));
        }
        let table = Table::map(map.fd()).map_err(|error| LoadError::Object(format!("mapping its table: {error}")))?;
        table.set_node_socket(config.node_socket);
        Ok(table)
    }

    /// Map the memory of an array map with one element of [`Table::BYTES`].
    fn map(fd: impl AsFd) -> io::Result<Table> {
        let length = const { NonZeroUsize::new(Self::BYTES).unwrap() };
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours; the kernel refuses a length beyond the map's.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, 0)? };
        Ok(Table { memory: memory.cast(), queues: Box::new([const { AtomicU8::new(0) }; SOCKETS]) })
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is page-aligned, BYTES long, lives as long as
        // `self`, and any bytes are valid for atomics, whoever writes them.
        unsafe { self.memory.as_ref() }
    }

    /// Steer a flow to a socket, or nowhere. The node's own "flow" stays.
    pub(crate) fn set_flow(&self, flow: Flow, socket: Option<u8>) {
        if flow != Flow::NODE {
            self.store(flow, socket.map_or(0, |socket| self.entry(socket)));
        }
    }

    /// How the program can return the requests of a flow, if it can. Its gate knows from then on where that leads.
    pub(crate) fn set_back(&self, flow: Flow, back: Option<&Back>) {
        let bytes = back.map_or([0; Back::BYTES], Back::to_bytes);
        let words = &self.layout().backs[flow.index()];
        // The last word has the mark that the others count: it comes off first and on last.
        words[3].store(0, Ordering::Relaxed);
        // What follows must not be seen before that.
        fence(Ordering::Release);
        for (at, (word, bytes)) in words.iter().zip(bytes.as_chunks().0).enumerate() {
            word.store(u64::from_ne_bytes(*bytes), if at == 3 { Ordering::Release } else { Ordering::Relaxed });
        }
        if let Some(to) = back.map(Back::to) {
            self.layout().known[gate::bucket_of(to)].store(to.to_u64(), Ordering::Relaxed);
        }
    }

    /// Whether requests bounce.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.layout().full.store(is_full.into(), Ordering::Relaxed);
    }

    /// The last flow that a frame came for though it is not open, once.
    pub(crate) fn unknown_flow(&self) -> Option<Flow> {
        let unknown_flow = &self.layout().unknown_flow;
        if unknown_flow.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Flow::new(unknown_flow.swap(0, Ordering::Relaxed) as u16)
    }

    /// Steer control frames.
    pub(crate) fn set_node_socket(&self, socket: u8) {
        self.store(Flow::NODE, self.entry(socket));
    }

    fn store(&self, flow: Flow, entry: u16) {
        self.layout().flows[flow.index()].store(entry, Ordering::Relaxed);
    }

    /// The receive queue that a socket is bound to; flows that lead there learn of it.
    pub(crate) fn set_queue(&self, socket: u8, queue: u8) {
        self.queues[socket as usize].store(queue, Ordering::Relaxed);
        let entry = self.entry(socket);
        let flows = self.layout().flows.iter();
        for flow in flows.filter(|flow| flow.load(Ordering::Relaxed) as u8 == entry as u8) {
            flow.store(entry, Ordering::Relaxed);
        }
    }

    /// The socket's index plus one, because 0 is for nowhere, and its queue.
    fn entry(&self, socket: u8) -> u16 {
        let socket = socket.min(LAST_SOCKET);
        let queue = self.queues[socket as usize].load(Ordering::Relaxed);
        (socket as u16 + 1) | (queue as u16) << 8
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and unmapped only here. It
        // can fail only for another address or length, so there is nothing to report.
        let _ = unsafe { munmap(self.memory.cast::<c_void>(), Self::BYTES) };
    }
}
