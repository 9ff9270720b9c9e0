//! Water (Bal et al., 1997, section 5.2.1): molecules of three atoms that attract and repel each other. Each worker has an object with the
//! positions of its molecules.
//!
//! ```text
//! cargo run -p am-objects --example water -- [WORKERS [TRANSPORT [MOLECULES [STEPS]]]]
//!
//! water                     two workers over shared memory, 100 molecules, 100 steps
//! water 2 sim:7 30 10       over another transport that many nodes of one process share
//! ```
//!
//! Each worker is a thread with a node and a member of its own. In each step it writes the new positions of its molecules to its object,
//! and waits until its copies of the others' objects have theirs: to read them costs no message. The program is in `programs/water.rs`,
//! what runs it in `programs/mod.rs`. The exit code is 1 if a position differs in any bit from that of one thread without objects: the
//! forces on a molecule are summed in the same order everywhere.

#[allow(dead_code, reason = "other programs use the rest")]
mod programs;

use std::process::{ExitCode, id};

use clap::Parser;
use programs::water::Water;
use programs::workers::MOST;
use programs::{Failure, compare};

/// Move water molecules with one worker, two, and so on. The exit code is 1 if a result differs from that of one thread.
#[derive(Parser)]
struct Options {
    /// The most workers: threads, each with a node.
    #[arg(default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=MOST))]
    workers: u8,
    /// A transport that many nodes of one process share. Shared memory unless one is named: with more than 16 workers, such as `shm:lab,members=64`.
    transport: Option<String>,
    /// The number of molecules.
    #[arg(default_value_t = 100)]
    molecules: usize,
    /// The number of steps.
    #[arg(default_value_t = 100)]
    steps: u64,
}

fn main() -> Result<ExitCode, Failure> {
    let Options { workers, transport, molecules: count, steps } = Options::parse();
    let transport = &transport.unwrap_or_else(|| format!("shm:water-{}", id()));
    let title = format!("{count} molecules, {steps} steps");
    let equal = compare(&Water::new(count, steps), workers.into(), transport, &title)?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
