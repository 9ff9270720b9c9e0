//! **DPDK: frames through its poll-mode drivers**, for what AF_XDP does not reach.
//!
//! Nobody who does not want DPDK needs it, to build or to run: this crate loads
//! a small library, the *shim*, when the first device is opened, and the shim is
//! what is linked with DPDK (docs/decisions/0031).
//!
//! ```text
//!   Dpdk (Transport)
//!     │ rx.rs, tx.rs: bursts of frames          open.rs: from a name to a port
//!     ▼                                         eal.rs: DPDK itself, once a process
//!   border/     the only calls of the shim
//!   ══╪═══════════════════════════════════════  dlopen: shim.rs finds it, abi.rs is the ABI
//!     ▼
//!   libdpdk_shim.so ──▶ librte_*.so ──▶ drivers: memif, virtio-user, vhost, af_packet, af_xdp, tap, NICs
//! ```
//!
//! # Who owns a frame when
//!
//! The pool is DPDK's memory: each chunk has an mbuf in front of the frame, for
//! good, and the mempool that drivers allocate from is a list of frames that we
//! lend them (shim's `c/pool.c`). So nothing is copied here, in either direction;
//! what a driver copies itself is its own.
//!
//! | from | until | owner | who may touch the bytes |
//! | --- | --- | --- | --- |
//! | `Pool::take` | a driver took it, in `flush` | the program | the program |
//! | then | the driver freed its mbuf, and `flush` saw it | the driver | nobody; other handles (the retransmit queue's) may read |
//! | given as a blank | handed over by `receive` | the driver | the driver |
//! | `each` | the frame is dropped | the program | the program |
//!
//! # When nobody is at the other end
//!
//! memif, vhost and virtio-user find the other side again when it comes back (a
//! client of memif is started again for that, from `tx.rs`). Meanwhile the link is down, which `dpdk_link_down` says, and what is sent is
//! lost and counted (`dpdk_lost_link_down`), as on a cable that is not plugged in. [`broken`](am_transport::Transport::broken)
//! says so as well, and of a device that was taken away, for good.
//!
//! What all this costs: `examples/measure.rs`, against [`raw`].
//!
//! Read first: [`Options`], then `open.rs`, then `border/`.
//!
//! ```no_run
//! use dpdk::{Options, open};
//! use am_transport::{Name, Transport};
//!
//! let name: Name = "dpdk:net_memif0,role=server,socket=/run/am.sock".parse()?;
//! let memif = open(&Options::of(&name)?)?;
//! println!("{}", memif.caps().mode); // "memif, no huge pages, software steering"
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
#![allow(unsafe_code, reason = "calls into DPDK")]

#[allow(unreachable_pub)] // the shim is compiled from the same file
#[path = "../shim/src/abi.rs"]
mod abi;
mod border;
mod dpdk;
mod eal;
mod errors;
mod leftovers;
mod open;
mod options;
mod pages;
mod pci;
pub mod raw;
mod rx;
mod shim;
mod tx;
mod words;

pub use dpdk::{Dpdk, open};
pub use errors::OpenError;
pub use options::{Options, Pages};
pub use shim::{ShimError, find};
