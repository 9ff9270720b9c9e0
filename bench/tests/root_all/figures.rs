//! The curves and tables of am-bench, over veth pairs. Needs root.

use crate::common::{QUICK, json, run, summary};

const VETH: &[&str] = &["--hosts", "veth"];
#[test]
fn the_ablation_has_every_row() {
    let lines = json(&run(&[&["ablation", "--json", "--rounds", "2", "--time", "0.005"]]));
    let rows: Vec<&str> = lines.iter().filter_map(|line| line["row"].as_str()).collect();
    let all = ["baseline", "streamed", "all_dma", "hybrid", "buffers", "interpreted", "whole", "udp", "tcp"];
    assert_eq!(rows, all);
    for (line, row) in lines.iter().zip(all) {
        let kernel = row == "udp" || row == "tcp";
        assert_eq!(line["mode"], if kernel { "veth kernel" } else { "veth copy" }, "{line}");
        assert_eq!(line["xdp"].is_null(), kernel, "{line}");
        assert!(line["t0_ns"].is_number() && line["r_inf_bytes_per_s"].is_number(), "{line}");
    }
    for ratio in ["whole_over_hybrid_t0", "whole_over_hybrid_r_inf"] {
        assert!(summary(&lines)[ratio].as_f64().unwrap() > 0.0, "{}", summary(&lines));
    }
}

/// The receiver counts the rejects of its program, so a row cannot have the other's figures.
#[test]
fn what_a_full_receiver_returns_comes_back_by_program_and_by_host() {
    for xdp in ["generic", "native"] {
        let lines = json(&run(&[&["bounce", "--json", "--rounds", "2", "--time", "0.1", "--xdp", xdp]]));
        for (line, by) in lines.iter().zip(["program", "host"]) {
            assert_eq!((&line["by"], &line["mode"], &line["xdp"]), (&by.into(), &"veth copy".into(), &xdp.into()));
            assert!(line["rtt_ns"]["p50"].as_u64().unwrap() > 0 && line["n"].as_u64().unwrap() > 0, "{line}");
        }
        assert!(summary(&lines)["host_over_program"].as_f64().unwrap() > 0.0, "{}", summary(&lines));
    }
}
#[test]
fn logp_over_every_transport_in_one_run() {
    let lines = json(&run(&[&["logp", "--rounds", "2", "--time", "0.02", "--json"]]));
    let rows: Vec<_> = lines[..lines.len() - 1]
        .iter()
        .map(|line| (line["via"].as_str().unwrap(), line["transport"].as_str().unwrap()))
        .collect();
    let veth = [("am", "xdp"), ("raw", "xdp"), ("udp", "udp")];
    let others = [("am", "udp"), ("raw", "udp"), ("am", "tcp"), ("raw", "tcp"), ("am", "shm")];
    assert_eq!(rows, [&veth[..], &others].concat());
    for line in &lines[..rows.len()] {
        assert!(
            line["rounds"] == 2 && line["g_ns"].as_f64() > Some(0.0) && line["os_ns"].as_f64() > Some(0.0),
            "{line}"
        );
    }
    assert_eq!(summary(&lines)["ratios"].as_array().unwrap().len(), 4, "{}", summary(&lines));
}

#[test]
fn table_2_has_every_row_and_the_papers() {
    let lines = json(&run(&[&["table2", "--json"], QUICK]));
    let rows: Vec<&str> = lines.iter().filter_map(|line| line["via"].as_str()).collect();
    assert_eq!(rows, ["dp", "am", "raw", "copied", "streamed", "udp", "tcp", "tcp_sleeping", "tcp_nagle"]);
    for line in &lines[..rows.len()] {
        let batching = if line["via"] == "streamed" { "bursts" } else { "single" };
        assert_eq!((&line["batching"], &line["bandwidth_size"]), (&batching.into(), &1448.into()), "{line}");
        assert!(line["rtt_ns"]["p50"].as_u64() > Some(0) && line["bytes_per_s"].as_f64() > Some(0.0), "{line}");
        assert!(line["rtt_tcp_over"].as_f64() > Some(0.0), "{line}");
    }
    assert_eq!(lines.iter().filter(|line| line["paper"].is_string()).count(), 6);
    assert_eq!(summary(&lines)["gates"].as_array().unwrap().len(), 5);
}

/// A slow machine has less of the wire, never more but for the burst that passes at once, which is less than a hundredth of this time.
#[test]
fn table_2_stays_below_the_rate_of_its_wire() {
    let lines = json(&run(&[&["table2", "--wire", "100mbit", "--json", "--rounds", "1", "--time", "0.1"]]));
    let rows: Vec<_> = lines.iter().filter(|line| line["via"].is_string()).collect();
    assert_eq!(rows.len(), 9);
    for line in rows {
        assert_eq!(line["mode"].as_str().map(|mode| mode.ends_with(", bridge, tbf 100 Mb/s")), Some(true), "{line}");
        assert!(line["of_rate"].as_f64() > Some(0.0) && line["of_payload"].as_f64() > Some(0.0), "{line}");
        if line["via"] == "dp" || line["via"] == "tcp" {
            assert!(line["of_rate"].as_f64() <= Some(1.01), "{line}");
        }
    }
    assert_eq!(summary(&lines)["wire_bits_per_s"], 100_000_000);
}

#[test]
fn phases_over_a_cable() {
    let lines = json(&run(&[&["phases", "--json", "--rounds", "1", "--size", "1500"], VETH]));
    assert_eq!((&lines[0]["transport"], &lines[0]["mode"]), (&"xdp".into(), &"veth copy".into()));
    assert!(lines[0]["send_ns"]["warm"]["p50"].as_u64() > Some(0), "{}", lines[0]);
}
