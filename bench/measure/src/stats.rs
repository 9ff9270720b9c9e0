//! From single measurements to the report: one row for each driver, bench and size, and the ratios between drivers.
//!
//! The drivers take turns in rounds, so slow and fast phases of the machine hit all of them. A ratio is that of the figures in the
//! table; beside it are the smallest and the largest of the rounds' ratios, each between measurements made right after each other.

use std::time::Duration;

use crate::driver::Driver;
use crate::loops::latency::{Latency, RoundTrips, round_trips, together};
use crate::loops::logp::LogP;
use crate::loops::throughput::Throughput;
use crate::loss::Loss;
use crate::plan::Batching;
use crate::plan::Bench;
use crate::size::MessageLayout;
use crate::spread::{Spread, grouped, median_of};

/// One measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its round, from 0.
    pub round: usize,
    /// What was measured.
    pub bench: Bench,
    /// The position of the size and the loss in the order. Drivers are compared by it, since a full frame holds
    /// different sizes.
    pub nth_size: usize,
    /// How a message lay in frames.
    pub layout: MessageLayout,
    /// The share of frames that were lost on purpose.
    pub loss: Loss,
    /// What carried the messages.
    pub driver: Driver,
    /// The device and its mode.
    pub mode: String,
    /// Where the XDP program ran, if there was one.
    pub xdp: Option<&'static str>,
    /// Where our header was.
    pub framing: &'static str,
    /// How messages were handed over.
    pub batching: Batching,
    /// Whether its frames were also written to a file.
    pub traced: bool,
    /// The cores that both sides together kept busy, if it is known.
    pub busy: Option<f64>,
    /// What was found.
    pub outcome: Outcome,
}

/// What a loop has found.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Round trips.
    Latency(Latency),
    /// Messages and bytes in one direction.
    Throughput(Throughput),
    /// The parameters of the LogP model.
    LogP(LogP),
}

impl Measured {
    /// The figure that is compared.
    pub fn figure(&self) -> f64 {
        match &self.outcome {
            Outcome::Latency(latency) => latency.round_trips.value_at_quantile(0.5) as f64,
            Outcome::Throughput(t) if matches!(self.bench, Bench::Bandwidth | Bench::Bulk) => self.bytes(t),
            Outcome::Throughput(t) => self.messages(t),
            Outcome::LogP(logp) => logp.round_trip,
        }
    }

    fn messages(&self, counted: &Throughput) -> f64 {
        counted.messages as f64 / self.layout.pieces as f64 / counted.time.as_secs_f64()
    }

    /// Bytes of the messages a second, by those that arrived. Pieces of one length may be longer than the message.
    fn bytes(&self, counted: &Throughput) -> f64 {
        let share = self.layout.size as f64 / (self.layout.pieces * self.layout.piece) as f64;
        counted.bytes as f64 * share / counted.time.as_secs_f64()
    }

    /// Amounts a second; `None` of round trips.
    pub fn rates(&self) -> Option<Rates> {
        let Outcome::Throughput(counted) = &self.outcome else { return None };
        let messages = self.messages(counted);
        let frames = messages * self.layout.frames as f64 * counted.frames_each;
        Some(Rates { messages, frames, bytes: self.bytes(counted) })
    }

    /// The round trips; `None` of amounts a second.
    pub fn round_trips(&self) -> Option<&RoundTrips> {
        if let Outcome::Latency(latency) = &self.outcome { Some(&latency.round_trips) } else { None }
    }

    /// Messages that never arrived.
    pub fn lost(&self) -> u64 {
        match &self.outcome {
            Outcome::Latency(latency) => latency.lost,
            Outcome::Throughput(throughput) => throughput.lost,
            Outcome::LogP(logp) => logp.lost,
        }
    }
}

/// All rounds of one driver, bench and size.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) first: &'a Measured,
    pub(crate) figures: Figures,
    /// The compared figure of each round.
    pub(crate) by_round: Vec<f64>,
    /// The numbers of these rounds, from 0.
    pub(crate) rounds: Vec<usize>,
    /// Messages that never arrived, in all rounds.
    pub(crate) lost: u64,
    /// The share of frames lost on purpose; `None` if no measurement of the run loses any.
    pub(crate) loss: Option<Loss>,
}

