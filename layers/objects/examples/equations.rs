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

use std::env::args;
use std::process::{ExitCode, id};

use programs::equations::System;
use programs::{Failure, compare};

fn main() -> Result<ExitCode, Failure> {
    let args: Vec<String> = args().skip(1).collect();
    let most_workers = args.first().map_or(Ok(2), |workers| workers.parse())?;
    let transport = &args.get(1).cloned().unwrap_or_else(|| format!("shm:equations-{}", id()));
    let count = args.get(2).map_or(Ok(300), |count| count.parse())?;
    let most = args.get(3).map_or(Ok(2070), |most| most.parse())?;
    let title = format!("{count} equations, at most {most} iterations");
    let equal = compare(&System::new(count, most), most_workers, transport, &title)?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
