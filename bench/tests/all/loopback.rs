//! Tests without rights: hosts in memory, and wrong command lines.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use crate::common::{
    QUICK, am_bench, check_latency, check_throughput, eventually, json, plotted, run, seconds_worked, start, summary,
    text,
};
use nix::sys::signal::Signal;

/// The shortest measurement at many sizes.
const MOMENT: &[&str] = &["--rounds", "2", "--time", "0.002"];
const MEMORY: &[&str] = &["--hosts", "loopback"];

#[test]
fn latency_of_several_sizes() {
    let lines = json(&run(&[&["latency", "--size", "16,1500", "--json"], MEMORY, QUICK]));
    assert_eq!(lines.len(), 5);
    for (nth, size) in [16, 1500].into_iter().enumerate() {
        check_latency(&lines[2 * nth], "am", "memory", "bare", size);
        check_latency(&lines[2 * nth + 1], "raw", "memory", "none", size);
    }
    let summary = summary(&lines);
    assert!(summary["am_over_raw"].as_f64().unwrap() > 0.0, "{summary}");
    assert_eq!(summary["sizes"].as_array().unwrap().len(), 2, "{summary}");
    assert!(summary.get("udp_over_am").is_none(), "only pairs that ran: {summary}");
}

#[test]
fn bandwidth_is_of_full_frames_and_rate_of_small_ones() {
    for (bench, size) in [("bandwidth", 1488), ("rate", 64)] {
        let lines = json(&run(&[&[bench, "--framing", "plain", "--json"], MEMORY, QUICK]));
        check_throughput(&lines[0], bench, "am", size);
        check_throughput(&lines[1], bench, "raw", size);
        assert_eq!(lines[0]["framing"], "plain");
        assert!(summary(&lines)["am_over_raw"].is_f64());
    }
}

#[test]
fn with_bundles_small_messages_share_frames() {
    for (bundles, share) in [("off", false), ("on", true)] {
        let lines =
            json(&run(&[&["rate", "--driver", "am", "--size", "16", "--coalesce", bundles, "--json"], MEMORY, QUICK]));
        let [messages, frames] = ["messages_per_s", "frames_per_s"].map(|name| lines[0][name].as_f64().unwrap());
        assert_eq!(lines[0]["bundles"], share);
        assert_eq!(frames < messages / 5.0, share, "{}", lines[0]);
    }
}

#[test]
fn a_sweep_has_a_curve_and_three_figures_for_each_driver() {
    let (lines, svg) = plotted(&[&["bandwidth", "--sweep", "--json", "--framing", "plain"], MEMORY, MOMENT]);
    for (driver, full) in [("am", 1488), ("raw", 1500)] {
        let curve: Vec<_> = lines.iter().filter(|line| line["via"] == driver).collect();
        let sizes: Vec<u64> = curve.iter().map(|line| line["size"].as_u64().unwrap()).collect();
        assert!(sizes.is_sorted() && sizes.len() == 27, "{sizes:?}");
        for size in [1, 64, 1024, full, full + 1, 2 * full, 65_536] {
            assert!(sizes.contains(&size), "no {size} in {sizes:?}");
        }
        assert_eq!(curve[26]["frames"], if driver == "am" { 45 } else { 44 });
        assert!(curve.iter().all(|line| line["bundles"] == (driver == "am")), "on unless said");
        check_figures(summary(&lines), driver);
    }
    assert_eq!(lines.len(), 2 * 27 + 1);
    assert!(svg.starts_with("<svg ") && svg.matches("stroke-width=\"2\"").count() == 4, "{svg}");
}
#[test]
fn what_is_kept_where_frames_are_lost() {
    for (bulk, size) in [(&[][..], 1500), (&["--bulk", "--size", "64K"], 65_536)] {
        let (lines, svg) = plotted(&[&["bandwidth", "--loss", "0.1,5", "--json"], bulk, MEMORY, QUICK]);
        let losses: Vec<f64> = lines[..3].iter().map(|line| line["loss"].as_f64().unwrap()).collect();
        assert_eq!(losses, [0.0, 0.1, 5.0]);
        for line in &lines[..3] {
            assert_eq!((&line["via"], &line["size"], &line["lost"]), (&"am".into(), &size.into(), &0.into()), "{line}");
        }
        let kept = &summary(&lines)["kept"];
        assert!(kept["0.1"].as_f64().unwrap() > 0.0 && kept["5"].as_f64().unwrap() > 0.0, "{kept}");
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
    }
}

