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
//! `workload.rs` says what message each number is; `ledger.rs` has a bit for each.

mod children;
mod ledger;
mod process;
mod receiver;
mod report;
mod sender;
mod signals;
mod verdict;
mod workload;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_wire::Framing;
use am_wire::frame::ETHERNET_HEADER;
use serde::{Deserialize, Serialize};

pub(crate) use process::child;

use crate::cli::Topology;
use crate::cli::{Options, StressArgs};
use crate::cores::Cores;
use crate::deploy::sides::Sides;
use crate::error::Error;
use crate::origin::Origin;
use crate::plan::{DriverOptions, Side};
use crate::progress::Progress;
use crate::publish;
use crate::watch::Watch;
use children::{Child, Line};
use report::Report;
use signals::StopSignals;
use verdict::Verdict;
use workload::Workload;

const NODES: [&str; 2] = ["alpha", "beta"];
/// The run has failed if nothing moves for so many turns. They are turns, not time, because this process can be stopped
/// too.
const MAX_IDLE_TURNS: u32 = 20_000;
/// How long to wait for duplicates.
const DUPLICATE_TIMEOUT: Duration = Duration::from_millis(300);
/// How often signals are sent and lines read.
const TURN_TIME: Duration = Duration::from_millis(1);
/// The default mean of a message's bytes: 100 GiB for 10^8 messages. The second is the limit as a share of the longest
/// message.
const DEFAULT_MEAN: f64 = 1073.75;
const MAX_MEAN_SHARE: f64 = 0.716;
/// The limit of a message, in frames of any length.
const MAX_MESSAGE: usize = 60_000;
/// Bytes of a transfer.
const PUT: usize = 1 << 20;

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

/// Run the test between these sides, judge it and report.
///
/// # Errors
/// What is missing, or [`Error::Stress`] if a message was lost, duplicated or changed.
pub(crate) fn run(
    args: &StressArgs,
    how: DriverOptions,
    (sides, place): (&Sides, &Topology),
    cores: Cores,
    options: &Options,
    watch: &Watch,
) -> Result<(), Error> {
    let workload = workload(args, how, sides.mtu)?;
    let bar = Progress::of_messages(workload.messages, options.json);
    let plan = |role, side, core| {
        let on = sides.on(side, 1);
        Plan { role, on, workload, how, lost_per_million: args.loss, core }
    };
    let (mut sender, mut receiver) = start(sides, args.stalls.is_on(), cores, &plan, watch)?;

    let begin = Instant::now();
    let stops = args.stops.is_on().then_some(workload.seed);
    let mut stop_signals = StopSignals::new([sender.pid(), receiver.pid()], stops);
    let came = watch_over([&mut sender, &mut receiver], &mut stop_signals, &bar, watch)?;
    let took = begin.elapsed();
    stop_signals.end();
    if came {
        sleep(DUPLICATE_TIMEOUT);
    }
    let outcomes = [sender.end(watch)?, receiver.end(watch)?];
    let verdict = Verdict::of(&workload, &outcomes);
    let report = Report {
        workload,
        loss: args.loss,
        outcomes,
        verdict,
        stops: stop_signals.count(),
        took,
        on: sides.on(Side::Near, 1),
    };
    publish(report.lines(), || report.text(), &Origin::of(place, Some(sides.mtu)), options)?;
    report.verdict.result(&workload)
}

/// Open both processes. The one that is opened first is ready for the second.
fn start(
    sides: &Sides,
    stalls: bool,
    cores: Cores,
    plan: &(dyn Fn(Role, Side, Option<usize>) -> Plan + Sync),
    watch: &Watch,
) -> Result<(Child, Child), Error> {
    let start = |role, side, core| sides.at(side, || Child::start(&plan(role, side, core)))?;
    let mut receiver = start(Role::Receiver { stalls }, Side::Near, cores.far)?;
    let region = receiver.open(watch)?;
    let mut sender = start(Role::Sender { region }, Side::Far, cores.near)?;
    sender.open(watch)?;
    Ok((sender, receiver))
}

/// The messages of the run.
fn workload(args: &StressArgs, how: DriverOptions, mtu: u32) -> Result<Workload, Error> {
    let framing = how.framing.fixed().unwrap_or(Framing::Plain);
    let most = (mtu as usize + ETHERNET_HEADER).saturating_sub(framing.body_at()).min(MAX_MESSAGE);
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let messages = args.messages;
    if messages == 0 || !messages.is_multiple_of(4) {
        return Err(Error::Usage(format!(
            "--messages {messages} is no multiple of 4: every fourth message is a reply"
        )));
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
    mut children: [&mut Child; 2],
    stop_signals: &mut StopSignals,
    bar: &Progress,
    watch: &Watch,
) -> Result<bool, Error> {
    let (mut still, mut complete) = (0, [false; 2]);
    while complete != [true; 2] && still < MAX_IDLE_TURNS {
        still += 1;
        stop_signals.turn(Instant::now());
        for (child, complete) in children.iter_mut().zip(&mut complete) {
            match child.next(TURN_TIME / 2, watch)? {
                Some(Line::Arrived(count)) => {
                    bar.add(count);
                    still *= (count == 0) as u32;
                }
                Some(Line::Complete) => *complete = true,
                Some(Line::Open(_) | Line::Outcome(_)) | None => {}
            }
        }
    }
    Ok(complete == [true; 2])
}
