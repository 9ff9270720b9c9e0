//! The daemon, with programs attached.
#![allow(missing_docs, reason = "tests")]

use am_testing::page;

mod any_bytes;
mod any_lanes;
#[path = "../by_hand/mod.rs"]
mod by_hand;
#[path = "../checks/mod.rs"]
mod checks;
mod common;
mod forgeries;
mod hostile;
mod intruder;
#[path = "../lanes/mod.rs"]
mod lanes;
mod limits;
mod logs;
mod pings;
mod quotas;
mod restart;
mod restart_wire;
mod scribbler;
mod shares;
mod silent;
mod sockets;
mod starts;
mod wires;
