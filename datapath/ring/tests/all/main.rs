//! Rings and pools: with threads, against models, and under the model checker, which `--cfg loom` builds instead.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p am-ring --tests --target-dir target/loom
//! ```
#![allow(unsafe_code)]

mod extremes;
#[cfg(not(loom))]
mod forked;
mod lane;
mod loan;
mod loom_lane;
mod loom_loan;
mod loom_pool;
mod loom_wake;
mod pool;
mod pool_threads;
mod relay;
#[cfg(not(loom))]
#[path = "../script/mod.rs"]
mod script;
mod watched;
