//! The daemon, with programs attached.
#![allow(missing_docs, reason = "tests")]

mod common;
mod forgeries;
mod hostile;
mod intruder;
mod pings;
mod restart;
mod wires;
