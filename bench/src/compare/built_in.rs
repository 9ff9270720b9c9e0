//! The built-in rows: what the sessions of the other commands measure too. A further transport of ours is one more
//! entry of [`BUILT_IN`].

use std::time::Duration;

use am_wire::Framing;

use super::child_turn;
use super::offload::{self, Offload, OffloadOff};
use super::peer::{OneWay, Peer, Settings, Stream, Turn};
use super::underlay::Underlay;
use crate::ablation::Row;
use crate::deploy::processes::LocalTransport;
use crate::deploy::veth::Pair;
use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::origin::kernel;
use crate::plan::{Amount, Bench, DriverOptions};
use crate::progress::Progress;
use crate::session::Order;
use crate::size::Size;
use crate::stats::{Measured, Outcome};
use crate::watch::Watch;

const LARGE: &str = "am: a message larger than a frame is a bulk put; a round trip is one put each way";
const RUNS: &str =
    "am-udp: the kernel passes runs of frames over a veth as one (GSO), so its bandwidth is not that of a NIC";
const BARE: &str =
    "raw: only messages that fit one frame; it sends the same frames again and again; lost ones are counted";
const DPDK: &str =
    "dpdk: each turn in its own process; frames of at most 1500 bytes on any wire; memif and virtio-user are no cables";
const DATAGRAMS: &str = "udp: messages up to 65,507 bytes, one datagram each; the kernel passes runs of datagrams over a veth as one (GSO), so \
     its rates are not those of a NIC; lost messages are counted, and not sent again";
const SEGMENTS: &str = "tcp: segments of up to 64 KiB cross a veth whole, so its bandwidth is not that of a NIC";
const SLEEPING: &str = "sleeping: poll(2) while idle; a round trip has two wake-ups";

const MEMIF: Underlay = Underlay::Joined(LocalTransport::Memif);
const VIRTIO: Underlay = Underlay::Joined(LocalTransport::VirtioUser);

pub(super) const BUILT_IN: [BuiltIn; 23] = [
    BuiltIn::new("am", "active messages, one a frame", Underlay::Xdp, &[LARGE]),
    BuiltIn::new("am-bundles", "active messages that may share a frame", Underlay::Xdp, &[LARGE]).coalesced(),
    BuiltIn::new("am-udp", "active messages over kernel UDP", Underlay::Udp, &[LARGE, RUNS]),
    BuiltIn::new(
        "am-udp-bundles",
        "active messages over kernel UDP, that may share a frame",
        Underlay::Udp,
        &[LARGE, RUNS],
    )
    .coalesced(),
    BuiltIn::new("am-tcp", "active messages over kernel TCP", Underlay::Tcp, &[LARGE, SEGMENTS]),
    BuiltIn::new(
        "am-tcp-bundles",
        "active messages over kernel TCP, that may share a frame",
        Underlay::Tcp,
        &[LARGE, SEGMENTS],
    )
    .coalesced(),
    BuiltIn::new("am-shm", "active messages over shared memory", Underlay::Shm, &[LARGE]),
    BuiltIn::new(
        "am-shm-bundles",
        "active messages over shared memory, that may share a frame",
        Underlay::Shm,
        &[LARGE],
    )
    .coalesced(),
    BuiltIn::new(
        "am-dpdk-af_packet",
        "active messages over DPDK's packet sockets on the cable",
        Underlay::AfPacket,
        &[LARGE, DPDK],
    ),
    BuiltIn::new("am-dpdk-af_xdp", "active messages over DPDK's AF_XDP on the cable", Underlay::AfXdp, &[LARGE, DPDK]),
    BuiltIn::new("am-dpdk-memif", "active messages over DPDK's memif", MEMIF, &[LARGE, DPDK]),
    BuiltIn::new(
        "am-dpdk-memif-bundles",
        "active messages over DPDK's memif, that may share a frame",
        MEMIF,
        &[LARGE, DPDK],
    )
    .coalesced(),
    BuiltIn::new("am-dpdk-virtio-user", "active messages over DPDK's vhost and virtio-user", VIRTIO, &[LARGE, DPDK]),
    BuiltIn::new(
        "am-dpdk-virtio-user-bundles",
        "active messages over DPDK's vhost and virtio-user, that may share a frame",
        VIRTIO,
        &[LARGE, DPDK],
    )
    .coalesced(),
    BuiltIn::new("raw", "bare AF_XDP frames, nothing above them", Underlay::Xdp, &[BARE]).by(Driver::Raw),
    BuiltIn::new("raw-dpdk-memif", "bare frames by DPDK's memif", MEMIF, &[BARE, DPDK]).by(Driver::Raw),
    BuiltIn::new("raw-dpdk-virtio-user", "bare frames by DPDK's vhost and virtio-user", VIRTIO, &[BARE, DPDK])
        .by(Driver::Raw),
    BuiltIn::new("udp", "kernel UDP, both sides spin", Underlay::Xdp, &[DATAGRAMS]).by(Driver::Udp),
    BuiltIn::new("udp-sleeping", "kernel UDP, both sides sleep", Underlay::Xdp, &[DATAGRAMS, SLEEPING])
        .by(Driver::Row(Row::UdpSleeping)),
    BuiltIn::new("tcp", "kernel TCP, both sides spin", Underlay::Xdp, &[SEGMENTS]).by(Driver::Row(Row::Tcp)),
    BuiltIn::new("tcp-nagle", "kernel TCP that gathers small messages", Underlay::Xdp, &[SEGMENTS])
        .by(Driver::Row(Row::TcpNagle)),
    BuiltIn::new("tcp-sleeping", "kernel TCP, both sides sleep", Underlay::Xdp, &[SEGMENTS, SLEEPING])
        .by(Driver::Row(Row::TcpSleeping)),
    BuiltIn::new("tcp-no-offload", "kernel TCP, segments cut to frames before the veth", Underlay::Xdp, &[])
        .by(Driver::Row(Row::Tcp))
        .without_offload(),
];

