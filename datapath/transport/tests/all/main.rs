//! The transports of this crate, and the suite that all pass.

mod conformance;
mod ends;
mod faulty;
mod loopback;
mod name;
mod trace;
