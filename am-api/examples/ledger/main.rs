//! A ledger on both sides of every request, while servers and clients are killed, leave, are stopped, and interfaces go down.
//!
//!     ledger run                                100 million requests, over xdp, shm, udp and tcp; needs root
//!     ledger run --requests 1000000 shm         over one of them
//!     ledger churn                              20,000 clients that connect, exchange some messages and are killed
//!
//! `run` ends with 0 where each request was handled once and in order, or came back and was not handled, or is unknown for one of
//! the two reasons that `docs/promises.md` has; with 1 where anything is wrong; with 2 where it could not run.
//!
//! ```text
//!   driver ── starts, kills, stops ──▶ server ◀── requests ── clients      each a process
//!     │                                  │                      │
//!     └── compares ──▶ book ◀────────────┘        book ◀────────┘          files
//! ```
//!
//! Read first: `book.rs`, what each side notes; `check/judge.rs`, what must be true of it; `faults.rs`, what happens.

mod book;
mod check;
mod client;
mod drive;
mod faults;
mod players;
mod process;
mod server;
mod stage;

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

use clap::Parser;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Compare what both sides have noted of each request, after all that can happen to them")]
enum Command {
    /// Requests, while everything happens to both sides
    Run(drive::Plan),
    /// A server, as `run` starts it
    #[command(hide = true)]
    Serve(process::Place),
    /// A client, as `run` starts it
    #[command(hide = true)]
    Ask(process::Place),
}

/// A reader that went away is no failure.
fn say(line: &impl Display) {
    _ = writeln!(stdout(), "{line}");
}

fn main() {
    tracing_subscriber::fmt().with_writer(stderr).without_time().with_target(false).init();
    let good = match Command::parse() {
        Command::Run(plan) => drive::run(&plan),
        Command::Serve(place) => process::run(&place, server::run).map(|()| true),
        Command::Ask(place) => process::run(&place, client::run).map(|()| true),
    };
    let code = match good {
        Ok(good) => i32::from(!good),
        Err(error) => {
            eprintln!("ledger: {error}");
            2
        }
    };
    std::process::exit(code);
}
