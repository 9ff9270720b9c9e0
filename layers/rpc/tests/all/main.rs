//! Calls, and what their arguments and results are as bytes.
#![forbid(unsafe_code)]

mod common;
mod derive;
mod outcomes;
