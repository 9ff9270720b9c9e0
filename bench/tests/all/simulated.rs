//! am-bench on a simulated network. Needs no rights.

use crate::common::{QUICK, check_latency, check_throughput, json, run, summary, text};

const SIM: &[&str] = &["--hosts", "sim"];
const MODE: &str = "simulated, rate=10G, delay=2us";

#[test]
fn latency_and_throughput_beside_bare_frames() {
    for (bench, size) in [("latency", 16), ("bandwidth", 1500), ("rate", 64)] {
        let lines = json(&run(&[&[bench, "--json"], SIM, &["--rounds", "2", "--time", "0.02"]]));
        assert_eq!(lines.len(), 3);
        for (line, (driver, framing)) in lines.iter().zip([("am", "bare"), ("raw", "none")]) {
            match bench {
                "latency" => check_latency(line, driver, MODE, framing, size),
                _ => check_throughput(line, bench, driver, size),
            }
            assert_eq!(line["mode"], MODE);
        }
        let summary = summary(&lines);
        assert!(summary["am_over_raw"].as_f64().unwrap() > 0.0 && summary["simulated"] == true, "{summary}");
    }
}

#[test]
fn on_a_network_of_ones_choice() {
    let on = ["--on", "sim:7,loss=0.02,delay=50us,frame=4014"];
    let lines = json(&run(&[&["latency", "--size", "4000", "--driver", "am", "--json"], SIM, &on, QUICK]));
    assert_eq!(lines[0]["mode"], "simulated, rate=10G, delay=50us, loss=0.02");
    let p50 = lines[0]["rtt_ns"]["p50"].as_u64().unwrap();
    assert!(p50 >= 100_000, "faster than its network: {p50} ns");
    let lines = json(&run(&[&["bandwidth", "--mtu", "9000", "--driver", "raw", "--json"], SIM, QUICK]));
    check_throughput(&lines[0], "bandwidth", "raw", 9000);
}
#[test]
fn what_each_layer_costs_and_what_comes_back() {
    let lines = json(&run(&[&["ablation", "--json"], SIM, &["--rounds", "1", "--time", "0.002"]]));
    let rows: Vec<&str> = lines.iter().filter_map(|line| line["row"].as_str()).collect();
    assert_eq!(rows, ["buffers", "interpreted", "whole"]);
    assert!(lines[..3].iter().all(|line| line["mode"] == MODE) && summary(&lines)["simulated"] == true);
    let lines = json(&run(&[&["bounce", "--json"], SIM, QUICK]));
    assert_eq!((&lines[0]["by"], &lines[0]["mode"]), (&"host".into(), &MODE.into()));
    assert!(lines[0]["n"].as_u64() > Some(0) && summary(&lines)["simulated"] == true, "{}", lines[0]);
}

#[test]
fn the_table_says_that_it_is_no_wire() {
    let table = text(&run(&[&["latency"], SIM, QUICK]).stdout);
    assert!(table.contains(MODE) && table.contains("not of a wire"), "{table}");
    let memory = text(&run(&[&["latency", "--hosts", "loopback"], QUICK]).stdout);
    assert!(!memory.contains("not of a wire"), "{memory}");
}
