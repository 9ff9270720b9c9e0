//! Probabilities, times and rates as text.

use crate::clock::Nanos;

const TIMES: [(&str, Nanos); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RATES: [(&str, u64); 4] = [("T", 1_000_000_000_000), ("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)];

/// Parse a probability: `0.01` or `1%`.
pub(super) fn chance(text: &str) -> Option<f64> {
    let chance = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    (0.0..=1.0).contains(&chance).then_some(chance)
}

/// Parse a time: `10us`. 0 needs no unit.
pub(super) fn time(text: &str) -> Option<Nanos> {
    if text == "0" {
        return Some(0);
    }
    // `ms` ends in `s`, so the longer units come first.
    TIMES.iter().rev().find_map(|(unit, nanos)| scaled(text.strip_suffix(unit)?, *nanos))
}

/// Parse a rate: `10G`, or a number of bits.
pub(super) fn rate(text: &str) -> Option<u64> {
    let scaled_by = |(unit, bits): &(&str, u64)| scaled(text.strip_suffix(unit)?, *bits);
    RATES.iter().find_map(scaled_by).or_else(|| scaled(text, 1))
}

/// A time that [`time`] can parse, in the largest unit without a fraction.
pub(super) fn show_time(nanos: Nanos) -> String {
    show(nanos, &TIMES)
}

/// A rate that [`rate`] can parse, in the largest unit without a fraction.
pub(super) fn show_rate(bits: u64) -> String {
    show(bits, &RATES)
}

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
            assert_eq!(time(&show_time(nanos)), Some(nanos), "{}", show_time(nanos));
        }
        assert_eq!((show_time(10_000), show_rate(2_500_000_000)), ("10us".to_owned(), "2500M".to_owned()));
    }
}
