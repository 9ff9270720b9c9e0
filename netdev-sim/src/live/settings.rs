//! The settings of a network in its name.

use std::ops::RangeInclusive;

use am_transport::{NameError, TransportName};

use crate::clock::{Nanos, US};
use crate::options::NetOptions;

/// The settings in a network's name: `sim:7,loss=0.01,delay=10us`. A setting that is left out has the value of the
/// existing network, or the default if this node makes the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimSettings {
    /// The network's seed: its name in this process, and the source of its random numbers.
    pub seed: u64,
    /// The probability that a frame is lost between two nodes.
    pub loss: Option<f64>,
    /// The probability that a frame arrives twice.
    pub duplicate: Option<f64>,
    /// The probability that a frame is late by up to 100 µs, so that others overtake it.
    pub reorder: Option<f64>,
    /// The probability that a bit of a frame flips. The damage is detected, and the frame dropped.
    pub corrupt: Option<f64>,
    /// The time from one node to another, without the time that the bits of the frame take.
    pub delay: Option<Nanos>,
    /// Bits per second of each link.
    pub rate: Option<u64>,
    /// The maximum number of nodes at a time.
    pub nodes: Option<usize>,
    /// The longest frame, from the destination address on.
    pub frame: Option<usize>,
}

/// A partition has one bit for each node.
pub(super) const MAX_NODES: usize = 64;
const DEFAULT_NODES: usize = 16;
const DEFAULT_DELAY: Nanos = 2 * US;
const MAX_DELAY: Nanos = 60_000_000_000;
const DEFAULT_RATE: u64 = 10_000_000_000;
const VALID_RATES: RangeInclusive<u64> = 1_000..=10_000_000_000_000;
const DEFAULT_FRAME: usize = 1514;
const VALID_FRAMES: RangeInclusive<usize> = DEFAULT_FRAME..=65_536;
/// Bytes of a node's pool, and the bounds of its number of frames.
const POOL_BYTES: usize = 64 << 20;
const POOL_FRAMES: (usize, usize) = (512, 4096);
/// The most bytes that wait at a port of the switch.
const SWITCH_BUFFER_BYTES: usize = 4 << 20;

