//! iperf3: a stream of kernel TCP.

use std::time::Duration;

use serde_json::Value;

use super::peer::{Asked, Peer, Stream, Turn};
use super::room::{Exchange, Job, Run, Said, Server};
use super::tool::{self, cpu, strange};
use crate::deploy::joined::Joint;
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

const PROGRAM: &str = "iperf3";
const SERVER: &str = "10.77.0.2";
const PORT: u16 = 5201;

pub(super) struct Iperf3;

fn exchange(size: &usize) -> Exchange {
    let (port, size) = (PORT.to_string(), size.to_string());
    let server = Run::on(Side::Far, &[PROGRAM, "-s", "-1", "-p", &port]);
    let client = Run::on(Side::Near, &[PROGRAM, "-c", SERVER, "-p", &port, "-t", "1", "-l", &size, "--json"]);
    Exchange { server: Some(Server { run: server, port: PORT }), client }
}

impl Peer for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn goes_over(&self, joint: Joint) -> bool {
        joint == Joint::Tcp
    }

    fn what(&self) -> &'static str {
        "kernel TCP by iperf3, both sides sleep"
    }

    fn notes(&self) -> &'static [&'static str] {
        &[
            "iperf3: one way only, for a second a size; a message is one write, and Nagle's algorithm may gather them; CPU by its \
           own account",
        ]
    }

    fn find(&self, watch: &Watch) -> Result<String, String> {
        tool::version(PROGRAM, &["--version"], watch)
    }

    fn takes(&self, asked: &Asked) -> Duration {
        Duration::from_millis(1200) * asked.sizes.len() as u32
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let job = Job { exchanges: asked.sizes.iter().map(exchange).collect(), ..Job::default() };
        let said = tool::run(job, pair, asked, watch)?;
        let stream = asked.sizes.iter().zip(&said).map(|(size, said)| stream(*size, said));
        Ok(Turn { mode: "veth kernel".to_owned(), stream: stream.collect::<Result<_, _>>()?, ..Turn::default() })
    }
}

fn stream(size: usize, said: &Said) -> Result<Stream, Error> {
    let all: Value = serde_json::from_str(&said.text).map_err(|_| strange(PROGRAM, &said.text))?;
    let end = &all["end"];
    let bits = end["sum_received"]["bits_per_second"].as_f64().ok_or_else(|| strange(PROGRAM, &said.text))?;
    let messages = bits / 8.0 / size as f64;
    let used = |side: &str| end["cpu_utilization_percent"][side].as_f64();
    let cores = used("host_total").zip(used("remote_total")).map(|(near, far)| (near + far) / 100.0);
    Ok(Stream { size, messages, cpu: cores.and_then(|cores| cpu(cores, messages)), lost: 0, batching: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), ..Said::default() }
    }

    #[test]
    fn what_it_prints() {
        let text = r#"{"end": {"sum_sent": {"bits_per_second": 84993400.6863286},
            "sum_received": {"seconds": 1.003901, "bytes": 9128000, "bits_per_second": 72740240.32250193},
            "cpu_utilization_percent": {"host_total": 29.156374963335036, "remote_total": 48.09648083033677}}}"#;
        let stream = stream(64, &said(text)).unwrap();
        assert_eq!(stream.messages.round(), 142_071.0);
        assert_eq!(stream.cpu.map(f64::round), Some(5438.0));
    }

    #[test]
    fn strange_output_is_an_error_and_what_is_missing_is_a_dash() {
        for text in ["", "{}", "[]", r#"{"error": "unable to connect"}"#, r#"{"end":{"sum_received":7}}"#] {
            assert!(stream(64, &said(text)).is_err(), "{text}");
        }
        let text = r#"{"end":{"sum_received":{"bits_per_second":512}}}"#;
        assert_eq!(
            stream(64, &said(text)).unwrap(),
            Stream { size: 64, messages: 1.0, cpu: None, lost: 0, batching: None }
        );
    }
}
