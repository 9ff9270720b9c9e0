//! The options that commands share.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::cores::CoresArg;
use crate::deploy::processes::LocalTransport;
use crate::driver::Driver;
use crate::plan::{Amount, Bench, DriverOptions, FramingArg, XdpArg};
use crate::size::Size;
use crate::values;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostsArg {
    /// Two network namespaces of this machine, joined by a veth pair
    Veth,
    /// Two threads of this process, joined by memory
    Loopback,
    /// Two processes of this machine, joined by UDP on the loopback interface
    Udp,
    /// Two processes of this machine, joined by TCP
    Tcp,
    /// Two processes of this machine, joined by shared memory
    Shm,
    /// Two processes of this machine, joined by DPDK's memif
    Memif,
    /// Two processes of this machine, joined by DPDK's vhost and virtio-user
    VirtioUser,
    /// Two threads of this process, joined by a simulated network: the default one, or that of --on sim:SEED,...
    Sim,
}

impl HostsArg {
    /// The transport that joins two processes, if there are two.
    pub(super) fn local_transport(self) -> Option<LocalTransport> {
        match self {
            HostsArg::Veth | HostsArg::Loopback | HostsArg::Sim => None,
            HostsArg::Udp => Some(LocalTransport::Udp),
            HostsArg::Tcp => Some(LocalTransport::Tcp),
            HostsArg::Shm => Some(LocalTransport::Shm),
            HostsArg::Memif => Some(LocalTransport::Memif),
            HostsArg::VirtioUser => Some(LocalTransport::VirtioUser),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// The turns of each driver, unless a command has its own number.
pub(crate) const DEFAULT_ROUNDS: usize = 9;

/// A session keeps every measurement of every round.
const ROUNDS: RangeInclusive<u64> = 1..=1000;

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Run both hosts on this machine
    #[arg(long, global = true, value_name = "WHERE", help_heading = "Where")]
    pub(crate) hosts: Option<HostsArg>,
    /// Be the far side: answer near sides until interrupted
    #[arg(long, global = true, help_heading = "Where")]
    pub(crate) serve: bool,
    /// Measure against the node of this name, which runs `am-bench --serve`
    #[arg(long, global = true, value_parser = values::node_name, value_name = "NAME", help_heading = "Where")]
    pub(crate) peer: Option<String>,
    /// The transport to the other machine, such as xdp:eth1, or udp:10.0.0.1:7000,peer=10.0.0.2:7000; with --hosts sim
    /// the network, such as sim:7,loss=0.01,delay=10us. An interface is named without queue= and other settings
    #[arg(long, global = true, value_name = "TRANSPORT", help_heading = "Where")]
    pub(crate) on: Option<String>,
    /// The name of this node [default: the host's name]
    #[arg(long, global = true, value_parser = values::node_name, value_name = "NAME", help_heading = "Where")]
    pub(crate) name: Option<String>,
    /// MTU of the veth pair, 148 to 65535 [default: 1500]; with other --hosts, the payload bytes of a frame, within the
    /// transport's limits [default: the transport's own]
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Where")]
    pub(crate) mtu: Option<u32>,
    /// Cores of the near and the far side, or `none`; with --peer and --serve one core, for this side [default: the
    /// last two; --serve takes the last]
    #[arg(long, global = true, value_name = "A,B", value_parser = values::cores, help_heading = "Where")]
    pub(crate) cores: Option<CoresArg>,

    /// The drivers to measure, in turn [default: all that --hosts or --on offers]
    #[arg(long, global = true, value_delimiter = ',', value_name = "DRIVER,...", help_heading = "What")]
    pub(crate) driver: Vec<Driver>,
    /// Payload bytes of a message (64K, 1M), or `full` for as many as one frame holds [default: latency 16, bandwidth
    /// full, rate 64, bandwidth --bulk 1M,64K,16M]
    #[arg(long, global = true, value_delimiter = ',', value_name = "BYTES,...", help_heading = "What")]
    pub(crate) size: Vec<Size>,
    /// Where our messages carry their header [default: bare with --hosts, else auto]
    #[arg(long, global = true, value_enum, value_name = "FRAMING", help_heading = "What")]
    pub(crate) framing: Option<FramingArg>,
    /// Whether several of our messages may share a frame [default: off, so that each message has a frame, as with the
    /// other drivers; on with --sweep]
    #[arg(long, global = true, value_enum, value_name = "ON|OFF", help_heading = "What")]
    pub(crate) coalesce: Option<Switch>,
    /// Where the XDP program of am and raw runs, on both sides [default: auto]
    #[arg(long, global = true, value_enum, value_name = "WHERE", help_heading = "What")]
    pub(crate) xdp: Option<XdpArg>,

    /// How many turns each driver takes; a ratio is the median over these rounds [default: 9]
    #[arg(long, global = true, value_parser = RangedU64ValueParser::<usize>::new().range(ROUNDS), value_name = "N", help_heading = "How much")]
    pub(crate) rounds: Option<usize>,
    /// Length of one measurement [default: 0.25, demo 0.1, --sweep and ablation 0.05]
    #[arg(long, global = true, value_parser = values::seconds, value_name = "SECONDS", help_heading = "How much")]
    pub(crate) time: Option<Duration>,
    /// Time before each measurement that is not counted [default: a fifth of --time]
    #[arg(long, global = true, value_parser = values::seconds, value_name = "SECONDS", help_heading = "How much")]
    pub(crate) warm_up: Option<Duration>,
    /// Print JSON lines instead of a table
    #[arg(long, global = true, help_heading = "How much")]
    pub(crate) json: bool,
    /// Also write the JSON lines to this file
    #[arg(long, global = true, value_name = "FILE", help_heading = "How much")]
    pub(crate) save: Option<PathBuf>,
    /// Write every frame of am that this side sends or receives to this file, for tcpdump and Wireshark (pcap). This
    /// costs time
    #[arg(long, global = true, value_name = "FILE", value_parser = values::path, help_heading = "What")]
    pub(crate) trace: Option<&'static Path>,
}

impl Options {
    pub(crate) fn node_name(&self) -> String {
        self.name.clone().unwrap_or_else(values::host_name)
    }

    /// Whether the command line sets rounds or times.
    pub(super) fn says_amount(&self) -> bool {
        self.rounds.is_some() || self.time.is_some() || self.warm_up.is_some()
    }

    /// How much to measure; `time` is the default length of a measurement.
    pub(crate) fn amount(&self, time: Duration) -> Amount {
        let time = self.time.unwrap_or(time);
        Amount { rounds: self.rounds.unwrap_or(DEFAULT_ROUNDS), time, warm_up: self.warm_up.unwrap_or(time / 5) }
    }

    /// How drivers are opened; `framing` is the default.
    pub(crate) fn how(&self, framing: FramingArg) -> DriverOptions {
        let coalesce = self.coalesce == Some(Switch::On);
        let (framing, xdp) = (self.framing.unwrap_or(framing), self.xdp.unwrap_or_default());
        DriverOptions { framing, xdp, coalesce, lossy: false, trace: self.trace }
    }

    pub(crate) fn sizes(&self, bench: Bench) -> Vec<Size> {
        let sizes = if self.size.is_empty() { bench.default_sizes().to_vec() } else { self.size.clone() };
        let of_bulk = |size| match size {
            Size::Bytes(bytes) => Size::Bulk(bytes),
            other => other,
        };
        if bench == Bench::Bulk { sizes.into_iter().map(of_bulk).collect() } else { sizes }
    }

    /// The drivers to measure; `all` is the default.
    pub(crate) fn drivers(&self, all: &[Driver]) -> Vec<Driver> {
        if self.driver.is_empty() { all.to_vec() } else { self.driver.clone() }
    }
}
