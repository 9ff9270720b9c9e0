//! Ours beside others over a veth pair. Needs root; the others need not be installed.

mod common;

use std::fs;

use common::{json, run, summary, text};
use serde_json::{Value, json as value};

const SHORT: &[&str] = &["--rounds", "1", "--time", "0.02", "--size", "8,64,4K,256K"];

fn peer<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    lines.iter().find(|line| line["peer"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

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
    assert_eq!(lines.len(), 9, "eight rows and a summary");
    for line in &lines[..8] {
        assert_eq!(
            (&line["bench"], &line["wire"], &line["failures"]),
            (&value!("compare"), &value!("veth"), &value!([]))
        );
        let [p50, p99] = ["p50_ns", "p99_ns"].map(|figure| median(&line[figure]));
        assert!(0.0 < p50 && p50 <= p99, "{line}");
        let [rate, peak, cpu] = ["messages_per_s", "peak_bytes_per_s", "cpu_ns"].map(|figure| median(&line[figure]));
        assert!(rate > 0.0 && peak >= 64.0 * rate && cpu > 0.0, "{line}");
    }
    for (name, mode, reach) in
        [("am", "veth copy", 4), ("am-bundles", "veth copy", 4), ("tcp", "veth kernel", 4), ("udp", "veth kernel", 3)]
    {
        let line = peer(&lines, name);
        assert_eq!(line["mode"], mode);
        for curve in ["one_way", "stream"] {
            assert_eq!(sizes(&line[curve]), [8, 64, 4096, 262_144][..reach], "{name}: {curve}");
        }
        assert_eq!(line["stream"][1]["messages_per_s"]["by_round"].as_array().unwrap().len(), 1);
    }
    let over = &summary(&lines)["over_am"];
    assert!(over["udp"]["p50"].as_f64().unwrap() > 0.0 && over["am"]["peak"] == value!(1.0), "{over}");
}

#[test]
fn a_table_a_file_of_lines_and_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    let [lines, picture] = ["lines.jsonl", "peers.svg"].map(|name| directory.path().join(name));
    let files = ["--save", lines.to_str().unwrap(), "--plot", picture.to_str().unwrap()];
    let output = run(&[&["compare", "--peers", "am,tcp-nagle"], &files, SHORT]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in ["beside am", "n1/2", "tcp-nagle", "veth copy", "one round, peers taken in turn"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert_eq!(fs::read_to_string(lines).unwrap().lines().count(), 4);
    let picture = fs::read_to_string(picture).unwrap();
    assert_eq!(picture.matches("<polyline").count(), 6, "{picture}");
    assert!(text(&output.stderr).contains("3 of 3 peers are here"), "{}", text(&output.stderr));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, words) in [
        (&["--peers", "carrier-pigeon"][..], "no peer `carrier-pigeon`: there are am, "),
        (&["--via", "am"], "choose with --peers"),
        (&["--hosts", "loopback"], "makes its own hosts"),
        (&["--size", "full"], "in bytes"),
    ] {
        let output = run(&[&["compare"], arguments]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{arguments:?}: {}", text(&output.stderr));
    }
}
