//! Under any `ulimit -v` or `ulimit -d` a program opens its node, or its error names the limit to raise. No program is ended by a signal.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio, id};

use crate::example::{Running, example};

/// The first line that `ping` prints under this limit, in KiB, of addresses (`v`) or data (`d`).
fn says(on: &str, limit: char, kib: usize) -> String {
    let ping = example("ping");
    let script = format!("ulimit -{limit} {kib} && exec \"$0\" serve {on}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(ping.get_program()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().expect("a shell"));
    let lines = BufReader::new(child.0.stderr.take().expect("a pipe")).lines();
    lines.map_while(Result::ok).next().unwrap_or_default()
}

fn is_told(on: &str) {
    for (limit, least, most) in [('v', 10_000, 60_000), ('d', 4_000, 50_000)] {
        let (named, mut refused) = (format!("`ulimit -{limit}"), 0);
        for kib in (least..most).step_by(1000) {
            let says = says(on, limit, kib);
            let is_refused = says.starts_with("ping: ") && says.contains(&named);
            assert!(is_refused || says.starts_with("beta serves on"), "{on} with -{limit} {kib} KiB: {says}");
            refused += u32::from(is_refused);
        }
        assert!(refused > 0, "{on}: -{limit} was no limit");
    }
}

#[test]
fn over_sockets() {
    ["udp:127.0.0.1:0", "udp:127.0.0.1:0,frames=64", "tcp:127.0.0.1:0,frames=80"].into_iter().for_each(is_told);
}

#[test]
fn over_shared_memory() {
    is_told(&format!("shm:am-limits-{},members=2,frame=2048,frames=4096", id()));
}

#[test]
fn over_a_simulated_network() {
    is_told("sim:7");
}
