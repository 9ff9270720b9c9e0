//! The rate of a wire.

use std::fmt;
use std::str::FromStr;

use am_netns::WIRE_OVERHEAD;
use am_wire::frame::ETHERNET_HEADER;

/// Bits a second, from 10 Mb/s to 10 Gb/s. On a slower wire a window takes longer than a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireRate(u64);

const UNITS: [(&str, u64, &str); 2] = [("gbit", 1_000_000_000, "Gb/s"), ("mbit", 1_000_000, "Mb/s")];
const LEAST: u64 = 10_000_000;
const MOST: u64 = 10_000_000_000;

impl WireRate {
    /// The rate in bits.
    pub fn bits_per_s(self) -> u64 {
        self.0
    }

    /// The rate in bytes.
    pub fn bytes_per_s(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// The payload bytes a second of full frames with this MTU.
    pub fn max_payload_per_s(self, mtu: u32) -> f64 {
        let frame = mtu + ETHERNET_HEADER as u32 + WIRE_OVERHEAD;
        self.bytes_per_s() * f64::from(mtu) / f64::from(frame)
    }
}

impl fmt::Display for WireRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [gbit, mbit] = UNITS;
        let (_, unit, name) = if self.0 >= gbit.1 { gbit } else { mbit };
        write!(f, "{} {name}", self.0 as f64 / unit as f64)
    }
}

impl FromStr for WireRate {
    type Err = String;

    fn from_str(text: &str) -> Result<WireRate, String> {
        let bits = UNITS.into_iter().find_map(|(suffix, unit, _)| {
            let number: f64 = text.strip_suffix(suffix)?.parse().ok()?;
            Some((number * unit as f64).round() as u64)
        });
        let rate = bits.filter(|bits| (LEAST..=MOST).contains(bits)).map(WireRate);
        rate.ok_or_else(|| "bits a second with their unit, from 10mbit to 10gbit, as in 100mbit or 2.5gbit".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let rate = |text: &str| text.parse::<WireRate>().map(WireRate::bits_per_s);
        assert_eq!(rate("1gbit"), Ok(1_000_000_000));
        assert_eq!(rate("100mbit"), Ok(100_000_000));
        assert_eq!(rate("2.5gbit"), Ok(2_500_000_000));
        for text in ["1", "1 gbit", "1Gb/s", "gbit", "-1gbit", "NaNgbit", "9mbit", "11gbit", "1gbits", ""] {
            assert!(rate(text).is_err_and(|why| why.contains("10mbit to 10gbit")), "{text}");
        }
        assert_eq!(
            ["2.5gbit", "100mbit"].map(|text| text.parse::<WireRate>().unwrap().to_string()),
            ["2.5 Gb/s", "100 Mb/s"]
        );
    }
}
