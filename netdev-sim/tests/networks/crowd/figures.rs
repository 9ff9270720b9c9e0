//! The figures of a run.

use std::fmt;

use am_netdev_sim::Nanos;

/// The bytes of a full frame on the wire, with preamble, check sequence and gap.
const FULL_FRAME_BYTES: f64 = 1514.0 + 24.0;

pub struct Samples {
    /// Bytes from each sender.
    pub bytes: Vec<u64>,
    /// The time of each message from admission to delivery.
    pub latencies: Vec<Nanos>,
}

impl Samples {
    pub fn new(senders: usize) -> Samples {
        Samples { bytes: vec![0; senders], latencies: vec![] }
    }

    /// Count a message. Its payload begins with the time of sending and the sender.
    pub fn record(&mut self, now: Nanos, payload: &[u8]) {
        let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        self.bytes[number(8) as usize - 1] += payload.len() as u64;
        self.latencies.push(now - number(0));
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The rate of delivered words and payload, as a part of the link's rate.
    pub link_share: f64,
    /// Jain's fairness index of the senders' bytes. It is 1 if all have the same.
    pub jain: f64,
    /// Percentiles of the time from admission to delivery, in microseconds.
    pub p50: f64,
    pub p99: f64,
    /// `p99` divided by the time that one full frame of each sender takes on the link.
    pub p99_over_share: f64,
    /// Frames that the switch dropped.
    pub lost: u64,
    /// Messages that were sent again.
    pub retransmitted: u64,
    /// How often a message that was sent again turned out to be only late.
    pub spurious: u64,
    pub messages: u64,
}

impl Figures {
    pub fn new(mut seen: Samples, rate: f64, seconds: f64, [lost, again, spurious]: [u64; 3]) -> Figures {
        let senders = seen.bytes.len() as f64;
        let sum: f64 = seen.bytes.iter().map(|&bytes| bytes as f64).sum();
        let squares: f64 = seen.bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
        seen.latencies.sort_unstable();
        let part = |percent: usize| {
            seen.latencies.get(seen.latencies.len() * percent / 100).map_or(f64::MAX, |&late| late as f64)
        };
        let share = senders * FULL_FRAME_BYTES * 8.0 / rate * 1e9;
        Figures {
            link_share: sum * 8.0 / (rate * seconds),
            jain: sum * sum / (senders * squares),
            p50: part(50) / 1e3,
            p99: part(99) / 1e3,
            p99_over_share: part(99) / share,
            lost,
            retransmitted: again,
            spurious,
            messages: seen.latencies.len() as u64,
        }
    }

    pub const HEAD: &str = "| of the link | Jain | median, µs | p99, µs | p99 over fair share | dropped | sent again |\n\
                            | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { link_share: of_link, jain, p50, p99, p99_over_share, lost, retransmitted: again, .. } = self;
        write!(f, "| {of_link:.3} | {jain:.3} | {p50:.0} | {p99:.0} | {p99_over_share:.1} | {lost} | {again} |")
    }
}
