//! A stress test: numbered messages of all sizes, requests and replies, coalesced messages and transfers, over a
//! transport that loses frames, between two processes that are stopped at random, to a receiver that stalls. Each
//! message has to arrive once, with its content.
//!
//! ```text
//!            this process: joins two sides, stops and continues both, judges
//!               │ plan, standard input              ▲ lines, standard output
//!  ┌────────────▼───────────┐             ┌─────────┴──────────────┐
//!  │ sender.rs              │═ requests ═▶│ receiver.rs            │
//!  │ checks replies         │═ transfers ▶│ checks requests,       │
//!  │                        │◀═ replies ══│ stalls                 │
//!  └────────────────────────┘             └────────────────────────┘
//!       frames are lost at both ends: by the XDP programs, or as they are sent
//! ```
//!
//! `workload.rs` says what message each number is, and has a bit for each that arrived.

mod process;
mod receiver;
mod report;
mod sender;
mod workload;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::process::ChildStdin;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_wire::Framing;
use am_wire::frame::ETHERNET_HEADER;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

pub(crate) use process::child;

use crate::commands::StressArgs;
use am_measure::content::mix;
use am_measure::cores::Cores;
use am_measure::deploy::child::Child as Process;
use am_measure::deploy::pipe::{Lines, write_line};
use am_measure::deploy::sides::Sides;
use am_measure::error::Error;
use am_measure::options::Print;
use am_measure::origin::Origin;
use am_measure::plan::{DriverOptions, Side};
use am_measure::progress::Progress;
use am_measure::topology::Topology;
use am_measure::watch::Watch;
use report::{Outcome, Report};
use workload::Workload;

const NODES: [&str; 2] = ["alpha", "beta"];
/// The run has failed if nothing moves for so many turns. They are turns, not time, because this process can be stopped
/// too.
const MAX_IDLE_TURNS: u32 = 20_000;
/// How long to wait for duplicates.
const DUPLICATE_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a turn waits for a line of each process.
const TURN_TIME: Duration = Duration::from_millis(1);
/// The limit of opening, connecting and ending.
const PATIENCE: Duration = Duration::from_secs(20);
/// The default mean of a message's bytes: 100 GiB for 10^8 messages. The second is the limit as a share of the longest
/// message.
const DEFAULT_MEAN: f64 = 1073.75;
const MAX_MEAN_SHARE: f64 = 0.716;
/// The limit of a message, in frames of any length.
const MAX_MESSAGE: usize = 60_000;
/// Bytes of a transfer.
const PUT: usize = 1 << 20;

/// The longest time that a process runs between two stops, and the longest stop.
const MAX_RUNNING: Duration = Duration::from_millis(1500);
const MAX_STOP: Duration = Duration::from_millis(120);

/// The orders of one of the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    role: Role,
    on: String,
    workload: Workload,
    how: DriverOptions,
    lost_per_million: u32,
    core: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Role {
    /// Puts transfers into this region of the receiver.
    Sender {
        region: u32,
    },
    Receiver {
        stalls: bool,
    },
}

/// A line from a child process.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// It is ready; the id of its region.
    Open(u32),
    /// How many more messages have arrived there, and whether all have.
    Arrived { more: u64, complete: bool },
    /// Its last line.
    Outcome(Outcome),
}

/// A child process; killed when it is dropped.
struct Child {
    /// Closed first, because that ends the process.
    plans: Option<ChildStdin>,
    process: Process,
    lines: Lines<Line>,
}

impl Child {
    /// Start it on the host of the calling thread.
    fn start(plan: &Plan) -> Result<Child, Error> {
        let mut process = Process::start(&["stress-child"])?;
        let (mut plans, lines) = process.pipes()?;
        write_line(&mut plans, plan)?;
        Ok(Child { plans: Some(plans), process, lines: Lines::read(lines, || {}) })
    }

    /// Wait until it is ready. Returns the id of its region.
    fn open(&self, watch: &Watch) -> Result<u32, Error> {
        match self.lines.next(PATIENCE, watch)?.ok_or_else(Error::gone)? {
            Line::Open(region) => Ok(region),
            other => Err(Error::Refused(format!("{other:?} before it was open"))),
        }
    }

    /// Tell it to end. Returns its outcome.
    fn end(&mut self, watch: &Watch) -> Result<Outcome, Error> {
        drop(self.plans.take());
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(Line::Outcome(outcome)) = self.lines.poll(PATIENCE / 10, watch)? {
                return Ok(outcome);
            }
        }
        Err(Error::gone())
    }
}

