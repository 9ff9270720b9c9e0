//! **DPDK: frames through its poll-mode drivers**, for devices that AF_XDP does not reach.
//!
//! Neither building nor running the project needs DPDK. This crate loads a small library, the *shim*, when the first
//! device is opened. The shim is linked with DPDK (docs/decisions/0031).
//!
//! ```text
//!   Dpdk (Transport)
//!     │ rx.rs, tx.rs: bursts of frames          open.rs: from a name to a port
//!     ▼                                         eal.rs: starts DPDK, once a process
//!   ffi         the only calls of the shim
//!   ══╪═══════════════════════════════════════  dlopen: shim.rs finds it, abi.rs is the ABI
//!     ▼
//!   libdpdk_shim.so ──▶ librte_*.so ──▶ drivers: memif, virtio-user, vhost, af_packet, af_xdp, tap, NICs
//! ```
//!
//! # Frame ownership
//!
//! The pool is DPDK's memory. Each chunk always has an mbuf in front of the frame. The mempool from which drivers
//! allocate is a list of frames that this crate gives them (the shim's `c/pool.c`). So this crate copies no frame, in
//! either direction; a driver may.
//!
//! | from | until | owner | may touch the bytes |
//! | --- | --- | --- | --- |
//! | `Pool::take` | a driver takes it, in `flush` | the program | the program |
//! | then | the driver has freed the mbuf, and `flush` takes the frame back | the driver | none; other handles (the retransmit queue's) may read |
//! | given to the driver empty | `receive` delivers it | the driver | the driver |
//! | `each` | the frame is dropped | the program | the program |
//!
//! # When the other end is away
//!
//! memif, vhost and virtio-user reconnect when the other end comes back; for a memif client `tx.rs` restarts the port.
//! Meanwhile the link is down: the counter `dpdk_link_down` and the transport's link error say so.
//! Frames that are sent are lost and counted (`dpdk_lost_link_down`), as on an unplugged cable. A removed device is a
//! permanent link error.
//!
//! `examples/measure.rs` measures the cost of this crate against [`raw`].
//!
//! Read first: [`DpdkOptions`], then `open.rs`, then the calls of the shim (`ffi`).
//!
//! ```no_run
//! use am_dpdk::{DpdkOptions, open};
//! use am_transport::{TransportName, Transport};
//!
//! let name: TransportName = "dpdk:net_memif0,role=server,socket=/run/am.sock".parse()?;
//! let memif = open(&DpdkOptions::of(&name)?)?;
//! println!("{}", memif.caps().mode); // "memif, no huge pages, software steering"
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![allow(unsafe_code, reason = "calls into DPDK")]

#[allow(unreachable_pub)] // the shim is compiled from the same file
#[path = "../shim/src/abi.rs"]
mod abi;
mod dpdk;
mod eal;
mod errors;
mod ffi;
mod log;
mod open;
mod options;
mod pci;
pub mod raw;
mod rx;
mod shim;
mod stale_sockets;
mod tx;

pub use dpdk::{Dpdk, open};
pub use errors::DpdkOpenError;
pub use options::{DpdkOptions, PageKind};
pub use shim::{ShimError, find};
