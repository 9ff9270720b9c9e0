//! A solver of linear equations by Jacobi's method (Bal et al., 1997, section 5.2.2): all workers share one object, which has the vector.
//!
//! ```text
//! cargo run -p am-objects --example equations -- [WORKERS [TRANSPORT [EQUATIONS [ITERATIONS]]]]
//!
//! equations                       two workers over shared memory, 300 equations, at most 2,070 iterations
//! equations 2 sim:7 100 50        over another transport that many nodes of one process share
//! ```
//!
//! Each worker is a thread with a node and a member of its own, and has a part of the rows. In each iteration it writes its part of the
//! vector, waits until its copy has the others' parts, and reads it. The program is in `programs/equations.rs`, what runs it in
//! `programs/mod.rs`. The exit code is 1 if the solution differs in any bit from that of one thread without objects.

#[allow(dead_code, reason = "other programs use the rest")]
mod programs;

use std::process::{ExitCode, id};

use clap::Parser;
use programs::equations::System;
use programs::workers::MOST;
use programs::{Failure, compare};

/// Solve linear equations by Jacobi's method with one worker, two, and so on. The exit code is 1 if a solution differs from that of one thread.
#[derive(Parser)]
struct Options {
    /// The most workers: threads, each with a node.
    #[arg(default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=MOST))]
    workers: u8,
    /// A transport that many nodes of one process share. Shared memory unless one is named: with more than 16 workers, such as `shm:lab,members=64`.
    transport: Option<String>,
    /// The number of equations.
    #[arg(default_value_t = 300)]
    equations: usize,
    /// The most iterations.
    #[arg(default_value_t = 2070)]
    iterations: u64,
}

fn main() -> Result<ExitCode, Failure> {
    let Options { workers, transport, equations: count, iterations: most } = Options::parse();
    let transport = &transport.unwrap_or_else(|| format!("shm:equations-{}", id()));
    let title = format!("{count} equations, at most {most} iterations");
    let equal = compare(&System::new(count, most), workers.into(), transport, &title)?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