/// A figure on a busy machine may be anything.
fn check_figures(summary: &serde_json::Value, driver: &str) {
    for figure in ["t0_ns", "r_inf_bytes_per_s", "n_half_bytes"] {
        assert!(summary[format!("{driver}_{figure}")].is_number(), "{summary}");
    }
    assert_eq!(summary["fits"][driver]["rounds"], 2, "{summary}");
}
#[test]
fn what_was_measured_before_the_end_is_not_thrown_away() {
    for form in [&["--json"][..], &[]] {
        let mut running = start(&[&["latency", "--driver", "raw", "--rounds", "1000", "--time", "0.02"], form, MEMORY]);
        eventually("work", || seconds_worked(running.pid()) > 1.0);
        running.signal(Signal::SIGINT);
        let mut stdout = running.0.stdout.take().unwrap();
        let (status, errors) = running.end();
        assert_eq!((status.code(), errors.as_str()), (Some(130), "am-bench: interrupted\n"));
        let mut said = String::new();
        stdout.read_to_string(&mut said).unwrap();
        if form.is_empty() {
            assert!(said.contains("  raw     memory "), "{said}");
        } else {
            let first = said.lines().next().and_then(|line| serde_json::from_str(line).ok());
            check_latency(&first.expect(&said), "raw", "memory", "none", 16);
        }
    }
}
#[test]
fn mistakes_end_with_2_and_say_what_to_do() {
    for (arguments, advice) in [
        (&["latency"][..], "--hosts shm, udp or tcp (no rights needed), veth (root), or loopback"),
        (&["latency", "--hosts", "loopback", "--size", "1501", "--driver", "raw"], "raw carries at most 1500"),
        (&["latency", "--hosts", "loopback", "--size", "1489", "--framing", "plain"], "am carries at most 1488"),
        (&["latency", "--hosts", "loopback", "--cores", "99998,99999"], "it may use "),
        (&["travel"], "unrecognized subcommand"),
        (&["travel"], "the commands are latency, bandwidth,"),
    ] {
        let output = run(&[arguments, QUICK]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(advice), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_help_that_cannot_be_written_is_no_success() {
    for arguments in [&["--help"][..], &["--version"], &["latency", "--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = am_bench().args(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains("writing the help"), "{arguments:?}");
        assert!(run(&[arguments]).status.success());
    }
    assert_eq!(run(&[&["--moon"]]).status.code(), Some(2));
}

/// The captured frames of a complete pcap file.
fn captured(file: &[u8]) -> usize {
    let (header, mut rest) = file.split_at(24);
    assert_eq!(header[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    let mut count = 0;
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        assert!((60..=1514).contains(&length), "frame {count} has {length} bytes");
        rest = &rest[16 + length..];
        count += 1;
    }
    count
}

/// All frames of ours, whichever drivers took turns in between, and none of an earlier run.
#[test]
fn a_trace_has_the_frames_of_every_round() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("near.pcap");
    std::fs::write(&file, [7; 1000]).unwrap();
    let trace = ["--trace", file.to_str().unwrap()];
    let lines = json(&run(&[&["latency", "--json", "--rounds", "2", "--time", "0.002"], &trace, MEMORY]));
    let exchanges = lines[0]["samples"].as_u64().unwrap_or(1) as usize;
    let frames = captured(&std::fs::read(&file).unwrap());
    assert!(frames > exchanges.max(100), "{frames} frames of {exchanges} exchanges");
    let of = |via: &str| lines.iter().find(|line| line["via"] == via).and_then(|line| line["traced"].as_bool());
    assert_eq!((of("am"), of("raw")), (Some(true), None), "{lines:?}");
}

#[test]
fn a_trace_that_a_full_disk_ends_is_an_error_below_the_table() {
    let trace = ["--trace", "/dev/full"];
    let ended = run(&[&["latency", "--rounds", "1", "--time", "0.002"], &trace, MEMORY]);
    let (out, said) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("writing the file of --trace: No space left on device"), "{said}");
    assert!(out.contains("  am  ") && out.contains("  raw  "), "{out}");
    assert!(out.contains("  traced\n") && out.contains("traced: each frame was also written to a file"), "{out}");
}

/// The parts of a round trip add up.
fn check_logp(line: &serde_json::Value) {
    let ns = |name: &str| line[format!("{name}_ns")].as_f64().expect(name);
    assert!(ns("os") > 0.0 && ns("g") > 0.0 && ns("rtt") > 0.0, "{line}");
    if line["rounds"] == 1 {
        assert!((2.0 * (ns("os") + ns("l") + ns("or")) - ns("rtt")).abs() < 1.0, "{line}");
    }
}

#[test]
fn logp_has_every_parameter_of_each_driver_and_bars() {
    let (lines, svg) = plotted(&[&["logp", "--size", "16,1024", "--json"], MEMORY, QUICK]);
    let rows: Vec<_> = lines[..4].iter().map(|line| (line["via"].as_str().unwrap(), line["size"].as_u64())).collect();
    assert_eq!(rows, [("am", Some(16)), ("raw", Some(16)), ("am", Some(1024)), ("raw", Some(1024))]);
    lines[..4].iter().for_each(check_logp);
    let ratios = summary(&lines)["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 2, "{ratios:?}");
    assert!(ratios.iter().all(|ratio| ratio["rtt"].as_f64() > Some(0.0)), "{ratios:?}");
    assert!(svg.starts_with("<svg ") && svg.contains("\nam memory\n") && svg.contains("\nOs\n"), "{svg}");
}
