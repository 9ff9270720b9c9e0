//! What a transport says of itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use am_ring::Pool;
use am_wire::Address;

/// What a transport is and can do.
#[derive(Clone, Debug)]
pub struct Caps {
    /// As it was named at run time: `xdp:eth1`, `loopback`.
    pub name: String,
    /// What the user asks first: `veth copy`, `zero-copy`, `memory`.
    pub mode: String,
    /// Its true address on the link.
    pub address: Address,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: usize,
    /// Whether every frame that is sent arrives, once.
    pub reliable: bool,
    /// Whether frames arrive in the order in which they were sent.
    pub ordered: bool,
    /// Whether a frame to everybody reaches each node that can send here, and theirs reach this one: then a third node
    /// does not stay unheard.
    pub hears_all: bool,
    /// Where frames to send come from, and arriving ones are.
    pub pool: Pool,
    /// One of them becomes readable when frames arrive, where the transport can be
    /// waited for: duplicates of its descriptors, so that waiting needs no `unsafe`
    /// and never sees a number that has come to mean another file.
    pub wake: Option<Vec<Arc<OwnedFd>>>,
}
