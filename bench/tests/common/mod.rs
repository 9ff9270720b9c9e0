//! Runs am-bench and reads its output.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_netns::{Host, Interface, VethOptions, veth};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Longer than anything here takes when nothing is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The shortest measurement.
pub(crate) const QUICK: &[&str] = &["--rounds", "1", "--time", "0.02"];
/// Long enough to be running when something happens to it.
pub(crate) const ENDLESS: &[&str] = &["--rounds", "1", "--time", "600"];

pub(crate) fn am_bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_am-bench"))
}

/// Run with these arguments to the end.
pub(crate) fn run(arguments: &[&[&str]]) -> Output {
    am_bench().args(arguments.concat()).output().expect("am-bench runs")
}

/// Start with these arguments, and collect the output.
pub(crate) fn start(arguments: &[&[&str]]) -> Running {
    Running(
        am_bench()
            .args(arguments.concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("am-bench starts"),
    )
}

/// A process of ours, killed at the end of the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).expect("a process to signal");
    }

    /// Wait for its end. Returns its status and its standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        eventually("its end", || self.0.try_wait().unwrap().is_some());
        let status = self.0.wait().unwrap();
        let mut text = String::new();
        if let Some(mut errors) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut errors, &mut text).unwrap();
        }
        (status, text)
    }

    /// Its child processes.
    pub(crate) fn children(&self) -> Vec<u32> {
        children(self.pid())
    }
}

/// The child processes of a process.
pub(crate) fn children(of: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&pid| parent(pid) == Some(of)).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time so far: both sides spin while they measure.
pub(crate) fn seconds_worked(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split_whitespace().collect());
    let ticks: f64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Whether it handles this signal; before that the signal would kill it.
pub(crate) fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    caught.is_some_and(|caught| caught >> (signal as u32 - 1) & 1 == 1)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may contain anything: state, parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the process runs. A zombie does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// End each side in turn while both measure, and wait until both have ended. `during` and `after` get the process of the near
/// side; `after` also the signal.
pub(crate) fn end_each_side(hosts: &str, driver: &str, during: impl Fn(u32), after: impl Fn(u32, Signal)) {
    for (near_ends, signal) in [(true, Signal::SIGINT), (true, Signal::SIGKILL), (false, Signal::SIGKILL)] {
        let near = start(&[&["latency", "--hosts", hosts, "--driver", driver], ENDLESS]);
        let (pid, mut far) = (near.pid(), 0);
        eventually("a far side that works", || {
            far = near.children().first().copied().unwrap_or(0);
            seconds_worked(far) > 0.5 && seconds_worked(pid) > 0.5
        });
        during(pid);
        kill(Pid::from_raw(if near_ends { pid } else { far } as i32), signal).unwrap();
        near.end();
        eventually("the end of the far side", || !is_alive(far));
        after(pid, signal);
    }
}

/// Wait until the condition holds; fails the test if it never does.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < LONG, "still not: {what}");
        sleep(Duration::from_millis(10));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The objects that it printed. Fails the test if it failed, or printed anything else.
pub(crate) fn json(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
    let lines = objects(output);
    lines.iter().for_each(check_origin);
    lines
}

/// The lines and the picture of a command that plots.
pub(crate) fn plotted(arguments: &[&[&str]]) -> (Vec<Value>, String) {
    let file = tempfile::NamedTempFile::with_suffix(".svg").unwrap();
    let lines = json(&run(&[arguments, &[&["--plot", file.path().to_str().unwrap()]]].concat()));
    (lines, fs::read_to_string(file.path()).unwrap())
}

/// Each line says where and when it was measured.
fn check_origin(line: &Value) {
    let said = line.get("summary").unwrap_or(line);
    for key in ["transport", "version", "kernel", "date"] {
        assert!(said[key].as_str().is_some_and(|value| !value.is_empty()), "no {key}: {line}");
    }
    assert!(said.get("mtu").is_some(), "no mtu: {line}");
    assert!(said["date"].as_str().is_some_and(|date| date.starts_with("20") && date.ends_with('Z')), "{line}");
}

