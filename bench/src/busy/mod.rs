//! What it costs a computing program to answer calls, and how soon they are answered: by polls in its loop, by a thread that
//! spins, by a helper that sleeps until something arrives, by a flag (Orca's paper, sections 4.1 and 5.2).
//!
//! ```text
//!   the program's core        the other core
//!   computes ┄┄┄┄┄┄┄┄┄┄┄┄┄    the caller, a process of its own: sleeps, calls, waits for the answer
//!   answers: in its loop, by a thread on this core, or by one on another core
//! ```
//!
//! `caller` has the second process, `report` the tables. One turn computes alone, and then while calls arrive.

mod caller;
mod report;

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use am_api::Idle;
use am_measure::deploy::{self, Sides};
use am_measure::drivers::{facility, node};
use am_measure::options::{AmountOptions, OpenOptions, Print, only, usage};
use am_measure::{
    Amount, Cores, DriverOptions, Error, FramingArg, Here, HostsArg, Progress, Side, Topology, Watch, out, pin,
};
use am_rpc::{Arrivals, Helper, Remote, Rpc};
use clap::Args;
use nix::unistd::gettid;

pub(crate) use caller::call;
use caller::{Answers, CalledServer, Caller, LIMIT, NAMES, Opening};

#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::APART)).help(
    "Run the program and its caller on this machine, over this transport [default: veth (where rights allow) and shm in turn]")))]
#[command(mut_arg("cores", |cores| cores.help(
    "Cores of the program and of the caller, or `none` [default: the last two]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
pub(crate) struct BusyArgs {
    #[command(flatten)]
    here: Here,
    /// Calls a second
    #[arg(long, default_value = "500", value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N",
          help_heading = "What")]
    calls: u32,
    #[command(flatten)]
    open: OpenOptions,
    #[command(flatten)]
    amount: AmountOptions,
    #[command(flatten)]
    print: Print,
}

impl BusyArgs {
    /// Over the transport that is asked for, or over two.
    pub(crate) fn topologies(&self) -> Result<Vec<Topology>, Error> {
        self.print.check()?;
        let hosts = match self.here.hosts {
            Some(hosts) => vec![hosts],
            None if self.open.xdp.is_some() => return Err(usage("--xdp is for interfaces: add --hosts veth")),
            None => vec![HostsArg::Veth, HostsArg::Shm],
        };
        hosts.into_iter().map(|hosts| self.here.on(hosts, "", &self.open, &[])).collect()
    }

    pub(crate) fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topologies = self.topologies()?;
        let plan = Plan {
            how: self.open.how(FramingArg::Bare),
            amount: self.amount.amount(),
            every: Duration::from_secs(1) / self.calls,
            calls: self.calls,
            cores: self.here.cores.both()?,
        };
        let busy = measure(&topologies, plan, self.print.json, watch)?;
        self.print.publish(busy.report(), &Topology::origin(&topologies))
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    how: DriverOptions,
    amount: Amount,
    /// The time between two calls.
    every: Duration,
    calls: u32,
    /// Of the program and of the caller.
    cores: Cores,
}

/// Where the thread runs that is not the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On another core than the program.
    Elsewhere,
    /// On the program's.
    Shared,
}

/// What answers the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// There are no calls.
    Nothing,
    /// The program polls in its loop, whenever it has run this number of bodies.
    Polls(u32),
    Spin(Place),
    Helper(Place),
    /// A helper with real-time priority, on the program's core.
    Urgent,
    Flag(Place),
    /// A helper, while the program waits.
    Waits(Place),
}

const WAYS: [Way; 12] = [
    Way::Nothing,
    Way::Polls(1),
    Way::Polls(1000),
    Way::Spin(Place::Elsewhere),
    Way::Spin(Place::Shared),
    Way::Helper(Place::Elsewhere),
    Way::Helper(Place::Shared),
    Way::Urgent,
    Way::Flag(Place::Elsewhere),
    Way::Flag(Place::Shared),
    Way::Waits(Place::Elsewhere),
    Way::Waits(Place::Shared),
];

/// Nanoseconds of one body of the loop: while nothing arrives, and while calls do.
type Bodies = [Option<f64>; 2];

#[derive(Debug)]
struct Turn {
    way: Way,
    round: usize,
    bodies: Bodies,
    /// Nanoseconds of each call.
    calls: Vec<u64>,
}

