//! The steering table: memory shared with the kernel's program. A flow opens or closes with one store.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use am_wire::bounce::RejectTemplate;
use am_wire::{Flow, gate};

use crate::mapped::{Mapped, Shared};
use crate::object::Object;
use crate::{Config, LoadError};

/// The limit of sockets of a program.
const SOCKETS: usize = 256;

/// The largest index of a socket. A flow's entry has the index plus one in a byte.
pub(crate) const LAST_SOCKET: u8 = u8::MAX - 1;

/// A `usual_to` that no frame has.
const NONE_USUAL: u64 = 1;

/// `struct table` in `decide.h`.
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) usual_to: AtomicU64,
    pub(crate) usual_type: AtomicU16,
    node: AtomicU16,
    rx_full: AtomicU32,
    unknown_flow: AtomicU32,
    pub(crate) plain_type: AtomicU16,
    zero: AtomicU16,
    pub(crate) flows: [AtomicU16; Flow::COUNT],
    reject_templates: [[AtomicU64; RejectTemplate::BYTES / 8]; Flow::COUNT],
    known: [AtomicU64; gate::SOURCES],
}

// SAFETY: `Layout` is `repr(C)` and has atomics in it and nothing else.
unsafe impl Shared for Layout {}

/// The mapped table.
#[derive(Debug)]
pub(crate) struct Table {
    layout: Mapped<Layout>,
    /// The receive queue of each socket.
    queues: Box<[AtomicU8; SOCKETS]>,
    /// `usual_to` while the node is not full.
    usual_to: u64,
}

impl Table {
    /// The table of a loaded object, without flows.
    pub(crate) fn of(object: &mut Object, config: &Config) -> Result<Table, LoadError> {
        let queues = Box::new([const { AtomicU8::new(0) }; SOCKETS]);
        // Only the longer way counts frames for sockets, and loses some.
        let usual_to =
            if config.counts_redirected || config.lost_per_million > 0 { NONE_USUAL } else { config.usual_to() };
        let table = Table { layout: Mapped::of(object, "tables")?, queues, usual_to };
        table.layout.usual_type.store(config.usual_type(), Ordering::Relaxed);
        table.layout.plain_type.store(config.plain_type(), Ordering::Relaxed);
        table.set_rx_full(false);
        table.layout.node.store(table.entry(config.node_socket), Ordering::Relaxed);
        Ok(table)
    }

    /// Steer a flow to a socket, or to none. [`Flow::NODE`] stays.
    pub(crate) fn set_flow(&self, flow: Flow, socket: Option<u8>) {
        if flow != Flow::NODE {
            let entry = socket.map_or(0, |socket| self.entry(socket));
            self.layout.flows[flow.index()].store(entry, Ordering::Relaxed);
        }
    }

    /// Set or remove the reject template of a flow. The gate then knows the peer's address.
    pub(crate) fn set_reject_template(&self, flow: Flow, template: Option<&RejectTemplate>) {
        let bytes = template.map_or([0; RejectTemplate::BYTES], RejectTemplate::to_bytes);
        let words = &self.layout.reject_templates[flow.index()];
        // The last word has the mark that makes the template valid: removed first, written last.
        words[3].store(0, Ordering::Relaxed);
        // The mark must be visible before the other words.
        fence(Ordering::Release);
        for (at, (word, bytes)) in words.iter().zip(bytes.as_chunks().0).enumerate() {
            word.store(u64::from_ne_bytes(*bytes), if at == 3 { Ordering::Release } else { Ordering::Relaxed });
        }
        if let Some(to) = template.map(RejectTemplate::to) {
            self.layout.known[gate::bucket_of(to)].store(to.to_u64(), Ordering::Relaxed);
        }
    }

    /// Whether the program rejects requests. While it does, no frame is usual.
    pub(crate) fn set_rx_full(&self, is_full: bool) {
        self.layout.rx_full.store(is_full.into(), Ordering::Relaxed);
        self.layout.usual_to.store(if is_full { NONE_USUAL } else { self.usual_to }, Ordering::Relaxed);
    }

    /// The last unknown flow of a frame, once.
    pub(crate) fn take_unknown_flow(&self) -> Option<Flow> {
        let flow = &self.layout.unknown_flow;
        if flow.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Flow::new(flow.swap(0, Ordering::Relaxed) as u16)
    }

    /// Set the receive queue of a socket, in the entries of its flows too.
    pub(crate) fn set_queue(&self, socket: u8, queue: u8) {
        self.queues[socket as usize].store(queue, Ordering::Relaxed);
        let entry = self.entry(socket);
        let flows = self.layout.flows.iter().chain([&self.layout.node]);
        for flow in flows.filter(|flow| flow.load(Ordering::Relaxed) as u8 == entry as u8) {
            flow.store(entry, Ordering::Relaxed);
        }
    }

    /// An entry: the socket's index plus one, because 0 means none, and its queue.
    pub(crate) fn entry(&self, socket: u8) -> u16 {
        let socket = socket.min(LAST_SOCKET);
        let queue = self.queues[socket as usize].load(Ordering::Relaxed);
        (socket as u16 + 1) | (queue as u16) << 8
    }
}
