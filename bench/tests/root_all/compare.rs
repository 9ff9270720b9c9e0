//! Our rows compared with others over a veth pair. Needs root; the others need not be installed.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{am_bench, eventually, json, peer, run, summary, text};
use serde_json::{Value, json as value};
use tempfile::TempDir;

const SHORT: &[&str] = &["--rounds", "1", "--time", "0.02", "--size", "8,64,4K,256K"];

/// A figure with its range.
fn median(figure: &Value) -> f64 {
    let median = figure["median"].as_f64().unwrap_or_else(|| panic!("no figure in {figure}"));
    assert!(figure["range"][0].as_f64().unwrap() <= median && median <= figure["range"][1].as_f64().unwrap());
    median
}

/// The sizes of a curve.
fn sizes(curve: &Value) -> Vec<u64> {
    curve.as_array().unwrap().iter().map(|point| point["size"].as_u64().unwrap()).collect()
}

#[test]
fn ours_beside_the_kernels_sockets() {
    let peers = "am,udp,tcp";
    let lines = json(&run(&[&["compare", "--json", "--peers", peers], SHORT]));
    // DPDK's rows have their own test.
    let rows = || lines.iter().filter(|line| line["peer"].as_str().is_some_and(|name| !name.contains("dpdk")));
    assert_eq!(rows().count(), 14);
    for line in rows() {
        assert_eq!((&line["bench"], &line["failures"]), (&value!("compare"), &value!([])), "{line}");
        let [p50, p99] = ["p50_ns", "p99_ns"].map(|figure| median(&line[figure]));
        assert!(0.0 < p50 && p50 <= p99, "{line}");
        let [rate, peak, cpu] = ["messages_per_s", "peak_bytes_per_s", "cpu_ns"].map(|figure| median(&line[figure]));
        // Both are rounded, and on a busy machine the smaller size may move more.
        assert!(rate > 0.0 && peak >= 64.0 * (rate - 1.0) && cpu > 0.0, "{line}");
    }
    for (name, wire, mode, reach) in [
        ("am", "veth", "veth copy", 4),
        ("am-bundles", "veth", "veth copy", 4),
        ("am-udp", "veth", "udp", 4),
        ("am-tcp", "veth", "tcp", 4),
        ("am-shm", "shared memory", "shared memory", 4),
        ("tcp", "veth", "veth kernel", 4),
        ("udp", "veth", "veth kernel", 3),
    ] {
        let line = peer(&lines, name);
        assert!(line["wire"] == wire && line["mode"].as_str().unwrap().starts_with(mode), "{line}");
        for curve in ["one_way", "stream"] {
            assert_eq!(sizes(&line[curve]), [8, 64, 4096, 262_144][..reach], "{name}: {curve}");
        }
        assert_eq!(line["stream"][1]["messages_per_s"]["by_round"].as_array().unwrap().len(), 1);
    }
    let over = &summary(&lines)["over_am"];
    assert!(over["udp"]["p50"].as_f64().unwrap() > 0.0 && over["am"]["bytes"] == value!(1.0), "{over}");
    check_ratios(&lines);
}

/// Rows with the batching of `am` have a ratio, and rows whose messages share frames have none.
fn check_ratios(lines: &[Value]) {
    let over = &summary(lines)["over_am"];
    for (name, fair) in [("am-tcp", true), ("udp", true), ("tcp", true), ("am-bundles", false), ("tcp-nagle", false)] {
        assert_eq!(over[name]["messages"].is_f64(), fair, "{name}: {over}");
        let batching = if fair { "bursts" } else { "shared" };
        assert_eq!(peer(lines, name)["batching"], batching, "{name}");
    }
    for (name, transport) in [("am", "xdp"), ("udp", "udp"), ("am-tcp", "tcp"), ("am-shm", "shm")] {
        assert_eq!(peer(lines, name)["transport"], transport);
    }
}

