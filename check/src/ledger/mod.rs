//! A ledger on both sides of every request, while servers and clients are killed, leave, are stopped, and interfaces go down.
//!
//! ```text
//! ledger run                                100 million requests, over each transport; needs root
//! ledger run --requests 1000000 shm         over one of them
//! ledger churn                              20,000 clients that connect, exchange some messages and are killed
//! ledger members                            16 hosts, one killed and one added every second for five minutes; needs root
//! ```
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
mod churn;
mod client;
mod drive;
mod faults;
mod judge;
mod members;
mod mesh;
mod peer;
mod players;
mod process;
mod server;

use std::io::{Write, stderr};

use am_daemon::{Daemon, DaemonOptions};
use clap::Parser;

use self::process::{Leave, Place, Role};
use crate::Error;
use crate::program::end;

#[derive(Parser)]
#[command(
    name = "ledger",
    about = "Compare what both sides have noted of each request, after all that can happen to them"
)]
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

/// The program, until it ends.
pub fn main() -> ! {
    let good = match Command::parse() {
        Command::Run(plan) => drive::run(&plan),
        Command::Churn(plan) => churn::run(&plan),
        Command::Members(plan) => members::run(&plan),
        Command::Play { place } => play(&place).map(|()| true),
    };
    end(good, |error| _ = writeln!(stderr(), "ledger: {error}"))
}

/// Be the process of a place, which the driver describes in JSON.
fn play(place: &str) -> Result<(), Error> {
    let place: Place = serde_json::from_str(place)?;
    let work = match place.role {
        Role::Serve => server::run,
        Role::Ask => client::run,
        Role::Stay => churn::stay,
        Role::Steady => churn::steady,
        Role::Visit => churn::visit,
        Role::Mesh => mesh::run,
        Role::Relay => relay,
    };
    process::play(&place, work)
}

/// A daemon between server and clients: relay frames until `leave` is set. The next daemon takes over this one's state.
fn relay(place: &Place, leave: &Leave) -> Result<(), Error> {
    let options = || DaemonOptions { wire: Some(place.name.clone()), ..DaemonOptions::new(&place.on) };
    let Some(mut daemon) = process::retry(leave, || Daemon::open(options()))? else { return Ok(()) };
    daemon.run(leave);
    daemon.leave_state();
    Ok(())
}
