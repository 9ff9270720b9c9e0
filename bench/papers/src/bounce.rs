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

use std::cell::{self, RefCell};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Framing, HandlerId, Node, NotOpen};
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::frame::parse;
use am_wire::{Address, Buffer, EtherType, Kind};
use clap::Args;
use serde_json::json;
use strum::VariantArray;

use am_measure::deploy::{self, Sides};
use am_measure::drivers::facility;
use am_measure::options::{self, Origin, only};
use am_measure::report::{Cell, Column, Report, range, rounds, short, times, xdp};
use am_measure::{
    Amount, Common, Cores, Driver, DriverOptions, Error, FramingArg, Here, HostsArg, RoundTrips, Side, Spread,
    Topology, Watch, pin, round_trips, together,
};

/// The options of `bounce`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::WITH_SIM)).help(
    "Run both hosts on this machine [default: veth]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
pub struct BounceArgs {
    #[command(flatten)]
    here: Here,
    /// Payload bytes of a request, one size
    #[arg(long, default_value = "16", value_parser = options::message, value_name = "BYTES", help_heading = "What")]
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
        print.publish(bounced.report(), &Origin::new(topology.transport(), Some(sides.mtu)))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum By {
    /// The receiver's XDP program.
    Program,
    /// Its host.
    Host,
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
    let all = if sides.have_xdp_programs() { By::VARIANTS } else { &[By::Host] };
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
        let by = by.into_str();
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
    let (inner, xdp) = deploy::open(on, plan.how, watch)?;
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

/// A request without a reject after this time counts as accepted.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(200);

/// A request that has left.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// The number that its reject will name. Among few requests of few connections, two rarely have the same.
    number: u32,
    at: Instant,
    /// Whether nothing else was in flight.
    alone: bool,
}

/// The frames that passed.
#[derive(Debug, Default)]
struct Seen {
    left: RefCell<Vec<Left>>,
    /// Whether any reject arrived.
    any: cell::Cell<bool>,
    /// When the request left that came back alone.
    back: cell::Cell<Option<Instant>>,
}

impl Seen {
    /// Forget requests in flight. An accepted request does not come back, and must not keep others from being alone.
    fn forget(&self) {
        self.left.borrow_mut().clear();
        self.back.set(None);
    }

    fn leaves(&self, number: u32) {
        let (mut left, at) = (self.left.borrow_mut(), Instant::now());
        left.retain(|other| at - other.at < MAX_ROUND_TRIP);
        match left.iter_mut().find(|other| other.number == number) {
            // Either of the two may come back.
            Some(again) => *again = Left { number, at, alone: false },
            None => {
                let alone = left.is_empty();
                left.push(Left { number, at, alone });
            }
        }
    }

    fn returns(&self, number: u32) {
        self.any.set(true);
        let mut left = self.left.borrow_mut();
        if let Some(place) = left.iter().position(|other| other.number == number) {
            let Left { at, alone, .. } = left.swap_remove(place);
            if alone {
                self.back.set(Some(at));
            }
        }
    }
}

/// A transport that records requests and rejects.
struct Seam {
    inner: Box<dyn Transport>,
    seen: Rc<Seen>,
    /// The XDP program does not get what it needs to reject.
    without_program: bool,
}

/// The sequence number of a frame of this kind.
fn number(frame: &Frame, kind: Kind) -> Option<u32> {
    let header = parse(frame.bytes(), EtherType::DEFAULT).ok()?.header;
    (header.kind == kind).then_some(header.seq)
}

impl Transport for Seam {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let seen = &self.seen;
        self.inner.receive(budget, &mut |frame| {
            if let Some(number) = number(&frame, Kind::Reject) {
                seen.returns(number);
            }
            each(frame);
        })
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        if let Some(number) = number(frame, Kind::Request) {
            self.seen.leaves(number);
        }
        self.inner.send(to, frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::RejectTemplate { .. } | Command::RxFull(_) if self.without_program => Ok(()),
            _ => self.inner.control(command),
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
    }
}

const NO_PROGRAM: &str = "rejected by the host alone: this transport has no XDP program; --hosts veth has one";

#[derive(Debug)]
pub(crate) struct Bounced {
    turns: Vec<Turn>,
    rounds: usize,
    plan: Plan,
}

/// Which part rejected: its first turn, and the round trips of all its turns.
struct Row<'a> {
    by: By,
    first: &'a Turn,
    all: RoundTrips,
    by_round: Vec<u64>,
    size: usize,
}

