//! Calls, and what their arguments and results are as bytes.
#![forbid(unsafe_code)]

mod any_bytes;
mod arrivals;
mod attacks;
mod bad_wire;
mod beside;
mod checks;
mod common;
mod derive;
mod edges;
mod endurance;
mod examples;
mod helper;
mod hostile;
mod layouts;
mod lengths;
mod no_allocation;
mod outcomes;
mod remote;
mod retries;
mod round_trips;
mod serde_types;
mod spans;
mod streams;
mod unwritten;
mod versions;
