//! **Round trip, bandwidth and message rate** of active messages, compared with the limit of the machine (bare AF_XDP)
//! and with kernel UDP.
//!
//! ```text
//!   near side: sends, times, reports             far side: answers, counts
//!  ┌──────────────────────────────────┐         ┌─────────────────────────┐
//!  │ cli ─▶ deploy ─▶ session ────────┼─ plan ─▶┼─▶ serve                 │
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
mod cores;
mod demo;
mod deploy;
mod driver;
mod error;
mod grammar;
mod link;
mod loss;
mod measure;
mod named;
mod origin;
mod out;
mod plan;
mod progress;
mod report;
mod rights;
mod serve;
mod session;
mod side_info;
mod size;
mod stats;
mod stress;
mod sweep;
mod values;
mod watch;

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use ablation::Ablation;
use cli::{Cli, Options, Switch, Task, Topology};
use cores::Cores;
use deploy::machines::Target;
use driver::Driver;
use error::Error;
use loss::Loss;
use origin::Origin;
use plan::{Bench, DriverOptions, FramingArg, Side};
use progress::Progress;
use report::Report;
use serde_json::Value;
use session::{Order, Session};
use size::Size;
use sweep::Sweep;
use watch::Watch;

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
    match cli.task()? {
        Task::Measure(benches, place) => {
            print(measure(&benches, &place, options, DEFAULT_TIME, &watch)?, &place, options)
        }
        Task::Loss(bench, losses, place, plot) => lose((bench, losses), &place, plot.as_deref(), options, &watch),
        Task::Sweep(place, plot) => sweep(&place, plot.as_deref(), options, &watch),
        Task::Compare(args, over) => {
            rights::check(true, &[Driver::Am])?;
            compare::run(&args, over, options, &watch)
        }
        Task::Ablation(place) => ablate(&place, options, &watch),
        Task::Bounce(place) => bounce(&place, options, &watch),
        Task::Far(interface) => {
            let core = Cores::own(options.cores.unwrap_or_default(), Side::Far)?;
            deploy::far::serve(options.name.as_deref().unwrap_or("beta"), &interface, core, &watch)
        }
        Task::Serve(on) => {
            rights_on(&on)?;
            let core = Cores::own(options.cores.unwrap_or_default(), Side::Far)?;
            // These options are for listening. Each plan has those of its drivers.
            let how = options.how(FramingArg::Auto);
            deploy::machines::serve((&options.node_name(), &on, core), how, &watch)
        }
        Task::Demo => demo::show(options, &watch),
        Task::Stress(args, place) => {
            let sides = place.sides()?;
            let cores = Cores::both(options.cores.unwrap_or_default())?;
            let how =
                DriverOptions { coalesce: options.coalesce != Some(Switch::Off), ..options.how(FramingArg::Bare) };
            stress::run(&args, how, (&sides, &place), cores, options, &watch)
        }
        Task::StressChild => stress::child(&watch),
        Task::Turn => compare::take_turn(&watch),
    }
}

/// Check the rights for an interface. Other transports check theirs when they are opened.
fn rights_on(on: &str) -> Result<(), Error> {
    let has_interface = am_api::transports::split(on).iter().any(|name| name.starts_with("xdp:"));
    if has_interface { rights::check(false, &[Driver::Am]) } else { Ok(()) }
}

const DEFAULT_TIME: Duration = Duration::from_millis(250);
/// A sweep has about 27 sizes.
const DEFAULT_SWEEP_TIME: Duration = Duration::from_millis(50);

fn measure(
    benches: &[Bench],
    place: &Topology,
    options: &Options,
    time: Duration,
    watch: &Watch,
) -> Result<Session, Error> {
    let benches: Vec<_> = benches.iter().map(|bench| (*bench, options.sizes(*bench))).collect();
    // Only `am` has transfers. They are compared with frames of as many bytes.
    let is_bulk = benches.iter().any(|(bench, _)| *bench == Bench::Bulk);
    let all = benches.first().map_or(&[][..], |(bench, _)| place.drivers(*bench));
    let all: Vec<Driver> = all.iter().copied().filter(|driver| !(is_bulk && *driver == Driver::Udp)).collect();
    over(benches, vec![Loss::NONE], options.drivers(&all), place, options, time, watch)
}

