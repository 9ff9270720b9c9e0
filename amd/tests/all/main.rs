//! The daemon, with programs attached.
#![allow(missing_docs, reason = "tests")]

mod any_bytes;
#[path = "../checks/mod.rs"]
mod checks;
mod common;
mod forgeries;
mod hostile;
mod intruder;
mod pings;
mod restart;
mod restart_wire;
mod scribbler;
mod shares;
mod starts;
mod wires;
