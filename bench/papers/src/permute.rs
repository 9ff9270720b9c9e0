//! Permutations, after AM-II's Table 1: every host sends to one other, and answers one.
//!
//! ```text
//!   shift      0 → 1 → 2 → 3 → 0     each host to its right neighbour
//!   neighbor   0 ⇄ 1   2 ⇄ 3         adjacent hosts in pairs
//!   bisection  0 ⇄ 2   1 ⇄ 3         pairs across the middle of the network
//! ```

use clap::Args;
use serde_json::{Value, json};

use crate::many::{ManyOptions, count, message};
use am_measure::chart::{self, Group};
use am_measure::hosts::{Arena, HostPlan, Tally, WORD_BYTES, check};
use am_measure::options::usage;
use am_measure::report::{Cell, Column, Report, bytes, is_simulated, rounds, short};
use am_measure::{Amount, Error, Progress, Watch, grouped, median, median_of, shares};

/// The options of `permute`.
#[derive(Clone, Debug, Args)]
// All hosts send and receive at once: more virtual time would take much longer.
#[command(mut_arg("time", |time| time.default_value("0.2").default_value_if("hosts", "sim", "0.001").help(
    "Length of one measurement; 0.001 with --hosts sim, in virtual time")))]
#[command(mut_arg("plot", |plot| plot.help("Plot the ratios to two hosts alone, as SVG")))]
pub struct PermuteArgs {
    /// Even numbers of hosts; with --hosts sim 16,92,256
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "16", value_parser = count(),
          default_value_if("hosts", "sim", "16,92,256"))]
    pub nodes: Vec<usize>,
    /// With --hosts sim also on two switches with this fraction of the hosts' bandwidth between them: 4 for a quarter; 1
    /// for none [default: 4]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..=1000))]
    oversubscription: Option<u64>,
    /// Bytes of a message, 16 or more
    #[arg(long, default_value = "1024", value_parser = message, value_name = "BYTES", help_heading = "What")]
    size: usize,
    #[command(flatten)]
    many: ManyOptions,
}

impl PermuteArgs {
    /// The switches: one, and with a trunk two.
    pub fn trunks(&self) -> Result<Vec<Option<u64>>, Error> {
        self.many.check("--nodes", &self.nodes)?;
        if self.nodes.iter().any(|count| count % 2 == 1) {
            return Err(usage("hosts send in pairs: give even numbers of --nodes"));
        }
        let trunk = Some(self.oversubscription.unwrap_or(4)).filter(|trunk| *trunk > 1);
        match (self.many.is_simulated(), self.oversubscription) {
            (true, _) => Ok([None].into_iter().chain(trunk.map(Some)).collect()),
            (false, None) => Ok(vec![None]),
            (false, Some(_)) => Err(usage("--oversubscription is for --hosts sim: a bridge has no trunk")),
        }
    }

    /// Permutations of hosts, on one switch, and on two with a trunk.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let (trunks, amount, many) = (self.trunks()?, self.many.amount(), &self.many);
        let order = Order { hosts: self.nodes.clone(), size: self.size, amount };
        let progress = Progress::new(order.count() * trunks.len(), many.common.print.json);
        let mut figures = Permute { order, points: Vec::new() };
        let most = self.nodes.last().copied().unwrap_or(2);
        let end = trunks.iter().try_for_each(|trunk| {
            many.with_arena(most, *trunk, watch, |arena| figures.measure(*trunk, arena, &progress))
        });
        drop(progress);
        if figures.points.is_empty() {
            return end;
        }
        many.common.print.publish(figures.report(), &many.origin())?;
        many.plot.write(|| figures.svg())?;
        end
    }
}

/// The receiver of each host's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum Pattern {
    /// Two hosts alone: what the others are compared with.
    Pair,
    /// Each host to its right neighbour
    Shift,
    /// Adjacent hosts in pairs
    Neighbor,
    /// Pairs across the middle of the network
    Bisection,
}

impl Pattern {
    const ALL: [Pattern; 3] = [Pattern::Shift, Pattern::Neighbor, Pattern::Bisection];

    /// The host to which this one of an even number sends.
    fn target(self, host: usize, hosts: usize) -> usize {
        match self {
            Pattern::Shift => (host + 1) % hosts,
            Pattern::Pair | Pattern::Neighbor => host ^ 1,
            Pattern::Bisection => (host + hosts / 2) % hosts,
        }
    }

    fn plans(self, hosts: usize, size: usize, outstanding: u32) -> Vec<HostPlan> {
        let name = |host: usize| format!("host{host}");
        let plan = |host: usize| HostPlan {
            name: name(host),
            endpoints: vec!["main".to_owned()],
            targets: vec![(name(self.target(host, hosts)), "main".to_owned())],
            size,
            outstanding,
            port: host,
            ..HostPlan::default()
        };
        (0..hosts).map(plan).collect()
    }
}

