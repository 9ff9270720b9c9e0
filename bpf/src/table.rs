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

/// `struct table` in `decide.h`.
#[repr(C)]
struct Layout {
    flows: [AtomicU16; Flow::COUNT],
    rx_full: AtomicU32,
    unknown_flow: AtomicU32,
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
}

impl Table {
    /// The table of a loaded object, without flows.
    pub(crate) fn of(object: &mut Object, config: &Config) -> Result<Table, LoadError> {
        let queues = Box::new([const { AtomicU8::new(0) }; SOCKETS]);
        let table = Table { layout: Mapped::of(object, "tables")?, queues };
        table.set_node_socket(config.node_socket);
        Ok(table)
    }

    /// Steer a flow to a socket, or to none. [`Flow::NODE`] stays.
    pub(crate) fn set_flow(&self, flow: Flow, socket: Option<u8>) {
        if flow != Flow::NODE {
            self.store(flow, socket.map_or(0, |socket| self.entry(socket)));
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

    /// Whether the program rejects requests.
    pub(crate) fn set_rx_full(&self, is_full: bool) {
        self.layout.rx_full.store(is_full.into(), Ordering::Relaxed);
    }

    /// The last unknown flow of a frame, once.
    pub(crate) fn take_unknown_flow(&self) -> Option<Flow> {
        let flow = &self.layout.unknown_flow;
        if flow.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Flow::new(flow.swap(0, Ordering::Relaxed) as u16)
    }

    /// Set the socket of control frames.
    pub(crate) fn set_node_socket(&self, socket: u8) {
        self.store(Flow::NODE, self.entry(socket));
    }

    fn store(&self, flow: Flow, entry: u16) {
        self.layout.flows[flow.index()].store(entry, Ordering::Relaxed);
    }

    /// Set the receive queue of a socket, in the entries of its flows too.
    pub(crate) fn set_queue(&self, socket: u8, queue: u8) {
        self.queues[socket as usize].store(queue, Ordering::Relaxed);
        let entry = self.entry(socket);
        let flows = self.layout.flows.iter();
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
