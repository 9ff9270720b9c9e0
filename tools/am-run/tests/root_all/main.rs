//! am-run on four hosts, which are network namespaces on a switch. Needs root.

#[path = "../job/mod.rs"]
mod job;

mod hosts;
mod limits;
mod mpirun;
