//! The steering table: memory shared with the kernel's program, so that a flow
//! opens and closes with one store.

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use wire::Flow;

/// Sockets that a program can steer to.
pub(crate) const SOCKETS: usize = 256;

/// `struct table` in `decide.h`.
#[repr(C)]
struct Layout {
    flows: [AtomicU8; Flow::COUNT],
    queues: [AtomicU32; SOCKETS],
}

/// The mapped table.
#[derive(Debug)]
pub(crate) struct Table {
    memory: NonNull<Layout>,
}

// SAFETY: the memory is mapped until the last use (drop takes `self` by value)
// and consists of atomics alone.
unsafe impl Send for Table {}
// SAFETY: as above; everything behind a shared reference is atomic.
unsafe impl Sync for Table {}

impl Table {
    /// Bytes of the map's one element.
    pub(crate) const BYTES: usize = size_of::<Layout>();

    /// Map the memory of an array map with one element of [`Table::BYTES`].
    pub(crate) fn map(fd: impl AsFd) -> io::Result<Table> {
        let length = const { NonZeroUsize::new(Self::BYTES).unwrap() };
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // no memory of ours; the kernel refuses a length beyond the map's.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, 0)? };
        Ok(Table { memory: memory.cast() })
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is page-aligned, BYTES long, lives as long as
        // `self`, and any bytes are valid for atomics, whoever writes them.
        unsafe { self.memory.as_ref() }
    }

    /// Steer a flow to a socket, or nowhere.
    pub(crate) fn set_flow(&self, flow: Flow, socket: Option<u8>) {
        // The map stores the index plus one; 255 has no successor and the
        // caller has made sure that it does not come.
        let entry = socket.map_or(0, |index| index.saturating_add(1));
        self.layout().flows[flow.index()].store(entry, Ordering::Relaxed);
    }

    /// The receive queue that a socket is bound to.
    pub(crate) fn set_queue(&self, socket: u8, queue: u32) {
        self.layout().queues[socket as usize].store(queue, Ordering::Relaxed);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and unmapped only here. It
        // can fail only for another address or length, so there is nothing to report.
        let _ = unsafe { munmap(self.memory.cast::<c_void>(), Self::BYTES) };
    }
}
