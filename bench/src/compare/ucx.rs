//! UCX: `ucx_perftest`, its tests of active messages.

use std::fmt::Write;
use std::time::Duration;

use super::peer::{Asked, OneWay, Peer, Stream, Turn, Wire};
use super::room::{Exchange, Job, Run, Said, Server};
use super::tool::{self, cpu, strange, times};
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

const PROGRAM: &str = "ucx_perftest";
const PORT: u16 = 13_337;
/// What it is told to measure, one after the other; both sides read it.
const BATCH: &str = "batch";
/// Its percentiles are of the last round trips, so many at most.
const REMEMBERS: u64 = 2048;

/// By one of its transports.
pub(super) struct Ucx {
    pub(super) wire: Wire,
}

impl Ucx {
    /// A guess, to choose how often: nanoseconds a message takes.
    fn guess(&self, size: usize) -> f64 {
        match self.wire {
            Wire::Veth => 12_000.0 + size as f64 * 0.8,
            Wire::Memory => 700.0 + size as f64 * 0.3,
        }
    }

    /// Each size to and fro, twice for two percentiles, and one way.
    fn batch(&self, asked: &Asked) -> String {
        let mut batch = String::new();
        for size in &asked.sizes {
            let guess = self.guess(*size);
            let (pings, stream) = (times(asked, 2.0 * guess).max(10), times(asked, guess / 2.0).max(10));
            let pings = pings.min(10 * REMEMBERS);
            let warm = |count: u64| (count / 5).max(1);
            // Writing to a string cannot fail.
            for rank in [50, 99] {
                let warm_up = warm(pings);
                let _ = writeln!(batch, "lat-{rank}-{size} -t ucp_am_lat -s {size} -n {pings} -w {warm_up} -R {rank}");
            }
            let _ = writeln!(batch, "bw-0-{size} -t ucp_am_bw -s {size} -n {stream} -w {}", warm(stream));
        }
        batch
    }

    fn job(&self, asked: &Asked) -> Job {
        let port = PORT.to_string();
        let words = |host: &[&'static str]| {
            let common = ["-p", &port, "-b", BATCH, "-f", "-v"];
            [&[PROGRAM], host, &common[..]].concat().iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
        };
        let run = |side, host: &[&'static str]| Run { words: words(host), ..Run::on(side, &[]) };
        let (server, client) = match self.wire {
            Wire::Veth => {
                let variables = [("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "am0")];
                (run(Side::Far, &[]).with(&variables), run(Side::Near, &["10.77.0.2"]).with(&variables))
            }
            Wire::Memory => {
                let variables = [("UCX_TLS", "posix,self")];
                let server = run(Side::Far, &[]).on_one_host().with(&variables);
                (server, run(Side::Near, &["127.0.0.1"]).with(&variables))
            }
        };
        let exchange = Exchange { server: Some(Server { run: server, port: PORT }), client };
        Job { files: vec![(BATCH.to_owned(), self.batch(asked))], exchanges: vec![exchange], ..Job::default() }
    }
}

impl Peer for Ucx {
    fn name(&self) -> &'static str {
        if self.wire == Wire::Veth { "ucx-tcp" } else { "ucx-shm" }
    }

    fn what(&self) -> &'static str {
        match self.wire {
            Wire::Veth => "UCX active messages over its TCP transport",
            Wire::Memory => "UCX active messages over POSIX shared memory",
        }
    }

    fn wire(&self) -> &'static str {
        self.wire.name()
    }

    fn notes(&self) -> &'static [&'static str] {
        &[
            "ucx: one way by its own account; p50 and p99 are of two measurements, and of their last 2048 messages; one way the \
           sender counts; CPU is of all its life, in which it spins",
        ]
    }

    fn find(&self, watch: &Watch) -> Result<String, String> {
        // The one that measures does not tell.
        tool::version("ucx_info", &["-v"], watch).map(|version| format!("UCX {version}"))
    }

    fn takes(&self, asked: &Asked) -> Duration {
        (asked.amount.time * 6 + Duration::from_millis(100)) * asked.sizes.len() as u32
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let said = tool::run(self.job(asked), pair, asked, watch)?;
        let said = said.first().cloned().unwrap_or_default();
        let mode = if self.wire == Wire::Veth { "veth kernel tcp" } else { "posix" }.to_owned();
        Ok(Turn { mode, ..turn(&said)? })
    }
}

/// `name,iterations,percentile,average,overall,bandwidths,message rates`, in microseconds and messages a second.
fn turn(said: &Said) -> Result<Turn, Error> {
    let mut turn = Turn::default();
    for line in said.text.lines() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, _, percentile, _, overall, .., rate] = fields[..] else { continue };
        let name: Vec<&str> = name.split('-').collect();
        let ([what, rank, size], Ok(percentile), Ok(overall), Ok(rate)) =
            (&name[..], percentile.parse::<f64>(), overall.parse::<f64>(), rate.parse::<f64>())
        else {
            continue;
        };
        let Ok(size) = size.parse() else { continue };
        match (*what, *rank) {
            ("lat", "50") => {
                let (p50, mean) = (Some(percentile * 1e3), Some(overall * 1e3));
                turn.one_way.push(OneWay { size, p50, p99: None, mean });
            }
            ("lat", "99") => {
                let same = turn.one_way.iter_mut().filter(|one| one.size == size);
                same.for_each(|one| one.p99 = Some(percentile * 1e3));
            }
            ("bw", _) => {
                turn.stream.push(Stream { size, messages: rate, cpu: cpu(said.busy, rate), lost: 0, batching: None })
            }
            _ => {}
        }
    }
    let is_empty = turn.one_way.is_empty() && turn.stream.is_empty();
    if is_empty { Err(strange(PROGRAM, &said.text)) } else { Ok(turn) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), trouble: None, busy: 2.0 }
    }

    #[test]
    fn what_it_prints() {
        let text = "\
batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
lat-50-8,2000,9.150,45.572,45.572,0.17,0.17,21943,21943
lat-99-8,2000,2052.374,58.805,58.805,0.13,0.13,17005,17005
lat-50-1048576,  50,3016.025,4882.338,4882.338,204.82,204.82,205,205
bw-0-64,20000,10.108,20.854,20.854,2.93,2.93,47953,47953
";
        let turn = turn(&said(text)).unwrap();
        let OneWay { size, p50, p99, mean } = turn.one_way[0];
        let figures = [p50, p99, mean].map(|figure| figure.map(f64::round));
        assert_eq!((size, figures), (8, [9150.0, 2_052_374.0, 45_572.0].map(Some)));
        assert_eq!((turn.one_way[1].size, turn.one_way[1].p99), (1 << 20, None));
        assert_eq!((turn.stream[0].messages, turn.stream[0].cpu.map(f64::round)), (47_953.0, Some(41_708.0)));
    }

    #[test]
    fn strange_output_is_an_error() {
        let some = [
            "",
            "lat-50-8",
            "lat-50-8,1,2,3,4,5,6,7,many",
            "lat-50-x,1,2,3,4,5,6,7,8",
            "a,b,c,d,e,f,g,h,i",
            ",,,,,,,,",
        ];
        for text in some {
            assert!(turn(&said(text)).is_err(), "{text}");
        }
    }
}