/// What the rounds come to: of each bench, one of both.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Every round trip of all rounds.
    pub(crate) round_trips: RoundTrips,
    /// Medians over the rounds.
    pub(crate) rates: Rates,
}

/// Amounts a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Messages a second.
    pub messages: f64,
    pub(crate) frames: f64,
    pub(crate) bytes: f64,
}

/// The rows: by bench, by size, and drivers in the order of the first round.
pub(crate) fn rows<'a>(all: &'a [Measured]) -> Vec<Row<'a>> {
    let has_losses = all.iter().any(|one| one.loss > Loss::NONE);
    let row = |rounds: Vec<&'a Measured>| Row {
        first: rounds[0],
        figures: Figures::of(&rounds),
        by_round: rounds.iter().map(|one| one.figure()).collect(),
        rounds: rounds.iter().map(|one| one.round).collect(),
        lost: rounds.iter().map(|one| one.lost()).sum(),
        loss: has_losses.then_some(rounds[0].loss),
    };
    let groups = grouped(all, |one| (one.bench, one.nth_size, one.driver));
    let mut rows: Vec<Row<'_>> = groups.into_iter().map(row).collect();
    rows.sort_by_key(|row| (row.first.bench as u8, row.first.nth_size));
    rows
}

impl Row<'_> {
    /// The rounds, from 1, whose figure is worse than that of the best one by more than this factor.
    pub(crate) fn disturbed(&self, factor: f64) -> Vec<usize> {
        let is_time = matches!(self.first.bench, Bench::Latency | Bench::Volley | Bench::LogP);
        let slowness = |figure: f64| if is_time { figure } else { 1.0 / figure };
        let best = self.by_round.iter().map(|figure| slowness(*figure)).fold(f64::INFINITY, f64::min);
        let rounds = self.rounds.iter().zip(&self.by_round);
        rounds.filter(|(_, figure)| slowness(**figure) > factor * best).map(|(round, _)| round + 1).collect()
    }
}

impl Figures {
    /// The one that is compared.
    fn compared(&self, bench: Bench) -> f64 {
        match bench {
            Bench::Latency | Bench::Volley | Bench::LogP => self.round_trips.value_at_quantile(0.5) as f64,
            Bench::Bandwidth | Bench::Bulk => self.rates.bytes,
            Bench::Rate => self.rates.messages,
        }
    }

    fn of(rounds: &[&Measured]) -> Figures {
        let round_trips = together(rounds.iter().filter_map(|one| one.round_trips()));
        let all: Vec<Rates> = rounds.iter().filter_map(|one| one.rates()).collect();
        let of = |rate: fn(&Rates) -> f64| median_of(&all.iter().collect::<Vec<_>>(), rate);
        let (messages, frames, bytes) = (of(|rates| rates.messages), of(|rates| rates.frames), of(|rates| rates.bytes));
        Figures { round_trips, rates: Rates { messages, frames, bytes } }
    }
}

/// The pairs of drivers that are compared, in the order of the report.
const PAIRS: [(Driver, Driver); 5] = [
    (Driver::Am, Driver::Raw),
    (Driver::Am, Driver::Udp),
    (Driver::Udp, Driver::Am),
    (Driver::Udp, Driver::Raw),
    (Driver::Am, Driver::Cacheline),
];

/// One driver's figure divided by another's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) over: Driver,
    pub(crate) under: Driver,
    pub(crate) ratio: Spread,
}

impl Ratio {
    pub(crate) fn name(&self) -> String {
        format!("{}_over_{}", self.over, self.under)
    }
}

/// Two drivers without a ratio, and the reason.
pub(crate) type MismatchedPair = (Driver, Driver, String);

