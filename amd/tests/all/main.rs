//! The daemon, with programs attached.
#![allow(missing_docs, reason = "tests")]

mod any_bytes;
#[path = "../checks/mod.rs"]
mod checks;
mod common;
mod forgeries;
mod hostile;
mod intruder;
mod limits;
#[path = "../../../am-api/tests/page/mod.rs"]
mod page;
mod pings;
mod restart;
mod shares;
mod starts;
mod wires;
