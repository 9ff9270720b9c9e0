//! **Several transports as one.** A node with several transports reaches each peer by the best that both have, and by the
//! next one when that path dies. It reports which path it uses, and why. PVMAM calls this transport independence (§3 to
//! 5); here it holds while a node runs.
//!
//! ```text
//!                    am_engine::turn       sees one transport
//!                        │
//!   ┌────────────────────▼─────────────────────────────────────────────┐
//!   │ Paths        peers: the address of each peer on each path        │
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
//! # When a way dies
//!
//! - It says so ([`LinkError`](am_transport::Notice::LinkError)): an interface that is down, a socket that was closed. All
//!   peers that it reached take their next way, at once.
//! - The protocol misses acknowledgements ([`ReportLoss`](am_transport::Command::ReportLoss)): that peer takes its next way. The
//!   first is tried again when a beacon has come in over it; after every failure more of them are asked for.
//! - It takes no frames for longer than [`STUCK`].
//!
//! What was lost in it is sent again by the protocol, over the other way, and
//! what arrived is not delivered twice: sequence numbers know nothing of ways.
//! Therefore frames are as long as the shortest way takes, and a node with
//! several ways has acknowledgements even where each of them would be reliable.
//! Messages leave in the framing `plain`, because a way may carry nothing else:
//! probes for others find no one.
//!
//! # Rejection by the XDP program
//!
//! The core tells the start of each flow's rejects, and whether there is room. Each way gets it with the addresses
//! that both nodes have there. When a peer is found on another way, a [`NewPath`](am_transport::Notice::NewPath) asks for it again.
//!
//! # Read first
//!
//! [`Paths`], then `peers.rs`: the addresses of peers, and the choice of a path.
//!
//! ```
//! use am_multipath::Paths;
//! use am_transport::{Transport, loopback};
//! use am_wire::EtherType;
//!
//! let [left, _right] = loopback::pair();
//! let [other, _far] = loopback::pair();
//! let ways: Vec<Box<dyn Transport>> = vec![Box::new(left.open()?), Box::new(other.open()?)];
//! let both = Paths::new(ways, EtherType::DEFAULT)?;
//! assert_eq!(both.caps().name, "loopback+loopback");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod arrivals;
mod open;
mod paths;
mod peers;
mod readdress;
mod wake;
mod way;

pub use open::OpenError;
pub use paths::Paths;
pub use way::STUCK;