/// Frames have the cable's length in all rows, and the table says so.
#[test]
fn a_cable_with_long_frames() {
    let short = ["--rounds", "1", "--time", "0.02", "--size", "64,32K,1M", "--mtu", "65000"];
    let lines = json(&run(&[&["compare", "--json", "--peers", "am-udp,raw,tcp-no-offload"], &short]));
    for (name, most) in [("am-udp", 1 << 20), ("raw", 32 << 10), ("raw-touched", 32 << 10), ("tcp-no-offload", 1 << 20)]
    {
        let line = peer(&lines, name);
        assert_eq!((&line["mtu"], &line["failures"]), (&value!(65_000), &value!([])), "{line}");
        for curve in ["one_way", "stream"] {
            assert!(sizes(&line[curve]).contains(&(32 << 10)), "in one frame: {line}");
            assert_eq!(sizes(&line[curve]).last(), Some(&most), "{line}");
        }
    }
    let mode = &peer(&lines, "tcp-no-offload")["mode"];
    assert_eq!(*mode, "veth kernel, TSO off, GSO off, GRO off");
    let summary = summary(&lines);
    assert_eq!((&summary["mtu"], &summary["offload"]["tso"]), (&value!(65_000), &value!(true)), "{summary}");
}

/// The smallest MTU that carries a node works. A smaller one is an error of the command line.
#[test]
fn a_cable_with_short_frames() {
    let lines = json(&run(&[&["compare", "--json", "--peers", "am,udp,raw", "--mtu", "148"], SHORT]));
    for line in lines.iter().filter(|line| line["peer"] == "am" || line["peer"] == "udp") {
        assert_eq!((&line["mtu"], &line["failures"]), (&value!(148), &value!([])), "{line}");
    }
    for command in [&["compare"][..], &["latency", "--hosts", "veth"], &["bounce"]] {
        let output = run(&[command, &["--mtu", "147"]]);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(text(&output.stderr).contains("--mtu 147 is out of range: from 148"), "{}", text(&output.stderr));
    }
    let bare = ["latency", "--hosts", "veth", "--mtu", "68", "--driver", "raw,udp"];
    assert_eq!(json(&run(&[&bare, &["--json", "--rounds", "1", "--time", "0.02"]])).len(), 3);
}

