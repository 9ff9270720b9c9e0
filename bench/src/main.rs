//! **Round trip, bandwidth and message rate** of active messages, compared with the limit of the machine (bare AF_XDP)
//! and with kernel UDP.
//!
//! ```text
//!   near side: sends, times, reports             far side: answers, counts
//!  ┌──────────────────────────────────┐         ┌─────────────────────────┐
//!  │ cli ─▶ deploy ─▶ session ────────┼─ plan ─▶┼─▶ session               │
//!  │                     │            │         │     │                   │
//!  │           measure::{latency,     │         │     │                   │
//!  │      throughput} ─▶ Channel      │         │  measure::far ─▶ Channel│
//!  │                     │    am ═════╪═ frames ╪════ am                  │
//!  │      stats ◀────────┘    raw ════╪═════════╪════ raw                 │
//!  │        │                 udp ════╪═════════╪════ udp                 │
//!  │ report, sweep, ablation, compare │         │                         │
//!  └──────────────────────────────────┘         └─────────────────────────┘
//! ```
//!
//! A *driver* is what carries the messages: `am`, `raw` and so on. The drivers take turns, in rounds, in one run. Each
//! has the wire to itself while it is open, and the same loops measure all of them. Ratios are taken within a round.
//!
//! Read first: `measure/mod.rs` (one measurement), then `session.rs` (all measurements of a run).
#![forbid(unsafe_code)]

mod ablation;
mod batching;
mod bounce;
mod chart;
mod cli;
mod compare;
mod content;
mod contention;
mod cores;
mod deploy;
mod driver;
mod error;
mod grammar;
mod hosts;
mod link;
mod logp;
mod loss;
mod many;
mod measure;
mod origin;
mod out;
mod permute;
mod phases;
mod plan;
mod progress;
mod report;
mod rights;
mod scale;
mod session;
mod size;
mod stats;
mod stress;
mod sweep;
mod table2;
mod values;
mod wakeup;
mod watch;
mod wire;

use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use ablation::Ablation;
use cli::{Cli, Options, Switch, Task, Topology};
use cores::{Cores, CoresArg, pin};
use driver::Driver;
use error::Error;
use link::NamedLink;
use loss::Loss;
use origin::Origin;
use plan::{Bench, DriverOptions, FramingArg, Side};
use progress::Progress;
use report::Report;
use serde_json::Value;
use session::{Order, Session, Setup};
use size::Size;
use sweep::Sweep;
use table2::Table2;
use watch::Watch;
use wire::WireRate;