impl Row<'_> {
    fn at(&self, quantile: f64) -> Cell {
        Cell::Nanos(self.all.value_at_quantile(quantile))
    }
}

fn columns<'a>() -> [Column<Row<'a>>; 9] {
    [
        ("bounced by", "by", |row| Cell::text(row.by.into_str())),
        ("mode", "mode", |row| Cell::text(&row.first.mode)),
        (">size", "size", |row| Cell::Size(row.size)),
        (">p50", "rtt_ns.p50", |row| row.at(0.5)),
        (">p99", "rtt_ns.p99", |row| row.at(0.99)),
        (">p99.9", "rtt_ns.p999", |row| row.at(0.999)),
        (">round trips", "n", |row| Cell::Count(row.all.len())),
        ("", "by_round", |row| Cell::Json(json!(row.by_round))),
        ("", "xdp", |row| Cell::of(row.first.xdp, Cell::text)),
    ]
}

impl Bounced {
    fn of(&self, by: By) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| turn.by == by && !turn.round_trips.is_empty())
    }

    /// Those that were measured.
    fn rows(&self) -> Vec<Row<'_>> {
        let row = |by| {
            let all = together(self.of(by).map(|turn| &turn.round_trips));
            let by_round = self.of(by).map(p50).collect();
            Some(Row { by, first: self.of(by).next()?, all, by_round, size: self.plan.size })
        };
        By::VARIANTS.iter().copied().filter_map(row).collect()
    }

    /// The host's round trip divided by the program's, if both were measured: of all round trips, and of those of each round.
    fn host_over_program(&self) -> Option<Spread> {
        let p50s = |by| self.of(by).map(|turn| (turn.round, p50(turn) as f64)).collect::<Vec<_>>();
        let all = |by| together(self.of(by).map(|turn| &turn.round_trips)).value_at_quantile(0.5) as f64;
        let rounds = Spread::of_ratios(&p50s(By::Host), &p50s(By::Program))?;
        Some(Spread { median: all(By::Host) / all(By::Program), ..rounds })
    }

    fn report(&self) -> Report {
        let mut report = Report::new("bounce", "bounce: round trip of a request that a full receiver rejects");
        report.rows(&columns(), &self.rows());
        let ratio = self.host_over_program();
        if let Some(ratio) = ratio {
            let (times, range) = (times(ratio.median), range(&ratio));
            report
                .say(format_args!("  a reject by the host takes {times} times as long as by the program ({range})\n"));
        }
        let at = self.turns.first().map(|turn| turn.xdp.map_or(NO_PROGRAM, xdp));
        report.footer(format_args!("{}, taken in turn", rounds(self.rounds)), self.plan.cores, at);
        report.summary(json!({
            "host_over_program": ratio.map(|ratio| short(ratio.median)), "size": self.plan.size,
            "rounds": self.rounds, "range": ratio.map(|ratio| [ratio.least, ratio.most].map(short)),
        }));
        report
    }
}

fn p50(turn: &Turn) -> u64 {
    turn.round_trips.value_at_quantile(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_measure::{Cores, DriverOptions, round_trips};

    fn turn(round: usize, by: By, nanoseconds: u64) -> Turn {
        let mut round_trips = round_trips();
        round_trips.record_n(nanoseconds, 10).unwrap();
        Turn { round, by, mode: "veth copy".to_owned(), xdp: Some("generic"), round_trips }
    }

    fn plan() -> Plan {
        Plan { how: DriverOptions::default(), size: 16, cores: Cores { near: Some(2), far: Some(3) } }
    }

    #[test]
    fn the_ratio_is_that_of_the_figures() {
        let turns = vec![
            turn(0, By::Program, 4000),
            turn(0, By::Host, 6000),
            turn(1, By::Host, 80_000),
            turn(1, By::Program, 40_000),
        ];
        let bounced = Bounced { turns, rounds: 2, plan: plan() };
        let lines = bounced.report().lines;
        assert_eq!(lines.iter().filter_map(|line| line["by"].as_str()).collect::<Vec<_>>(), ["program", "host"]);
        let ratio = lines[2]["summary"]["host_over_program"].as_f64().unwrap();
        let [program, host] = [0, 1].map(|row: usize| lines[row]["rtt_ns"]["p50"].as_f64().unwrap());
        assert!((ratio - host / program).abs() < 0.001 && (ratio - 1.5).abs() < 0.01, "{ratio}");
        assert!(bounced.report().text.contains("1.50 times as long as by the program (rounds: 1.50 to 2.00)"));
    }
}
