use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use am_wire::Address;
use aya::include_bytes_aligned;
use aya::maps::{HashMap, MapData, MapError, ProgramArray};
use aya::programs::ProgramFd;

use crate::error::root_cause;
use crate::object::Object;
use crate::{AttachError, Attachment, LoadError};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/share.o"));

// Keys of `places` that are no addresses, as in `share.bpf.c`.
const QUEUE: u64 = 1 << 48;
const ANY: u64 = 1 << 49;

/// A steering program as a target for frames: [`Steer::program`](crate::Steer::program).
#[derive(Debug)]
pub struct Program(pub(crate) ProgramFd);

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kernel refused a node.
#[derive(Debug, thiserror::Error)]
#[error("handing frames to one more node: {0}")]
pub struct ShareError(io::Error);

/// Serves several nodes on one interface, each with its own address and queue: hands each frame to the program of its
/// node.
pub struct NodeSwitch {
    object: Object,
    nodes: ProgramArray<MapData>,
    places: HashMap<MapData, u64, u32>,
}

impl NodeSwitch {
    /// The limit of nodes: `NODES` in `share.bpf.c`.
    pub const NODES: u32 = 16;

    /// Load the program into the kernel, without nodes.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, and what to do about it.
    pub fn load() -> Result<NodeSwitch, LoadError> {
        let mut object = Object::load(OBJECT, "share", None)?;
        Ok(NodeSwitch { nodes: object.map("nodes")?, places: object.map("places")?, object })
    }

    /// Hand frames to this address, and broadcasts on this queue, to a program. `node` is below [`NodeSwitch::NODES`], and
    /// different for each node.
    ///
    /// # Errors
    /// The kernel's; no cause is known.
    pub fn add(&mut self, node: u32, program: &Program, own: Address, queue: u32) -> Result<(), ShareError> {
        let set = self.nodes.set(node, &program.0, 0);
        let set = set.and_then(|()| self.places.insert(key(own), node, 0));
        let set = set.and_then(|()| self.places.insert(QUEUE | u64::from(queue), node, 0));
        // The node starts to exist here.
        let set = set.and_then(|()| if self.places.get(&ANY, 0).is_err() { self.set_any(node) } else { Ok(()) });
        set.map_err(|error| ShareError(root_cause(&error)))
    }

    /// Hand frames to this added address to a node as well.
    ///
    /// # Errors
    /// The kernel's: the nodes of the interface have [`AddressSet::MAX`](am_wire::AddressSet::MAX) added addresses together.
    pub fn add_address(&mut self, node: u32, added: Address) -> Result<(), ShareError> {
        self.places.insert(key(added), node, 0).map_err(|error| ShareError(root_cause(&error)))
    }

    /// No longer hand frames to this added address to a node.
    pub fn remove_address(&mut self, added: Address) {
        // A missing entry needs no removal.
        let _ = self.places.remove(&key(added));
    }

    /// Remove a node. Broadcasts on a queue without a node go to `other`.
    pub fn remove(&mut self, node: u32, own: Address, queue: u32, other: u32) {
        // A missing entry needs no removal.
        let _ = self.places.remove(&key(own));
        let _ = self.places.remove(&(QUEUE | u64::from(queue)));
        let _ = self.set_any(other);
        let _ = self.nodes.clear_index(&node);
    }

    fn set_any(&mut self, node: u32) -> Result<(), MapError> {
        self.places.insert(ANY, node, 0)
    }

    /// Replace the program of a node on its interface.
    ///
    /// # Errors
    /// Why it failed. The interface has no program then.
    pub fn replace(&mut self, attachment: Attachment) -> Result<Attachment, AttachError> {
        let program = self.object.program().map_err(|error| AttachError::new(attachment.interface(), &error, None))?;
        attachment.replaced_by(program)
    }
}

/// In network byte order, as the programs read it.
pub(crate) fn key(Address([a, b, c, d, e, f]): Address) -> u64 {
    u64::from_ne_bytes([a, b, c, d, e, f, 0, 0])
}

impl fmt::Debug for NodeSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").finish_non_exhaustive()
    }
}
