//! **am-run** starts the processes of a program on the hosts of a list, and ends them.
//!
//! ```text
//!   am-run ── ssh HOST am-run --agent ──▶ agent on HOST ── fork, exec ──▶ rank 0, rank 1, ..
//!     │            its standard input and output          │                  │
//!     │ ◀───────── output, blobs, exit codes ──────────── │ ◀─── output ──── │
//!     │ ────────── input, signals, all blobs ───────────▶ │ ◀─── blobs ─────▶│  a socket, am-spmd
//! ```
//!
//! Everything between launcher and agent goes through the remote shell's own pipe. So the launcher listens nowhere, and each side
//! notices the other's end by the end of the pipe, also after `kill -9`.
//!
//! Read first: `launcher.rs`, then `agent.rs`, and between them `protocol.rs`. The manual is docs/am-run.md.
#![forbid(unsafe_code)]

mod agent;
mod event;
mod hosts;
mod launcher;
mod options;
mod output;
mod protocol;
mod ranks;
mod remote;
mod report;
mod start;
mod stop;
mod table;

use std::process::ExitCode;

use am_input::command_line;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|first| first.to_str()) {
        Some(protocol::AGENT) => agent::run(),
        Some(start::START) => start::run(arguments),
        _ => command_line::parse::<options::Options>(command_line::NO_JOB, |line| report::say(line))
            .map_or_else(|code| code, |options| launcher::run(&options)),
    }
}