/// The ratios of one bench and size, one for each pair with equal sizes and equal batching; and the other pairs.
pub(crate) fn compare(all: &[Measured], bench: Bench, nth_size: usize) -> (Vec<Ratio>, Vec<MismatchedPair>) {
    let is = |one: &Measured, driver| (one.bench, one.nth_size, one.driver) == (bench, nth_size, driver);
    let (mut ratios, mut mismatches) = (Vec::new(), Vec::new());
    for (over, under) in PAIRS {
        let first = |driver| all.iter().find(|one| is(one, driver));
        let (Some(a), Some(b)) = (first(over), first(under)) else { continue };
        if a.layout.size != b.layout.size {
            let why = format!("messages of {} B beside {} B", a.layout.size, b.layout.size);
            mismatches.push((over, under, why));
        } else if a.batching != b.batching {
            let why = format!("{}, compared with {}", a.batching.words(), b.batching.words());
            mismatches.push((over, under, why));
        } else if let Some(ratio) = ratio(all, |one| is(one, over), |one| is(one, under)) {
            ratios.push(Ratio { over, under, ratio });
        }
    }
    (ratios, mismatches)
}

/// The share of its figure that a driver retains while frames are lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retained {
    pub(crate) driver: Driver,
    pub(crate) size: usize,
    pub(crate) loss: Loss,
    /// The figure with losses over that without.
    pub(crate) share: Spread,
}

/// The shares of each driver, size and loss of a bench, in the order of measurement.
pub(crate) fn retained(all: &[Measured], bench: Bench) -> Vec<Retained> {
    let one_of_each = grouped(all, |one| (one.bench, one.driver, one.layout.size, one.loss));
    let lossy = one_of_each.iter().map(|group| group[0]).filter(|one| one.bench == bench && one.loss > Loss::NONE);
    let share = |one: &Measured| {
        let (driver, size, loss) = (one.driver, one.layout.size, one.loss);
        let is =
            |one: &Measured, loss| (one.bench, one.driver, one.layout.size, one.loss) == (bench, driver, size, loss);
        let share = ratio(all, |one| is(one, loss), |one| is(one, Loss::NONE))?;
        Some(Retained { driver, size, loss, share })
    };
    lossy.filter_map(share).collect()
}

/// The ratio of two figures: its `median` is that of the figures over all rounds, which the table has; its ends are of the
/// figures of each round.
fn ratio(all: &[Measured], over: impl Fn(&Measured) -> bool, under: impl Fn(&Measured) -> bool) -> Option<Spread> {
    let over: Vec<&Measured> = all.iter().filter(|one| over(one)).collect();
    let under: Vec<&Measured> = all.iter().filter(|one| under(one)).collect();
    let by_round = |its: &[&Measured]| its.iter().map(|one| (one.round, one.figure())).collect::<Vec<_>>();
    let rounds = Spread::of_ratios(&by_round(&over), &by_round(&under))?;
    let figure = |its: &[&Measured]| Figures::of(its).compared(its[0].bench);
    Some(Spread { median: figure(&over) / figure(&under), ..rounds })
}

