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
mod ending;
mod file;
mod filter;
mod live;
mod options;
mod run;
mod source;
mod start;
mod syntax;
mod table;

use std::io::ErrorKind;
use std::process::ExitCode;

use crate::options::{Command, Options};
use am_input::command_line::{self, NO_JOB, NO_OUTPUT};

/// The exit code of wrong arguments.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == start::START) {
        return start::run(arguments);
    }
    let options: Options = match command_line::parse(USAGE, |line| start::say(line)) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let result = match options.command {
        Command::Run(options) => run::run(&options),
        Command::Show { graph } => show(&graph),
    };
    result.map_or_else(
        |(code, why)| {
            start::say(why);
            ExitCode::from(code)
        },
        ExitCode::from,
    )
}

fn show(graph: &str) -> Result<u8, (u8, String)> {
    let graph = source::load(graph).map_err(|why| (USAGE, why))?;
    match display::write_output(draw::draw(&graph, &[]).as_bytes()) {
        Ok(()) => Ok(0),
        // A reader that has left, as in `| head`, needs no words.
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(NO_JOB),
        Err(why) => Err((NO_JOB, format!("{NO_OUTPUT}: {why}"))),
    }
}
