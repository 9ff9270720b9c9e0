//! am-bench pvm on two hosts of a veth. Needs root, PVM, and the library that the workspace's tests build beside this one.

use serde_json::Value;

use crate::common::{json, run, text};

#[test]
fn each_route_of_pvm_is_measured_and_the_transform_is_checked() {
    let library = std::env::current_exe().expect("this test").with_file_name("libpvm_am.so");
    assert!(library.exists(), "no {}: cargo build -p am-pvm --tests", library.display());
    let library = library.to_str().expect("a name");
    let short = ["--size", "1K", "--slaves", "1", "--rounds", "1", "--time", "0.1"];
    let lines = json(&run(&[&["pvm", "--json", "--hosts", "veth", "--library", library], &short]));
    let (summary, lines) = lines.split_last().expect("a summary");
    for route in ["direct", "direct-near", "daemon", "xdp", "udp", "shm"] {
        let of = |way: &str| {
            lines.iter().filter(|line| line["route"] == route && line["way"] == way).collect::<Vec<&Value>>()
        };
        for way in ["psend", "psend-spin", "sleep", "spin", "fft:1"] {
            let [line] = of(way)[..] else { panic!("{route}, {way}: {:?}", of(way)) };
            assert!(line["p50_ns"].as_f64().is_some_and(|time| time > 0.0), "{line}");
        }
    }
    let groups = lines.iter().filter(|line| line["way"] == "group:4").collect::<Vec<&Value>>();
    // Three calls over each route but xdp, of the one size that is asked for.
    assert!(groups.len() == 15 && groups.iter().all(|line| line["size"] == 1024), "{groups:?}");
    let latency = |route: &str| {
        let is_it = |line: &&Value| line["route"] == route && line["way"] == "psend-spin";
        lines.iter().find(is_it).and_then(|line| line["p50_ns"].as_f64()).expect("a time")
    };
    let said = summary["summary"]["pvmam_over_direct_latency"].as_f64().expect("a ratio");
    let ratio = latency("xdp") / latency("direct");
    assert!((said / ratio - 1.0).abs() < 0.01, "{said} is not {ratio}");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let said = run(&[&["pvm", "--library", "/nothing/libpvm_am.so", "--rounds", "1"]]);
    assert!(!said.status.success() && text(&said.stderr).contains("there is no /nothing/libpvm_am.so"), "{said:?}");
}
