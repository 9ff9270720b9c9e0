//! **Round trip, bandwidth and message rate** of active messages, compared with the limit of the machine (bare AF_XDP)
//! and with kernel UDP.
//!
//! ```text
//!   near side: sends, times, reports             far side: answers, counts
//!  ┌──────────────────────────────────┐         ┌─────────────────────────┐
//!  │ commands ─▶ deploy ─▶ session ───┼─ plan ─▶┼─▶ session               │
//!  │                     │            │         │     │                   │
//!  │             loops::{latency,     │         │     │                   │
//!  │      throughput} ─▶ Channel      │         │    loops::far ─▶ Channel│
//!  │                     │    am ═════╪═ frames ╪════ am                  │
//!  │      stats ◀────────┘    raw ════╪═════════╪════ raw                 │
//!  │        │                 udp ════╪═════════╪════ udp                 │
//!  │ report, sweep, ablation, compare │         │                         │
//!  └──────────────────────────────────┘         └─────────────────────────┘
//! ```
//!
//! A *driver* is what carries the messages: `am`, `raw` and so on. The drivers take turns, in rounds, in one run. Each
//! has the wire to itself while it is open, and the same loops measure all of them. A ratio is that of the figures in the table.
//!
//! The parts are in libraries: `am-measure` has what measures, `am-papers` the tables of the papers, `am-bench-rpc` calls, `am-bench-ordered` groups, `am-bench-objects` shared objects, `am-bench-pvm` PVM. Here are the
//! command line, `compare`, `wakeup` and `busy`. Read first: `commands/mod.rs`, then [`am_measure`].
#![forbid(unsafe_code)]

mod busy;
mod commands;
mod compare;
mod wakeup;

use std::process::ExitCode;

use am_measure::{Watch, out};

fn main() -> ExitCode {
    let done = commands::read().and_then(|read| match read {
        Ok(cli) => Watch::signals().and_then(|watch| cli.run(&watch)).map(|()| 0),
        Err(code) => Ok(code),
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            out::status(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}
