//! A ledger on both sides of every request, while servers and clients are killed, leave, are stopped, and interfaces go down.
//!
//!     ledger run                                100 million requests, over each transport; needs root
//!     ledger run --requests 1000000 shm         over one of them
//!     ledger churn                              20,000 clients that connect, exchange some messages and are killed
//!     ledger members                            16 hosts, one killed and one added every second for five minutes; needs root
//!
//! `run` ends with 0 where each request was handled once and in order, or came back and was not handled, or is unknown for one of
//! the two reasons that `docs/promises.md` has; with 1 where anything is wrong, no client has sent anything for a minute, or the table could not be written; with 2 where it could not run.
//!
//! ```text
//!   driver ── starts, kills, stops ──▶ server ◀── requests ── clients      each a process
//!     │                                  │                      │
//!     └── compares ──▶ book ◀────────────┘        book ◀────────┘          files
//! ```
//!
//! Read first: `book.rs`, what each side notes; `judge.rs`, what must be true of it; `faults.rs`, what happens.

mod book;
mod check;
mod churn;
mod client;
mod drive;
#[path = "../../tests/example/mod.rs"]
mod example;
mod faults;
mod judge;
mod members;
mod mesh;
mod players;
mod process;
mod relay;
mod server;

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clap::Parser;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Compare what both sides have noted of each request, after all that can happen to them")]
enum Command {
    /// Requests, while everything happens to both sides
    Run(drive::Plan),
    /// Clients that connect, exchange some messages and are killed, under a server that stays
    Churn(churn::Plan),
    /// Many nodes that ask each other, of which one is killed and one added again and again; needs root
    Members(members::Plan),
    /// A process, as `run` and `churn` start it
    #[command(hide = true)]
    Play { place: String },
}

/// Whether a line could not be printed.
static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// Print a line. A reader that went away is no failure; a full disk is.
fn say(line: &impl Display) {
    if let Err(error) = writeln!(stdout(), "{line}")
        && error.kind() != ErrorKind::BrokenPipe
        && !UNPRINTED.swap(true, Relaxed)
    {
        _ = writeln!(stderr(), "ledger: standard output: {error}");
    }
}

fn main() {
    let good = match Command::parse() {
        Command::Run(plan) => drive::run(&plan),
        Command::Churn(plan) => churn::run(&plan),
        Command::Members(plan) => members::run(&plan),
        Command::Play { place } => process::play(&place).map(|()| true),
    };
    std::process::exit(good.map_or_else(
        |error| {
            _ = writeln!(stderr(), "ledger: {error}");
            2
        },
        |good| i32::from(!good || UNPRINTED.load(Relaxed)),
    ));
}
