//! The round trip of a rejected request. A receiver without room rejects it: by its XDP program before the host sees
//! the request, or by the host.
//!
//! ```text
//!   near                                   far: full, takes no request out
//!    │ request ───────────────────────────▶│ program: turned round in the receive path   ┐ one
//!    │◀──────────────────────────── reject │ host: a frame received, looked at, answered ┘ of them
//!    ╎ a pause, then the same request again
//! ```
//!
//! The receiver is an ordinary node. To measure `host`, the seam keeps the reject templates from its XDP program; a
//! transport without an XDP program has `host` alone. The sender's node repeats a rejected request by itself, after a
//! growing pause. Each repetition is one round trip. The seam between node and transport times it, from before the
//! frame is handed over until the node has received the reject.

mod report;
mod seam;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Framing, HandlerId, Node, NotOpen};
use clap::Args;

use am_measure::cores::{Cores, pin};
use am_measure::deploy::open;
use am_measure::deploy::sides::Sides;
use am_measure::driver::Driver;
use am_measure::drivers::am::facility;
use am_measure::error::Error;
use am_measure::loops::latency::{RoundTrips, round_trips};
use am_measure::options::only;
use am_measure::origin::Origin;
use am_measure::plan::{Amount, DriverOptions, FramingArg, Side};
use am_measure::run::Common;
use am_measure::topology::{Here, HostsArg, Topology};
use am_measure::values;
use am_measure::watch::Watch;
use report::Bounced;
use seam::{Seam, Seen};

/// The options of `bounce`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::WITH_SIM)).help(
    "Run both hosts on this machine [default: veth]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
pub struct BounceArgs {
    #[command(flatten)]
    here: Here,
    /// Payload bytes of a request, one size
    #[arg(long, default_value = "16", value_parser = values::message, value_name = "BYTES", help_heading = "What")]
    size: usize,
    #[command(flatten)]
    common: Common,
}

impl BounceArgs {
    /// Where it measures, after all checks.
    pub fn topology(&self) -> Result<Topology, Error> {
        self.common.print.check()?;
        self.here.topology(&self.common.open)
    }

    /// Measure the round trip of rejected requests, and print it.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = self.topology()?;
        let sides = topology.sides(&[Driver::Am])?;
        let Common { open, amount, print } = &self.common;
        let plan = Plan { how: open.how(FramingArg::Bare), size: self.size, cores: self.here.cores.both()? };
        let bounced = measure(&sides, plan, &amount.amount(), watch)?;
        print.publish(bounced.json(), || bounced.table(), &Origin::new(topology.transport(), Some(sides.mtu)))
    }
}

const ENDPOINT: &str = "full";
/// A receiver with so few frames is full at once.
const RECEIVE_FRAMES: usize = 16;
/// How long the near side waits for the far side to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

const WORK: HandlerId = HandlerId(0);
/// Connections. Each repeats a rejected request at its own, ever slower pace. So many round trips need many
/// connections, but few enough that one request at a time is in flight.
const FLOWS: usize = 64;
/// The limit of every wait.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Which part of the receiver rejects requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The receiver's XDP program.
    Program,
    /// Its host.
    Host,
}

impl By {
    /// Both, in the order in which they are reported.
    const ALL: [By; 2] = [By::Program, By::Host];

    /// The name in the table and in JSON.
    const fn name(self) -> &'static str {
        match self {
            By::Program => "program",
            By::Host => "host",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) how: DriverOptions,
    /// Bytes of a request.
    pub(crate) size: usize,
    pub(crate) cores: Cores,
}

/// The result of one turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) round: usize,
    pub(crate) by: By,
    pub(crate) mode: String,
    pub(crate) xdp: Option<&'static str>,
    pub(crate) round_trips: RoundTrips,
}

/// Measure both in turn, between the same sides.
fn measure(sides: &Sides, plan: Plan, amount: &Amount, watch: &Watch) -> Result<Bounced, Error> {
    let most = (sides.mtu as usize).saturating_sub(framing(&plan).cost());
    if plan.size > most {
        return Err(Error::TooLarge { driver: Driver::Am.name(), size: plan.size, most });
    }
    // Those that exist between these sides.
    let all = if sides.have_xdp_programs() { &By::ALL[..] } else { &By::ALL[1..] };
    let mut turns = Vec::new();
    for round in 0..amount.rounds {
        let first = round % all.len();
        for by in all[first..].iter().chain(&all[..first]).copied() {
            let on = [Side::Near, Side::Far].map(|side| sides.on(side, turns.len()));
            turns.push(turn(sides, &on, (round, by), plan, amount, watch)?);
        }
    }
    Ok(Bounced { turns, rounds: amount.rounds, plan })
}

fn turn(
    sides: &Sides,
    [near_on, far_on]: &[String; 2],
    (round, by): (usize, By),
    plan: Plan,
    amount: &Amount,
    watch: &Watch,
) -> Result<Turn, Error> {
    let stop = AtomicBool::new(false);
    let near = |far: &ScopedJoinHandle<'_, _>| {
        let near = pin(plan.cores.near).and_then(|_| {
            let side = open(near_on, plan, None, watch)?;
            let round_trips = round_trips_of(&side, plan.size, amount, watch);
            // With some devices the side that still moves frames must not close last.
            stop.store(true, Relaxed);
            let begin = Instant::now();
            while !far.is_finished() && begin.elapsed() < CLOSE_TIMEOUT {
                sleep(Duration::from_millis(1));
            }
            Ok(Turn { round, by, mode: side.mode, xdp: side.xdp, round_trips: round_trips? })
        });
        stop.store(true, Relaxed);
        near
    };
    let (turn, by_program) = sides.both(near, || serve(by, far_on, plan, &stop, watch))?;
    // The expected part must have rejected the requests.
    let by_program = by_program?;
    if (by == By::Program) != (by_program > 0) {
        let by = by.name();
        return Err(Error::Facility(format!("the XDP program rejected {by_program} requests in a turn of the {by}")));
    }
    Ok(turn)
}

