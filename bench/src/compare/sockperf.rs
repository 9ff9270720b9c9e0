//! sockperf: kernel UDP and TCP, as others measure them.

use std::time::Duration;

use super::peer::{Asked, OneWay, Peer, Stream, Turn};
use super::room::{Exchange, Job, Run, Said, Server};
use super::tool::{self, number_after, strange};
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

const PROGRAM: &str = "sockperf";
const SERVER: &str = "10.77.0.2";
const PORT: u16 = 5001;
/// Its own header, and the longest datagram.
const SIZES: std::ops::RangeInclusive<usize> = 14..=65_507;
/// It counts whole seconds, and looks at its clock for two before.
const EACH: Duration = Duration::from_millis(3500);

/// By one of the kernel's protocols.
pub(super) struct Sockperf {
    pub(super) tcp: bool,
}

/// Of those that go the smallest, the middle one and the largest: each takes long.
fn sizes(asked: &Asked) -> Vec<usize> {
    let fit: Vec<usize> = asked.sizes.iter().copied().filter(|size| SIZES.contains(size)).collect();
    let mut some: Vec<usize> =
        [0, fit.len() / 2, fit.len().saturating_sub(1)].iter().filter_map(|nth| fit.get(*nth).copied()).collect();
    some.dedup();
    some
}

impl Sockperf {
    fn exchange(&self, what: &str, size: usize) -> Exchange {
        let (port, size) = (PORT.to_string(), size.to_string());
        let place = ["-i", SERVER, "-p", &port, "--nonblocked"];
        let tcp = if self.tcp { &["--tcp"][..] } else { &[] };
        let server = Run::on(Side::Far, &[&[PROGRAM, "server"], &place[..], tcp].concat());
        let client = Run::on(Side::Near, &[&[PROGRAM, what, "-t", "1", "-m", &size], &place[..], tcp].concat());
        Exchange { server: Some(Server { run: server, port: PORT }), client }
    }
}

impl Peer for Sockperf {
    fn name(&self) -> &'static str {
        if self.tcp { "sockperf-tcp" } else { "sockperf-udp" }
    }

    fn what(&self) -> &'static str {
        if self.tcp { "kernel TCP by sockperf, both sides spin" } else { "kernel UDP by sockperf, both sides spin" }
    }

    fn notes(&self) -> &'static [&'static str] {
        &[
            "sockperf: one second a size, three sizes from 14 to 65,507 bytes; messages are what the sender handed over, not \
           what arrived; no CPU, for it looks at its clock for two seconds before",
        ]
    }

    fn find(&self, watch: &Watch) -> Result<String, String> {
        tool::version(PROGRAM, &["--version"], watch)
    }

    fn takes(&self, asked: &Asked) -> Duration {
        EACH * 2 * sizes(asked).len() as u32
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let both = |size| ["ping-pong", "throughput"].map(|what| self.exchange(what, size));
        let job = Job { exchanges: sizes(asked).into_iter().flat_map(both).collect(), ..Job::default() };
        let said = tool::run(job, pair, asked, watch)?;
        let mut turn = Turn { mode: "veth kernel".to_owned(), ..Turn::default() };
        for (size, said) in sizes(asked).into_iter().zip(said.chunks(2)) {
            let [pings, stream] = said else { continue };
            turn.one_way.push(one_way(size, pings)?);
            turn.stream.push(throughput(size, stream)?);
        }
        Ok(turn)
    }
}

/// It halves round trips itself.
fn one_way(size: usize, said: &Said) -> Result<OneWay, Error> {
    let of = |words| number_after(&said.text, words).map(|micros| micros * 1e3);
    let (p50, p99, mean) = (of("percentile 50.000"), of("percentile 99.000"), of("avg-latency="));
    if p50.is_none() { Err(strange(PROGRAM, &said.text)) } else { Ok(OneWay { size, p50, p99, mean }) }
}

fn throughput(size: usize, said: &Said) -> Result<Stream, Error> {
    let messages = number_after(&said.text, "Message Rate is").ok_or_else(|| strange(PROGRAM, &said.text))?;
    Ok(Stream { size, messages, cpu: None, lost: 0, batching: None })
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::comparison;
    use super::*;

    const PINGS: &str = "\
sockperf: [Total Run] RunTime=1.004 sec; Warm up time=400 msec; SentMessages=7859; ReceivedMessages=7858
sockperf: \x1b[2;35m====> avg-latency=67.655 (std-dev=483.323)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: ---> percentile 99.900 = 4030.156
sockperf: ---> percentile 99.000 = 3993.678
sockperf: ---> percentile 50.000 =    7.263
";
    const STREAM: &str = "\
sockperf: Total of 83715 messages sent in 1.000 sec
sockperf: Summary: Message Rate is 83675 [msg/sec]
sockperf: Summary: BandWidth is 5.107 MBps (40.857 Mbps)
";

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), trouble: None, busy: 2.0 }
    }

    #[test]
    fn three_sizes_are_enough() {
        let of = |all: &[usize]| sizes(&Asked { sizes: all.to_vec(), ..comparison(vec![]).asked });
        assert_eq!(of(&[8, 64, 512, 4096, 32_768, 1 << 20]), [64, 4096, 32_768]);
        assert_eq!((of(&[64]), of(&[8, 1 << 20])), (vec![64], vec![]));
    }

    #[test]
    fn what_it_prints() {
        let pings = one_way(64, &said(PINGS)).unwrap();
        assert_eq!(pings, OneWay { size: 64, p50: Some(7263.0), p99: Some(3_993_678.0), mean: Some(67_655.0) });
        let stream = throughput(64, &said(STREAM)).unwrap();
        assert_eq!((stream.messages, stream.cpu), (83_675.0, None));
    }

    #[test]
    fn strange_output_is_an_error() {
        for text in ["", "percentile 50.000 = none", "Message Rate is", "\u{fffd}"] {
            assert!(one_way(64, &said(text)).is_err() && throughput(64, &said(text)).is_err(), "{text}");
        }
    }
}