impl SimSettings {
    /// Read the settings of a name.
    ///
    /// ```
    /// let settings = am_netdev_sim::live::SimSettings::from_name(&"sim:7,loss=0.01,delay=10us".parse()?)?;
    /// assert_eq!((settings.seed, settings.loss, settings.delay), (7, Some(0.01), Some(10_000)));
    /// # Ok::<(), am_transport::NameError>(())
    /// ```
    ///
    /// # Errors
    /// The name has no seed, an unknown setting, or a bad value.
    pub fn from_name(name: &TransportName) -> Result<SimSettings, NameError> {
        let (which, settings) = name.settings("7,loss=0.01")?;
        let hint = "give a seed, a number, as in `sim:7`: nodes that give the same seed are on the same network";
        let seed = which.parse().map_err(|_| name.bad_setting(which, None, hint))?;
        let mut read = SimSettings { seed, ..SimSettings::default() };
        for (key, value) in settings {
            read.set(key, value.unwrap_or_default()).map_err(|hint| name.bad_setting(key, value, hint))?;
        }
        Ok(read)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let some = || chance(value).ok_or("give a probability, as in `loss=0.01` or `loss=1%`");
        let number = |range: &RangeInclusive<usize>, hint| match value.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(hint),
        };
        match key {
            "loss" => self.loss = Some(some()?),
            "duplicate" => self.duplicate = Some(some()?),
            "reorder" => self.reorder = Some(some()?),
            "corrupt" => self.corrupt = Some(some()?),
            "delay" => {
                let delay = time(value).filter(|delay| *delay <= MAX_DELAY);
                self.delay = Some(delay.ok_or("give a time of at most a minute, as in `delay=10us`")?);
            }
            "rate" => {
                let rate = rate(value).filter(|rate| VALID_RATES.contains(rate));
                self.rate = Some(rate.ok_or("give bits per second, from 1k to 10T, as in `rate=10G`")?);
            }
            "nodes" => {
                self.nodes = number(&(2..=MAX_NODES), "give the maximum number of nodes, 2 to 64, as in `nodes=4`")?;
            }
            "frame" => {
                self.frame = number(&VALID_FRAMES, "give the longest frame, 1514 to 65536 bytes, as in `frame=9014`")?;
            }
            _ => {
                return Err("the settings are loss=, duplicate=, reorder=, corrupt=, delay=, rate=, nodes= and frame=");
            }
        }
        Ok(())
    }

    /// The same settings, with defaults for those that are left out.
    #[must_use]
    pub(super) fn with_defaults(&self) -> SimSettings {
        SimSettings {
            seed: self.seed,
            loss: self.loss.or(Some(0.0)),
            duplicate: self.duplicate.or(Some(0.0)),
            reorder: self.reorder.or(Some(0.0)),
            corrupt: self.corrupt.or(Some(0.0)),
            delay: self.delay.or(Some(DEFAULT_DELAY)),
            rate: self.rate.or(Some(DEFAULT_RATE)),
            nodes: self.nodes.or(Some(DEFAULT_NODES)),
            frame: self.frame.or(Some(DEFAULT_FRAME)),
        }
    }

    /// Each setting by its key, and its value as text if it is given.
    fn to_texts(&self) -> [(&'static str, Option<String>); 8] {
        [
            ("rate", self.rate.map(|rate| show(rate, &RATES))),
            ("delay", self.delay.map(|delay| show(delay, &TIMES))),
            ("loss", self.loss.map(|chance| chance.to_string())),
            ("duplicate", self.duplicate.map(|chance| chance.to_string())),
            ("reorder", self.reorder.map(|chance| chance.to_string())),
            ("corrupt", self.corrupt.map(|chance| chance.to_string())),
            ("nodes", self.nodes.map(|nodes| nodes.to_string())),
            ("frame", self.frame.map(|frame| frame.to_string())),
        ]
    }

    /// The first given setting that differs from the network's: its key, the network's value, the given value.
    pub(super) fn conflict(&self, network: &SimSettings) -> Option<(&'static str, String, String)> {
        let mut pairs = network.to_texts().into_iter().zip(self.to_texts());
        pairs.find_map(|((key, has), (_, asked))| {
            let (has, asked) = (has?, asked?);
            (has != asked).then_some((key, has, asked))
        })
    }

    /// The mode that users see: that the network is simulated, its rate and delay, and its faults.
    pub(super) fn mode(&self) -> String {
        let all = self.with_defaults();
        let faults = [all.loss, all.duplicate, all.reorder, all.corrupt].map(|chance| chance > Some(0.0));
        let is_shown = [true, true].into_iter().chain(faults);
        let parts = all.to_texts().into_iter().zip(is_shown).filter(|(_, is_shown)| *is_shown);
        parts.fold("simulated".to_owned(), |mode, ((key, value), _)| {
            mode + &format!(", {key}={}", value.unwrap_or_default())
        })
    }

    /// The options of the whole network.
    pub(super) fn options(&self) -> NetOptions {
        // The probability on each of the two links between two nodes, so that a fault strikes with `chance` in all.
        let per_link = |chance: Option<f64>| 1.0 - (1.0 - chance.unwrap_or_default()).sqrt();
        let max_frame = self.frame.unwrap_or(DEFAULT_FRAME);
        let frames = (POOL_BYTES / max_frame).clamp(POOL_FRAMES.0, POOL_FRAMES.1);
        NetOptions {
            seed: self.seed,
            faults_until: Nanos::MAX,
            frames,
            max_frame,
            fill: frames / 4,
            rx: frames / 4,
            tx: frames / 8,
            completion: frames / 8,
            rate: self.rate.unwrap_or(DEFAULT_RATE),
            delay: self.delay.unwrap_or(DEFAULT_DELAY).div_ceil(2),
            loss: per_link(self.loss),
            duplicate: per_link(self.duplicate),
            reorder: per_link(self.reorder),
            corrupt: per_link(self.corrupt),
            // Our own nodes do not write a sent frame, and the checksum would cost as much as all other work.
            detect_writes: false,
            switch_buffer: SWITCH_BUFFER_BYTES,
            // The switch is configured with each node's address. It cannot learn them: the source address of a bare frame names no node.
            switch_addresses: 0,
            ..NetOptions::calm(self.nodes.unwrap_or(DEFAULT_NODES))
        }
    }
}