/// A built-in row.
#[derive(Debug)]
pub(super) struct BuiltIn {
    name: &'static str,
    what: &'static str,
    driver: Driver,
    /// What carries its frames.
    over: Underlay,
    /// Several messages may share a frame.
    coalesce: bool,
    /// The cable's segmentation offload is off.
    without_offload: bool,
    notes: &'static [&'static str],
}

impl BuiltIn {
    /// A row of our messages.
    const fn new(name: &'static str, what: &'static str, over: Underlay, notes: &'static [&'static str]) -> BuiltIn {
        BuiltIn { name, what, driver: Driver::Am, over, coalesce: false, without_offload: false, notes }
    }

    const fn by(self, driver: Driver) -> BuiltIn {
        BuiltIn { driver, ..self }
    }

    const fn coalesced(self) -> BuiltIn {
        BuiltIn { coalesce: true, ..self }
    }

    const fn without_offload(self) -> BuiltIn {
        BuiltIn { without_offload: true, ..self }
    }

    /// The largest message that is no bulk transfer.
    fn most(&self, settings: &Settings, how: DriverOptions) -> usize {
        let frame = self.over.most(settings.mtu);
        // The cost of the framing is unknown until the driver is open, so assume the largest.
        frame.saturating_sub(how.framing.fixed().unwrap_or(Framing::Plain).cost())
    }

    /// The benches: every size both as a round trip and one way.
    fn benches(&self, settings: &Settings, how: DriverOptions) -> Vec<(Bench, Vec<Size>)> {
        if self.driver != Driver::Am {
            let whole: Vec<Size> = settings.sizes.iter().copied().map(Size::Whole).collect();
            return vec![(Bench::Latency, whole.clone()), (Bench::Rate, whole)];
        }
        let most = self.most(settings, how);
        let (small, large): (Vec<usize>, Vec<usize>) = settings.sizes.iter().partition(|size| **size <= most);
        let (small, large) = (small.into_iter().map(Size::Whole), large.into_iter().map(Size::Bulk));
        let (small, large): (Vec<Size>, Vec<Size>) = (small.collect(), large.collect());
        vec![
            (Bench::Latency, small.clone()),
            (Bench::Volley, large.clone()),
            (Bench::Rate, small),
            (Bench::Bulk, large),
        ]
    }
}

