//! Permutations, after AM-II's Table 1: every host sends to one other, and answers one.
//!
//! ```text
//!   shift      0 → 1 → 2 → 3 → 0     each host to its right neighbour
//!   neighbor   0 ⇄ 1   2 ⇄ 3         adjacent hosts in pairs
//!   bisection  0 ⇄ 2   1 ⇄ 3         pairs across the middle of the network
//! ```

mod report;

use clap::Args;

use crate::many::{ManyOptions, count, message};
use am_measure::error::Error;
use am_measure::hosts::host::WORD_BYTES;
use am_measure::hosts::{Arena, HostPlan, Span, Tally, check};
use am_measure::options::usage;
use am_measure::progress::Progress;
use am_measure::spread::median;
use am_measure::watch::Watch;

use report::Permute;

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
        let (trunks, (rounds, span), many) = (self.trunks()?, self.many.rounds(), &self.many);
        let order = Order { hosts: self.nodes.clone(), size: self.size, rounds, span };
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
        many.common.print.publish(figures.json(), || figures.table(), &many.origin())?;
        many.plot.write(|| figures.svg())?;
        end
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    const fn name(self) -> &'static str {
        match self {
            Pattern::Pair => "pair",
            Pattern::Shift => "shift",
            Pattern::Neighbor => "neighbor",
            Pattern::Bisection => "bisection",
        }
    }

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
    pub(crate) hosts: Vec<usize>,
    /// Bytes of a message for the bandwidth. Round trips have the smallest messages.
    pub(crate) size: usize,
    pub(crate) rounds: usize,
    pub(crate) span: Span,
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
        2 * self.rounds * (1 + self.hosts.len() * Pattern::ALL.len())
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
        for _ in 0..self.order.rounds {
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
        progress.say(&format!("{}, {hosts} hosts", pattern.name()));
        let size = self.order.size;
        let mut run = |size, outstanding| {
            let tallies = arena.run(&pattern.plans(hosts, size, outstanding), self.order.span)?;
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
