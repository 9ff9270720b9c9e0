//! The LogP parameters of each driver, by transport: overheads, latency and gap, as AM-II's Figure 5 has them.

use std::panic::resume_unwind;
use std::thread;

use clap::Args;
use serde_json::{Value, json};

use am_measure::chart::{self, Group};
use am_measure::options::{DriverOption, PlotOption, STREAMS, SizeOption, check_once, only, usage};
use am_measure::report::{Cell, Column, Report, bytes, is_simulated, rounds, short, tenths, times};
use am_measure::{
    Amount, Bench, Common, Cores, Driver, Error, HostsArg, LogP, Measured, Outcome, Place, Run, Session, Spread,
    Topology, Watch, grouped,
};

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

    /// Measure the LogP parameters over these transports in turn, in rounds. Print them, and plot them if asked.
    ///
    /// # Errors
    /// The reason for an end. What was measured before it is printed first.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let (topologies, rounds) = (self.topologies()?, self.common.amount.rounds.rounds);
        let part =
            |topology: &Topology| Part { transport: topology.transport().to_owned(), mtu: None, all: Vec::new() };
        let cores = Cores { near: None, far: None };
        let mut figures = Figures { parts: topologies.iter().map(part).collect(), cores, rounds };
        // A session of one transport takes its drivers in turn by itself.
        let each = if topologies.len() > 1 { 1 } else { rounds };
        let turns = (0..rounds).step_by(each).flat_map(|first| (0..topologies.len()).map(move |nth| (first, nth)));
        let mut measure = |first: usize, nth: usize| {
            let (topology, part): (&Topology, &mut Part) = (&topologies[nth], &mut figures.parts[nth]);
            let done = self.session(topology, each, watch)?;
            (part.mtu, figures.cores) = (done.mtu, done.cores);
            part.all.extend(done.all.into_iter().map(|one| Measured { round: first + one.round, ..one }));
            done.end
        };
        let end = turns.into_iter().try_for_each(|(first, nth)| measure(first, nth));
        if figures.parts.iter().all(|part| part.all.is_empty()) {
            return end;
        }
        self.common.print.publish(figures.report(), &Topology::origin(&topologies))?;
        self.plot.write(|| figures.svg())?;
        end
    }

    /// So many rounds over one transport.
    fn session(&self, topology: &Topology, rounds: usize, watch: &Watch) -> Result<Session, Error> {
        // The far side of the session before has ended, and the near side's thread was pinned.
        let watch = &watch.of_another_peer();
        let run = self.common.run(topology, &self.driver.driver, self.place.cores(), watch);
        let run = Run { amount: Amount { rounds, ..run.amount }, ..run };
        let session = || run.benches(vec![(Bench::LogP, self.size.size.clone())]);
        thread::scope(|scope| scope.spawn(session).join()).unwrap_or_else(|panic| resume_unwind(panic))
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

const LEGEND: &str = concat!(
    "  Os   the sender's processor time for a request, from bursts of eight; with its doorbell or system call\n",
    "  L    RTT/2 - Os - Or. Negative if the receiver begins before the sender's call has returned: on a veth the\n",
    "       sender's system call runs the kernel's receive path too\n",
    "  Or   the processor time for a reply, with all work that was put off until then\n",
    "  g    the time of a request in a long burst, one doorbell each: the slowest stage of both sides\n",
    "  RTT  the round trip of one request at a time. All are medians over the rounds; `rate` has larger batches\n\n",
);

/// The parameters of a ratio: differences of others may be zero.
const COMPARED: [Parameter; 3] = [PARAMETERS[0], PARAMETERS[3], PARAMETERS[4]];

fn columns<'a>() -> [Column<Row<'a>>; 17] {
    [
        ("driver", "via", |row| Cell::text(row.first.driver.name())),
        ("transport", "transport", |row| Cell::text(row.transport())),
        ("mode", "mode", |row| Cell::text(&row.first.mode)),
        ("", "framing", |row| Cell::text(row.first.framing)),
        (">size", "size", |row| Cell::Size(row.first.layout.size)),
        (">Os", "os_ns", |row| Cell::Micros(row.median(PARAMETERS[0]))),
        (">L", "l_ns", |row| Cell::Micros(row.median(PARAMETERS[1]))),
        (">Or", "or_ns", |row| Cell::Micros(row.median(PARAMETERS[2]))),
        (">g", "g_ns", |row| Cell::Micros(row.median(PARAMETERS[3]))),
        (">RTT", "rtt_ns", |row| Cell::Micros(row.median(PARAMETERS[4]))),
        (">g/(Os+Or)", "", |row| {
            let [os, _, or, g, _] = PARAMETERS.map(|parameter| row.median(parameter));
            Cell::Times(g / (os + or).max(1.0))
        }),
        ("", "range", |row| Cell::Json(row.ranges())),
        ("", "rounds", |row| Cell::Count(row.rounds.len() as u64)),
        (">lost", "lost", |row| Cell::Count(row.lost())),
        ("", "batching", |row| Cell::Json(json!(row.first.batching))),
        ("", "xdp", |row| Cell::xdp(row.first.xdp)),
        ("", "mtu", |row| Cell::Json(json!(row.part.mtu))),
    ]
}

