//! am-run on this host.

#[path = "../job/mod.rs"]
mod job;

mod ends;
mod io;
mod places;
mod refusals;
