//! A row's source of figures, and the figures of one turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batching::Batching;
use crate::cores::Cores;
use crate::deploy::processes::LocalTransport;
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::plan::{Amount, DriverOptions};
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
    /// The name in the table and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Wire::Veth => "veth",
            Wire::Memory => "shared memory",
        }
    }
}

/// What every peer has to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Bytes of a message, smallest first.
    pub(crate) sizes: Vec<usize>,
    /// The number of rounds, and the length of each measurement.
    pub(crate) amount: Amount,
    /// The limit of a foreign program's turn.
    pub(crate) limit: Duration,
    /// The cores of both sides.
    pub(crate) cores: Cores,
    /// How our drivers are opened.
    pub(crate) how: DriverOptions,
    /// The MTU of the cable.
    pub(crate) mtu: usize,
}

impl Settings {
    /// The size of the table's first figures.
    pub(crate) fn small(&self) -> usize {
        const SMALL: usize = 64;
        if self.sizes.contains(&SMALL) { SMALL } else { self.sizes.first().copied().unwrap_or(SMALL) }
    }
}

impl Settings {
    /// The size whose bandwidths are compared.
    pub(crate) fn largest(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }
}

/// Half of a round trip of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OneWay {
    pub(crate) size: usize,
    /// In nanoseconds; `None` if the program does not tell.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) mean: Option<f64>,
}

impl OneWay {
    /// The median; the mean of a program that tells no median.
    pub(crate) fn middle(&self) -> Option<f64> {
        self.p50.or(self.mean)
    }
}

/// A stream of messages of one size, one way, as fast as possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) size: usize,
    /// A second.
    pub(crate) messages: f64,
    /// Nanoseconds of processor time a message costs, both sides together.
    pub(crate) cpu: Option<f64>,
    /// Messages that never arrived.
    pub(crate) lost: u64,
    /// How messages were handed over; `None` for foreign programs, which do not tell.
    pub(crate) batching: Option<Batching>,
}

impl Stream {
    /// Bytes a second.
    pub(crate) fn bytes(&self) -> f64 {
        self.messages * self.size as f64
    }
}

/// The figures of one turn of a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Its device and mode.
    pub(crate) mode: String,
    pub(crate) one_way: Vec<OneWay>,
    pub(crate) stream: Vec<Stream>,
}

/// The source of one row's figures.
pub(crate) trait Peer {
    /// The name in the table and on the command line.
    fn name(&self) -> &'static str;

    /// A description.
    fn what(&self) -> &'static str;

    /// The wire, as in the table and in JSON.
    fn wire(&self) -> &'static str {
        Wire::Veth.name()
    }

    /// Whether it runs over this transport. Its name says so, unless it is named after something else.
    fn goes_over(&self, local_transport: LocalTransport) -> bool {
        format!("-{}-", self.name()).contains(&format!("-{}-", local_transport.name()))
    }

    /// The name of the transport that carries its messages.
    fn transport(&self) -> &'static str {
        let joints = [
            LocalTransport::Udp,
            LocalTransport::Tcp,
            LocalTransport::Shm,
            LocalTransport::Memif,
            LocalTransport::VirtioUser,
        ];
        let by_dpdk = if self.name().contains("dpdk") { "dpdk" } else { "xdp" };
        joints
            .into_iter()
            .find(|local_transport| self.goes_over(*local_transport))
            .map_or(by_dpdk, LocalTransport::name)
    }

    /// The payload of a frame, if it has frames.
    fn mtu(&self, settings: &Settings) -> Option<usize> {
        (self.wire() == Wire::Veth.name()).then_some(settings.mtu)
    }

    /// How its figures differ from those of other rows.
    fn notes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its version, if it can run here.
    ///
    /// # Errors
    /// What is missing, and what installs it; or a signal arrived.
    fn find(&self, watch: &Watch) -> Result<String, String>;

    /// About how long one turn takes.
    fn takes(&self, settings: &Settings) -> Duration;

    /// Measure everything once.
    ///
    /// # Errors
    /// It does not run, or not as expected.
    fn turn(&self, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error>;
}
