//! What a row is of, and what one turn of it brings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batching::Batching;
use crate::cores::Cores;
use crate::deploy::joined::Joint;
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::plan::{Amount, How};
use crate::watch::Watch;

/// What is between the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// A veth pair between two network namespaces.
    Veth,
    /// Memory that both processes map, on one host.
    Memory,
}

impl Wire {
    /// As in the table and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Wire::Veth => "veth",
            Wire::Memory => "shared memory",
        }
    }
}

/// What all of them are asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Bytes of a message, smallest first.
    pub(crate) sizes: Vec<usize>,
    /// Rounds, and how long each measurement takes.
    pub(crate) amount: Amount,
    /// The longest turn of a program that was not written here.
    pub(crate) limit: Duration,
    /// Where both sides run.
    pub(crate) cores: Cores,
    /// How ours is opened.
    pub(crate) how: How,
    /// Of the cable.
    pub(crate) mtu: usize,
}

impl Asked {
    /// The size that the table is about.
    pub(crate) fn small(&self) -> usize {
        const SMALL: usize = 64;
        if self.sizes.contains(&SMALL) { SMALL } else { self.sizes.first().copied().unwrap_or(SMALL) }
    }
}

impl Asked {
    /// The size whose bytes a second are compared.
    pub(crate) fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }
}

/// Half of a round trip of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OneWay {
    pub(crate) size: usize,
    /// In nanoseconds, each where the program tells it.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) mean: Option<f64>,
}

impl OneWay {
    /// Most say the median; who says the mean alone has that.
    pub(crate) fn middle(&self) -> Option<f64> {
        self.p50.or(self.mean)
    }
}

/// As many messages of one size as go, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) size: usize,
    /// A second.
    pub(crate) messages: f64,
    /// Nanoseconds of processor time a message costs, both sides together.
    pub(crate) cpu: Option<f64>,
    /// Messages that never arrived.
    pub(crate) lost: u64,
    /// How messages were handed over, where that is known: programs that were not written here do not say.
    pub(crate) batching: Option<Batching>,
}

impl Stream {
    /// Bytes a second.
    pub(crate) fn bytes(&self) -> f64 {
        self.messages * self.size as f64
    }
}

/// What a peer measured in one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// What it said of the way its messages went.
    pub(crate) mode: String,
    /// By size.
    pub(crate) one_way: Vec<OneWay>,
    /// By size.
    pub(crate) stream: Vec<Stream>,
}

/// One row: something that carries messages.
pub(crate) trait Peer {
    /// As in the table and on the command line.
    fn name(&self) -> &'static str;

    /// What it is, in words.
    fn what(&self) -> &'static str;

    /// What it goes over, as in the table and in JSON.
    fn wire(&self) -> &'static str {
        Wire::Veth.name()
    }

    /// Whether it goes over that, which its name says unless it is called after something else.
    fn goes_over(&self, joint: Joint) -> bool {
        format!("-{}-", self.name()).contains(&format!("-{}-", joint.name()))
    }

    /// The transport that carries its messages.
    fn transport(&self) -> &'static str {
        let joints = [Joint::Udp, Joint::Tcp, Joint::Shm, Joint::Memif, Joint::VirtioUser];
        let by_dpdk = if self.name().contains("dpdk") { "dpdk" } else { "xdp" };
        joints.into_iter().find(|joint| self.goes_over(*joint)).map_or(by_dpdk, Joint::name)
    }

    /// What a frame carries there, where there are frames.
    fn mtu(&self, asked: &Asked) -> Option<usize> {
        (self.wire() == Wire::Veth.name()).then_some(asked.mtu)
    }

    /// Where it measures differently.
    fn notes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it is there: its version.
    ///
    /// # Errors
    /// Why not, and what installs it; or somebody has said to stop.
    fn find(&self, watch: &Watch) -> Result<String, String>;

    /// About how long one turn takes.
    fn takes(&self, asked: &Asked) -> Duration;

    /// Measure everything once.
    ///
    /// # Errors
    /// It does not run, or not as expected.
    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error>;
}