/// The objects, however it ended.
pub(crate) fn objects(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The last object, which must be the summary.
pub(crate) fn summary(lines: &[Value]) -> &Value {
    let (last, others) = lines.split_last().expect("some lines");
    assert!(others.iter().all(|line| line.get("summary").is_none()));
    last.get("summary").expect("a summary at the end")
}

/// A row of `rpc`.
fn call<'a>(lines: &'a [Value], via: &str, call: &str, outstanding: u64) -> &'a Value {
    let is = |line: &&Value| line["via"] == via && line["call"] == call && line["outstanding"] == outstanding;
    lines.iter().find(is).unwrap_or_else(|| panic!("no row {call} by {via}, {outstanding} at once"))
}

/// Checks the rows of `rpc` with one size of arguments, over this transport, and that the summary's ratios are those of the rows.
pub(crate) fn check_calls(lines: &[Value], size: u64, transport: &str) {
    let (calls, others): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line["via"].is_string());
    let of = |via: &str| calls.iter().filter(|line| line["via"] == via).count();
    assert_eq!(["am", "rpc", "tonic", "tarpc"].map(of), [4, 16, 4, 4]);
    for line in calls {
        let over_tcp = line["via"] == "tonic" || line["via"] == "tarpc";
        assert_eq!(line["transport"], if over_tcp { "tcp" } else { transport }, "{line}");
        let [p50, p90, p99, p999] = ["p50", "p90", "p99", "p999"].map(|key| line["rtt_ns"][key].as_u64().expect(key));
        assert!(0 < p50 && p50 <= p90 && p90 <= p99 && p99 <= p999, "{line}");
        assert!(
            line["calls_per_s"].as_f64() > Some(0.0) && line["n"].as_u64() >= line["outstanding"].as_u64(),
            "{line}"
        );
        assert!(line["call"] != "echo" || line["size"] == size, "{line}");
    }
    let count = |key: &str| others.iter().filter(|line| line[key].is_string()).count();
    assert_eq!(count("marshalling"), 2);
    let summary = summary(lines);
    let close = |name: &str, expected: f64| {
        let ratio = summary[name].as_f64().expect(name);
        assert!((ratio / expected - 1.0).abs() < 0.01, "{name}: {ratio}, and {expected} of the rows");
    };
    let time = |via| call(lines, via, "null", 1)["rtt_ns"]["p50"].as_f64().unwrap();
    let rate = |via| call(lines, via, "null", 64)["calls_per_s"].as_f64().unwrap();
    close("rpc_over_am", time("rpc") / time("am"));
    close("am_over_rpc_rate", rate("am") / rate("rpc"));
    for other in ["tonic", "tarpc"] {
        close(&format!("{other}_over_rpc"), time(other) / time("rpc"));
        close(&format!("rpc_over_{other}_rate"), rate("rpc") / rate(other));
    }
    let gates = summary["gates"].as_array().unwrap();
    assert!(gates.len() == 6 && gates.iter().all(|gate| gate["what"].is_string() && gate["reached"].is_boolean()));
    let paper = &summary["paper"].as_array().unwrap()[6];
    assert_eq!((&paper["paper"], paper["ours"].as_f64()), (&1.8587.into(), summary["rpc_over_am"].as_f64()));
    assert_eq!(summary["ratios"].as_array().unwrap().len(), 12, "three others, two sizes, one and 64 at once");
}

