//! A transport's description of itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use am_ring::Pool;
use am_wire::Address;

/// A transport's name, mode, promises and memory.
#[derive(Clone, Debug)]
pub struct Caps {
    /// The name that it was opened with: `xdp:eth1`, `loopback`.
    pub name: String,
    /// How it carries frames, for users: `veth copy`, `zero-copy`, `memory`.
    pub mode: String,
    /// Its true link address.
    pub address: Address,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: usize,
    /// Whether every frame that is sent arrives exactly once.
    pub reliable: bool,
    /// Whether frames arrive in the order in which they were sent.
    pub ordered: bool,
    /// Whether a broadcast reaches each node that can send here, and the broadcasts of those nodes reach this one. Then
    /// nodes discover each other without help.
    pub hears_all: bool,
    /// The memory of frames, to be sent and received.
    pub pool: Pool,
    /// The descriptors to wait on, if the transport has any: one of them becomes readable when frames arrive. They are
    /// duplicates, so waiting needs no `unsafe`, and a closed descriptor's number is never used for another file.
    pub wake: Option<Vec<Arc<OwnedFd>>>,
}
