//! **The daemon that shares one NIC among programs.** It owns the NIC, through any transport, and gives each program that
//! attaches a virtual NIC ([`am_vnic`]). It switches frames between the programs and the wire, and isolates the programs from each other.
//!
//! ```text
//!   program A ── port 0 ─┐                        ┌─ judge: may this port send this?   judge.rs, grants.rs
//!   program B ── port 1 ─┼─ switch ── wire ── NIC │  schedule: which port is next?     schedule.rs
//!   program C ── port 2 ─┘                        └─ state: what a restart must know   state.rs
//! ```
//!
//! What a program can and cannot do to others, and the limits: `docs/amd.md`.
//!
//! The wire is one transport. A daemon over several at once (`udp:...+xdp:...`) fails to start: each port needs an address of its own on
//! the wire, and a combination of transports serves no address besides its own.
//!
//! # Read first
//!
//! `switch.rs` and `relay.rs`: the path of a frame. `judge.rs`: the filter of outgoing frames. `visits.rs` and `ports.rs`: how programs attach and leave.
//! `daemon.rs`: the loop.
#![forbid(unsafe_code)]

pub mod access;
pub mod address;
pub mod admin;
pub mod budget;
mod daemon;
mod errors;
mod folder;
mod forward;
pub mod grants;
mod heartbeat;
mod heartbeats;
pub mod judge;
mod listener;
pub mod log;
mod member;
mod outage;
mod ports;
pub mod privileges;
mod process;
mod queues;
mod random;
mod record;
mod relay;
pub mod schedule;
mod serve;
mod state;
mod switch;
mod visit;
mod visits;
mod wire;

pub use daemon::{Daemon, DaemonOptions, KEEP_TIME};
pub use errors::DaemonError;
pub use member::{MAX_REFUSED, Owner, PAUSE};
