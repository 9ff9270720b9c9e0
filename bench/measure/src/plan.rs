//! What is measured, and what the two sides exchange before they begin.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use am_afxdp::Attach;
use am_wire::frame::ETHERNET_HEADER;
use am_wire::{Address, Framing};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::driver::Driver;
use crate::error::Error;

/// Increases when two versions of this program no longer understand each other.
pub(crate) const VERSION: u32 = 9;

/// One of the two sides of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// The side that asks.
    Near,
    /// The side that answers.
    Far,
}

/// What is measured.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Bench {
    /// Round trip of a request and its reply, one at a time.
    Latency,
    /// Bytes a second, one way, in full frames.
    Bandwidth,
    /// Messages a second, one way, in small frames.
    Rate,
    /// Bytes a second, one way, in bulk transfers, compared with full frames.
    Bulk,
    /// Round trip of a bulk transfer and one back.
    Volley,
    /// The parameters of the LogP model.
    LogP,
}

impl Bench {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// The bench with this number in a [`ControlMessage`](crate::channel::ControlMessage).
    pub(crate) fn from_code(code: u8) -> Option<Bench> {
        Bench::VARIANTS.get(usize::from(code)).copied()
    }
}

/// The value of `--framing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FramingArg {
    /// The one that the network lets through, found at set-up.
    #[default]
    Auto,
    /// The whole header in the source address: costs nothing.
    Bare,
    /// A part of the header in the source address: costs 8 bytes.
    Split,
    /// The true source address: costs 12 bytes.
    Plain,
}

impl FramingArg {
    /// The framing, or `None` if the network decides.
    pub const fn fixed(self) -> Option<Framing> {
        match self {
            FramingArg::Auto => None,
            FramingArg::Bare => Some(Framing::Bare),
            FramingArg::Split => Some(Framing::Split),
            FramingArg::Plain => Some(Framing::Plain),
        }
    }
}

/// The value of `--xdp`, for everything that uses AF_XDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum XdpArg {
    /// The faster one: in the driver, but generic on a veth of one queue.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's generic receive path.
    Generic,
}

impl XdpArg {
    pub(crate) const fn attach(self) -> Attach {
        match self {
            XdpArg::Auto => Attach::Auto,
            XdpArg::Native => Attach::Native,
            XdpArg::Generic => Attach::Generic,
        }
    }
}

/// How drivers are opened, the same on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverOptions {
    /// Where our messages carry their header.
    pub framing: FramingArg,
    /// Where XDP programs run.
    pub xdp: XdpArg,
    /// Whether several of our messages may share a frame.
    #[serde(rename = "bundles")]
    pub coalesce: bool,
    /// Whether frames may be lost on purpose.
    #[serde(default)]
    pub lossy: bool,
    /// A file for the frames of the near side's messages. The path lives as long as the process.
    #[serde(skip)]
    pub trace: Option<&'static Path>,
}

/// What the other side needs to know about a side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SideInfo {
    pub(crate) name: String,
    pub(crate) address: [u8; 6],
    pub(crate) ipv4: Option<Ipv4Addr>,
    pub(crate) ipv6: Option<Ipv6Addr>,
    /// An address that it has and cannot use, and why.
    #[serde(default)]
    pub(crate) unusable: Option<String>,
    pub(crate) core: Option<usize>,
    /// The payload of a frame, if it is known.
    #[serde(default)]
    pub(crate) mtu: Option<u32>,
}

impl SideInfo {
    /// The payload that both this side and one with this MTU carry.
    pub(crate) fn carries(&self, mtu: u32) -> usize {
        self.mtu.map_or(mtu, |own| own.min(mtu)) as usize
    }

    /// The payload of a frame that this side carries too.
    pub(crate) fn carried(&self, frame: usize) -> usize {
        self.carries((frame - ETHERNET_HEADER) as u32)
    }

    pub(crate) fn link(&self) -> Address {
        Address(self.address)
    }

    /// The addresses to use, ours and the other's: IPv4 if both have it, else link-local IPv6, which every interface
    /// has unless it was removed.
    pub(crate) fn ip_towards(&self, other: &SideInfo) -> Option<(IpAddr, IpAddr)> {
        let v4 = self.ipv4.zip(other.ipv4).map(|(own, other)| (own.into(), other.into()));
        v4.or_else(|| self.ipv6.zip(other.ipv6).map(|(own, other)| (own.into(), other.into())))
    }

