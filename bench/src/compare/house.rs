//! What is measured by the sessions of the other commands: our messages, and the
//! kernel's own sockets. A further transport of ours is one more entry.

use std::time::Duration;

use wire::Framing;

use super::offload::{self, Cut, Offload};
use super::over::Over;
use super::peer::{Asked, OneWay, Peer, Stream, Turn, Wire};
use crate::ablation::Row;
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::{Amount, Bench, How, Via};
use crate::progress::Progress;
use crate::session::Order;
use crate::size::Size;
use crate::stats::{Measured, Outcome};
use crate::watch::Watch;

/// One of them.
#[derive(Debug)]
pub(super) struct House {
    name: &'static str,
    what: &'static str,
    via: Via,
    /// Below our messages.
    over: Over,
    /// Several messages may share a frame.
    bundles: bool,
    /// The cable does not cut segments for the kernel.
    without_offload: bool,
    notes: &'static [&'static str],
}

const PLAIN: House =
    House { name: "", what: "", via: Via::Am, over: Over::Xdp, bundles: false, without_offload: false, notes: &[] };

const LARGE: &str = "am: what does not fit one frame is a bulk put; in a round trip, one put each way";
const RUNS: &str = "am-udp: runs of frames cross a veth whole (GSO), so bandwidth is no NIC's";
const BARE: &str =
    "raw: what fits one frame; sends the same frames again and again, and may lose some, which are counted";
const DATAGRAMS: &str =
    "udp: messages up to 65,507 bytes, one datagram each; what was lost is counted, and never sent again";
const SEGMENTS: &str = "tcp: on a veth segments of up to 64 KiB cross whole, so bandwidth is no NIC's";
const SLEEPING: &str = "sleeping: poll(2) wherever there is nothing to do; a round trip is two wake-ups";

/// Ours, and the kernel's.
pub(super) const HOUSE: [House; 15] = [
    House { name: "am", what: "active messages, one a frame", notes: &[LARGE], ..PLAIN },
    House {
        name: "am-bundles",
        what: "active messages that may share a frame",
        bundles: true,
        notes: &[LARGE],
        ..PLAIN
    },
    House { name: "am-udp", what: "active messages over kernel UDP", over: Over::Udp, notes: &[LARGE, RUNS], ..PLAIN },
    House {
        name: "am-udp-bundles",
        what: "active messages over kernel UDP, that may share a frame",
        over: Over::Udp,
        bundles: true,
        notes: &[LARGE, RUNS],
        ..PLAIN
    },
    House {
        name: "am-tcp",
        what: "active messages over kernel TCP",
        over: Over::Tcp,
        notes: &[LARGE, SEGMENTS],
        ..PLAIN
    },
    House {
        name: "am-tcp-bundles",
        what: "active messages over kernel TCP, that may share a frame",
        over: Over::Tcp,
        bundles: true,
        notes: &[LARGE, SEGMENTS],
        ..PLAIN
    },
    House { name: "am-shm", what: "active messages over shared memory", over: Over::Shm, notes: &[LARGE], ..PLAIN },
    House {
        name: "am-shm-bundles",
        what: "active messages over shared memory, that may share a frame",
        over: Over::Shm,
        bundles: true,
        notes: &[LARGE],
        ..PLAIN
    },
    House { name: "raw", what: "bare AF_XDP frames, nothing above them", via: Via::Raw, notes: &[BARE], ..PLAIN },
    House { name: "udp", what: "kernel UDP, both sides spin", via: Via::Udp, notes: &[DATAGRAMS], ..PLAIN },
    House {
        name: "udp-sleeping",
        what: "kernel UDP, both sides sleep",
        via: Via::Row(Row::UdpSleeping),
        notes: &[DATAGRAMS, SLEEPING],
        ..PLAIN
    },
    House { name: "tcp", what: "kernel TCP, both sides spin", via: Via::Row(Row::Tcp), notes: &[SEGMENTS], ..PLAIN },
    House {
        name: "tcp-nagle",
        what: "kernel TCP that gathers small messages",
        via: Via::Row(Row::TcpNagle),
        notes: &[SEGMENTS],
        ..PLAIN
    },
    House {
        name: "tcp-sleeping",
        what: "kernel TCP, both sides sleep",
        via: Via::Row(Row::TcpSleeping),
        notes: &[SEGMENTS, SLEEPING],
        ..PLAIN
    },
    House {
        name: "tcp-no-offload",
        what: "kernel TCP, segments cut to frames before the veth",
        via: Via::Row(Row::Tcp),
        without_offload: true,
        ..PLAIN
    },
];

