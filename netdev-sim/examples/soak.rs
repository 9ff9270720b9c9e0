//! Any number of simulated networks, each from its seed, with all checkers: a longer run of `tests/networks/seeds.rs`.
//!
//!     scripts/soak 200000           seeds 0 to 199999
//!     scripts/soak 5000..6000       seeds 5000 to 5999
//!
//! The exit status is 0 if no seed failed. The last line has the count and the rate. `NETDEV_SIM_SETTING` and
//! `NETDEV_SIM_PLANT` are as for `tests/networks/seeds.rs`.
#![forbid(unsafe_code)]

#[path = "../tests/networks/nodes/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod nodes;

use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: scripts/soak SEEDS, a number, or FROM..TO, two numbers";

fn main() -> ExitCode {
    let Some(seeds) = std::env::args().nth(1).and_then(|text| seeds(&text)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (terminal, begin, total) = (io::stdout().is_terminal(), Instant::now(), seeds.end - seeds.start);
    let tally = nodes::run_many(seeds, &|done, failed| {
        let mut out = io::stdout().lock();
        // A closed terminal does not stop the run, so write errors are ignored.
        if let Some(why) = failed {
            let _ = writeln!(out, "{}{why}", if terminal { "\r\x1b[K" } else { "" });
        }
        if terminal && done % 64 == 0 {
            let rate = done as f64 / begin.elapsed().as_secs_f64();
            let _ = write!(out, "\r\x1b[K{done} of {total} seeds, {rate:.0} a second");
            let _ = out.flush();
        }
    });
    if terminal {
        print!("\r\x1b[K");
    }
    println!("{} messages delivered, {} returned", tally.delivered, tally.returned);
    println!("{}", tally.line());
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seeds(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..").unwrap_or(("0", text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from < to).then_some(from..to)
}