/// Run the test between these sides, judge it and report. If a message was lost, duplicated or changed, the result is
/// [`Error::Stress`].
pub(crate) fn run(
    args: &StressArgs,
    how: DriverOptions,
    (sides, place): (&Sides, &Topology),
    cores: Cores,
    print: &Print,
    watch: &Watch,
) -> Result<(), Error> {
    let workload = workload(args, how, sides.mtu)?;
    let bar = Progress::of_messages(workload.messages, print.json);
    let start = |role, side, core| {
        let plan = Plan { role, on: sides.on(side, 1), workload, how, lost_per_million: args.loss, core };
        sides.at(side, || Child::start(&plan))?
    };
    // The one that is opened first is ready for the second.
    let mut receiver = start(Role::Receiver { stalls: args.stalls.is_on() }, Side::Near, cores.far)?;
    let region = receiver.open(watch)?;
    let mut sender = start(Role::Sender { region }, Side::Far, cores.near)?;
    sender.open(watch)?;
    let begin = Instant::now();
    let stops = args.stops.is_on().then_some(workload.seed);
    let mut stop_signals = StopSignals::new([sender.process.id(), receiver.process.id()], stops);
    let came = watch_over([&sender, &receiver], &mut stop_signals, &bar, watch)?;
    let took = begin.elapsed();
    stop_signals.end();
    if came {
        sleep(DUPLICATE_TIMEOUT);
    }
    let outcomes = [sender.end(watch)?, receiver.end(watch)?];
    let (on, loss, stops) = (sides.on(Side::Near, 1), args.loss, stop_signals.count);
    let report = Report { on, workload, loss, outcomes, stops, took };
    print.publish(vec![report.json()], || report.text(), &Origin::new(place.transport(), Some(sides.mtu)))?;
    report.result()
}

/// The messages of the run.
fn workload(args: &StressArgs, how: DriverOptions, mtu: u32) -> Result<Workload, Error> {
    let framing = how.framing.fixed().unwrap_or(Framing::Plain);
    let most = (mtu as usize + ETHERNET_HEADER).saturating_sub(framing.body_at()).min(MAX_MESSAGE);
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let messages = args.messages;
    if messages < 4 || !messages.is_multiple_of(4) {
        let why = if messages < 4 { "too few, give at least 4" } else { "no multiple of 4" };
        return Err(Error::Usage(format!("--messages {messages} is {why}: every fourth message is a reply")));
    }
    let workload = match args.bytes {
        Some(bytes) => Workload::new(messages, bytes, most as u32, seed),
        None => Workload::of_mean(messages, DEFAULT_MEAN.min(most as f64 * MAX_MEAN_SHARE), most as u32, seed),
    };
    workload.ok_or_else(|| {
        let bytes = args.bytes.map_or("that many bytes".to_owned(), |bytes| format!("{bytes} bytes"));
        Error::Usage(format!("{bytes} do not fit {messages} messages of at most {most} bytes"))
    })
}

/// Wait until both processes have everything. Returns `false` if nothing moves any more.
fn watch_over(
    children: [&Child; 2],
    stop_signals: &mut StopSignals,
    bar: &Progress,
    watch: &Watch,
) -> Result<bool, Error> {
    let (mut still, mut complete) = (0, [false; 2]);
    while complete != [true; 2] && still < MAX_IDLE_TURNS {
        still += 1;
        stop_signals.turn();
        for (child, complete) in children.into_iter().zip(&mut complete) {
            if let Some(Line::Arrived { more, complete: all }) = child.lines.poll(TURN_TIME, watch)? {
                bar.add(more);
                still *= (more == 0) as u32;
                *complete |= all;
            }
        }
    }
    Ok(complete == [true; 2])
}

/// Stops and continues child processes. They are waited for only after this has ended, so their ids stay valid.
#[derive(Debug)]
struct StopSignals {
    pids: [Pid; 2],
    /// When the next signal is due, and whether it continues the process, as the first does.
    due: [(Instant, bool); 2],
    random: u64,
    on: bool,
    /// How often each process was stopped.
    count: [u64; 2],
}

impl StopSignals {
    /// Without a seed, nothing is stopped.
    fn new(pids: [u32; 2], seed: Option<u64>) -> StopSignals {
        let (pids, due) = (pids.map(|pid| Pid::from_raw(pid as i32)), [(Instant::now(), true); 2]);
        StopSignals { pids, due, random: seed.unwrap_or(0), on: seed.is_some(), count: [0; 2] }
    }

    /// Send the signals that are due.
    fn turn(&mut self) {
        let now = Instant::now();
        for at in 0..self.pids.len() {
            let (due, continues) = self.due[at];
            if !self.on || now < due {
                continue;
            }
            self.count[at] += !continues as u64;
            // A process that has ended is noticed by its standard output.
            let _ = kill(self.pids[at], if continues { Signal::SIGCONT } else { Signal::SIGSTOP });
            let most = if continues { MAX_RUNNING } else { MAX_STOP };
            self.due[at] = (now + within(most, &mut self.random), !continues);
        }
    }

    /// Let both processes run from now on.
    fn end(&mut self) {
        self.on = false;
        for pid in self.pids {
            let _ = kill(pid, Signal::SIGCONT);
        }
    }
}

/// A random time.
fn within(most: Duration, random: &mut u64) -> Duration {
    *random = mix(*random);
    most.mul_f64((*random >> 11) as f64 / (1u64 << 53) as f64)
}
