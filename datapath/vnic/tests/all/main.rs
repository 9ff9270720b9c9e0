//! The virtual NIC: the conformance suite, and its two ends by themselves.
#![allow(missing_docs, reason = "tests")]

mod conformance;
mod crowded;
mod repeater;
