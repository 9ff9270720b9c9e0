//! Whole nodes on a simulated network: `engine`, `proto`, and a small application.
//!
//! ```text
//!   Net::step ─▶ Wake, Alarm ──▶ a turn: inhale ─▶ App ─▶ exhale ─▶ checks
//!                Stall, Death, Restart ──▶ World
//! ```
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its own part")]

mod app;
mod checks;
mod many;
mod node;
mod work;
mod world;

pub use many::many;
pub use work::Work;
pub use world::{Report, World};

/// The line that repeats a run.
pub fn repeat(seed: u64) -> String {
    format!("NETDEV_SIM_SEED={seed} cargo test -p netdev-sim --test seeds one_seed -- --nocapture")
}

/// A run from its seed.
///
/// # Errors
/// What went wrong, and the line that repeats it.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut world = World::new(netdev_sim::Options::from_seed(seed), Work::from_seed(seed));
    world.run().map_err(|violation| format!("seed {seed}: {violation}\n    {}", repeat(seed)))
}
