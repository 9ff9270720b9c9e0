//! DPDK without rights and huge pages: its devices in one process, and in two.

#[path = "../ends/child.rs"]
mod child;
#[path = "../../../../am-api/tests/common/mod.rs"]
mod common;
#[path = "../ends/mod.rs"]
mod ends;
#[path = "../../../../am-api/tests/all/mortal/mod.rs"]
mod mortal;

mod errors;
mod failover;
mod memif;
mod processes;
mod virtio;