#[test]
fn a_table_a_file_of_lines_and_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    let [lines, picture] = ["lines.jsonl", "peers.svg"].map(|name| directory.path().join(name));
    let files = ["--save", lines.to_str().unwrap(), "--plot", picture.to_str().unwrap()];
    let output = run(&[&["compare", "--peers", "am-bundles,tcp-nagle"], &files, SHORT]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in [
        "veth pair of MTU 1500: TSO on, GSO on, GRO off",
        "to am: p50",
        "n1/2",
        "tcp-nagle",
        "veth copy",
        "one round, peers taken in turn",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert_eq!(fs::read_to_string(lines).unwrap().lines().count(), 3);
    let picture = fs::read_to_string(picture).unwrap();
    assert_eq!(picture.matches("stroke-width=\"2\"").count(), 4, "{picture}");
    assert!(text(&output.stderr).contains("2 of 2 peers are installed"), "{}", text(&output.stderr));
}
/// A directory with these programs and those that am-bench needs, at a path that no sandbox replaces.
fn programs(scripts: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    for (name, text) in scripts {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    }
    let places = env::var_os("PATH").unwrap();
    let find = |name: &str| {
        env::split_paths(&places).chain(["/usr/sbin".into()]).map(|place| place.join(name)).find(|file| file.exists())
    };
    let shells = "ip ethtool sh sleep touch setsid unshare nsenter mount cat chmod head tail wc mkfifo rm grep sed awk taskset date";
    for name in shells.split(' ') {
        symlink(find(name).unwrap_or_else(|| panic!("no {name}")), directory.path().join(name)).unwrap();
    }
    directory
}

/// am-bench with only these programs.
fn with_programs(directory: &TempDir, arguments: &[&str]) -> Command {
    let mut command = am_bench();
    command
        .args(arguments)
        .env("PATH", directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_peer_that_is_missing_has_a_row_that_says_why() {
    let nothing = programs(&[]);
    let output =
        with_programs(&nothing, &["compare", "--json", "--rounds", "1", "--peers", "sockperf,iperf3,ucx,fi"]).output();
    let lines = json(&output.unwrap());
    assert!(lines.len() > 6, "{lines:?}");
    for line in &lines[..lines.len() - 1] {
        let why = line["failures"][0].as_str().unwrap();
        assert!(why.contains(" is not installed: scripts/setup --with-peers"), "{line}");
        assert_eq!((&line["mode"], &line["p50_ns"]), (&value!("not installed"), &Value::Null));
    }
    assert_eq!(summary(&lines)["over_am"], value!({}));
}
/// Prints its version; otherwise leaves files everywhere and hangs.
const HANGS: &str = "#!/bin/sh
if [ \"$1\" = --version ]; then echo hangs 1.0; exit; fi
touch \"$TMPDIR/am-bench-left\" /dev/shm/am-bench-left
sleep 86123
";

/// Processes that sleep for this long. Each test has its own time.
fn asleep(seconds: u32) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let words = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    words.filter(|words| words.ends_with(format!("\0{seconds}\0").as_bytes())).count()
}

#[test]
fn a_peer_that_hangs_is_ended_and_leaves_nothing() {
    let hangs = programs(&[("sockperf", HANGS), ("mpirun.openmpi", HANGS), ("mpicc.openmpi", VERSION)]);
    let arguments = ["compare", "--json", "--rounds", "1", "--peers", "sockperf-tcp,openmpi-shm,udp", "--limit", "1"];
    let output = with_programs(&hangs, &[&arguments[..], &["--time", "0.02", "--size", "64"]].concat()).output();
    let lines = json(&output.unwrap());
    for name in ["sockperf-tcp", "openmpi-shm"] {
        let row = peer(&lines, name);
        assert_eq!((&row["mode"], &row["peer_version"]), (&value!("failed"), &value!("hangs 1.0")));
        assert!(row["failures"][0].as_str().unwrap().ends_with("it did not end within 1 s"), "{row}");
    }
    assert_eq!(asleep(86123), 0, "it is over when am-bench is");
    assert!(median(&peer(&lines, "udp")["p50_ns"]) > 0.0, "the others are measured");

    // Also if am-bench itself is killed while the program hangs.
    let mut near = with_programs(&hangs, &["compare", "--rounds", "1", "--peers", "openmpi-shm"]).spawn().unwrap();
    eventually("something that hangs", || asleep(86123) > 0);
    near.kill().unwrap();
    near.wait().unwrap();
    eventually("the end of what hangs", || asleep(86123) == 0);
    for place in [env::temp_dir(), "/tmp".into(), "/dev/shm".into()] {
        assert!(!place.join("am-bench-left").exists(), "{}", place.display());
    }
}

/// Prints its version; otherwise starts a daemon: its own session, whose parent has ended.
const DAEMON: &str = "#!/bin/sh
if [ \"$1\" = --version ]; then echo daemon 1.0; exit; fi
setsid sh -c 'sleep 86125 & :' >/dev/null 2>&1
";

#[test]
fn a_daemon_ends_with_its_turn_and_with_am_bench_killed_at_any_moment() {
    let daemon = programs(&[("mpirun.openmpi", DAEMON), ("mpicc.openmpi", VERSION)]);
    let arguments = ["compare", "--json", "--rounds", "1", "--peers", "openmpi-shm"];
    let row = peer(&json(&with_programs(&daemon, &arguments).output().unwrap()), "openmpi-shm").clone();
    assert!(row["failures"][0].as_str().unwrap().contains("its output cannot be parsed"), "{row}");
    assert_eq!(asleep(86125), 0, "it ends with the turn");

    // The daemon stays, and so does the launcher.
    let waits = programs(&[("mpirun.openmpi", &format!("{DAEMON}sleep 86125\n")), ("mpicc.openmpi", VERSION)]);
    let (mut moment, mut seen) = (Duration::ZERO, 0);
    while seen < 5 {
        let mut near = with_programs(&waits, &arguments).spawn().unwrap();
        sleep(moment);
        let (daemons, signal) = (asleep(86125), [Signal::SIGKILL, Signal::SIGTERM][usize::from(seen % 2 == 1)]);
        kill(Pid::from_raw(near.id() as i32), signal).unwrap();
        near.wait().unwrap();
        eventually("the end of all that it started", || asleep(86125) == 0 && sandboxes() == 0);
        seen += usize::from(daemons == 2);
        moment += Duration::from_millis(20);
    }
}

/// Processes of sandboxes with these programs.
fn sandboxes() -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let words = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    words.filter(|words| words.contains("\0sandbox\0mpi.sh openmpi ")).count()
}

/// Prints its version, and nothing else.
const VERSION: &str = "#!/bin/sh\necho 1.0\n";

/// Prints its version; otherwise prints without end, as a server and as a client.
const FLOODS: &str = "#!/bin/sh
if [ \"$1\" = --version ]; then echo floods 1.0; exit; fi
while :; do echo yes yes yes yes yes yes yes yes yes yes yes yes; done
";

/// Does not even print its version.
const MUTE: &str = "#!/bin/sh\nsleep 86124\n";

#[test]
fn a_peer_that_floods_or_does_not_say_its_version_is_ended() {
    let strange = programs(&[
        ("sockperf", FLOODS),
        ("mpirun.openmpi", FLOODS),
        ("mpicc.openmpi", VERSION),
        ("iperf3", MUTE),
        ("fi_pingpong", "#!/nowhere/sh\n"),
    ]);
    let peers = "sockperf-tcp,openmpi-shm,iperf3,fi-tcp,udp";
    let arguments = ["compare", "--json", "--rounds", "1", "--peers", peers, "--limit", "60"];
    let output = with_programs(&strange, &[&arguments[..], &["--time", "0.02", "--size", "64"]].concat()).output();
    let lines = json(&output.unwrap());
    for (name, says) in [
        ("sockperf-tcp", "printed more than 1 MiB"),
        ("openmpi-shm", "printed more than 1 MiB"),
        ("iperf3", "does not say its version"),
        ("fi-tcp", "fi_pingpong cannot be started: "),
    ] {
        let why = peer(&lines, name)["failures"][0].as_str().unwrap();
        assert!(why.contains(says), "{name}: {why}");
    }
    assert_eq!(asleep(86124), 0, "it is over when am-bench is");
    assert!(median(&peer(&lines, "udp")["p50_ns"]) > 0.0, "the others are measured");

    let mut near = with_programs(&strange, &["compare", "--rounds", "1", "--peers", "iperf3"]).spawn().unwrap();
    eventually("something that does not say its version", || asleep(86124) > 0);
    kill(Pid::from_raw(near.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(near.wait().unwrap().code(), Some(130));
    eventually("the end of it, which the kernel brings about when am-bench has ended", || asleep(86124) == 0);
}
/// All programs that are installed here.
#[test]
fn each_peer_has_figures_or_a_reason() {
    let peers = "sockperf,iperf3,uring,ucx,fi,openmpi,mpich,pvm";
    let lines =
        json(&run(&[&["compare", "--json", "--peers", peers, "--rounds", "1", "--time", "0.02", "--size", "64"]]));
    let (_summary, rows) = lines.split_last().unwrap();
    assert_eq!(rows.len(), 18);
    for line in rows {
        let reasons = line["failures"].as_array().unwrap();
        let figures = ["one_way", "stream"].map(|curve| sizes(&line[curve])).concat();
        assert!(reasons.is_empty() != figures.is_empty() && figures.iter().all(|size| *size == 64), "{line}");
        assert_eq!(line["mode"] == "not installed", line["peer_version"] == "", "{line}");
        if !reasons.is_empty() {
            eprintln!("{}: {}", line["peer"], reasons[0]);
        }
    }
}