/// Checks the rows of `ordered` with a group of more than two and one size of messages, and that the summary's ratios are those of the rows.
pub(crate) fn check_groups(lines: &[Value], members: u64, size: u64, transport: &str, stacks: &[&str]) {
    let rows: Vec<&Value> = lines.iter().filter(|line| line["via"].is_string()).collect();
    let of = |via: &str| rows.iter().filter(|line| line["via"] == via).count();
    let count = |via: &&str| match *via {
        "am" => 3,
        "agreed, host" | "copies" | "copies, host" | "fetch" => 1,
        _ => 2 + 2 * 3,
    };
    let expected: Vec<usize> = stacks.iter().map(count).collect();
    assert_eq!(stacks.iter().map(|via| of(via)).collect::<Vec<_>>(), expected, "{}", summary(lines)["missing"]);
    let kernel = |via: &Value| if via == "openraft" { "tcp" } else { "udp" };
    for line in &rows {
        let is_ours = line["via"] != "openraft" && line["via"] != "corosync";
        assert_eq!(line["transport"], if is_ours { transport } else { kernel(&line["via"]) }, "{line}");
        assert!(line["members"] == members && (line["size"] == 0 || line["size"] == size), "{line}");
        assert!(line["messages_per_s"].as_f64() > Some(0.0), "{line}");
        if line["load"] == "in turn" {
            let at = |time: &str, key: &str| line[time][key].as_u64().expect(time);
            assert!(0 < at("own_ns", "p50") && at("own_ns", "p50") <= at("own_ns", "p99"), "{line}");
            assert!(at("own_ns", "p50") <= at("last_ns", "p50") && line["n"].as_u64() > Some(0), "{line}");
        }
    }
    let fail_over = lines.iter().find(|line| line["fail_over"].is_string()).expect("a row of the sequencer's end");
    let summary = summary(lines);
    assert_eq!(summary["failover_ms"], fail_over["failover_ms"]);
    assert!(summary["failover_ms"].as_f64() > Some(0.0), "{summary}");
    let own = |via: &str| {
        let is = |line: &&&Value| line["via"] == via && line["load"] == "in turn" && line["senders"] == "one";
        rows.iter().find(is).unwrap_or_else(|| panic!("no null message by {via}"))["own_ns"]["p50"].as_f64().unwrap()
    };
    for (name, expected) in [("agreed_over_am", own("agreed") / own("am")), ("safe_over_am", own("safe") / own("am"))] {
        let ratio = summary[name].as_f64().expect(name);
        assert!((ratio / expected - 1.0).abs() < 0.01, "{name}: {ratio}, and {expected} of the rows");
    }
    let has_corosync = stacks.contains(&"corosync");
    assert_eq!(summary["corosync_over_agreed"].is_f64(), has_corosync, "{summary}");
    let is_compared = stacks.contains(&"agreed, host");
    let ratio = is_compared.then(|| own("agreed, host") / own("agreed"));
    let close = |found: f64| ratio.is_some_and(|expected| (found / expected - 1.0).abs() < 0.01);
    assert!(summary["host_over_program"].as_f64().map_or(!is_compared, close), "{summary}");
    let gates = summary["gates"].as_array().unwrap();
    assert!(gates.iter().all(|gate| gate["what"].is_string() && gate["reached"].is_boolean()), "{summary}");
    assert_eq!(gates.len(), if has_corosync { 5 } else { 3 }, "no gate of 1 MiB, which was not measured: {summary}");
    assert_eq!(summary["paper"][1]["paper"], 273.0);
}

