//! Where programs that were not written here run: a room of their own, of which nothing is left.
//!
//! ```text
//!   am-bench compare        a room: its own processes, mounts, System V memory, host names
//!  ┌───────────────┐ job   ┌──────────────────────────────────────────────────────────────┐
//!  │ run(job)      ├──────▶│ inside.rs: process 1, empty temporary directory and /dev/shm │
//!  │ with a limit  │◀──────┤     ├─ enter near ─▶ client   network of "alpha", one core   │
//!  └──────┬────────┘ what  │     └─ enter far ──▶ server   network of "beta", another     │
//!         │      they said └──────────────────────────────────────────────────────────────┘
//!         └─ is gone, or has waited long enough: process 1 is killed, and the kernel ends all
//!            others; the mounts go with them
//! ```
//!
//! Read first: [`Job`], then [`inside`].

pub(crate) mod alone;
pub(crate) mod enter;
pub(crate) mod inside;
mod listening;
pub(crate) mod places;

use std::env::current_exe;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, alarm};
use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::deploy::pipe::Lines;
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

/// What is to be done in a room.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Job {
    /// Files in the temporary directory, by name.
    pub(super) files: Vec<(String, String)>,
    /// What is run before anything is measured, one after the other: compilers.
    pub(super) build: Vec<Run>,
    /// One after the other.
    pub(super) exchanges: Vec<Exchange>,
}

/// A program on the near side, and what it needs on the far side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// Started first, ended afterwards.
    pub(super) server: Option<Server>,
    pub(super) client: Run,
}

/// One that listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) run: Run,
    /// It is ready once somebody listens on this TCP port, or has this UDP port.
    pub(super) port: u16,
}

/// A program and where it runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Run {
    /// Of the network namespace.
    pub(super) network: Network,
    /// Of the core; not pinned where there is none.
    pub(super) core: Option<Side>,
    /// Program and arguments.
    pub(super) words: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
}

/// Whose network a program uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Network {
    #[default]
    Near,
    Far,
}

/// What came of one exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    /// On standard output, by the client.
    pub(super) text: String,
    /// Why there is nothing more.
    pub(super) trouble: Option<String>,
    /// Cores that all processes of the room kept busy while the client ran.
    pub(super) busy: f64,
}

/// All that the process inside has to know.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    job: Job,
    /// Where the network namespaces can be opened, near and far.
    networks: [String; 2],
    cores: [Option<usize>; 2],
}

impl Run {
    /// A program on one side of the cable, on that side's core.
    pub(super) fn on(side: Side, words: &[&str]) -> Run {
        let network = if side == Side::Near { Network::Near } else { Network::Far };
        Run {
            network,
            core: Some(side),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Run::default()
        }
    }

    /// The same on the near side's network, wherever its core is.
    pub(super) fn on_one_host(self) -> Run {
        Run { network: Network::Near, ..self }
    }

    /// The same, not pinned.
    pub(super) fn anywhere(self) -> Run {
        Run { core: None, ..self }
    }

    /// The same, with these in its environment.
    pub(super) fn with(self, variables: &[(&str, &str)]) -> Run {
        let more = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Run { variables: self.variables.into_iter().chain(more).collect(), ..self }
    }
}

/// The process that keeps the room; the room ends with it.
struct Keeper {
    process: process::Child,
    /// All was said: it ends by itself.
    is_done: bool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = kill(Pid::from_raw(self.process.id() as i32), Signal::SIGTERM);
        }
        let begin = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && begin.elapsed() < LEAVE {
            sleep(LOOK);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Do it; what each exchange brought, in their order. To be called by a thread that stays: the room ends with it.
///
/// # Errors
/// The room could not be made; something in it failed, or did not end within `limit`; a signal.
pub(super) fn run(job: Job, pair: &Pair, cores: Cores, limit: Duration, watch: &Watch) -> Result<Vec<Said>, Error> {
    let program = current_exe().map_err(Error::system("finding this program"))?;
    let count = job.exchanges.len();
    let [near, far] = &pair.hosts;
    let order = Order { job, networks: [near.path(), far.path()], cores: [cores.near, cores.far] };
    let mut command = Command::new(program);
    command.args(["room", &limit.as_secs().max(1).to_string()]);
    // Ctrl-C is for who started it.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let process = command.spawn().map_err(Error::system("starting a process"))?;
    let mut keeper = Keeper { process, is_done: false };
    let (Some(mut to), Some(from)) = (keeper.process.stdin.take(), keeper.process.stdout.take()) else {
        return Err(Error::PeerGone("it was started without a pipe".to_owned()));
    };
    let said: Lines<Result<Said, String>> = Lines::read(from, || {});
    let line = serde_json::to_string(&order).map_err(|e| Error::Facility(e.to_string()))?;
    writeln!(to, "{line}").map_err(Error::system("telling a process what to do"))?;
    let begin = Instant::now();
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let left = limit.saturating_sub(begin.elapsed());
        match said.next(left, watch) {
            Ok(Some(Ok(said))) => all.push(said),
            Ok(Some(Err(why))) => return Err(Error::Facility(why)),
            Ok(None) => return Err(Error::Facility("its processes were ended before they were done".to_owned())),
            Err(Error::Refused(_)) => {
                return Err(Error::Facility(format!("it did not end within {} s", limit.as_secs())));
            }
            Err(other) => return Err(other),
        }
    }
    keeper.is_done = true;
    Ok(all)
}

/// The process that keeps the room: it makes the new namespaces, starts process 1 of the room, and waits for its
/// end; a signal ends it, and with it the room.
///
/// # Errors
/// What is missing.
pub(crate) fn keep(limit: &str, watch: &Watch) -> Result<(), Error> {
    // Whoever asked for the room is gone: so is the room.
    end_with_parent()?;
    // Should that have been too late, it ends all the same.
    alarm::set(limit.parse().unwrap_or(60) + A_WHILE);
    let all = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    unshare(all).map_err(failed("making namespaces for other programs"))?;
    let program = current_exe().map_err(Error::system("finding this program"))?;
    let mut inside =
        Command::new(program).args(["room", "inside"]).spawn().map_err(Error::system("starting a process"))?;
    while matches!(inside.try_wait(), Ok(None)) && watch.check().is_ok() {
        sleep(LOOK);
    }
    let _ = inside.kill();
    inside.wait().map(drop).map_err(Error::system("waiting for a process"))
}

/// Seconds.
const A_WHILE: u32 = 5;
/// The room has so long to end.
const LEAVE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

fn end_with_parent() -> Result<(), Error> {
    set_pdeathsig(Signal::SIGKILL).map_err(failed("asking to end with the parent process"))
}

fn failed(doing: &'static str) -> impl FnOnce(nix::Error) -> Error {
    move |source| Error::System { doing, source: source.into() }
}
