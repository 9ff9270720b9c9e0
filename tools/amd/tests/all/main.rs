//! The daemon, with programs attached.
#![allow(missing_docs, reason = "tests")]

use am_testing::amd::{by_hand, checks, common, intruder, lanes, scribbler};
use am_testing::page;

mod any_bytes;
mod any_lanes;
mod forgeries;
mod hostile;
mod limits;
mod logs;
mod names;
mod pings;
mod quotas;
mod restart;
mod restart_wire;
mod shares;
mod silent;
mod sockets;
mod starts;
mod wires;