/// Checks the rows of `objects`, and that the summary's ratios are those of the rows. Without Redis it says how to install it.
pub(crate) fn check_objects(lines: &[Value], members: u64, transport: &str, rounds: usize, has_redis: bool) {
    let rows: Vec<&Value> = lines.iter().filter(|line| line["via"].is_string()).collect();
    let summary = summary(lines);
    let why = "redis-server is not installed: scripts/setup --with-peers";
    let missing = if has_redis {
        serde_json::json!([])
    } else {
        serde_json::json!([{ "what": "redis", "round": null, "why": why }])
    };
    assert_eq!(summary["missing"], missing);
    let found: Vec<_> = rows.iter().map(|line| (&line["via"], &line["call"], &line["level"], &line["size"])).collect();
    assert_eq!(found.len(), if has_redis { 27 } else { 26 }, "{found:?}");
    for line in &rows {
        let is_peer = line["call"] == "set";
        assert!(line["members"] == members && line["transport"] == if is_peer { "tcp" } else { transport }, "{line}");
        let at = |key: &str| line["ns"][key].as_f64().expect(key);
        assert!(0.0 < at("p50") && at("p50") <= at("p99") && line["n"].as_u64() > Some(0), "{line}");
        let count = |key: &str| line[key].as_array().map(Vec::len);
        let is_compared = line["via"] == "objects" && line["call"] != "read";
        assert_eq!(count("p50_by_round"), Some(rounds), "{line}");
        assert_eq!(count("over_bare_by_round"), is_compared.then_some(rounds), "{line}");
        assert_eq!(count("over_write_by_round"), is_peer.then_some(rounds), "{line}");
        assert_eq!(count("last_p50_by_round"), (line["via"] == "group").then_some(rounds), "{line}");
        assert!(line["over_bare"].is_number() == is_compared && line["over_write"].is_number() == is_peer, "{line}");
    }
    let row = |via: &str, call: &str, level: Option<&str>| {
        let is = |line: &&&Value| {
            line["via"] == via && line["call"] == call && line["level"].as_str() == level && line["size"] == 0
        };
        rows.iter().find(is).map(|line| line["ns"]["p50"].as_f64().unwrap())
    };
    let p50 = |via: &str, call: &str, level| row(via, call, level).unwrap_or_else(|| panic!("no {via}, {call}"));
    assert_eq!(summary["read_ns"].as_f64(), Some(p50("objects", "read", None)));
    let write = p50("objects", "write", Some("safe"));
    for (name, over, under) in [
        ("write_over_agreed", p50("objects", "write", Some("agreed")), p50("group", "message", Some("agreed"))),
        ("write_over_safe", write, p50("group", "message", Some("safe"))),
        ("remote_over_rpc", p50("objects", "write, kept", None), p50("rpc", "call", None)),
        ("latest_over_am", p50("objects", "read_latest", Some("safe")), p50("am", "request", None)),
        ("openraft_over_write", p50("openraft", "set", None), write),
        ("redis_over_write", row("redis", "set", None).unwrap_or_default(), write),
    ] {
        if name == "redis_over_write" && !has_redis {
            assert!(summary[name].is_null(), "{summary}");
            continue;
        }
        let (ratio, expected) = (summary[name].as_f64().expect(name), over / under);
        assert!((ratio / expected - 1.0).abs() < 0.01, "{name}: {ratio}, and {expected} of the rows");
        assert_eq!(summary["range"][name].as_array().map(Vec::len), Some(2), "{summary}");
    }
    let paper = summary["paper"].as_array().expect("the paper's rows");
    assert!(paper.iter().all(|of| of["paper"].is_number() && of["ours"].as_f64() > Some(0.0)), "{summary}");
}

