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

use std::env::args;
use std::process::{ExitCode, id};

use programs::water::Water;
use programs::{Failure, compare};

fn main() -> Result<ExitCode, Failure> {
    let args: Vec<String> = args().skip(1).collect();
    let most_workers = args.first().map_or(Ok(2), |workers| workers.parse())?;
    let transport = &args.get(1).cloned().unwrap_or_else(|| format!("shm:water-{}", id()));
    let count = args.get(2).map_or(Ok(100), |count| count.parse())?;
    let steps = args.get(3).map_or(Ok(100), |steps| steps.parse())?;
    let title = format!("{count} molecules, {steps} steps");
    let equal = compare(&Water::new(count, steps), most_workers, transport, &title)?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
