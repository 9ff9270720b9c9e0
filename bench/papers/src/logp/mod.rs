//! The LogP parameters of each driver, by transport: overheads, latency and gap, as AM-II's Figure 5 has them.

mod report;

use std::panic::resume_unwind;
use std::thread;

use clap::Args;

use am_measure::cores::Cores;
use am_measure::error::Error;
use am_measure::loops::logp::LogP;
use am_measure::options::{DriverOption, PlotOption, STREAMS, SizeOption, check_once, only, usage};
use am_measure::plan::{Amount, Bench};
use am_measure::run::{Common, Run};
use am_measure::session::Session;
use am_measure::spread::{Spread, grouped};
use am_measure::stats::{Measured, Outcome};
use am_measure::topology::{HostsArg, Place, Topology};
use am_measure::watch::Watch;

/// The options of `logp`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.help(
    "Run both hosts on this machine [default: veth, udp, tcp and shm in turn]")))]
#[command(mut_arg("driver", |driver| driver.value_parser(only(STREAMS)).help(
    "With --hosts or --peer: the drivers to measure, in turn [default: all that it offers]")))]
#[command(mut_arg("size", |size| size.default_value("16")))]
#[command(mut_arg("time", |time| time.default_value("0.1")))]
pub struct LogPArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    driver: DriverOption,
    #[command(flatten)]
    size: SizeOption,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    plot: PlotOption,
}

impl LogPArgs {
    /// Over the transport that is asked for, or over those that every host has.
    pub fn topologies(&self) -> Result<Vec<Topology>, Error> {
        self.plot.check(&self.common.print)?;
        check_once("--driver", &self.driver.driver)?;
        self.size.check()?;
        let (place, open) = (&self.place, &self.common.open);
        if place.is_said() {
            return Ok(vec![place.topology(open, &self.driver.driver)?]);
        }
        if !self.driver.driver.is_empty() || open.xdp.is_some() || place.here.mtu.is_some() {
            return Err(usage(
                "several transports have no --driver, --xdp and --mtu in common: choose one with --hosts",
            ));
        }
        let hosts = [HostsArg::Veth, HostsArg::Udp, HostsArg::Tcp, HostsArg::Shm];
        hosts.into_iter().map(|hosts| place.on(hosts, open)).collect()
    }

    /// Measure the LogP parameters over these transports. Print them, and plot them if asked.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topologies = self.topologies()?;
        let (figures, end) = measure(&topologies, self.common.amount.rounds.rounds, |topology, rounds| {
            // The far side of the session before has ended, and the near side's thread was pinned.
            let watch = &watch.of_another_peer();
            let run = self.common.run(topology, &self.driver.driver, self.place.cores(), watch);
            let run = Run { amount: Amount { rounds, ..run.amount }, ..run };
            let session = || run.benches(vec![(Bench::LogP, self.size.size.clone())]);
            thread::scope(|scope| scope.spawn(session).join()).unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        self.common.print.publish(figures.json(), || figures.table(), &Topology::origin(&topologies))?;
        self.plot.write(|| figures.svg())?;
        end
    }
}

/// What was measured over one transport.
#[derive(Debug)]
struct Part {
    /// Its name in reports.
    transport: String,
    mtu: Option<u32>,
    all: Vec<Measured>,
}

#[derive(Debug)]
struct Figures {
    parts: Vec<Part>,
    cores: Cores,
    rounds: usize,
}

/// A parameter: its name in the table and in JSON, and its value in nanoseconds.
type Parameter = (&'static str, fn(&LogP) -> f64);

const PARAMETERS: [Parameter; 5] = [
    ("os", |logp| logp.send),
    ("l", LogP::latency),
    ("or", |logp| logp.receive),
    ("g", |logp| logp.gap),
    ("rtt", |logp| logp.round_trip),
];

/// Measure over each of the transports in turn, in rounds; `session` measures so many rounds over one.
///
/// # Errors
/// The reason for an end before the first measurement. A later one is returned beside what was measured.
fn measure(
    topologies: &[Topology],
    rounds: usize,
    mut session: impl FnMut(&Topology, usize) -> Result<Session, Error>,
) -> Result<(Figures, Result<(), Error>), Error> {
    let part = |topology: &Topology| Part { transport: topology.transport().to_owned(), mtu: None, all: Vec::new() };
    let cores = Cores { near: None, far: None };
    let mut figures = Figures { parts: topologies.iter().map(part).collect(), cores, rounds };
    // A session of one transport takes its drivers in turn by itself.
    let each = if topologies.len() > 1 { 1 } else { rounds };
    for first in (0..rounds).step_by(each) {
        for (topology, part) in topologies.iter().zip(&mut figures.parts) {
            let done = match session(topology, each) {
                Ok(done) => done,
                Err(error) if part.all.is_empty() => return Err(error),
                Err(error) => return Ok((figures, Err(error))),
            };
            (part.mtu, figures.cores) = (done.mtu, done.cores);
            part.all.extend(done.all.into_iter().map(|one| Measured { round: first + one.round, ..one }));
            if let Err(error) = done.end {
                return Ok((figures, Err(error)));
            }
        }
    }
    Ok((figures, Ok(())))
}

/// All rounds of one driver and size over one transport.
struct Row<'a> {
    part: &'a Part,
    first: &'a Measured,
    /// Each round's number, and its parameters.
    rounds: Vec<(usize, LogP)>,
}

impl Figures {
    fn rows(&self) -> Vec<Row<'_>> {
        let rows = self.parts.iter().flat_map(|part| {
            let mut groups = grouped(&part.all, |one| (one.driver, one.nth_size));
            groups.sort_by_key(|group| group[0].nth_size);
            let logp =
                |one: &&Measured| if let Outcome::LogP(logp) = one.outcome { Some((one.round, logp)) } else { None };
            groups.into_iter().map(move |all| Row {
                part,
                first: all[0],
                rounds: all.iter().filter_map(logp).collect(),
            })
        });
        rows.collect()
    }
}

impl Row<'_> {
    /// The name of what carries its messages.
    fn transport(&self) -> &str {
        if self.first.driver.is_kernel() { self.first.driver.name() } else { &self.part.transport }
    }

    fn by_round(&self, (_, of): Parameter) -> Vec<(usize, f64)> {
        self.rounds.iter().map(|(round, logp)| (*round, of(logp))).collect()
    }

    /// The parameters over the rounds.
    fn spread(&self, parameter: Parameter) -> Option<Spread> {
        Spread::of(self.by_round(parameter).into_iter().map(|(_, value)| value))
    }

    fn median(&self, parameter: Parameter) -> f64 {
        self.spread(parameter).map_or(0.0, |spread| spread.median)
    }

    /// The ratio of this row to another.
    fn ratio(&self, under: &Row<'_>, parameter: Parameter) -> Option<f64> {
        Spread::of_ratios(&self.by_round(parameter), &under.by_round(parameter)).map(|ratio| ratio.median)
    }

    fn lost(&self) -> u64 {
        self.rounds.iter().map(|(_, logp)| logp.lost).sum()
    }
}
