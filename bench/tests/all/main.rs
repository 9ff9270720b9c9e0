//! `am-bench` as a user runs it, where it needs no root.

#[path = "../common/mod.rs"]
mod common;

mod busy;
mod loopback;
mod many;
mod objects;
mod ordered;
mod peer;
mod phases;
mod processes;
mod ratios;
mod rpc;
mod serve;
mod simulated;
mod speedups;
mod wakeup;
