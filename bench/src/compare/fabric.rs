//! libfabric: `fi_pingpong`, the only program that comes with its package.

use std::time::Duration;

use super::peer::{Asked, OneWay, Peer, Turn, Wire};
use super::room::{Exchange, Job, Run, Said, Server};
use super::tool::{self, strange, times};
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

const PROGRAM: &str = "fi_pingpong";
const PORT: u16 = 47_592;

/// By one of its providers.
pub(super) struct Fabric {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    provider: &'static str,
    kind: &'static str,
    wire: Wire,
    /// The longest message.
    most: usize,
}

/// Its providers that need no hardware.
pub(super) const PROVIDERS: [Fabric; 3] = [
    Fabric {
        name: "fi-udp",
        what: "libfabric's udp datagrams",
        provider: "udp",
        kind: "dgram",
        wire: Wire::Veth,
        most: 1472,
    },
    Fabric {
        name: "fi-tcp",
        what: "libfabric's reliable datagrams over tcp",
        provider: "tcp",
        kind: "rdm",
        wire: Wire::Veth,
        most: usize::MAX,
    },
    Fabric {
        name: "fi-shm",
        what: "libfabric's reliable datagrams over shared memory",
        provider: "shm",
        kind: "rdm",
        wire: Wire::Memory,
        most: usize::MAX,
    },
];

impl Fabric {
    fn sizes<'a>(&self, asked: &'a Asked) -> impl Iterator<Item = usize> + use<'a> {
        let most = self.most;
        asked.sizes.iter().copied().filter(move |size| *size <= most)
    }

    fn exchange(&self, asked: &Asked, size: usize) -> Exchange {
        let (start, each) = if self.wire == Wire::Veth { (24_000.0, 1.6) } else { (2_000.0, 0.6) };
        let count = times(asked, start + each * size as f64).max(10).to_string();
        let (port, size) = (PORT.to_string(), size.to_string());
        let words = [PROGRAM, "-p", self.provider, "-e", self.kind, "-I", &count, "-S", &size];
        let server = Run::on(Side::Far, &[&words[..], &["-B", &port]].concat());
        let to = |host| Run::on(Side::Near, &[&words[..], &["-P", &port, host]].concat());
        let (server, client) = match self.wire {
            Wire::Veth => (server, to("10.77.0.2")),
            Wire::Memory => (server.on_one_host(), to("127.0.0.1")),
        };
        Exchange { server: Some(Server { run: server, port: PORT }), client }
    }
}

impl Peer for &'static Fabric {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn wire(&self) -> &'static str {
        self.wire.name()
    }

    fn notes(&self) -> &'static [&'static str] {
        &["fi: the mean of all messages, connections warm or not, instead of p50; one at a time only, so no messages, \
           bandwidth and CPU"]
    }

    fn find(&self, watch: &Watch) -> Result<String, String> {
        tool::version(PROGRAM, &["-h"], watch).and_then(|_| tool::version("fi_info", &["--version"], watch))
    }

    fn takes(&self, asked: &Asked) -> Duration {
        (asked.amount.time * 2 + Duration::from_millis(300)) * self.sizes(asked).count() as u32
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let exchanges = self.sizes(asked).map(|size| self.exchange(asked, size)).collect();
        let said = tool::run(Job { exchanges, ..Job::default() }, pair, asked, watch)?;
        let mode = if self.wire == Wire::Veth { format!("veth kernel {}", self.provider) } else { "shm".to_owned() };
        let one_way = self.sizes(asked).zip(&said).map(|(size, said)| one_way(size, said));
        Ok(Turn { mode, one_way: one_way.collect::<Result<_, _>>()?, ..Turn::default() })
    }
}

/// `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`, of which it divides by two itself.
fn one_way(size: usize, said: &Said) -> Result<OneWay, Error> {
    let last = said.text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let fields: Vec<&str> = last.split_whitespace().collect();
    let micros = match fields[..] {
        [_, _, _, _, _, _, micros, _] => micros.parse::<f64>().ok(),
        _ => None,
    };
    let mean = Some(micros.ok_or_else(|| strange(PROGRAM, &said.text))? * 1e3);
    Ok(OneWay { size, p50: None, p99: None, mean })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), ..Said::default() }
    }

    #[test]
    fn what_it_prints() {
        let text = "\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      2k      =2k      250k        0.13s      1.94      32.91       0.03
";
        assert_eq!(one_way(64, &said(text)).unwrap(), OneWay { size: 64, p50: None, p99: None, mean: Some(32_910.0) });
    }

    #[test]
    fn strange_output_is_an_error() {
        for text in
            ["", "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n", "a b c d e f g h"]
        {
            assert!(one_way(64, &said(text)).is_err(), "{text}");
        }
    }
}
