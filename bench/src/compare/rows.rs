//! From turns to rows: the figures of a turn, medians over the rounds, and their spread.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::offload::Offload;
use super::peer::Peer;
use am_measure::sweep::size_of_rate;
use am_measure::{Amount, Batching, Cores, DriverOptions, Error, Spread, Watch};

/// Messages from this size on fill several frames of any length.
const MIN_MANY_FRAMES: usize = 1 << 16;

/// What every peer has to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Bytes of a message, smallest first.
    pub(super) sizes: Vec<usize>,
    /// The number of rounds, and the length of each measurement.
    pub(super) amount: Amount,
    /// The limit of a foreign program's turn.
    pub(super) limit: Duration,
    /// The cores of both sides.
    pub(super) cores: Cores,
    /// How our drivers are opened.
    pub(super) how: DriverOptions,
    /// The MTU of the cable.
    pub(super) mtu: usize,
}

impl Settings {
    /// The size of the table's first figures.
    pub(super) fn small(&self) -> usize {
        const SMALL: usize = 64;
        if self.sizes.contains(&SMALL) { SMALL } else { self.sizes.first().copied().unwrap_or(SMALL) }
    }

    /// The size whose bandwidths are compared.
    pub(super) fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }
}

/// The figures of one size that a measurement tells. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    pub(super) size: usize,
    /// Half of a round trip.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) mean: Option<f64>,
    /// Messages a second, one way, as fast as possible.
    pub(super) messages: Option<f64>,
    /// Processor time that one of them costs, both sides together.
    pub(super) cpu: Option<f64>,
    /// How many of them never arrived.
    #[serde(default)]
    pub(super) lost: u64,
    /// How they were handed over. Foreign programs do not tell.
    pub(super) batching: Option<Batching>,
}

impl Figures {
    /// The median; the mean of a program that tells no median.
    pub(super) fn middle(&self) -> Option<f64> {
        self.p50.or(self.mean)
    }

    /// Bytes a second.
    pub(super) fn bytes(&self) -> Option<f64> {
        self.messages.map(|messages| messages * self.size as f64)
    }
}

/// The figures of one turn of a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Its device and mode.
    pub(super) mode: String,
    pub(super) all: Vec<Figures>,
}

impl Turn {
    /// A figure of this size.
    pub(super) fn of<T>(&self, size: usize, figure: impl Fn(&Figures) -> Option<T>) -> Option<T> {
        self.all.iter().filter(|one| one.size == size).find_map(figure)
    }

    /// The bandwidth of the size with the largest.
    pub(super) fn peak(&self) -> Option<f64> {
        self.all.iter().filter_map(Figures::bytes).filter(|bytes| *bytes > 0.0).reduce(f64::max)
    }

    /// The smallest size that reaches half of the peak. Between two sizes, times are interpolated.
    pub(super) fn n_half(&self) -> Option<f64> {
        let point = |one: &Figures| Some((one.size as f64, 1e9 / one.messages.filter(|rate| *rate > 0.0)?));
        let mut curve: Vec<(f64, f64)> = self.all.iter().filter_map(point).collect();
        curve.sort_by(|one, other| one.0.total_cmp(&other.0));
        // A single size cannot tell where half of it is reached.
        if curve.len() < 2 { None } else { size_of_rate(&curve, self.peak()? / 2.0) }
    }
}

/// All turns of one peer.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) peer: &'static Peer,
    pub(super) version: String,
    /// Why it cannot be measured.
    pub(super) absent: Option<String>,
    /// Each with its round.
    pub(super) turns: Vec<(usize, Turn)>,
    /// Why turns failed.
    pub(super) failures: Vec<String>,
}

impl Row {
    /// The row of a peer, with the reason if it cannot be measured.
    pub(super) fn new(peer: &'static Peer, watch: &Watch) -> Row {
        let found = peer.find(watch);
        let (version, absent) = (found.clone().unwrap_or_default(), found.err());
        Row { peer, version, absent, turns: Vec::new(), failures: Vec::new() }
    }

    /// Add the result of a turn.
    pub(super) fn take(&mut self, round: usize, turn: Result<Turn, Error>) {
        match turn {
            Ok(turn) => self.turns.push((round, turn)),
            Err(why) => self.failures.push(format!("round {}: {why}", round + 1)),
        }
    }

    /// The mode of the last turn that succeeded.
    pub(super) fn mode(&self) -> &str {
        match self.turns.last() {
            Some((_, turn)) => &turn.mode,
            None if self.absent.is_some() => "not installed",
            None if self.failures.is_empty() => "not measured",
            None => "failed",
        }
    }

    /// Why it has no figures, or fewer rounds than others.
    pub(super) fn reasons(&self) -> Vec<&str> {
        self.absent.iter().chain(&self.failures).map(String::as_str).collect()
    }

    /// A figure of each round that has it.
    pub(super) fn by_round(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Vec<(usize, f64)> {
        self.turns.iter().filter_map(|(round, turn)| Some((*round, figure(turn)?))).collect()
    }

    /// A figure over the rounds.
    pub(super) fn spread(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.by_round(figure).into_iter().map(|(_, value)| value))
    }

    /// How its messages of this size were handed over.
    pub(super) fn batching(&self, size: usize) -> Option<Batching> {
        self.turns.iter().find_map(|(_, turn)| turn.of(size, |one| one.batching))
    }

    /// The sizes that it measured.
    pub(super) fn sizes(&self) -> BTreeSet<usize> {
        self.turns.iter().flat_map(|(_, turn)| &turn.all).map(|one| one.size).collect()
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) rows: Vec<Row>,
    pub(super) settings: Settings,
    /// Of the cable, if ethtool told it.
    pub(super) offload: Option<Offload>,
}

