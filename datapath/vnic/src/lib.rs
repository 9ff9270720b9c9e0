//! **A virtual NIC.** A program that opens `amd:PATH` attaches to the daemon behind that socket, which owns a NIC and shares it
//! among programs. Each program has a link address of its own.
//!
//! ```text
//!   program A ─ Vnic ══ region A ══ Port ┐
//!                                        ├─ daemon ── NIC
//!   program B ─ Vnic ══ region B ══ Port ┘
//!
//!   ══  two lanes in memory that only this program and the daemon map;
//!       beside them a UNIX socket, for set-up, wake-ups and notices
//! ```
//!
//! This crate has both ends: [`Vnic`], the program's [`Transport`](am_transport::Transport), and [`Port`], from which the
//! daemon takes frames. The daemon decides which frames may pass (the package `am-daemon`).
//!
//! # Trust
//!
//! The daemon does not trust a program. It keeps its own positions in the lanes ([`am_ring::lane`]), and copies bytes out of a lane
//! before it checks them. The region is sealed, so its size cannot change. A wake-up is a packet on the socket and not an eventfd: an
//! eventfd is one object in both processes, so a program could make the daemon's write block. The daemon accepts no descriptors from
//! programs. When a program has left, the daemon releases the memory of its region to the system.
//!
//! A program trusts its daemon, as it trusts a NIC.
//!
//! # When the daemon ends
//!
//! The socket closes. The transport reports a link error, drops frames to send, and attaches again as soon as a daemon listens
//! there. It proves with the secret of the first daemon that it had the port, and gets its address again. The node notices only
//! that frames were lost.
//!
//! # A queue of its own
//!
//! The daemon may lend a program a queue of the NIC. Then frames from and to other hosts pass through that queue, and only frames of
//! this host and broadcasts pass through the lanes ([`QueueVnic`]).
//!
//! # Read first
//!
//! [`VnicOptions`]; then `program.rs` and `port.rs`, the two ends; `region.rs`, the memory; `protocol.rs`, the packets.
#![allow(unsafe_code, reason = "a queue that the daemon lends")]

mod attach;
mod departed;
mod errors;
mod heartbeat;
mod options;
mod port;
mod program;
pub mod protocol;
mod queue;
mod readiness;
mod region;
mod socket;
mod unasked;

pub use errors::{VnicOpenError, WelcomeError};
pub use options::VnicOptions;
pub use port::{Port, Sent, Visitor};
pub use program::{Attaching, Vnic, begin, open};
pub use queue::{OpenQueue, QueueVnic, is_same_host, open_with_queue};
pub use region::{MAX_FRAME, MIN_FRAME};
