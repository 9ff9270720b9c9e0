//! Two nodes that check each other's messages: every length, every byte, in both directions.
//!
//! ```text
//! verify serve xdp:eth0                            on one machine: the node "beta"
//! verify check xdp:eth0                            on the other: the node "alpha", which sends the requests
//! verify check xdp:eth0 framing=bare step=16       one framing, every 16th length and those around known limits
//! verify serve udp:10.0.0.7:7000 seconds=60        over any transport; gives up after 60 s without a message
//! verify keep xdp:eth0 seconds=60 patience=2       requests for 60 s, whatever happens to the network; it reconnects
//! verify both shm:trial                            both in one process
//! verify both shm:trial loss=1                     1 % of the frames are lost, in each direction
//! ```
//!
//! Each side prints a line of JSON for each phase; `check` adds the sum. The exit code is 0 if all that was sent
//! came back as it was sent, 1 if something was wrong or is missing, 2 if the program could not run.
//!
//! Read first: `phases.rs`; `crate::content` makes the messages, `ledger.rs` counts them.

mod client;
mod keep;
mod ledger;
mod phases;
mod server;

use std::io::stderr;
use std::time::Duration;

use am_api::Node;
use clap::{Parser, ValueEnum, value_parser};

use crate::Error;
use crate::program::{self, end, say};

/// Two nodes that check each other's messages. A setting needs no dashes: step=16
#[derive(Clone, Debug, Parser)]
#[command(
    name = "verify",
    override_usage = "verify serve|check|keep|both TRANSPORT [framing=bare|split|plain] [step=N] [seconds=N] [patience=N] [together=N] [loss=PERCENT]",
    after_help = "  \
  verify serve xdp:eth0                  on one machine
  verify check xdp:eth0 step=16          on the other
  verify both shm:trial                  in one process"
)]
struct Settings {
    mode: Mode,
    /// The transport of this side, as in xdp:eth0 or udp:10.0.0.7:7000
    #[arg(value_name = "TRANSPORT")]
    on: String,
    /// Where messages carry their header: bare, split or plain; auto takes what the network admits
    #[arg(long, default_value = "auto")]
    framing: String,
    /// Of lengths far from any limit, send only every Nth
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    step: u64,
    /// The limit of a phase, and of serve's wait for a message
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// A peer counts as dead after so many seconds without an answer [default: half of seconds]
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    patience: Option<u64>,
    /// Percentage of the frames that this side loses on purpose
    #[arg(long, default_value = "0", value_parser = program::loss)]
    loss: f64,
    /// How many requests keep has in flight at once
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u64).range(1..))]
    together: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Answers, as the node "beta"
    Serve,
    /// Sends the requests, as the node "alpha", and adds the sum
    Check,
    /// Sends requests for so many seconds, and reconnects whenever the connection ends
    Keep,
    /// Serve and check in one process
    Both,
}

impl Settings {
    /// The most that one phase may take.
    fn limit(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Open the node of this name, with room for this many frames; `None` for the usual room.
    fn open(&self, name: &str, room: Option<usize>) -> Result<Node, Error> {
        // An emulated machine may stop for seconds.
        let mut builder = Node::builder(name).patience(self.patience.map_or(self.limit() / 2, Duration::from_secs));
        if self.framing != "auto" {
            let framing = self.framing.parse().map_err(|error| format!("`framing={}`: {error}", self.framing))?;
            builder = builder.framing(framing);
        }
        if let Some(room) = room {
            builder = builder.receive_frames(room);
        }
        // The lengths of the two names differ: with one seed both sides would lose the same frames.
        Ok(program::open(builder, &self.on, self.loss, name.len() as u64)?)
    }

    fn run(&self) -> Result<bool, Error> {
        match self.mode {
            Mode::Serve => server::run(self),
            Mode::Check => phases::run(self),
            Mode::Keep => keep::run(self),
            Mode::Both => {
                let far = self.clone();
                let serving = std::thread::spawn(move || server::run(&far));
                let good = phases::run(self);
                // The server says why it could not start; the client knows only that no answer came.
                if good.is_err() && !serving.is_finished() {
                    return good;
                }
                Ok(serving.join().map_err(|_| "the server panicked")?? && good?)
            }
        }
    }
}

/// The program, until it ends.
pub fn main() -> ! {
    // A transport logs its mode when it is opened, and what it tried in vain.
    tracing_subscriber::fmt().with_writer(stderr).without_time().with_target(false).log_internal_errors(false).init();
    let arguments = std::env::args_os().enumerate().map(|(at, argument)| match argument.to_str() {
        Some(setting) if at > 2 && !setting.starts_with('-') => format!("--{setting}").into(),
        _ => argument,
    });
    let good = match Settings::try_parse_from(arguments) {
        Err(help) if !help.use_stderr() => {
            say(&help.to_string().trim_end());
            Ok(true)
        }
        settings => settings.map_err(Error::from).and_then(|settings| settings.run()),
    };
    end(good, |error| say(&serde_json::json!({"phase": "error", "error": error.to_string()})))
}