const TIMES: [(&str, Nanos); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RATES: [(&str, u64); 4] = [("T", 1_000_000_000_000), ("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)];

/// Parse a probability: `0.01` or `1%`.
fn chance(text: &str) -> Option<f64> {
    let chance = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    (0.0..=1.0).contains(&chance).then_some(chance)
}

/// Parse a time: `10us`. 0 needs no unit.
fn time(text: &str) -> Option<Nanos> {
    if text == "0" {
        return Some(0);
    }
    // `ms` ends in `s`, so the longer units come first.
    TIMES.iter().rev().find_map(|(unit, nanos)| scaled(text.strip_suffix(unit)?, *nanos))
}

/// Parse a rate: `10G`, or a number of bits.
fn rate(text: &str) -> Option<u64> {
    let scaled_by = |(unit, bits): &(&str, u64)| scaled(text.strip_suffix(unit)?, *bits);
    RATES.iter().find_map(scaled_by).or_else(|| scaled(text, 1))
}

/// A time or rate that can be parsed again, in the largest unit without a fraction.
fn show(value: u64, units: &[(&str, u64)]) -> String {
    let whole = units.iter().find(|(_, size)| value != 0 && value.is_multiple_of(*size));
    whole.map_or_else(|| value.to_string(), |(unit, size)| format!("{}{unit}", value / size))
}

fn scaled(text: &str, unit: u64) -> Option<u64> {
    let value = number(text)? * unit as f64;
    (0.0..1e18).contains(&value).then_some(value.round() as u64)
}

/// Parse digits and a point. The other forms of a float are refused.
fn number(text: &str) -> Option<f64> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_hold_between_nodes_over_two_links() {
        let said = SimSettings { loss: Some(0.19), delay: Some(5_000), ..SimSettings::default() }.options();
        assert!((said.loss - 0.1).abs() < 1e-9, "on each of two links, {}", said.loss);
        assert_eq!(said.delay, 2_500);
    }

    #[test]
    fn the_mode_lists_rate_delay_and_faults() {
        let said = SimSettings { corrupt: Some(0.25), ..SimSettings::default() };
        assert_eq!(SimSettings::default().mode(), "simulated, rate=10G, delay=2us");
        assert_eq!(said.mode(), "simulated, rate=10G, delay=2us, corrupt=0.25");
    }

    #[test]
    fn valid_values_are_parsed() {
        assert_eq!(
            [chance("0.01"), chance("1%"), chance("1"), chance("0")].map(Option::unwrap),
            [0.01, 0.01, 1.0, 0.0]
        );
        assert_eq!(
            [time("0"), time("7ns"), time("1.5us"), time("2ms"), time("1s")].map(Option::unwrap),
            [0, 7, 1_500, 2_000_000, 1_000_000_000]
        );
        assert_eq!(
            [rate("10G"), rate("2.5G"), rate("64k"), rate("9600")].map(Option::unwrap),
            [10_000_000_000, 2_500_000_000, 64_000, 9_600]
        );
    }

    #[test]
    fn bad_values_are_refused() {
        assert!(["", "x", "1.1", "101%", "-1", "NaN", "1e-3"].iter().all(|text| chance(text).is_none()));
        assert!(["", "1", "us", "1h", "-1us", "infs", "99999999999s"].iter().all(|text| time(text).is_none()));
        assert!(["", "G", "10g", "-1", "1e9"].iter().all(|text| rate(text).is_none()));
    }

    #[test]
    fn shown_values_parse_again() {
        for nanos in [0, 1, 999, 1_000, 1_500, 10_000, 2_000_000, 60_000_000_000] {
            assert_eq!(time(&show(nanos, &TIMES)), Some(nanos));
        }
        assert_eq!((show(10_000, &TIMES), show(2_500_000_000, &RATES)), ("10us".to_owned(), "2500M".to_owned()));
    }
}
