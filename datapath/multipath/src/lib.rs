//! **Several transports as one.** A node with several transports reaches each peer by the best that both have, and by the
//! next one when that path dies. It reports which path it uses, and why. PVMAM calls this transport independence (§3 to
//! 5); here it holds while a node runs.
//!
//! ```text
//!                    am_engine::turn       sees one transport
//!                        │
//!   ┌────────────────────▼─────────────────────────────────────────────┐
//!   │ Multipath    peers: the address of each peer on each path        │
//!   │              beta    shm 02:..:b1   udp 02:..:b2      ▶ shm      │
//!   │              gamma   ─              udp 02:..:c7      ▶ udp      │
//!   └──────┬──────────────────────┬──────────────────────┬─────────────┘
//!    path 0: shm:lab        path 1: xdp:eth1       path 2: udp:10.0.0.1:7000
//! ```
//!
//! # How it learns addresses
//!
//! A node sends its beacons on every path, each with the node's address on that path. So a node that receives a beacon on
//! a path can be reached on it. A peer then has one address on each path. The protocol above sees only one of them, and
//! this crate rewrites the addresses in frames that leave and arrive. A node with a single transport notices nothing.
//!
//! # When a path dies
//!
//! A path counts as dead in one of three cases:
//!
//! - The transport reports an error ([`LinkError`](am_transport::Notice::LinkError)): its interface is down, or its socket was closed. All peers
//!   on it move to their next path at once. A peer without another path stays: not every such error keeps frames from their peer.
//! - The protocol misses acknowledgements ([`ReportLoss`](am_transport::Command::ReportLoss)). That peer moves to its next path. The first path is
//!   tried again when beacons have arrived on it, after each failure twice as many.
//! - The transport takes no frames for longer than [`STUCK_AFTER`].
//!
//! The protocol sends lost messages again, over the other path. No message is delivered twice, because sequence numbers
//! do not depend on the path. So the shortest path limits the length of frames, and messages are acknowledged even if
//! each path is reliable. Messages leave in the framing `plain`, because a path may carry no other framing. Probes for
//! other framings are dropped.
//!
//! # Rejection by the XDP program
//!
//! The core gives the transport the reject template of each flow, and says whether there is room. Each path gets the template with
//! the two nodes' addresses on that path. When a peer is found on another path,
//! [`NewPath`](am_transport::Notice::NewPath) asks the core for the templates again.
//!
//! # Read first
//!
//! [`Multipath`], then `peers.rs`: the addresses of peers, and the choice of a path.
//!
//! ```
//! use am_multipath::Multipath;
//! use am_transport::{Transport, loopback};
//! use am_wire::EtherType;
//!
//! let [left, _right] = loopback::pair();
//! let [other, _far] = loopback::pair();
//! let transports: Vec<Box<dyn Transport>> = vec![Box::new(left.open()?), Box::new(other.open()?)];
//! let both = Multipath::new(transports, EtherType::DEFAULT)?;
//! assert_eq!(both.caps().name, "loopback+loopback");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod multipath;
mod path;
mod peers;
mod rewrite;

pub use multipath::{Multipath, MultipathOpenError};
pub use path::STUCK_AFTER;