/// Whether the server of Redis is installed.
pub(crate) fn has_redis() -> bool {
    let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The row of a comparison.
pub(crate) fn peer<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    lines.iter().find(|line| line["peer"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

/// Checks the fields of a latency's line, and their order.
pub(crate) fn check_latency(line: &Value, driver: &str, mode: &str, framing: &str, size: u64) {
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(keys[..7], ["bench", "via", "mode", "framing", "size", "rtt_ns", "n"], "{line}");
    let named = (&line["bench"], &line["via"], &line["mode"], &line["framing"], &line["size"]);
    assert_eq!(named, (&"latency".into(), &driver.into(), &mode.into(), &framing.into(), &size.into()));
    let at = |key: &str| line["rtt_ns"][key].as_u64().expect(key);
    assert!(0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("p999"), "{line}");
    assert!(line["n"].as_u64().unwrap() > 0, "{line}");
}

/// Checks the fields of a bandwidth's or a rate's line, and their order.
pub(crate) fn check_throughput(line: &Value, bench: &str, driver: &str, size: u64) {
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(keys[..6], ["bench", "via", "size", "messages_per_s", "frames_per_s", "bytes_per_s"], "{line}");
    assert_eq!((&line["bench"], &line["via"], &line["size"]), (&bench.into(), &driver.into(), &size.into()));
    let [messages, frames, bytes] =
        ["messages_per_s", "frames_per_s", "bytes_per_s"].map(|key| line[key].as_u64().expect(key));
    assert!(messages > 0, "{line}");
    assert_eq!(messages, frames, "one message a frame: {line}");
    // Each is a rounded median.
    assert!(bytes.abs_diff(messages * size) <= size, "{line}");
}

/// The interface at both ends of the cable.
const ADDRESSES: (&str, &str) = ("10.77.0.1/24", "10.77.0.2/24");

/// Two hosts and a cable, like two machines.
pub(crate) struct Machines {
    pub(crate) hosts: [Host; 2],
    pub(crate) ends: [Interface; 2],
}

impl Machines {
    pub(crate) fn new() -> Machines {
        Machines::with(&VethOptions { addresses: Some(ADDRESSES), ..VethOptions::default() })
    }

    /// A new cable with addresses instead of the old one.
    pub(crate) fn cable(&mut self) {
        let options = VethOptions { addresses: Some(ADDRESSES), ..VethOptions::default() };
        self.ends = veth(&self.hosts[0], "eth1", &self.hosts[1], "eth1", &options).unwrap().into();
    }

    pub(crate) fn with(options: &VethOptions<'_>) -> Machines {
        let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
        let ends = veth(&hosts[0], "eth1", &hosts[1], "eth1", options).unwrap();
        Machines { hosts, ends: ends.into() }
    }

    /// Start am-bench on one of the hosts.
    pub(crate) fn start(&self, host: usize, arguments: &[&[&str]]) -> Running {
        let name = ["alpha", "beta"][host];
        self.hosts[host].enter(|| start(&[arguments, &[&["--on", "xdp:eth1", "--name", name]]].concat())).unwrap()
    }

    pub(crate) fn measure(&self, arguments: &[&[&str]]) -> Output {
        let all = [arguments, &[&["--on", "xdp:eth1", "--name", "alpha"]]].concat();
        self.hosts[0].enter(|| run(&all)).unwrap()
    }
}

/// Runs every command that works between two processes joined by a transport. `rows` are those of the ablation, from
/// the bottom up.
pub(crate) fn check_every_command(hosts: &str, rows: &[&str]) {
    let hosts = ["--json", "--hosts", hosts];
    let short = ["--rounds", "1", "--time", "0.005"];
    let lines = json(&run(&[&["bandwidth", "--sweep", "--mtu", "1500"], &hosts, &short]));
    // If both sides share a core, so short a time may have too few points for a line.
    assert!(has(summary(&lines), &["am_t0_ns", "am_n_half_bytes"]), "{hosts:?}");
    assert!(lines.iter().any(|line| line["messages_per_s"].as_u64() > Some(0)), "{hosts:?}");
    let lines = json(&run(&[&["bandwidth", "--bulk", "--size", "64K"], &hosts, QUICK]));
    assert_eq!((&lines[0]["size"], &lines[0]["lost"]), (&65_536.into(), &0.into()), "{hosts:?}");
    let lines = json(&run(&[&["bandwidth", "--loss", "0.1,5"], &hosts, QUICK]));
    let kept = &summary(&lines)["kept"];
    assert!(kept["0.1"].as_f64() > Some(0.0) && kept["5"].as_f64() > Some(0.0), "{hosts:?}: {kept}");
    check_layers(&json(&run(&[&["ablation", "--mtu", "1500"], &hosts, &short])), rows);
    check_bounce(&json(&run(&[&["bounce"], &hosts, &["--rounds", "2", "--time", "0.05"]])));
}

fn has(line: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| line.get(key).is_some())
}

fn check_layers(lines: &[Value], rows: &[&str]) {
    let all: Vec<&str> = lines.iter().filter_map(|line| line["row"].as_str()).collect();
    assert_eq!(all, rows);
    for line in &lines[..rows.len()] {
        assert!(has(line, &["t0_ns", "r_inf_bytes_per_s"]), "{line}");
        assert!(line["xdp"].is_null(), "{line}");
    }
}

fn check_bounce(lines: &[Value]) {
    assert_eq!((lines.len(), &lines[0]["by"], &lines[0]["xdp"]), (2, &"host".into(), &Value::Null));
    assert!(lines[0]["n"].as_u64() > Some(0) && lines[0]["rtt_ns"]["p50"].as_u64() > Some(0), "{}", lines[0]);
    assert!(summary(lines)["host_over_program"].is_null());
}
