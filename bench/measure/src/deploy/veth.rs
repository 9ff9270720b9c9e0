//! Both hosts are on this machine: two network namespaces and a cable.
//!
//! ```text
//!   near: a thread of this process       far: a process of its own
//!  ┌───────────────────────────────┐    ┌───────────────────────────────┐
//!  │ namespace "alpha"         am0 ┼veth┼ am0          namespace "beta" │
//!  └──────────────┬────────────────┘    └──────────────▲────────────────┘
//!                 └── plan: standard input ────────────┘  its end ends the far side
//! ```
//!
//! Namespaces and cable have no names on this machine. They live as long as open files and processes of this program,
//! so nothing is left when either side ends.

use std::fmt;
use std::str::FromStr;

use am_afxdp::Interface;
use am_netns::{Bridge, BridgeOptions, Host, VethOptions, WIRE_OVERHEAD, veth};
use am_wire::frame::ETHERNET_HEADER;

use crate::driver::Driver;
use crate::error::Error;

/// The name of both ends of the cable.
pub const INTERFACE: &str = "am0";
/// The IP addresses of both ends.
pub const ADDRESSES: (&str, &str) = ("10.77.0.1/24", "10.77.0.2/24");
/// The smallest MTU of a veth. AF_XDP carries the largest.
const MIN_VETH_MTU: u32 = 68;

/// Two hosts and the cable between them, as long as this lives.
#[derive(Debug)]
pub struct Pair {
    /// The near and the far one.
    pub hosts: [Host; 2],
    /// In the middle of a cable with a limited rate.
    pub _switch: Option<Bridge>,
}

impl Pair {
    /// A cable with this MTU. If its rate is limited, a switch in the middle does it, and learns no addresses: bare frames have
    /// another one each.
    pub fn new(mtu: u32, rate: Option<WireRate>) -> Result<Pair, Error> {
        let hosts = [Host::new("alpha")?, Host::new("beta")?];
        let Some(rate) = rate else {
            let options = VethOptions { mtu, addresses: Some(ADDRESSES), ..VethOptions::default() };
            veth(&hosts[0], INTERFACE, &hosts[1], INTERFACE, &options)?;
            return Ok(Pair { hosts, _switch: None });
        };
        let options = BridgeOptions { mtu, learning: false, ..BridgeOptions::default() };
        let switch = Bridge::new(&hosts.each_ref(), INTERFACE, &options)?;
        switch.limit_rate(rate.bits_per_s())?;
        for (end, address) in switch.ends().iter().zip([ADDRESSES.0, ADDRESSES.1]) {
            end.add_ip(address)?;
        }
        Ok(Pair { hosts, _switch: Some(switch) })
    }
}

/// The names of the transports at both ends.
pub fn interfaces() -> [String; 2] {
    [(); 2].map(|()| format!("xdp:{INTERFACE}"))
}

/// Check the MTU here: later errors would name an interface that the user cannot reach.
pub fn check_mtu(mtu: u32, drivers: &[Driver]) -> Result<(), Error> {
    let most = most(drivers);
    let least = if drivers.contains(&Driver::Am) { super::MIN_MTU } else { MIN_VETH_MTU };
    if (least..=most).contains(&mtu) {
        return Ok(());
    }
    Err(Error::Usage(format!("--mtu {mtu} is out of range: from {least} to {most} for these drivers")))
}

fn most(drivers: &[Driver]) -> u32 {
    // The rows of the ablation write each frame in one piece.
    let cuts = |driver: &Driver| driver.is_kernel() || matches!(driver, Driver::Am | Driver::Raw | Driver::Cacheline);
    if !drivers.iter().all(cuts) { am_afxdp::MAX_SINGLE_CHUNK_MTU } else { am_afxdp::MAX_MTU }
}

/// Check an interface whose MTU is fixed.
pub(super) fn check_interface(interface: &Interface, drivers: &[Driver]) -> Result<(), Error> {
    let (Interface { name, mtu, .. }, most) = (interface, most(drivers));
    if *mtu <= most {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the MTU of {name} is {mtu}, and these drivers allow at most {most}: run `ip link set dev {name} mtu {most}`, and the \
         same on the other machine"
    )))
}

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
