//! Two nodes that check each other's messages: every length, every byte, in both directions.
//!
//!     verify serve xdp:eth0                            on one machine: the node "beta"
//!     verify check xdp:eth0                            on the other: the node "alpha", which asks for everything
//!     verify check xdp:eth0 framing=bare step=16       one framing, every 16th length and those around known limits
//!     verify serve udp:10.0.0.7:7000 seconds=60        over any transport; gives up after so many seconds without a peer
//!     verify keep xdp:eth0 seconds=60 patience=2       requests for so long, whatever happens to the network; it connects again
//!     verify both shm:trial                            both in one process
//!
//! Each side prints a line of JSON for each phase; `check` adds the sum. It ends with 0 where all that was sent came
//! back as it was sent, with 1 where something was wrong or is missing, with 2 where it could not run.
//!
//! What is sent: `content.rs`. What is counted: `ledger.rs`. The phases: `client/`.

mod client;
mod content;
mod ledger;
mod protocol;
mod server;

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use std::time::Duration;

use am_api::{Builder, Framing, Node};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the command line says.
#[derive(Clone, Debug)]
struct Settings {
    on: String,
    framing: Option<Framing>,
    /// Of lengths far from any limit each so many-th is sent.
    step: usize,
    /// The most that one phase may take, and a server waits for its first message.
    patience: Duration,
    /// Of the node, with a peer that is silent; half of the above unless said.
    node_patience: Option<Duration>,
    /// So many requests are under way at once where they are kept up.
    together: u64,
}

const USAGE: &str = "usage: verify serve|check|keep|both TRANSPORT [framing=bare|split|plain] [step=N] [seconds=N] [patience=N] [together=N]";

const HELP: &str = "
  serve   answers, as the node \"beta\"
  check   asks for everything, as the node \"alpha\", and adds the sum
  keep    sends requests for so many seconds, and connects again where the connection ends
  both    serve and check in one process

  framing=  where messages carry their header [what the network admits]
  step=     of lengths far from any limit each so many-th [1]
  seconds=  the most that a phase takes, and that serve waits for a message [30]
  patience= after so many seconds without an answer a peer counts as dead [half of the above]
  together= requests of keep under way at once [8]

  verify serve xdp:eth0                  on one machine
  verify check xdp:eth0 step=16          on the other
  verify both shm:trial                  in one process";

impl Settings {
    fn of(on: &str, settings: &[String]) -> Result<Settings, Error> {
        let mut all = Settings {
            on: on.to_owned(),
            framing: None,
            step: 1,
            patience: Duration::from_secs(30),
            node_patience: None,
            together: 8,
        };
        for setting in settings {
            match setting.split_once('=') {
                Some(("framing", "auto")) => all.framing = None,
                Some(("framing", name)) => {
                    all.framing = Some(name.parse().map_err(|error| format!("`{setting}`: {error}"))?);
                }
                Some(("step", value)) => all.step = number(setting, value)?,
                Some(("seconds", value)) => all.patience = Duration::from_secs(number(setting, value)?),
                Some(("together", value)) => all.together = number(setting, value)?,
                Some(("patience", value)) => all.node_patience = Some(Duration::from_secs(number(setting, value)?)),
                _ => return Err(format!("`{setting}`? {USAGE}").into()),
            }
        }
        Ok(all)
    }

    fn builder(&self, name: &str) -> Builder {
        // An emulated machine may be away for seconds.
        let builder = Node::builder(name).patience(self.node_patience.unwrap_or(self.patience / 2));
        match self.framing {
            Some(framing) => builder.framing(framing),
            None => builder,
        }
    }
}

/// The number of a setting.
fn number<T: TryFrom<u64>>(setting: &str, value: &str) -> Result<T, Error> {
    let number = value.parse().ok().filter(|&number: &u64| number > 0).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("`{setting}` needs a number from 1 on; {USAGE}").into())
}

/// A reader that went away is no failure of the network.
fn say(line: &impl Display) {
    _ = writeln!(stdout(), "{line}");
}

fn run(arguments: &[String]) -> Result<bool, Error> {
    let [what, on, settings @ ..] = arguments else { return Err(USAGE.into()) };
    let settings = Settings::of(on, settings)?;
    match what.as_str() {
        "serve" => server::run(&settings),
        "check" => client::run(&settings),
        "keep" => client::keep::run(&settings),
        "both" => {
            let far = settings.clone();
            let serving = std::thread::spawn(move || server::run(&far));
            let good = client::run(&settings);
            // The server says why it could not start; the client knows only that no answer came.
            if good.is_err() && !serving.is_finished() {
                return good;
            }
            Ok(serving.join().map_err(|_| "the server panicked")?? && good?)
        }
        _ => Err(USAGE.into()),
    }
}

fn main() {
    // What a transport says when it is opened: its mode, and what was tried in vain.
    tracing_subscriber::fmt().with_writer(stderr).without_time().with_target(false).init();
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return say(&format_args!("{USAGE}\n{HELP}"));
    }
    let code = match run(&arguments) {
        Ok(good) => i32::from(!good),
        Err(error) => {
            say(&serde_json::json!({"phase": "error", "error": error.to_string()}));
            2
        }
    };
    std::process::exit(code);
}