impl Figures {
    fn report(&self) -> Report {
        let rows = self.rows();
        let mut report = Report::new("logp", "logp: the parameters of the LogP model, after AM-II's Figure 5");
        report.rows(&columns(), &rows);
        for (over, under) in self.ratios(&rows) {
            let [os, g, rtt] = COMPARED.map(|parameter| over.ratio(under, parameter).map_or("?".to_owned(), times));
            let (over, under, size) = (over.name(), under.name(), bytes(over.first.layout.size));
            report.say(format_args!("  {over} to {under}, {size}: RTT {rtt}, g {g}, Os {os} times"));
        }
        report.text += "\n";
        report.text += LEGEND;
        let measured = format!("{}, transports and drivers taken in turn", rounds(self.rounds));
        report.footer(measured, self.cores, None);
        let ratios: Vec<Value> = self.ratios(&rows).map(|(over, under)| over.ratios(under)).collect();
        report.summary(json!({ "rounds": self.rounds, "ratios": ratios }));
        report
    }

    /// Our messages, and each other driver on the same wire.
    fn ratios<'a>(&self, rows: &'a [Row<'a>]) -> impl Iterator<Item = (&'a Row<'a>, &'a Row<'a>)> {
        let ours = rows.iter().filter(|row| row.first.driver == Driver::Am);
        ours.flat_map(move |over| {
            let is_beside = move |under: &&Row<'_>| {
                std::ptr::eq(under.part, over.part)
                    && under.first.driver != Driver::Am
                    && under.first.nth_size == over.first.nth_size
            };
            rows.iter().filter(is_beside).map(move |under| (over, under))
        })
    }

    /// For each row the parts of one way on each other, and beside them the gap.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let group = |row: &Row<'_>| {
            let [os, l, or, g, _] = PARAMETERS.map(|parameter| row.median(parameter) / 1e3);
            (row.name(), vec![vec![("Os", os), ("Or", or), ("L", l)], vec![("g", g)]])
        };
        let groups: Vec<Group> = self.rows().iter().map(group).collect();
        let simulated = if self.rows().iter().any(|row| is_simulated(&row.first.mode)) { " (simulated)" } else { "" };
        chart::bars(&format!("LogP parameters{simulated}: one way and gap, µs"), &groups)
    }
}

impl Row<'_> {
    fn name(&self) -> String {
        match self.first.driver {
            Driver::Udp => "kernel udp".to_owned(),
            driver => format!("{driver} {}", self.transport()),
        }
    }

    /// The range of each parameter over the rounds.
    fn ranges(&self) -> Value {
        let range = |parameter| self.spread(parameter).map(|of| [of.least, of.most].map(tenths));
        PARAMETERS.map(|parameter| (format!("{}_ns", parameter.0), json!(range(parameter)))).into_iter().collect()
    }

    /// This row's parameters over another's.
    fn ratios(&self, under: &Row<'_>) -> Value {
        let mut line = json!({
            "over": self.first.driver.name(), "under": under.first.driver.name(), "transport": self.transport(),
            "size": self.first.layout.size,
        });
        for parameter in COMPARED {
            line[parameter.0] = json!(self.ratio(under, parameter).map(short));
        }
        line
    }
}
