//! Whole nodes on a simulated network: `engine`, `proto`, and a small application.
//!
//! ```text
//!   Net::step ─▶ Wake, Alarm ──▶ a turn: inhale ─▶ App ─▶ exhale ─▶ checks
//!                Stall, Death, Restart ──▶ World
//! ```
#![allow(unreachable_pub, reason = "a module of a test program: nothing outside of it can reach it")]

mod app;
mod cases;
mod checks;
mod coverage;
mod many;
mod node;
mod work;
mod world;

pub use cases::{Case, MUTANT_CASES, MutantCase, RunMutant, Setting, first_caught};
pub use many::run_many;
pub use work::Work;
pub use world::{Report, World};

/// Run a seed, in the setting and with the mutant that the environment chooses.
///
/// # Errors
/// The violation, and the command that repeats it.
pub fn run(seed: u64) -> Result<Report, String> {
    case_of(seed).run()
}

fn case_of(seed: u64) -> Case {
    Case { seed, ..Case::from_variables(|variable| std::env::var(variable).ok()) }
}