    /// Why there are none, for an error.
    pub(crate) fn why_no_ip(&self, other: &SideInfo) -> String {
        let reason = |place: &SideInfo| place.unusable.as_ref().map(|why| format!("{}: {why}", place.name));
        let mut reasons: Vec<String> = [self, other].into_iter().filter_map(reason).collect();
        reasons.dedup();
        if reasons.is_empty() { String::new() } else { format!(" that they can use ({})", reasons.join("; ")) }
    }
}

/// The near side's request: open these drivers, one after the other, and serve each until the stage ends. Benches,
/// sizes and times go over the driver itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) version: u32,
    pub(crate) near: SideInfo,
    /// How drivers are opened. A plan of another version may lack it, and has to be refused for its version.
    #[serde(default)]
    pub(crate) how: DriverOptions,
    #[serde(rename = "vias")]
    pub(crate) drivers: Vec<Driver>,
    pub(crate) rounds: usize,
}

impl Plan {
    /// The drivers in the order in which they are opened, each with its round. Each round begins with another driver,
    /// so that none always has the same predecessor.
    pub(crate) fn stages(&self) -> impl Iterator<Item = (usize, Driver)> {
        let turn = |round: usize| {
            let first = round % self.drivers.len().max(1);
            self.drivers[first..].iter().chain(&self.drivers[..first]).map(move |driver| (round, *driver))
        };
        (0..self.rounds).flat_map(turn)
    }

    /// The far side's answer; `here` describes the far side.
    pub(crate) fn answer(&self, here: Result<SideInfo, Error>) -> Answer {
        if self.version != VERSION {
            return Answer::Refused(format!(
                "it has version {VERSION} of am-bench's plans, and this side {}: run the same build on both",
                self.version
            ));
        }
        if self.drivers.is_empty() {
            return Answer::Refused("the plan names no driver".to_owned());
        }
        match here {
            Ok(here)
                if self.drivers.iter().any(|driver| driver.is_kernel()) && here.ip_towards(&self.near).is_none() =>
            {
                Answer::NoIp(here.why_no_ip(&self.near))
            }
            Ok(here) => Answer::Accepted(here),
            Err(error) => Answer::Refused(error.to_string()),
        }
    }
}

/// The far side's answer to a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Accepted(SideInfo),
    /// The plan has kernel UDP, and the two sides have no IP addresses of one kind; with the reason, if it is known.
    NoIp(String),
    /// The far side refuses, for this reason.
    Refused(String),
}

impl Answer {
    pub(crate) fn into_place(self) -> Result<SideInfo, Error> {
        match self {
            Answer::Accepted(place) => Ok(place),
            Answer::NoIp(why) => Err(Error::NoIp(why)),
            Answer::Refused(why) => Err(Error::Refused(why)),
        }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Amount {
    /// Turns of each driver.
    pub rounds: usize,
    /// Length of one measurement.
    pub time: Duration,
    /// Time before each measurement that is not counted.
    pub warm_up: Duration,
}

/// How many messages the system gets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batching {
    /// One message with each system call or doorbell.
    Single,
    /// Many with each; every message has a frame or datagram of its own. On a stream: many with each write.
    Bursts,
    /// Many with each, and they share frames. On a stream: as many with each write as `am` has in a frame.
    Shared,
}

impl Batching {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Batching::Single => "one message at a time",
            Batching::Bursts => "one message a frame, in bursts",
            Batching::Shared => "several messages a frame",
        }
    }

    /// The batching in a bench of a driver that sends many messages like this. A round trip has one message in flight; in bursts of
    /// `logp` each message has its own doorbell; a transfer is cut into full frames.
    pub(crate) fn of(self, bench: Bench) -> Batching {
        match bench {
            Bench::Latency | Bench::Volley | Bench::LogP => Batching::Single,
            Bench::Bulk => Batching::Bursts,
            Bench::Bandwidth | Bench::Rate => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_its_turn_in_every_round_and_begins_in_turn() {
        use Driver::{Am, Raw, Udp};
        let near = SideInfo { name: "alpha".to_owned(), address: [2; 6], ..SideInfo::default() };
        let plan = |drivers: &[Driver], rounds| {
            let (near, how) = (near.clone(), DriverOptions::default());
            let plan = Plan { version: VERSION, near, how, drivers: drivers.to_vec(), rounds };
            plan.stages().collect::<Vec<_>>()
        };
        assert_eq!(plan(&[Am, Raw, Udp], 2), [(0, Am), (0, Raw), (0, Udp), (1, Raw), (1, Udp), (1, Am)]);
        assert_eq!(plan(&[Raw], 2), [(0, Raw), (1, Raw)]);
        assert_eq!(plan(&[], 3), []);
    }
}
