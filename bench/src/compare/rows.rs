//! From turns to rows: medians over the rounds, and their spread.

use std::collections::BTreeSet;

use super::offload::Offload;
use super::peer::{OneWay, Peer, Settings, Stream, Turn};
use crate::error::Error;
use crate::stats::median;
use crate::sweep::Point;
use crate::sweep::fit::size_of_rate;
use crate::watch::Watch;

/// Messages from this size on fill several frames of any length.
const MIN_MANY_FRAMES: usize = 1 << 16;

/// All turns of one peer.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) wire: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) mtu: Option<usize>,
    pub(crate) notes: &'static [&'static str],
    pub(crate) version: String,
    /// Why it cannot be measured.
    pub(crate) absent: Option<String>,
    /// Each with its round.
    pub(crate) turns: Vec<(usize, Turn)>,
    /// Why turns failed.
    pub(crate) failures: Vec<String>,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) rows: Vec<Row>,
    pub(crate) settings: Settings,
    /// Of the cable, if ethtool told it.
    pub(crate) offload: Option<Offload>,
}

/// A figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let (least, most) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some(Spread { median: median(&values)?, least, most })
    }

    /// Half of the range of the rounds, in per cent of the median.
    pub(crate) fn per_cent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / 2.0 / self.median * 100.0 }
    }
}

impl Turn {
    pub(crate) fn one_way(&self, size: usize) -> Option<&OneWay> {
        self.one_way.iter().find(|one| one.size == size)
    }

    pub(crate) fn stream(&self, size: usize) -> Option<&Stream> {
        self.stream.iter().find(|one| one.size == size)
    }

    /// The bandwidth of the size with the largest.
    pub(crate) fn peak(&self) -> Option<f64> {
        self.stream.iter().map(Stream::bytes).filter(|bytes| *bytes > 0.0).reduce(f64::max)
    }

    /// The smallest size that reaches half of the peak. Between two sizes, times are interpolated.
    pub(crate) fn n_half(&self) -> Option<f64> {
        let point = |(nth_size, one): (usize, &Stream)| {
            let (size, messages) = (one.size, one.messages);
            Point { nth_size, size, frames: 1, full: false, ns: 1e9 / messages, frames_per_s: messages, lost: one.lost }
        };
        let moved = self.stream.iter().filter(|one| one.messages > 0.0);
        let mut curve: Vec<Point> = moved.enumerate().map(point).collect();
        curve.sort_by_key(|point| point.size);
        // A single size cannot tell where half of it is reached.
        if curve.len() < 2 { None } else { size_of_rate(&curve, self.peak()? / 2.0) }
    }
}

impl Row {
    /// The row of a peer, with the reason if it cannot be measured.
    pub(crate) fn new(peer: &dyn Peer, settings: &Settings, watch: &Watch) -> Row {
        let (version, absent) = match peer.find(watch) {
            Ok(version) => (version, None),
            Err(why) => (String::new(), Some(why)),
        };
        let (name, what, wire, mtu, notes) = (peer.name(), peer.what(), peer.wire(), peer.mtu(settings), peer.notes());
        let (transport, turns, failures) = (peer.transport(), Vec::new(), Vec::new());
        Row { name, what, wire, transport, mtu, notes, version, absent, turns, failures }
    }

    /// Add the result of a turn.
    pub(crate) fn take(&mut self, round: usize, turn: Result<Turn, Error>) {
        match turn {
            Ok(turn) => self.turns.push((round, turn)),
            Err(why) => self.failures.push(format!("round {}: {why}", round + 1)),
        }
    }

    /// The mode of the last turn that succeeded.
    pub(crate) fn mode(&self) -> &str {
        match self.turns.last() {
            Some((_, turn)) => &turn.mode,
            None if self.absent.is_some() => "not installed",
            None if self.failures.is_empty() => "not measured",
            None => "failed",
        }
    }

    /// Why it has no figures, or fewer rounds than others.
    pub(crate) fn reasons(&self) -> Vec<&str> {
        self.absent.iter().chain(&self.failures).map(String::as_str).collect()
    }

    /// A figure of each round that has it.
    pub(crate) fn by_round(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Vec<(usize, f64)> {
        self.turns.iter().filter_map(|(round, turn)| Some((*round, figure(turn)?))).collect()
    }

    /// A figure over the rounds.
    pub(crate) fn spread(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.by_round(figure).into_iter().map(|(_, value)| value).collect::<Vec<_>>())
    }

    /// The sizes that it measured.
    pub(crate) fn sizes(&self) -> BTreeSet<usize> {
        let of = |(_, turn): &(usize, Turn)| -> Vec<usize> {
            let one_way = turn.one_way.iter().map(|one| one.size);
            one_way.chain(turn.stream.iter().map(|one| one.size)).collect()
        };
        self.turns.iter().flat_map(of).collect()
    }
}