impl Peer for &'static BuiltIn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn wire(&self) -> &'static str {
        self.over.wire()
    }

    fn mtu(&self, settings: &Settings) -> Option<usize> {
        self.over.mtu(settings.mtu)
    }

    fn notes(&self) -> &'static [&'static str] {
        self.notes
    }

    fn find(&self, _watch: &Watch) -> Result<String, String> {
        let version = match self.driver {
            Driver::Am | Driver::Raw => format!("am-bench {}", env!("CARGO_PKG_VERSION")),
            Driver::Udp | Driver::Cacheline | Driver::Row(_) => format!("Linux {}", kernel()),
        };
        if self.over.is_dpdk() {
            am_dpdk::find().map_err(|why| why.to_string())?;
        }
        if self.without_offload {
            offload::find()?;
        }
        Ok(version)
    }

    fn takes(&self, settings: &Settings) -> Duration {
        let Amount { time, warm_up, .. } = settings.amount;
        (time + warm_up) * 2 * settings.sizes.len() as u32 + Duration::from_millis(700)
    }

    fn turn(&self, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error> {
        if !self.over.is_dpdk() {
            // A failure of this far side must not stop another row.
            return self.turn_here(pair, settings, &watch.of_another_peer());
        }
        let turn = child_turn::turn(self.name, pair, settings, watch);
        if turn.is_err() {
            self.over.clear(pair);
        }
        turn
    }
}

/// The row of this name.
///
/// # Errors
/// There is no such row.
pub(super) fn named(name: &str) -> Result<&'static BuiltIn, Error> {
    BUILT_IN.iter().find(|row| row.name == name).ok_or_else(|| Error::Usage(format!("no row {name}")))
}

impl BuiltIn {
    /// Measure everything once, in this process.
    ///
    /// # Errors
    /// What is missing, or what failed.
    pub(super) fn turn_here(&self, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error> {
        let _cut = if self.without_offload { Some(OffloadOff::before(pair)?) } else { None };
        let layout = self.without_offload.then(|| Offload::of(pair)).flatten();
        let how = DriverOptions { coalesce: self.coalesce, ..settings.how };
        let order = Order {
            drivers: vec![self.driver],
            without_udp_if_need_be: false,
            benches: self.benches(settings, how),
            losses: vec![Loss::NONE],
            how,
            amount: Amount { rounds: 1, ..settings.amount },
        };
        let progress = Progress::new(0, true);
        let ends = self.over.ends(settings.mtu)?;
        let session = match &ends {
            Some(ends) => pair.measure_over(&ends.names, &order, settings.cores, &progress, watch),
            None => pair.measure(&order, settings.cores, &progress, watch),
        }?;
        let turn = session.end.map(|()| turn(&session.all))?;
        Ok(match layout {
            Some(layout) => Turn { mode: format!("{}, {}", turn.mode, layout.words()), ..turn },
            None => turn,
        })
    }
}

fn turn(all: &[Measured]) -> Turn {
    let mut turn = Turn { mode: all.first().map_or(String::new(), |one| one.mode.clone()), ..Turn::default() };
    for one in all {
        let size = one.layout.size;
        match &one.outcome {
            Outcome::Latency(latency) => {
                let half = |quantile| latency.round_trips.value_at_quantile(quantile) as f64 / 2.0;
                let mean = Some(latency.round_trips.mean() / 2.0);
                turn.one_way.push(OneWay { size, p50: Some(half(0.5)), p99: Some(half(0.99)), mean });
            }
            Outcome::Throughput(_) => {
                let messages = one.rates().map_or(0.0, |rates| rates.messages);
                let cpu = one.busy.map(|cores| cores * 1e9 / messages).filter(|cpu| cpu.is_finite());
                turn.stream.push(Stream { size, messages, cpu, lost: one.lost(), batching: Some(one.batching) });
            }
        }
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::measured;

    #[test]
    fn a_round_trip_is_halved_and_busy_cores_are_shared_among_messages() {
        let all = [
            measured(Bench::Latency, 0, Driver::Udp, 0, 14_000),
            Measured { busy: Some(2.0), ..measured(Bench::Rate, 0, Driver::Udp, 0, 100_000) },
        ];
        let turn = turn(&all);
        assert!((turn.one_way[0].p50.unwrap() - 7_000.0).abs() < 10.0, "{turn:?}");
        assert_eq!((turn.stream[0].messages, turn.stream[0].cpu), (100_000.0, Some(20_000.0)));
        assert_eq!(turn.mode, "veth copy");
    }
}
