//! Calls, and what their arguments and results are as bytes.
#![forbid(unsafe_code)]

mod any_bytes;
mod checks;
mod common;
mod compile;
mod derive;
mod hostile;
mod layouts;
mod outcomes;
mod round_trips;
#[cfg(feature = "serde")]
mod serde_types;