impl Comparison {
    /// A row's round trip, its rate at the small size and its bandwidth at the largest, each divided by that of `am`.
    /// Sizes are equal, and where batching matters, so are batches.
    pub(crate) fn ratios(&self, row: &Row) -> [(&'static str, Option<f64>); 3] {
        let (small, large) = (self.settings.small(), self.settings.largest());
        let of = |size, ratio: Option<f64>| ratio.filter(|_| self.is_fair(row, size));
        [
            ("p50", self.beside_am(row, |turn| turn.one_way(small)?.middle())),
            ("messages", of(small, self.beside_am(row, |turn| Some(turn.stream(small)?.messages)))),
            ("bytes", of(large, self.beside_am(row, |turn| turn.stream(large).map(Stream::bytes)))),
        ]
    }

    /// Whether messages of this size were handed over as those of `am`. A message of many frames is a batch by itself.
    fn is_fair(&self, row: &Row, size: usize) -> bool {
        let batching = |row: &Row| row.turns.iter().find_map(|(_, turn)| turn.stream(size)?.batching);
        let am = self.rows.iter().find(|row| row.name == "am").and_then(batching);
        size >= MIN_MANY_FRAMES || (am.is_some() && am == batching(row))
    }

    /// The median of the rounds' ratios of a row's figure to that of `am`.
    fn beside_am(&self, row: &Row, figure: impl Fn(&Turn) -> Option<f64>) -> Option<f64> {
        let am = self.rows.iter().find(|row| row.name == "am")?.by_round(&figure);
        let same_round = |round| am.iter().find(|(other, _)| *other == round).map(|(_, value)| *value);
        let ratios: Vec<f64> = row
            .by_round(&figure)
            .into_iter()
            .filter_map(|(round, value)| Some(value / same_round(round)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        median(&ratios)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batching::Batching;
    use crate::cores::Cores;
    use crate::plan::{Amount, DriverOptions};

    /// A turn in which a message takes `start` nanoseconds, and one more for each byte.
    pub(crate) fn turn(start: f64) -> Turn {
        let stream = |size: usize| {
            let messages = 1e9 / (start + size as f64);
            Stream { size, messages, cpu: Some(2.0 * (start + size as f64)), lost: 0, batching: Some(Batching::Bursts) }
        };
        let one_way = |size: usize| OneWay { size, p50: Some(2.0 * start + size as f64), p99: None, mean: None };
        let sizes = [8, 64, 4096];
        Turn { mode: "veth kernel".to_owned(), one_way: sizes.map(one_way).into(), stream: sizes.map(stream).into() }
    }

    /// A row with these turns.
    pub(crate) fn row(name: &'static str, turns: &[f64]) -> Row {
        let turns = turns.iter().enumerate().map(|(round, start)| (round, turn(*start))).collect();
        let (what, wire, version) = ("something", "veth", "1.0".to_owned());
        Row {
            name,
            what,
            wire,
            transport: "xdp",
            mtu: Some(1500),
            notes: &["a note"],
            version,
            absent: None,
            turns,
            failures: Vec::new(),
        }
    }

    pub(crate) fn comparison(rows: Vec<Row>) -> Comparison {
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
    fn rounds_are_a_median_and_how_far_they_lie_apart() {
        let spread = Spread::of(&[90.0, 100.0, 130.0, f64::NAN]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most), (100.0, 90.0, 130.0));
        assert!((spread.per_cent() - 20.0).abs() < 1e-9);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn half_of_the_peak_is_read_off_the_curve() {
        // A message takes 1000 + size, so the peak is 4096/5096 bytes a nanosecond, and half of it is reached at
        // n/(1000+n).
        let half = 4096.0 / 5096.0 / 2.0;
        let expected = 1000.0 * half / (1.0 - half);
        assert!((turn(1000.0).n_half().unwrap() / expected - 1.0).abs() < 1e-9);
        let one = Turn { stream: turn(1000.0).stream[..1].to_vec(), ..Turn::default() };
        assert_eq!(one.n_half(), None);
        assert_eq!(Turn::default().peak(), None);
    }

    #[test]
    fn a_peer_stands_beside_ours_of_the_same_round() {
        // The second round of `am` is missing. In the third the machine is ten times slower.
        let mut am = row("am", &[100.0, 100.0, 1000.0]);
        am.turns.remove(1);
        let all = comparison(vec![am, row("udp", &[200.0, 900.0, 2000.0])]);
        let ratio = all.beside_am(&all.rows[1], |turn| Some(turn.one_way(8)?.p50? - 8.0));
        assert_eq!(ratio, Some(2.0));
        assert_eq!(comparison(vec![row("udp", &[1.0])]).beside_am(&row("udp", &[1.0]), Turn::peak), None);
    }

    #[test]
    fn messages_in_other_batches_have_no_ratio_and_large_ones_are_batches() {
        let with = |name, batching| {
            let mut row = row(name, &[100.0]);
            for one in &mut row.turns[0].1.stream {
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
            row.turns[0].1.stream[2].size = MIN_MANY_FRAMES;
        }
        all.settings.sizes = vec![8, 64, MIN_MANY_FRAMES];
        assert_eq!(fair(&all)[2..], [[true, false, true]; 2]);
    }

    #[test]
    fn what_fails_says_why() {
        let mut failing = row("udp", &[]);
        assert_eq!(failing.mode(), "not measured");
        failing.take(1, Err(Error::NoIp(String::new())));
        assert_eq!(failing.mode(), "failed");
        assert!(failing.reasons()[0].starts_with("round 2: the two interfaces"), "{failing:?}");
    }
}