/// All turns over one transport.
#[derive(Debug)]
struct Part {
    transport: String,
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Busy {
    parts: Vec<Part>,
    plan: Plan,
}

fn measure(topologies: &[Topology], plan: Plan, quiet: bool, watch: &Watch) -> Result<Busy, Error> {
    let places = Topology::all_sides(topologies)?;
    let ways = ways();
    let progress = Progress::new(places.len() * plan.amount.rounds * ways.len(), quiet);
    let part = |(transport, _): &(&str, Sides)| Part { transport: (*transport).to_owned(), turns: vec![] };
    let mut parts: Vec<Part> = places.iter().map(part).collect();
    for round in 0..plan.amount.rounds {
        for (part, (_, sides)) in parts.iter_mut().zip(&places) {
            // Each round begins with another way.
            for nth in 0..ways.len() {
                let way = ways[(nth + round) % ways.len()];
                progress.say(&format!("{} over {}", report::name(way), part.transport));
                let stage = Stage { sides, nth: part.turns.len(), plan, watch };
                let (bodies, calls) = sides.at(Side::Near, || stage.turn(way))??;
                part.turns.push(Turn { way, round, bodies, calls });
                progress.done();
            }
        }
    }
    Ok(Busy { parts, plan })
}

/// Those that this user may measure.
fn ways() -> Vec<Way> {
    let tried = chrt(&["--rr", "1", "true"]);
    let may_be_urgent = tried.map_err(|why| out::status(&format!("no helper with real-time priority: {why}")));
    WAYS.into_iter().filter(|way| *way != Way::Urgent || may_be_urgent.is_ok()).collect()
}

/// Set or try real-time priority, by `chrt` of util-linux: the system call would need `unsafe` code.
fn chrt(options: &[&str]) -> Result<(), Error> {
    let ran = Command::new("chrt").args(options).output();
    let Output { status, stderr, .. } = ran.map_err(Error::system("running chrt"))?;
    let why = || Error::Facility(format!("chrt: {}", String::from_utf8_lossy(&stderr).trim()));
    if status.success() { Ok(()) } else { Err(why()) }
}

/// One turn.
struct Stage<'a> {
    sides: &'a Sides,
    nth: usize,
    plan: Plan,
    watch: &'a Watch,
}

