//! The commands with many hosts, in virtual time. Needs no rights.

use crate::common::{json, plotted, run, summary};

const SIM: &[&str] = &["--hosts", "sim", "--json", "--time", "0.001", "--warm-up", "0.001"];

/// Every line says that it is no measurement.
fn check_simulated(lines: &[serde_json::Value]) {
    for line in lines {
        assert_eq!(line.get("summary").unwrap_or(line)["simulated"], true, "{line}");
        assert_eq!(line.get("summary").unwrap_or(line)["transport"], "sim", "{line}");
    }
}

#[test]
fn contention_has_a_row_for_each_server_size_and_number_of_clients() {
    let (lines, svg) = plotted(&[&["contention", "--clients", "1,4", "--size", "16,100"], SIM]);
    check_simulated(&lines);
    let rows: Vec<_> = lines
        .iter()
        .filter(|line| line["messages_per_s"].is_u64())
        .map(|line| {
            (line["server"].as_str().unwrap(), line["size"].as_u64().unwrap(), line["clients"].as_u64().unwrap())
        })
        .collect();
    let expected = [16, 100].map(|size| ["one", "polled"].map(|server| [1, 4].map(|clients| (server, size, clients))));
    assert_eq!(rows, expected.concat().concat());
    for line in lines.iter().filter(|line| line["messages_per_s"].is_u64()) {
        let rtt = line["rtt_ns"].as_f64().unwrap();
        assert!(rtt > 2000.0 && line["messages_per_s"].as_u64() > Some(100_000) && line["returned"] == 0, "{line}");
    }
    let floods: Vec<_> = lines.iter().filter_map(|line| line["flood"].as_str()).collect();
    assert_eq!(floods, ["window", "connections"].repeat(4), "{lines:?}");
    assert_eq!(summary(&lines)["servers"].as_array().unwrap().len(), 4);
    assert!(svg.contains("simulated") && svg.contains("\none: all\n") && !svg.contains("NaN"), "{svg}");
}

#[test]
fn permute_has_each_pattern_on_each_switch() {
    let (lines, svg) = plotted(&[&["permute", "--nodes", "4", "--oversubscription", "8"], SIM]);
    check_simulated(&lines);
    let rows: Vec<_> = lines[..lines.len() - 1]
        .iter()
        .map(|line| {
            (line["pattern"].as_str().unwrap(), line["hosts"].as_u64().unwrap(), line["oversubscription"].as_u64())
        })
        .collect();
    let patterns = ["shift", "neighbor", "bisection"];
    let switch = |trunk: Option<u64>| patterns.map(|pattern| (pattern, 4, trunk));
    assert_eq!(rows, [&[("pair", 2, None)][..], &switch(None), &switch(Some(8))].concat());
    let ratios = summary(&lines)["ratios"].as_array().unwrap();
    let narrow = ratios.last().unwrap()["host_over_pair"].as_f64().unwrap();
    assert!((0.08..0.2).contains(&narrow), "{ratios:?}");
    assert!(svg.contains("simulated") && svg.contains("paper, 92"), "{svg}");
}

#[test]
fn ordered_groups_are_simulated_and_say_it() {
    let lines = json(&run(&[&["ordered", "--members", "2,3"], SIM]));
    check_simulated(&lines);
    let rows: Vec<_> = lines[..lines.len() - 1]
        .iter()
        .map(|line| {
            let words = ["via", "senders", "load"].map(|key| line[key].as_str().unwrap());
            (line["members"].as_u64().unwrap(), words)
        })
        .collect();
    let of = |via| [[via, "one", "in turn"], [via, "one", "stream"], [via, "all", "stream"]];
    let expected = [2, 3].map(|members| [of("agreed"), of("safe")].concat().into_iter().map(move |row| (members, row)));
    assert_eq!(rows, expected.into_iter().flatten().collect::<Vec<_>>());
    for line in &lines[..lines.len() - 1] {
        assert!(
            line["messages_per_s"].as_u64() > Some(50_000) && line["sequencer"]["busy"].as_f64() > Some(0.0),
            "{line}"
        );
        assert_eq!(line["own_ns"]["p50"].is_u64(), line["load"] == "in turn", "{line}");
    }
    let summary = summary(&lines);
    assert!(summary["rate_3_over_2"].as_f64() > Some(0.7) && summary["simulated"] == true, "{summary}");
    assert!(summary["stamps"].as_str().unwrap().starts_with("the sequencer's process stamps"), "{summary}");
}
