//! `am-bench` as a user runs it, between network namespaces. Needs root.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod compare;
mod figures;
mod many;
mod objects;
mod ordered;
mod peer;
mod pvm;
mod rpc;
mod serve;