/// What is measured on one switch.
#[derive(Clone, Debug)]
struct Order {
    hosts: Vec<usize>,
    /// Bytes of a message for the bandwidth. Round trips have the smallest messages.
    size: usize,
    amount: Amount,
}

/// One pattern in one round.
#[derive(Clone, Debug)]
struct Point {
    pattern: Pattern,
    hosts: usize,
    mode: String,
    oversubscription: Option<u64>,
    /// Bytes a second of each host, sent and answered.
    rates: Vec<f64>,
    /// The mean round trip with one request in flight of each host, in nanoseconds.
    round_trip: f64,
    retransmitted: u64,
}

impl Order {
    /// Runs of hosts on one switch, at most.
    pub(crate) fn count(&self) -> usize {
        2 * self.amount.rounds * (1 + self.hosts.len() * Pattern::ALL.len())
    }
}

impl Permute {
    /// Measure the patterns on a switch, and two hosts alone there unless it has a trunk.
    pub(crate) fn measure(
        &mut self,
        oversubscription: Option<u64>,
        arena: &mut dyn Arena,
        progress: &Progress,
    ) -> Result<(), Error> {
        for _ in 0..self.order.amount.rounds {
            if oversubscription.is_none() {
                self.point(Pattern::Pair, 2, oversubscription, arena, progress)?;
            }
            for hosts in self.order.hosts.clone() {
                for pattern in Pattern::ALL {
                    self.point(pattern, hosts, oversubscription, arena, progress)?;
                }
            }
        }
        Ok(())
    }

    fn point(
        &mut self,
        pattern: Pattern,
        hosts: usize,
        oversubscription: Option<u64>,
        arena: &mut dyn Arena,
        progress: &Progress,
    ) -> Result<(), Error> {
        progress.say(&format!("{}, {hosts} hosts", pattern.into_str()));
        let size = self.order.size;
        let mut run = |size, outstanding| {
            let tallies = arena.run(&pattern.plans(hosts, size, outstanding), self.order.amount)?;
            check(&tallies)?;
            progress.done();
            Ok::<Vec<Tally>, Error>(tallies)
        };
        let (streams, pings) = (run(size, u32::MAX)?, run(WORD_BYTES, 1)?);
        let means: Vec<f64> = pings.iter().map(|tally| tally.round_trips.mean()).collect();
        self.points.push(Point {
            pattern,
            hosts,
            mode: arena.mode(),
            oversubscription,
            rates: streams.iter().map(|tally| tally.rate() * size as f64).collect(),
            round_trip: median(&means).unwrap_or_default(),
            retransmitted: streams.iter().map(|tally| tally.retransmitted).sum(),
        });
        Ok(())
    }
}

/// AM-II's Table 1, on 92 hosts: bandwidth of a host over the peak of two hosts (31 MB/s), and the round trip over theirs
/// (41.94 µs).
const PAPER: [(Pattern, f64, f64); 3] =
    [(Pattern::Shift, 0.82, 1.62), (Pattern::Neighbor, 1.0, 1.13), (Pattern::Bisection, 0.18, 1.21)];

#[derive(Debug)]
struct Permute {
    order: Order,
    points: Vec<Point>,
}

/// All rounds of one pattern on one switch: medians.
struct Row {
    pattern: Pattern,
    hosts: usize,
    size: usize,
    mode: String,
    oversubscription: Option<u64>,
    /// Bytes a second of all hosts.
    aggregate: f64,
    /// The slowest and the fastest host, over their mean.
    share: (f64, f64),
    round_trip: f64,
    retransmitted: u64,
    /// Over two hosts alone: bandwidth of a host, and round trip.
    bandwidth_ratio: Option<f64>,
    round_trip_ratio: Option<f64>,
}