impl Comparison {
    /// A row's round trip, its rate at the small size and its bandwidth at the largest, each divided by that of `am`.
    /// Sizes are equal, and where batching matters, so are batches.
    pub(super) fn ratios(&self, row: &Row) -> [(&'static str, Option<f64>); 3] {
        let (small, large) = (self.settings.small(), self.settings.largest());
        let of = |size, ratio: Option<f64>| ratio.filter(|_| self.is_fair(row, size));
        [
            ("p50", self.beside_am(row, |turn| turn.of(small, Figures::middle))),
            ("messages", of(small, self.beside_am(row, |turn| turn.of(small, |one| one.messages)))),
            ("bytes", of(large, self.beside_am(row, |turn| turn.of(large, Figures::bytes)))),
        ]
    }

    fn am(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.peer.name == "am")
    }

    /// Whether messages of this size were handed over as those of `am`. A message of many frames is a batch by itself.
    fn is_fair(&self, row: &Row, size: usize) -> bool {
        let am = self.am().and_then(|am| am.batching(size));
        size >= MIN_MANY_FRAMES || (am.is_some() && am == row.batching(size))
    }

    /// The ratio of a row's figure to that of `am`, in the rounds that have both.
    fn beside_am(&self, row: &Row, figure: impl Fn(&Turn) -> Option<f64>) -> Option<f64> {
        Spread::of_ratios(&row.by_round(&figure), &self.am()?.by_round(&figure)).map(|ratio| ratio.median)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::peer::{Source, Wire};
    use super::*;
    use am_measure::Driver;

    /// A turn in which a message takes `start` nanoseconds, and one more for each byte.
    fn turn(start: f64) -> Turn {
        let of_size = |size: usize| {
            let ns = start + size as f64;
            let (p50, messages, cpu) = (Some(ns + start), Some(1e9 / ns), Some(2.0 * ns));
            Figures { size, p50, messages, cpu, batching: Some(Batching::Bursts), ..Figures::default() }
        };
        Turn { mode: "veth kernel".to_owned(), all: [8, 64, 4096].map(of_size).into() }
    }

    /// A row with these turns.
    pub(in crate::compare) fn row(name: &'static str, turns: &[f64]) -> Row {
        let turns = turns.iter().enumerate().map(|(round, start)| (round, turn(*start))).collect();
        let (wire, source) = (Wire::Interface, Source::Session(Driver::Am));
        let peer = Box::leak(Box::new(Peer { name, what: "something", wire, source, notes: &["a note"] }));
        Row { peer, version: "1.0".to_owned(), absent: None, turns, failures: Vec::new() }
    }

    pub(in crate::compare) fn comparison(rows: Vec<Row>) -> Comparison {
        let time = Duration::from_millis(1);
        let amount = Amount { rounds: 3, time, warm_up: time };
        let cores = Cores { near: Some(2), far: Some(3) };
        Comparison {
            rows,
            settings: Settings {
                sizes: vec![8, 64, 4096],
                amount,
                limit: time,
                cores,
                how: DriverOptions::default(),
                mtu: 1500,
            },
            offload: Some(Offload { tso: true, gso: true, gro: false }),
        }
    }
    #[test]
    fn half_of_the_peak_is_read_off_the_curve() {
        // A message takes 1000 + size, so the peak is 4096/5096 bytes a nanosecond, and half of it is reached at
        // n/(1000+n).
        let half = 4096.0 / 5096.0 / 2.0;
        let expected = 1000.0 * half / (1.0 - half);
        assert!((turn(1000.0).n_half().unwrap() / expected - 1.0).abs() < 1e-9);
        let one = Turn { all: turn(1000.0).all[..1].to_vec(), ..Turn::default() };
        assert_eq!(one.n_half(), None);
        assert_eq!(Turn::default().peak(), None);
    }

    #[test]
    fn a_peer_stands_beside_ours_of_the_same_round() {
        // The second round of `am` is missing. In the third the machine is ten times slower.
        let mut am = row("am", &[100.0, 100.0, 1000.0]);
        am.turns.remove(1);
        let all = comparison(vec![am, row("udp", &[200.0, 900.0, 2000.0])]);
        let ratio = all.beside_am(&all.rows[1], |turn| Some(turn.of(8, |one| one.p50)? - 8.0));
        assert_eq!(ratio, Some(2.0));
        assert_eq!(comparison(vec![row("udp", &[1.0])]).beside_am(&row("udp", &[1.0]), Turn::peak), None);
    }

    #[test]
    fn messages_in_other_batches_have_no_ratio_and_large_ones_are_batches() {
        let with = |name, batching| {
            let mut row = row(name, &[100.0]);
            for one in &mut row.turns[0].1.all {
                one.batching = batching;
            }
            row
        };
        let rows =
            [("am", Some(Batching::Bursts)), ("tcp", Some(Batching::Bursts)), ("tcp-nagle", Some(Batching::Shared))];
        let mut all = comparison(rows.into_iter().chain([("ucx", None)]).map(|(name, how)| with(name, how)).collect());
        let fair = |all: &Comparison| -> Vec<[bool; 3]> {
            all.rows.iter().map(|row| all.ratios(row).map(|(_, ratio)| ratio.is_some())).collect()
        };
        assert_eq!(fair(&all), [[true; 3], [true; 3], [true, false, false], [true, false, false]]);
        for row in &mut all.rows {
            row.turns[0].1.all[2].size = MIN_MANY_FRAMES;
        }
        all.settings.sizes = vec![8, 64, MIN_MANY_FRAMES];
        assert_eq!(fair(&all)[2..], [[true, false, true]; 2]);
    }
}