fn framing(plan: &Plan) -> Framing {
    plan.how.framing.fixed().unwrap_or(Framing::Bare)
}

/// An open side.
struct Open {
    node: Node,
    seen: Rc<Seen>,
    mode: String,
    xdp: Option<&'static str>,
}

/// Open a node with a seam between it and its transport: the near side's, or the far side's that rejects `by` this part.
fn open(on: &str, plan: Plan, far: Option<By>, watch: &Watch) -> Result<Open, Error> {
    let (inner, xdp) = open::open(on, plan.how, watch)?;
    let (mode, seen) = (inner.caps().mode.clone(), Rc::<Seen>::default());
    let seam = Seam { inner, seen: Rc::clone(&seen), without_program: far == Some(By::Host) };
    let builder = Node::builder(if far.is_some() { "beta" } else { "alpha" });
    let builder = builder.framing(framing(&plan)).idle(am_api::Idle::spinning());
    let builder = if far.is_some() { builder.receive_frames(RECEIVE_FRAMES) } else { builder };
    let node = builder.open_on(Box::new(seam)).map_err(facility)?;
    Ok(Open { node, seen, mode, xdp })
}

/// Run the node's loop and take no request out, until told to stop. Returns how many requests the XDP program rejected.
fn serve(by: By, on: &str, plan: Plan, stop: &AtomicBool, watch: &Watch) -> Result<u64, Error> {
    pin(plan.cores.far)?;
    let Open { node, .. } = open(on, plan, Some(by), watch)?;
    // Requests wait for their handler, which never runs.
    let mut full = node.endpoint::<()>(ENDPOINT).map_err(facility)?;
    full.on_request(WORK, |(), _| ());
    while !stop.load(Relaxed) {
        for _ in 0..1024 {
            full.wait_events(Duration::ZERO);
        }
        watch.check()?;
    }
    Ok(node.counters().get("xdp_bounced"))
}

/// Fill the receiver, then time rejects.
fn round_trips_of(side: &Open, size: usize, amount: &Amount, watch: &Watch) -> Result<RoundTrips, Error> {
    let mut endpoint = side.node.endpoint::<()>("app").map_err(facility)?;
    let (mut flows, begin) = (Vec::with_capacity(FLOWS), Instant::now());
    while flows.len() < FLOWS {
        let to = endpoint.connect("beta", ENDPOINT).map_err(facility)?;
        while endpoint.ready(to) == Err(NotOpen::Connecting) {
            endpoint.poll(&mut ());
            check(begin, watch)?;
        }
        match endpoint.ready(to) {
            Ok(()) => flows.push(to),
            // The peer may not be there yet.
            Err(_) => endpoint.close(to),
        }
    }
    fill(&mut endpoint, &flows, size, (&side.seen, watch))?;
    let mut all = round_trips();
    time(&mut endpoint, &side.seen, amount.warm_up, watch, &mut |_| {})?;
    time(&mut endpoint, &side.seen, amount.time, watch, &mut |time| all.saturating_record(time.as_nanos() as u64))?;
    Ok(all)
}

/// Send one request on each connection, and then more until one is rejected.
fn fill(
    endpoint: &mut Endpoint<()>,
    flows: &[Connection],
    size: usize,
    (seen, watch): (&Seen, &Watch),
) -> Result<(), Error> {
    let (begin, payload) = (Instant::now(), vec![7; size]);
    let mut sent = 0;
    while sent < FLOWS.max(2 * RECEIVE_FRAMES) || !seen.any.get() {
        if sent < FLOWS.max(2 * RECEIVE_FRAMES) {
            match endpoint.try_request(flows[sent % FLOWS], WORK, &[], &payload) {
                Ok(()) => sent += 1,
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(Error::Lost(error.to_string())),
            }
        }
        endpoint.poll(&mut ());
        check(begin, watch)?;
    }
    Ok(())
}

/// For this long, time every request that leaves alone and is rejected; longer if none was.
fn time(
    endpoint: &mut Endpoint<()>,
    seen: &Seen,
    length: Duration,
    watch: &Watch,
    each: &mut dyn FnMut(Duration),
) -> Result<(), Error> {
    let (begin, mut any) = (Instant::now(), false);
    seen.forget();
    loop {
        endpoint.poll(&mut ());
        if let Some(left) = seen.back.take() {
            each(left.elapsed());
            any = true;
        }
        if begin.elapsed() >= length {
            match any {
                true => return watch.check(),
                false => check(begin, watch)?,
            }
        }
    }
}

fn check(begin: Instant, watch: &Watch) -> Result<(), Error> {
    watch.check()?;
    let why = || Error::Lost("the receiver was not there, or not full, in time".to_owned());
    if begin.elapsed() > SETUP_TIMEOUT { Err(why()) } else { Ok(()) }
}
