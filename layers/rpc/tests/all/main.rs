//! Calls, and what their arguments and results are as bytes.
#![forbid(unsafe_code)]

mod any_bytes;
mod bad_wire;
mod checks;
mod common;
mod derive;
mod examples;
mod hostile;
mod layouts;
mod no_allocation;
mod outcomes;
mod remote;
mod round_trips;
#[cfg(feature = "serde")]
mod serde_types;
mod streams;