impl House {
    /// The largest message of ours that is not a bulk transfer.
    fn most(&self, asked: &Asked, how: How) -> usize {
        let frame = self.over.most(asked.mtu);
        // What the framing costs is known before it is open, or may be as much as it can be.
        frame.saturating_sub(how.framing.fixed().unwrap_or(Framing::Plain).cost())
    }

    /// What is measured: each size once to and fro, and once one way.
    fn benches(&self, asked: &Asked, how: How) -> Vec<(Bench, Vec<Size>)> {
        if self.via != Via::Am {
            let whole: Vec<Size> = asked.sizes.iter().copied().map(Size::Whole).collect();
            return vec![(Bench::Latency, whole.clone()), (Bench::Rate, whole)];
        }
        let most = self.most(asked, how);
        let (small, large): (Vec<usize>, Vec<usize>) = asked.sizes.iter().partition(|size| **size <= most);
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

impl Peer for &'static House {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn wire(&self) -> Wire {
        if self.over == Over::Shm { Wire::Memory } else { Wire::Veth }
    }

    fn notes(&self) -> &'static [&'static str] {
        self.notes
    }

    fn find(&self) -> Result<String, String> {
        let version = match self.via {
            Via::Am | Via::Raw => format!("am-bench {}", env!("CARGO_PKG_VERSION")),
            Via::Udp | Via::Cacheline | Via::Row(_) => format!("Linux {}", kernel()),
        };
        if self.without_offload { offload::find().map(|()| version) } else { Ok(version) }
    }

    fn takes(&self, asked: &Asked) -> Duration {
        let Amount { time, warm_up, .. } = asked.amount;
        (time + warm_up) * 2 * asked.sizes.len() as u32 + Duration::from_millis(700)
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let _cut = if self.without_offload { Some(Cut::before(pair)?) } else { None };
        let cut = self.without_offload.then(|| Offload::of(pair)).flatten();
        let how = How { bundles: self.bundles, ..asked.how };
        let order = Order {
            vias: vec![self.via],
            without_udp_if_need_be: false,
            benches: self.benches(asked, how),
            losses: vec![Loss::NONE],
            how,
            amount: Amount { rounds: 1, ..asked.amount },
        };
        // Whatever happens to this far side happens to no other.
        let (progress, watch) = (Progress::new(0, true), watch.of_another_peer());
        let session = match self.over.names(asked.mtu) {
            Some(names) => pair.measure_over(&names, &order, asked.cores, &progress, &watch),
            None => pair.measure(&order, asked.cores, &progress, &watch),
        }?;
        let turn = session.end.map(|()| turn(&session.all))?;
        Ok(match cut {
            Some(cut) => Turn { mode: format!("{}, {}", turn.mode, cut.words()), ..turn },
            None => turn,
        })
    }
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().split('-').next().unwrap_or_default().to_owned()
}

fn turn(all: &[Measured]) -> Turn {
    let mut turn = Turn { mode: all.first().map_or(String::new(), |one| one.mode.clone()), ..Turn::default() };
    for one in all {
        let size = one.cut.size;
        match &one.outcome {
            Outcome::Latency(latency) => {
                let half = |quantile| latency.round_trips.value_at_quantile(quantile) as f64 / 2.0;
                let mean = Some(latency.round_trips.mean() / 2.0);
                turn.one_way.push(OneWay { size, p50: Some(half(0.5)), p99: Some(half(0.99)), mean });
            }
            Outcome::Throughput(_) => {
                let messages = one.rates().map_or(0.0, |rates| rates.messages);
                let cpu = one.busy.map(|cores| cores * 1e9 / messages).filter(|cpu| cpu.is_finite());
                turn.stream.push(Stream { size, messages, cpu, lost: one.lost() });
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
            measured(Bench::Latency, 0, Via::Udp, 0, 14_000),
            Measured { busy: Some(2.0), ..measured(Bench::Rate, 0, Via::Udp, 0, 100_000) },
        ];
        let turn = turn(&all);
        assert!((turn.one_way[0].p50.unwrap() - 7_000.0).abs() < 10.0, "{turn:?}");
        assert_eq!((turn.stream[0].messages, turn.stream[0].cpu), (100_000.0, Some(20_000.0)));
        assert_eq!(turn.mode, "veth copy");
    }
}
