//! **The XDP program that steers active messages into AF_XDP sockets**, and its loader.
//!
//! The papers steer in the NIC's firmware (the *LANai control program*). This program runs in the driver's receive
//! path, on each frame, before the kernel's stack sees it:
//!
//! ```text
//!              user space   Steer ──set_flow──▶ table      Transport ◀── socket's RX ring
//!  ────────────────────────────────────────────────┼────────────────────────────▲─────────
//!              kernel                              ▼                            │
//!   NIC ──frame──▶ decide(): EtherType? address? kind? flow? ──Socket(i)──▶ sockets[i]
//!                      │                                 │
//!                      Pass                              Drop(reason)
//!                      ▼                                 ▼
//!                  the kernel's stack, untouched     counters, one per reason
//! ```
//!
//! `decide.h` is the twin of [`am_wire::steer::steer`], function by function. A test gives both the same millions of
//! frames, and requires the same decisions. `steer.bpf.c` carries out the decision, and counts. [`NodeSwitch`] serves
//! several nodes on one interface: it hands each frame to the program of its node. [`Raw`] is a second, far smaller
//! program for AF_XDP without steering, for comparison.
//!
//! A program is attached by a `bpf_link`. The link lives as long as the [`Attachment`], and the kernel removes it when
//! the process ends, even after a crash.
//!
//! `usual.h` comes before all that: it finds the socket of a usual frame in a third of the instructions, with the answer
//! of `decide.h`.
//!
//! Read first: `decide.h`, then `usual.h`, `steer.bpf.c`, [`Steer`].
//!
//! ```no_run
//! use am_bpf::{AttachMode, Config, Steer};
//! use am_wire::{EtherType, Flow};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let own = "02:00:00:00:00:01".parse()?;
//! let mut steer = Steer::load(&Config { ethertype: EtherType::DEFAULT, own, node_socket: 0, counts_redirected: false, lost_per_million: 0 })?;
//! steer.set_socket(0, 0, &socket)?; // an AF_XDP socket, bound to queue 0
//! steer.set_flow(Flow::new(17).unwrap(), Some(0));
//! let attachment = steer.attach("eth1", AttachMode::Native)?;
//! steer.counters()?.each(&mut |name, count| println!("{name} {count}"));
//! drop(attachment); // before the socket
//! # Ok(())
//! # }
//! ```
#![allow(unsafe_code, reason = "structures of the kernel")]

mod attach;
mod config;
mod copies;
mod counters;
mod descriptors;
mod error;
mod extack;
mod features;
#[cfg(test)]
mod instructions;
#[cfg(test)]
mod interpreter;
mod kernel;
mod mapped;
mod mark;
mod netlink;
mod object;
mod probe;
mod raw;
mod share;
mod stamps;
mod steer;
mod table;

pub use attach::Attachment;
pub use config::{AttachMode, Config};
pub use counters::Counters;
pub use descriptors::interface_index;
pub use error::{AttachError, CopyError, CountersError, LoadError, SocketError, setcap};
pub use kernel::Kernel;
pub use mark::{has_descriptor, is_marked, process_name, sibling};
pub use probe::{Probe, ProbeError};
pub use raw::Raw;
pub use share::{NodeSwitch, Program, ShareError};
pub use stamps::ProgramStamps;
pub use steer::Steer;