impl Stage<'_> {
    fn turn(&self, way: Way) -> Result<(Bodies, Vec<u64>), Error> {
        let phase = &Phase::default();
        let helper = match way {
            Way::Helper(place) | Way::Waits(place) => Some(self.helper(place, false)?),
            Way::Urgent => Some(self.helper(Place::Shared, true)?),
            _ => None,
        };
        let remote = helper.as_ref().map(|helper| helper.remote().clone());
        thread::scope(|scope| {
            let spinner = match way {
                Way::Spin(place) => Some(scope.spawn(move || self.spin(place, phase))),
                _ => None,
            };
            let program = scope.spawn(move || self.program(way, remote.as_ref(), phase));
            let calls = self.phases(way, phase);
            phase.set(Phase::OVER);
            let gone = |_| Error::PeerGone("its thread panicked".to_owned());
            // Without them no call is answered, so their errors come first.
            spinner.map_or(Ok(()), |spinner| spinner.join().map_err(gone)?)?;
            let bodies = program.join().map_err(gone)??;
            Ok((bodies, calls?))
        })
    }

    /// Let the program compute alone, and then while calls arrive.
    fn phases(&self, way: Way, phase: &Phase) -> Result<Vec<u64>, Error> {
        let Amount { time, warm_up, .. } = self.plan.amount;
        let caller = || {
            let on = self.sides.on(Side::Far, self.nth);
            let opening = Opening { on, how: self.plan.how, core: self.plan.cores.far, every: self.plan.every };
            self.sides.at(Side::Far, || Caller::start(opening, self.watch))?
        };
        let caller = if way == Way::Nothing { None } else { Some(caller()?) };
        sleep(warm_up);
        phase.set(Phase::ALONE);
        sleep(time);
        phase.wait_until_seen(self.watch)?;
        let Some(mut caller) = caller else { return Ok(vec![]) };
        phase.set(Phase::CALLED);
        let calls = caller.call(time, self.watch)?;
        phase.wait_until_seen(self.watch)?;
        // While the caller is still there.
        phase.set(Phase::OVER);
        Ok(calls)
    }

    fn core(&self, place: Place) -> Option<usize> {
        match place {
            Place::Shared => self.plan.cores.near,
            Place::Elsewhere => self.plan.cores.third(),
        }
    }

    fn opening(&self) -> impl FnOnce() -> Result<Rpc, Error> + Send + 'static {
        let (on, how, watch) = (self.sides.on(Side::Near, self.nth), self.plan.how, self.watch.clone());
        move || {
            let (transport, _) = deploy::open(&on, how, &watch)?;
            let node = node(Idle::default(), NAMES[0], how, transport)?;
            let rpc = Rpc::open(&node).map_err(facility)?;
            rpc.serve(CalledServer::new(Answers)).map_err(facility)?;
            Ok(rpc)
        }
    }

    fn helper(&self, place: Place, is_urgent: bool) -> Result<Helper, Error> {
        let (core, open) = (self.core(place), self.opening());
        Helper::start("helper", move || {
            pin(core)?;
            if is_urgent {
                chrt(&["--rr", "--pid", "1", &gettid().to_string()])?;
            }
            open()
        })
        .map_err(facility)
    }

    /// The thread that spins. Where no core is left for it, it leaves the caller's to the caller between two polls.
    fn spin(&self, place: Place, phase: &Phase) -> Result<(), Error> {
        let core = pin(self.core(place))?;
        let mut rpc = self.opening()()?;
        while phase.get() != Phase::OVER {
            rpc.poll();
            if core.is_some() && core == self.plan.cores.far {
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// The thread that computes.
    fn program(&self, way: Way, remote: Option<&Remote>, phase: &Phase) -> Result<Bodies, Error> {
        let core = self.plan.cores.near;
        match (way, remote) {
            (Way::Polls(every), _) => {
                pin(core)?;
                let (mut rpc, mut left) = (self.opening()()?, every);
                // As the paper's compiler does: a counter, and a poll when it is zero.
                let poll = || {
                    left -= 1;
                    if left == 0 {
                        left = every;
                        rpc.poll();
                    }
                };
                Ok(compute(phase, poll))
            }
            (Way::Flag(place), _) => {
                // The watching thread runs where the thread runs that makes it.
                pin(self.core(place))?;
                let watched = Arrivals::watch(self.opening()()?);
                let mut arrivals = watched.map_err(Error::system("watching a node's descriptor"))?;
                pin(core)?;
                Ok(compute(phase, || _ = arrivals.poll()))
            }
            (Way::Waits(_), Some(remote)) => {
                pin(core)?;
                remote.while_waiting(|| phase.wait_until_over());
                Ok([None; 2])
            }
            _ => {
                pin(core)?;
                Ok(compute(phase, || {}))
            }
        }
    }
}

/// What the program does now, and what it has last done something in.
#[derive(Default)]
struct Phase {
    now: AtomicUsize,
    seen: AtomicUsize,
}

impl Phase {
    const ALONE: usize = 1;
    const CALLED: usize = 2;
    const OVER: usize = 3;

    fn set(&self, phase: usize) {
        self.now.store(phase, Relaxed);
    }

    #[inline]
    fn get(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// The program has done something in this phase.
    #[inline]
    fn see(&self, phase: usize) {
        self.seen.store(phase, Relaxed);
    }

    /// A busy machine may leave the program no time for a while.
    fn wait_until_seen(&self, watch: &Watch) -> Result<(), Error> {
        let start = Instant::now();
        while self.seen.load(Relaxed) != self.get() {
            watch.check()?;
            if start.elapsed() > LIMIT {
                return Err(Error::PeerGone("the program does not compute".to_owned()));
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn wait_until_over(&self) {
        while self.get() != Phase::OVER {
            self.see(self.get());
            sleep(Duration::from_millis(10));
        }
    }
}

/// Bodies of the loop between two looks at the phase.
const BATCH: u64 = 64;
/// Steps of a body: it takes about as long as a small inner loop, some hundreds of nanoseconds.
const STEPS: usize = 64;

/// Compute until it is over, and run `each` after each body of the loop.
fn compute(phase: &Phase, mut each: impl FnMut()) -> Bodies {
    let (mut bodies, mut number) = ([None; 2], 0x9e37_79b9_7f4a_7c15);
    loop {
        let (now, begin, mut count) = (phase.get(), Instant::now(), 0_u64);
        if now == Phase::OVER {
            return bodies;
        }
        while phase.get() == now {
            for _ in 0..BATCH {
                number = body(number);
                each();
            }
            count += BATCH;
            phase.see(now);
        }
        if let Some(body) = now.checked_sub(1).and_then(|at| bodies.get_mut(at)) {
            *body = Some(begin.elapsed().as_nanos() as f64 / count as f64);
        }
    }
}

/// A body of the program's loop, the same code in each row. Each step needs the one before.
#[inline(never)]
fn body(number: u64) -> u64 {
    (0..STEPS).fold(number, |x, _| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        x ^ (x << 17)
    })
}
