use super::*;
use am_measure::cores::Cores;
use am_measure::stats::{Measured, streamed};

/// Every row in two rounds. Each row takes 100 ns longer to start than the row below; the second round is three times
/// as slow.
fn all() -> Vec<Measured> {
    let mut all = Vec::new();
    for (round, slow) in [(0, 1), (1, 3)] {
        for (layer, driver) in layers(&Topology::Veth(1500)).into_iter().enumerate() {
            for (nth, size) in [1, 100, 1000, 4000].into_iter().enumerate() {
                let ns = (1000 + 100 * layer) * usize::div_ceil(size, 1000) + size;
                all.push(streamed(driver, round, nth, size, (ns * slow) as u64));
            }
        }
    }
    all
}

const CORES: Cores = Cores { near: Some(2), far: None };

#[test]
fn a_line_for_each_row_from_the_bottom_up_and_the_ratios_last() {
    let lines = Ablation::new(&all(), CORES).json();
    let rows: Vec<&str> = lines.iter().filter_map(|line| line["row"].as_str()).collect();
    let expected = ["baseline", "streamed", "all_dma", "hybrid", "buffers", "interpreted", "whole", "udp", "tcp"];
    assert_eq!((rows.as_slice(), lines.len()), (&expected[..], 10));
    // Medians of two rounds: twice the first.
    assert!((lines[3]["t0_ns"].as_f64().unwrap() - 2600.0).abs() < 1.0, "{}", lines[3]);
    assert_eq!(lines[3]["lost"], 8, "of every size and round");
    let summary = &lines[9]["summary"];
    assert_eq!(summary["whole_over_hybrid_t0"], 1.2308, "1600 over 1300: {summary}");
    assert_eq!(summary["whole_over_hybrid_r_inf"], 0.8846, "2300 over 2600: {summary}");
}
