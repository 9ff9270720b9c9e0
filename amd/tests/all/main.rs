//! The daemon, with programs attached.
#![allow(missing_docs, reason = "tests")]

mod common;
mod pings;