impl Permute {
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for all in grouped(&self.points, |point| (point.pattern, point.hosts, point.oversubscription)) {
            let (one, aggregate) = (all[0], median_of(&all, Point::aggregate));
            let round_trip = median_of(&all, |point| point.round_trip);
            let alone = rows.iter().find(|row| row.pattern == Pattern::Pair);
            let over =
                |own: f64, of: fn(&Row) -> f64| alone.map(|pair| own / of(pair)).filter(|ratio| ratio.is_finite());
            rows.push(Row {
                bandwidth_ratio: over(aggregate / one.hosts as f64, Row::each),
                round_trip_ratio: over(round_trip, |row| row.round_trip),
                pattern: one.pattern,
                hosts: one.hosts,
                size: self.order.size,
                mode: one.mode.clone(),
                oversubscription: one.oversubscription,
                aggregate,
                share: (
                    median_of(&all, |point| shares(&point.rates).0),
                    median_of(&all, |point| shares(&point.rates).1),
                ),
                round_trip,
                retransmitted: all.iter().map(|point| point.retransmitted).sum(),
            });
        }
        rows
    }

    fn report(&self) -> Report {
        let rows = self.rows();
        let title = "permute: every host sends to one other and answers one, after AM-II's Table 1";
        let mut report = Report::new("permute", format_args!("{title}; {} a message", bytes(self.order.size)));
        report.rows(COLUMNS, &rows);
        let mode = rows.first().map_or("", |row| row.mode.as_str());
        report.say(
            "  a host   bytes of its requests that were answered a second; share: the slowest and the fastest host",
        );
        report.say(format_args!("  RTT      mean, one request of {} in flight of each host", bytes(WORD_BYTES)));
        report.say("  to pair  over two hosts alone; in the paper over the peak of two hosts\n");
        report.say(format_args!("{}, {mode}", rounds(self.order.amount.rounds)));
        report.say_if_simulated();
        let ratios = rows.iter().filter(|row| row.pattern != Pattern::Pair).map(Row::ratios);
        report.summary(json!({ "rounds": self.order.amount.rounds, "ratios": ratios.collect::<Vec<_>>() }));
        report
    }

    /// For each row, the bandwidth and the round trip over those of two hosts alone.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let group = |name: String, bandwidth: f64, round_trip: f64| -> Group {
            (name, vec![vec![("bandwidth of a host", bandwidth)], vec![("round trip", round_trip)]])
        };
        let of = |row: &Row| {
            let switch = row.oversubscription.map_or(" hosts".to_owned(), |times| format!(", 1:{times}"));
            let name = format!("{}\n{}{switch}", row.pattern.into_str(), row.hosts);
            group(name, row.bandwidth_ratio.unwrap_or(0.0), row.round_trip_ratio.unwrap_or(0.0))
        };
        let rows = self.rows();
        let mut groups: Vec<Group> = rows.iter().filter(|row| row.pattern != Pattern::Pair).map(of).collect();
        groups
            .extend(PAPER.map(|(of, bandwidth, trip)| group(format!("{}\npaper, 92", of.into_str()), bandwidth, trip)));
        let mode = rows.first().map_or("", |row| row.mode.as_str());
        chart::bars(&format!("permutations over two hosts alone: {mode}"), &groups)
    }
}

impl Point {
    fn aggregate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

const COLUMNS: &[Column<Row>] = &[
    ("pattern", "pattern", |row| Cell::text(row.pattern.into_str())),
    (">hosts", "hosts", |row| Cell::Count(row.hosts as u64)),
    ("", "size", |row| Cell::Size(row.size)),
    ("switch", "", |row| Cell::text(row.oversubscription.map_or("one".to_owned(), |times| format!("trunk 1:{times}")))),
    (">a host", "host_bytes_per_s", |row| Cell::Rate(row.each(), "B/s")),
    (">aggregate", "bytes_per_s", |row| Cell::Rate(row.aggregate, "B/s")),
    (">share", "share", |row| Cell::Range(row.share.0, row.share.1)),
    (">RTT", "rtt_ns", |row| Cell::Time(row.round_trip)),
    (">sent again", "retransmitted", |row| Cell::Count(row.retransmitted)),
    ("", "oversubscription", |row| Cell::of(row.oversubscription, Cell::Count)),
    ("", "mode", |row| Cell::text(&row.mode)),
    ("", "simulated", |row| if is_simulated(&row.mode) { Cell::Json(Value::Bool(true)) } else { Cell::Absent }),
    (">a host to pair", "", |row| Cell::of(row.bandwidth_ratio, Cell::Ratio)),
    (">paper", "", |row| Cell::of(row.paper(), |paper| Cell::Ratio(paper.0))),
    (">RTT to pair", "", |row| Cell::of(row.round_trip_ratio, Cell::Ratio)),
    (">paper", "", |row| Cell::of(row.paper(), |paper| Cell::Ratio(paper.1))),
];

impl Row {
    /// Bytes a second of one host.
    fn each(&self) -> f64 {
        self.aggregate / self.hosts as f64
    }

    fn paper(&self) -> Option<(f64, f64)> {
        let paper = PAPER.iter().find(|(pattern, ..)| *pattern == self.pattern);
        paper.map(|(_, bandwidth, round_trip)| (*bandwidth, *round_trip))
    }

    fn ratios(&self) -> Value {
        json!({
            "pattern": self.pattern.into_str(), "hosts": self.hosts, "oversubscription": self.oversubscription,
            "host_over_pair": self.bandwidth_ratio.map(short), "rtt_over_pair": self.round_trip_ratio.map(short),
            "paper": self.paper().map(|(bandwidth, round_trip)| [bandwidth, round_trip]),
        })
    }
}