fn main() -> ExitCode {
    let done = grammar::read().and_then(|read| match read {
        Ok(cli) => run(&cli).map(|()| 0),
        Err(code) => Ok(code),
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            out::status(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let watch = Watch::signals()?;
    let options = &cli.options;
    let run = |topology| Run { topology, options, watch: &watch };
    let own_core = || Cores::own(options.cores.unwrap_or_default(), Side::Far);
    match cli.task()? {
        Task::Measure(bench, topology) => run(&topology).measure(bench),
        Task::Loss(bench, losses, topology, plot) => run(&topology).measure_loss(bench, losses, plot.as_deref()),
        Task::Sweep(topology, plot) => run(&topology).sweep(plot.as_deref()),
        Task::Compare(args, over) => {
            rights::check(true, &[Driver::Am])?;
            compare::run(&args, over, options, &watch)
        }
        Task::Ablation(topology) => run(&topology).ablate(),
        Task::Bounce(topology) => run(&topology).bounce(),
        Task::Wakeup => {
            let wakeups = wakeup::measure(options.rounds.unwrap_or(DEFAULT_WAKEUP_ROUNDS), &watch)?;
            publish(wakeups.json(), || wakeups.table(), &Origin::new("udp, shm", None), options)
        }
        Task::Phases(topologies, sizes, plot) => phased(&topologies, sizes, plot.as_deref(), options, &watch),
        Task::Table2(mtu, wire) => run(&Topology::cable(mtu, wire)).table2(mtu, wire),
        Task::Contention(hosts, servers) => many::contention(&hosts, servers, options, &watch),
        Task::Permute(hosts, trunk) => many::permute(&hosts, trunk, options, &watch),
        Task::Scale(members) => many::scale(&members, options, &watch),
        Task::LogP(topologies, plot) => logp(&topologies, plot.as_deref(), options, &watch),
        Task::Far(on) => deploy::child::serve(options.name.as_deref().unwrap_or("beta"), &on, own_core()?, &watch),
        Task::Serve(on) => {
            // These options are for listening. Each plan brings the options of its drivers.
            deploy::machines::serve(own_link(Side::Far, &on, options)?, options.how(FramingArg::Auto), &watch)
        }
        Task::Demo => demo(options, &watch),
        Task::Stress(args, topology) => {
            let sides = topology.sides(&[Driver::Am])?;
            let cores = Cores::both(options.cores.unwrap_or_default())?;
            let how =
                DriverOptions { coalesce: options.coalesce != Some(Switch::Off), ..options.how(FramingArg::Bare) };
            stress::run(&args, how, (&sides, &topology), cores, options, &watch)
        }
        Task::StressChild => stress::child(&watch),
        Task::Turn => compare::take_turn(&watch),
    }
}

/// This side's end of the wire between two machines. Transports other than interfaces check their rights when they are
/// opened.
fn own_link(side: Side, on: &str, options: &Options) -> Result<NamedLink, Error> {
    if am_api::transports::split(on).iter().any(|name| name.starts_with("xdp:")) {
        rights::check(false, &[Driver::Am])?;
    }
    let core = Cores::own(options.cores.unwrap_or_default(), side)?;
    NamedLink::new(side, &options.node_name(), on, pin(core)?)
}

const DEFAULT_TIME: Duration = Duration::from_millis(250);
/// Of `wakeup`: a round takes a second.
const DEFAULT_WAKEUP_ROUNDS: usize = 5;
/// Of `phases`: a round takes ten seconds.
const DEFAULT_PHASES_ROUNDS: usize = 5;
/// Payload bytes of a request that is rejected.
const DEFAULT_BOUNCE_SIZE: usize = 16;
/// `logp` has up to four transports.
const DEFAULT_LOGP_TIME: Duration = Duration::from_millis(100);
const DEFAULT_DEMO_TIME: Duration = Duration::from_millis(100);
/// A sweep has about 27 sizes.
const DEFAULT_SWEEP_TIME: Duration = Duration::from_millis(50);

/// A command that measures on a topology, and prints.
struct Run<'a> {
    topology: &'a Topology,
    options: &'a Options,
    watch: &'a Watch,
}

impl Run<'_> {
    fn measure(&self, bench: Bench) -> Result<(), Error> {
        self.print(self.benches(&[bench], DEFAULT_TIME)?)
    }

    fn benches(&self, benches: &[Bench], time: Duration) -> Result<Session, Error> {
        // Only `am` has bulk transfers. Other drivers send as many bytes in frames; kernel UDP is left out.
        let is_bulk = benches.contains(&Bench::Bulk);
        let all = benches.first().map_or(&[][..], |bench| self.topology.drivers(*bench));
        let all: Vec<Driver> = all.iter().copied().filter(|driver| !(is_bulk && *driver == Driver::Udp)).collect();
        let benches = benches.iter().map(|bench| (*bench, self.options.sizes(*bench))).collect();
        self.session(benches, vec![Loss::NONE], &all, time, vec![])
    }

    /// Measure these benches and sizes; `drivers` are the default, and `singly` hand over one message with each call.
    fn session(
        &self,
        benches: Vec<(Bench, Vec<Size>)>,
        losses: Vec<Loss>,
        drivers: &[Driver],
        time: Duration,
        singly: Vec<Driver>,
    ) -> Result<Session, Error> {
        let Run { topology, options, watch } = *self;
        let order = Order {
            drivers: options.drivers(drivers),
            may_skip_udp: options.driver.is_empty(),
            how: DriverOptions { lossy: losses.len() > 1, ..options.how(topology.framing()) },
            benches,
            losses,
            singly,
            amount: options.amount(time),
        };
        if let Some(file) = options.trace {
            // Each driver that is opened appends to it.
            File::create(file).map_err(Error::system(driver::am::TRACING))?;
        }
        let progress = Progress::new(order.count(), options.json);
        let is_one_machine = !matches!(topology, Topology::Peer(..));
        let asked = if is_one_machine { options.cores.unwrap_or_default() } else { CoresArg::None };
        let setup = Setup { order: &order, cores: Cores::both(asked)?, progress: &progress, watch };
        match topology {
            Topology::Loopback => deploy::threads::loopback(setup),
            Topology::Sim(on) => deploy::threads::simulated(setup, on),
            Topology::Peer(peer, on) => deploy::machines::measure(setup, own_link(Side::Near, on, options)?, peer),
            _ => topology.sides(&order.drivers)?.measure(setup),
        }
    }

    /// Measure the share of the rate that remains when frames are lost. Print it, and plot it if asked.
    fn measure_loss(&self, bench: Bench, losses: Vec<Loss>, plot: Option<&Path>) -> Result<(), Error> {
        let mut sizes = self.options.sizes(bench);
        // One size by default: the curve is over losses.
        sizes.truncate(if self.options.size.is_empty() { 1 } else { usize::MAX });
        let session = self.session(vec![(bench, sizes)], losses, &[Driver::Am], DEFAULT_TIME, vec![])?;
        let svg = plot.map(|_| report::loss_curve(&session.all, bench)).transpose()?;
        let printed = self.print(session);
        if let Some((file, svg)) = plot.zip(svg) {
            fs::write(file, svg).map_err(Error::system("writing the plot"))?;
        }
        printed
    }

    /// Measure the bandwidth of these sizes, for a curve.
    fn bandwidth(&self, sizes: Vec<Size>, drivers: &[Driver]) -> Result<Session, Error> {
        self.session(vec![(Bench::Bandwidth, sizes)], vec![Loss::NONE], drivers, DEFAULT_SWEEP_TIME, vec![])
    }

    /// Measure the curve over sizes. Print it, and plot it if asked.
    fn sweep(&self, plot: Option<&Path>) -> Result<(), Error> {
        let options = &Options { coalesce: self.options.coalesce.or(Some(Switch::On)), ..self.options.clone() };
        let session = Run { options, ..*self }.bandwidth(size::swept(), self.topology.drivers(Bench::Bandwidth))?;
        let sweep = Sweep::new(&session.all, session.cores);
        publish(sweep.json(), || sweep.table(), &Origin::of(self.topology, session.mtu), options)?;
        if let Some(file) = plot {
            let modes: Vec<String> =
                sweep.curves.iter().map(|curve| format!("{} {}", curve.driver, curve.mode)).collect();
            let svg = sweep.svg(&format!("bandwidth by size: {}", modes.join(", ")))?;
            fs::write(file, svg).map_err(Error::system("writing the plot"))?;
        }
        session.end
    }

    /// Measure the cost of each layer, and print it.
    fn ablate(&self) -> Result<(), Error> {
        let session = self.bandwidth(ablation::sizes(), &self.topology.layers())?;
        let table = Ablation::new(&session.all, session.cores);
        publish(table.json(), || table.table(), &Origin::of(self.topology, session.mtu), self.options)?;
        session.end
    }

    /// Measure the rows of the Directed Point paper's table 2, and print them beside it.
    fn table2(&self, mtu: u32, wire: Option<WireRate>) -> Result<(), Error> {
        let (benches, drivers) = (table2::benches(mtu), table2::drivers());
        let Session { all, cores, mtu, end } =
            self.session(benches, vec![Loss::NONE], &drivers, DEFAULT_TIME, table2::singly())?;
        let table = Table2::new(all, cores, mtu, wire);
        publish(table.json(), || table.table(), &Origin::of(self.topology, mtu), self.options)?;
        end
    }

    /// Measure the round trip of rejected requests, and print it.
    fn bounce(&self) -> Result<(), Error> {
        let Run { topology, options, watch } = *self;
        let sides = topology.sides(&[Driver::Am])?;
        let size = match options.size.first() {
            Some(Size::Bytes(size)) => *size,
            _ => DEFAULT_BOUNCE_SIZE,
        };
        let (cores, how) = (Cores::both(options.cores.unwrap_or_default())?, options.how(FramingArg::Bare));
        let bounced = bounce::measure(&sides, bounce::Plan { how, size, cores }, &options.amount(DEFAULT_TIME), watch)?;
        publish(bounced.json(), || bounced.table(), &Origin::of(topology, Some(sides.mtu)), options)
    }

    /// Print a session, and return how it ended.
    fn print(&self, session: Session) -> Result<(), Error> {
        let report = Report::new(&session.all, session.cores);
        publish(report.json(), || report.table(), &Origin::of(self.topology, session.mtu), self.options)?;
        session.end
    }
}

/// Measure latency and bandwidth with explanations, over a cable, or in memory if a cable cannot be made.
fn demo(options: &Options, watch: &Watch) -> Result<(), Error> {
    let say = |text: &str| if options.json { Ok(()) } else { out::print(&format!("{text}\n\n")) };
    let run = |topology| Run { topology, options, watch };
    let measure = |topology| run(topology).benches(&[Bench::Latency, Bench::Bandwidth], DEFAULT_DEMO_TIME);
    say(report::INTRODUCTION)?;
    match measure(&Topology::Veth(1500)) {
        Err(error) if error.exit_code() == 3 => {
            say(&format!("That is not possible here.\n{error}\n\n{}", report::LOOPBACK))?;
            run(&Topology::Loopback).print(measure(&Topology::Loopback)?)
        }
        session => run(&Topology::Veth(1500)).print(session?),
    }
}

/// Measure the LogP parameters over these transports. Print them, and plot them if asked.
fn logp(topologies: &[Topology], plot: Option<&Path>, options: &Options, watch: &Watch) -> Result<(), Error> {
    let rounds = options.amount(DEFAULT_LOGP_TIME).rounds;
    let (figures, end) = logp::measure(topologies, rounds, |topology, rounds| {
        let options = &Options { rounds: Some(rounds), ..options.clone() };
        // The far side of the session before has ended, and the near side's thread was pinned.
        let watch = &watch.of_another_peer();
        let session = || Run { topology, options, watch }.benches(&[Bench::LogP], DEFAULT_LOGP_TIME);
        thread::scope(|scope| scope.spawn(session).join()).unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    let origin = match topologies {
        [one] => Origin::of(one, None),
        _ => Origin::new("all", None),
    };
    publish(figures.json(), || figures.table(), &origin, options)?;
    if let Some(file) = plot {
        fs::write(file, figures.svg()?).map_err(Error::system("writing the plot"))?;
    }
    end
}

/// Measure the phases of messages over these transports. Print them, and plot them if asked.
fn phased(
    topologies: &[Topology],
    sizes: Vec<usize>,
    plot: Option<&Path>,
    options: &Options,
    watch: &Watch,
) -> Result<(), Error> {
    let order = phases::Order {
        how: options.how(FramingArg::Bare),
        sizes,
        rounds: options.rounds.unwrap_or(DEFAULT_PHASES_ROUNDS),
        cores: Cores::both(options.cores.unwrap_or_default())?,
    };
    let phases = phases::measure(topologies, order, options.json, watch)?;
    let origin = match topologies {
        [one] => Origin::of(one, None),
        _ => Origin::new("all", None),
    };
    publish(phases.json(), || phases.table(), &origin, options)?;
    plot.map_or(Ok(()), |file| fs::write(file, phases.svg()?).map_err(Error::system("writing the plot")))
}

/// Print the lines or the table, and write the lines to the file of `--save`.
fn publish(
    mut lines: Vec<Value>,
    table: impl FnOnce() -> String,
    origin: &Origin,
    options: &Options,
) -> Result<(), Error> {
    origin.stamp(&mut lines, SystemTime::now());
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let table = if options.json { None } else { Some(table()) };
    // If one of the two fails, the other must still have the figures.
    let said = out::print(table.as_ref().unwrap_or(&lines));
    if let Some(file) = &options.save {
        fs::write(file, &lines).map_err(Error::system("writing the file of --save"))?;
    }
    said
}
