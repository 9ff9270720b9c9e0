//! **What a message costs**, counted: instructions, locked operations and distinct cache lines of a round trip of 16 bytes,
//! by step and transport. The counts do not depend on what else the machine does.
//!
//! ```text
//!   cost ── starts ──▶ valgrind ── runs ──▶ cost trips shm      two nodes on one thread, clock by hand
//!    ▲                     │                  stores a byte where a step begins
//!    │                     └── every access to memory, a line of text each ──┐
//!    ├── the steps' counts, of each trip; the median trip ◀──────────────────┘
//!    └── beside the committed table: nothing may be dearer
//! ```
//!
//! The system calls of nodes that sleep are counted likewise: [`sleeps`] is the program, [`system_calls`] reads what valgrind lists.
//!
//! `scripts/cost` builds and runs it. Read first: [`trips`] and [`marks`], the steps; then [`trace`]. [`bare`] has
//! the same trips without `am-api`.
#![forbid(unsafe_code)]

#[cfg(feature = "layers")]
mod am2;
mod bare;
mod cached;
#[cfg(feature = "layers")]
mod calls;
#[cfg(feature = "flows")]
mod many_flows;
mod marks;
mod others;
mod over;
#[cfg(feature = "layers")]
mod points;
#[cfg(feature = "several")]
mod several;
#[cfg(feature = "flows")]
mod simulated_peers;
mod sleeps;
mod system_calls;
mod table;
mod trace;
mod trips;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::table::Table;

type Error = Box<dyn std::error::Error>;

#[derive(Parser)]
#[command(about = "Instructions, locked operations and cache lines of a round trip, by step")]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    /// The table to compare with
    #[arg(long, default_value = "docs/results/cost.txt")]
    table: PathBuf,
    /// Write the table instead
    #[arg(long)]
    write: bool,
    /// Print the rows as lines of JSON
    #[arg(long)]
    json: bool,
    /// Over which transports; all without this.
    transports: Vec<over::Over>,
}

#[derive(Subcommand)]
enum What {
    /// The round trips themselves, for valgrind: started by cost only
    #[command(hide = true)]
    Trips {
        over: over::Over,
        mode: marks::Mode,
        /// Bytes that are allocated first.
        before: usize,
    },
    /// Those of a node with many flows, likewise
    #[command(hide = true)]
    ManyFlows { over: over::Over, part: cached::Part },
    /// Round trips of nodes that sleep, for valgrind: started by cost only
    #[command(hide = true)]
    Sleep { via: sleeps::Via },
}

/// Allocations that move all later ones by 16, 32 and 48 bytes. Where an object begins on its cache line makes up to five
/// lines of a round trip, and depends on more than the code.
const MOVES: [usize; 3] = [72, 24, 40];

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing is dearer.
fn run(arguments: &Arguments) -> Result<bool, Error> {
    if let Some(What::Sleep { via }) = arguments.what {
        return sleeps::run(via).map(|()| true);
    }
    if let Some(What::ManyFlows { over, part }) = arguments.what {
        #[cfg(feature = "flows")]
        return many_flows::run(over, part).map(|()| true);
        #[cfg(not(feature = "flows"))]
        return Err(format!("{}, {part:?}: build it with the feature `flows`", over.name()).into());
    }
    if let Some(What::Trips { over, mode, before }) = arguments.what {
        mode.begin();
        // On a stack that neither arguments nor environment move, and so the cache lines of its variables.
        let trips = std::thread::spawn(move || {
            let _before: Vec<u8> = Vec::with_capacity(before);
            let ended = match over {
                over::Over::Core => bare::run(),
                #[cfg(feature = "layers")]
                over::Over::Am2 => am2::run(),
                #[cfg(feature = "layers")]
                over::Over::Dp => points::run(),
                #[cfg(feature = "layers")]
                over::Over::Rpc => calls::run(),
                _ => trips::run(over),
            };
            ended.map_err(|error| error.to_string())
        });
        trips.join().map_err(|_| "the trips ended early")??;
        return Ok(true);
    }
    let variants = over::Over::value_variants().iter().copied().filter(|over| over.is_in_table());
    let all = if arguments.transports.is_empty() { variants.collect() } else { arguments.transports.clone() };
    let mut now = table_of(&all, 0)?;
    let failed = |error: std::io::Error| format!("{}: {error}", arguments.table.display());
    if arguments.write {
        std::fs::write(&arguments.table, now.to_string()).map_err(failed)?;
        return Ok(true);
    }
    let text = std::fs::read_to_string(&arguments.table).map_err(failed)?;
    let table = text.parse()?;
    let mut dearer = now.dearer_than(&table);
    let traced: Vec<_> =
        all.iter().copied().filter(|over| *over != over::Over::Sleeps && !over.is_many_flows()).collect();
    for before in MOVES {
        if dearer.is_empty() {
            break;
        }
        now.take_fewer_lines(&table_of(&traced, before)?);
        dearer = now.dearer_than(&table);
    }
    match arguments.json {
        true => print!("{}", now.json()),
        false => print!("{now}"),
    }
    dearer.iter().for_each(|line| eprintln!("cost: {line}"));
    Ok(dearer.is_empty())
}

/// The costs over these, where `before` bytes are allocated first.
fn table_of(all: &[over::Over], before: usize) -> Result<Table, Error> {
    let (locked, mut table) = (trace::locked()?, Table::new()?);
    for over in all {
        if *over == over::Over::Sleeps {
            for via in sleeps::Via::value_variants() {
                table.add_calls(&via.name(), system_calls::of_a_trip(*via)?);
            }
            continue;
        }
        if over.is_many_flows() {
            table.add_many_flows(&over.name(), cached::many_flows(*over)?);
            continue;
        }
        table.add(&over.name(), trace::steps(*over, &locked, before)?, &trace::closed(*over, &locked, before)?);
    }
    Ok(table)
}
