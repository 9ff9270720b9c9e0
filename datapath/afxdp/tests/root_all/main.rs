//! AF_XDP on interfaces of hosts of their own. Needs root.
#![allow(unsafe_code)]

#[path = "../pair/mod.rs"]
mod pair;

mod conformance;
mod descriptors;
mod errors;
mod frames;
mod long;
mod queues;
mod raw;
mod reopen;
mod sequencer;
mod traffic;