/// A made-up measurement with this figure, in its bench's unit, for tests of reports.
pub fn measured(bench: Bench, nth_size: usize, driver: Driver, round: usize, figure: u64) -> Measured {
    let outcome = match bench {
        Bench::Latency => {
            let mut round_trips = round_trips();
            // A figure beyond the bounds is not recorded.
            let _ = round_trips.record_n(figure, 10);
            Outcome::Latency(Latency { round_trips, lost: 0 })
        }
        _ => {
            let time = Duration::from_secs(2);
            let (messages, bytes) = (2 * figure, 2 * figure * 64);
            Outcome::Throughput(Throughput { messages, bytes, time, lost: 1, frames_each: 1.0 })
        }
    };
    let layout = MessageLayout { size: 64, pieces: 1, piece: 64, frames: 1, full: false };
    let (mode, framing) = ("veth copy".to_owned(), if driver == Driver::Am { "bare" } else { "none" });
    let xdp = (driver != Driver::Udp).then_some("generic");
    let loss = Loss::NONE;
    let batching = if bench == Bench::Latency { Batching::Single } else { Batching::Bursts };
    Measured {
        round,
        bench,
        nth_size,
        layout,
        loss,
        driver,
        mode,
        xdp,
        framing,
        batching,
        traced: false,
        busy: None,
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_ratio_is_that_of_the_figures_and_has_the_range_of_the_rounds() {
        // The machine is ten times slower in the second round, which changes neither.
        let all: Vec<Measured> = [(0, 110, 100), (1, 1200, 1000), (2, 105, 100)]
            .into_iter()
            .flat_map(|(round, am, raw)| {
                [
                    measured(Bench::Latency, 0, Driver::Am, round, am),
                    measured(Bench::Latency, 0, Driver::Raw, round, raw),
                ]
            })
            .collect();
        let (ratios, _) = compare(&all, Bench::Latency, 0);
        assert_eq!(ratios.len(), 1, "only the pair that ran: {ratios:?}");
        assert_eq!(ratios[0].name(), "am_over_raw");
        let (ratio, rows) = (ratios[0].ratio, rows(&all));
        let [am, raw] = [&rows[0], &rows[1]].map(|row| row.figures.compared(Bench::Latency));
        assert_eq!((am, raw, ratio.median), (110.0, 100.0, 1.1));
        assert!((ratio.least - 1.05).abs() < 1e-3 && (ratio.most - 1.2).abs() < 1e-3, "{ratios:?}");
    }

    /// Messages of 64,986 bytes a frame have no ratio to those of 1,448 a write, nor has batching by several a frame to
    /// one a frame.
    #[test]
    fn what_is_unequal_has_no_ratio() {
        let all = |change: fn(&mut Measured)| {
            let mut am = measured(Bench::Rate, 0, Driver::Am, 0, 50);
            change(&mut am);
            [am, measured(Bench::Rate, 0, Driver::Raw, 0, 100), measured(Bench::Rate, 0, Driver::Udp, 0, 20)]
        };
        let names =
            |all: &[Measured]| -> Vec<String> { compare(all, Bench::Rate, 0).0.iter().map(Ratio::name).collect() };
        assert_eq!(names(&all(|_| {})), ["am_over_raw", "am_over_udp", "udp_over_am", "udp_over_raw"]);
        let changes: [fn(&mut Measured); 2] = [|am| am.layout.size = 65, |am| am.batching = Batching::Shared];
        for change in changes {
            let all = all(change);
            assert_eq!(names(&all), ["udp_over_raw"]);
            let mismatches: Vec<_> = compare(&all, Bench::Rate, 0).1.iter().map(|(a, b, _)| (*a, *b)).collect();
            assert_eq!(mismatches, [(Driver::Am, Driver::Raw), (Driver::Am, Driver::Udp), (Driver::Udp, Driver::Am)]);
        }
    }

    /// Rounds of which the first one was missed: the others keep their numbers.
    #[test]
    fn a_round_far_from_the_best_one_is_disturbed() {
        let disturbed = |bench, figures: [u64; 4]| {
            let rounds = figures.into_iter().enumerate();
            let all: Vec<_> = rounds.map(|(nth, figure)| measured(bench, 0, Driver::Am, nth + 1, figure)).collect();
            rows(&all)[0].disturbed(10.0)
        };
        assert_eq!(disturbed(Bench::Latency, [4_000, 157_000_000, 4_100, 39_000]), [3]);
        assert_eq!(disturbed(Bench::Latency, [157_000_000, 4_000, 157_000_000, 157_000_000]), [2, 4, 5]);
        assert_eq!(disturbed(Bench::Rate, [1_000, 99, 101, 20_000]), [2, 3, 4]);
        assert_eq!(disturbed(Bench::Rate, [1_000, 1_000, 1_000, 1_000]), [0; 0]);
    }

    #[test]
    fn rows_are_medians_of_rates_and_all_round_trips_together() {
        let mut all: Vec<Measured> =
            [100, 300, 200].into_iter().enumerate().map(|(r, f)| measured(Bench::Rate, 0, Driver::Am, r, f)).collect();
        all.push(measured(Bench::Latency, 0, Driver::Udp, 0, 5000));
        all.push(measured(Bench::Latency, 0, Driver::Udp, 1, 7000));
        let rows = rows(&all);
        assert_eq!((rows[0].figures.round_trips.len(), rows[0].by_round.len()), (20, 2));
        let rates = rows[1].figures.rates;
        assert_eq!((rates.messages, rates.frames, rates.bytes), (200.0, 200.0, 12_800.0));
        assert_eq!((rows[1].lost, rows[1].by_round.as_slice()), (3, &[100.0, 300.0, 200.0][..]));
    }
}
