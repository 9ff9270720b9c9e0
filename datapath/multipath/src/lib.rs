//! **Several transports as one.** A node with more than one reaches each peer
//! by the best that both have, says which and why, and takes the next when that
//! one dies. PVMAM's promise (transport independence, §3 to 5), kept while a node runs.
//!
//! ```text
//!                    am_engine::turn       one transport, as far as it knows
//!                        │
//!   ┌────────────────────▼─────────────────────────────────────────────┐
//!   │ Paths        peers: who is where on which way                    │
//!   │              beta    shm 02:..:b1   udp 02:..:b2      ▶ shm      │
//!   │              gamma   ─              udp 02:..:c7      ▶ udp      │
//!   └──────┬──────────────────────┬──────────────────────┬─────────────┘
//!     way 0: shm:lab         way 1: xdp:eth1        way 2: udp:10.0.0.1:7000
//! ```
//!
//! # How it knows
//!
//! Nodes introduce themselves with beacons. Each leaves on every way, with the
//! address that its node has there; so who hears one on a way can be reached on
//! that way. A peer has several addresses then, one a way, and the protocol
//! above sees one of them: what leaves and what arrives is readdressed. Nodes
//! with a single transport notice nothing.
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
//! [`Paths`], then `peers.rs`: who is where, and which way is chosen.
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
