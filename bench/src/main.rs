//! **Round trip, bandwidth and message rate** of active messages, compared with the limit of the machine (bare AF_XDP)
//! and with kernel UDP.
//!
//! ```text
//!   near side: sends, times, reports             far side: answers, counts
//!  ┌──────────────────────────────────┐         ┌─────────────────────────┐
//!  │ commands ─▶ deploy ─▶ session ────────┼─ plan ─▶┼─▶ session               │
//!  │                     │            │         │     │                   │
//!  │           measure::{latency,     │         │     │                   │
//!  │      throughput} ─▶ Channel      │         │  measure::far ─▶ Channel│
//!  │                     │    am ═════╪═ frames ╪════ am                  │
//!  │      stats ◀────────┘    raw ════╪═════════╪════ raw                 │
//!  │        │                 udp ════╪═════════╪════ udp                 │
//!  │ report, sweep, ablation, compare │         │                         │
//!  └──────────────────────────────────┘         └─────────────────────────┘
//! ```
//!
//! A *driver* is what carries the messages: `am`, `raw` and so on. The drivers take turns, in rounds, in one run. Each
//! has the wire to itself while it is open, and the same loops measure all of them. Ratios are taken within a round.
//!
//! Read first: `measure/mod.rs` (one measurement), then `session.rs` (all measurements of a run).
#![forbid(unsafe_code)]

mod ablation;
mod batching;
mod bounce;
mod channel;
mod chart;
mod commands;
mod compare;
mod content;
mod contention;
mod cores;
mod deploy;
mod driver;
mod drivers;
mod error;
mod files;
mod hosts;
mod logp;
mod loss;
mod many;
mod measure;
mod options;
mod origin;
mod out;
mod permute;
mod phases;
mod plan;
mod progress;
mod report;
mod rights;
mod run;
mod scale;
mod session;
mod size;
mod spread;
mod stats;
mod stress;
mod sweep;
mod table2;
mod topology;
mod values;
mod wakeup;
mod watch;
mod wire;

use std::process::ExitCode;

use watch::Watch;

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
