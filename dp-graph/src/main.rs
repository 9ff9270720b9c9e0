//! **dp-graph** starts a program on a graph of Directed Point channels, and shows the graph while the program runs.
//!
//! ```text
//!   GRAPH (DOT, ring:8, ..) ─▶ dp-graph ── am-run -n 8 -x DP_GRAPH=.. -x DP_GRAPH_REPORT=.. PROGRAM ──▶ rank 0, rank 1, ..
//!                                 ▲                                                                       │ libamdp
//!                                 └────────────── reports, lines of am-run's standard error ◀─────────────┘
//!                                 ├─▶ the rest of standard error
//!                                 └─▶ a table, JSON, DOT
//! ```
//!
//! Read first: `run.rs`, then `live.rs` (what the reports mean) and `dot.rs` (what a file means). The manual is docs/dp-graph.md.
#![forbid(unsafe_code)]

mod display;
mod dot;
mod draw;
mod filter;
mod live;
mod options;
mod run;
mod source;
mod start;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::options::{Command, Options};

/// The exit code of wrong arguments.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == start::START) {
        return start::run(arguments);
    }
    let result = match Options::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Show { graph } => source::load(&graph).map_err(|why| (USAGE, why)).map(|graph| {
            match io::stdout().write_all(draw::draw(&graph, &[]).as_bytes()).and_then(|()| io::stdout().flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }),
    };
    result.unwrap_or_else(|(code, why)| {
        // What cannot be written is lost: the exit code says it, too.
        _ = writeln!(io::stderr(), "dp-graph: {why}");
        ExitCode::from(code)
    })
}
