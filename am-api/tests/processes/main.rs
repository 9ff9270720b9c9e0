//! Processes that are stopped, killed and restarted: they count on processors, so they are apart from other tests.

#[path = "../common/mod.rs"]
mod common;
#[path = "../doomed/mod.rs"]
mod doomed;

mod signals;