/// Measure these benches and sizes there.
fn over(
    benches: Vec<(Bench, Vec<Size>)>,
    losses: Vec<Loss>,
    drivers: Vec<Driver>,
    place: &Topology,
    options: &Options,
    time: Duration,
    watch: &Watch,
) -> Result<Session, Error> {
    let order = Order {
        drivers,
        without_udp_if_need_be: options.driver.is_empty(),
        how: DriverOptions { lossy: losses.len() > 1, ..options.how(place.framing()) },
        benches,
        losses,
        amount: options.amount(time),
    };
    if let Some(file) = options.trace {
        // Each driver that is opened appends to it.
        File::create(file).map_err(Error::system("writing the file of --trace"))?;
    }
    let progress = Progress::new(order.count(), options.json);
    let asked = options.cores.unwrap_or_default();
    match place {
        Topology::Veth(mtu) => {
            rights::check(true, &order.drivers)?;
            deploy::veth::measure(&order, *mtu, Cores::both(asked)?, &progress, watch)
        }
        Topology::Loopback => deploy::loopback::measure(&order, Cores::both(asked)?, &progress, watch),
        Topology::Sim(on) => deploy::threads::simulated(&order, on, Cores::both(asked)?, &progress, watch),
        Topology::Processes(local_transport, mtu) => {
            deploy::processes::measure(&order, (*local_transport, *mtu), Cores::both(asked)?, &progress, watch)
        }
        Topology::Peer(peer, on) => {
            rights_on(on)?;
            let (name, core) = (options.node_name(), Cores::own(asked, Side::Near)?);
            deploy::machines::measure(&order, Target { name: &name, peer, on, core }, &progress, watch)
        }
    }
}

/// Measure the share of the rate that remains when frames are lost. Print it, and plot it if asked.
fn lose(
    (bench, losses): (Bench, Vec<Loss>),
    place: &Topology,
    plot: Option<&Path>,
    options: &Options,
    watch: &Watch,
) -> Result<(), Error> {
    // By default one size: the curve is over losses.
    let sizes = options.sizes(bench).into_iter().take(if options.size.is_empty() { 1 } else { usize::MAX }).collect();
    let session =
        over(vec![(bench, sizes)], losses, options.drivers(&[Driver::Am]), place, options, DEFAULT_TIME, watch)?;
    let svg = plot.map(|_| report::loss_curve(&session.all, bench)).transpose()?;
    let printed = print(session, place, options);
    if let Some((file, svg)) = plot.zip(svg) {
        fs::write(file, svg).map_err(Error::system("writing the plot"))?;
    }
    printed
}

/// Measure the bandwidth of these sizes, for a curve.
fn bandwidth(
    sizes: Vec<Size>,
    drivers: Vec<Driver>,
    place: &Topology,
    options: &Options,
    watch: &Watch,
) -> Result<Session, Error> {
    over(vec![(Bench::Bandwidth, sizes)], vec![Loss::NONE], drivers, place, options, DEFAULT_SWEEP_TIME, watch)
}

/// Measure the curve over sizes. Print it, and plot it if asked.
fn sweep(place: &Topology, plot: Option<&Path>, options: &Options, watch: &Watch) -> Result<(), Error> {
    let options = &Options { coalesce: options.coalesce.or(Some(Switch::On)), ..options.clone() };
    let drivers = options.drivers(place.drivers(Bench::Bandwidth));
    let session = bandwidth(size::swept(), drivers, place, options, watch)?;
    let sweep = Sweep::new(&session.all, session.cores);
    publish(sweep.json(), || sweep.table(), &Origin::of(place, session.mtu), options)?;
    if let Some(file) = plot {
        fs::write(file, sweep.svg(&title(&sweep))?).map_err(Error::system("writing the plot"))?;
    }
    session.end
}

/// Measure the cost of each layer, and print it.
fn ablate(place: &Topology, options: &Options, watch: &Watch) -> Result<(), Error> {
    let drivers = place.layers();
    let session = bandwidth(ablation::sizes(), drivers, place, options, watch)?;
    let table = Ablation::new(&session.all, session.cores);
    publish(table.json(), || table.table(), &Origin::of(place, session.mtu), options)?;
    session.end
}

/// Measure the round trip of rejected requests, and print it.
fn bounce(place: &Topology, options: &Options, watch: &Watch) -> Result<(), Error> {
    let sides = place.sides()?;
    let size = match options.size.first() {
        Some(Size::Bytes(size)) => *size,
        _ => 16,
    };
    let (cores, how) = (Cores::both(options.cores.unwrap_or_default())?, options.how(FramingArg::Bare));
    let bounced = bounce::measure(&sides, bounce::Plan { how, size, cores }, &options.amount(DEFAULT_TIME), watch)?;
    publish(bounced.json(), || bounced.table(), &Origin::of(place, Some(sides.mtu)), options)
}

/// The title of the plot.
fn title(sweep: &Sweep) -> String {
    let modes: Vec<String> = sweep.curves.iter().map(|curve| format!("{} {}", curve.driver, curve.mode)).collect();
    format!("bandwidth by size: {}", modes.join(", "))
}

/// Print a session, and return how it ended.
fn print(session: Session, place: &Topology, options: &Options) -> Result<(), Error> {
    let report = Report::new(&session.all, session.cores);
    publish(report.json(), || report.table(), &Origin::of(place, session.mtu), options)?;
    session.end
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
