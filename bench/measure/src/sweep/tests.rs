use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::loops::throughput::Throughput;
use crate::size::MessageLayout;
use crate::stats::{Outcome, measured};

const CORES: Cores = Cores { near: Some(2), far: Some(3) };

/// A made-up measurement of a curve: a message of this size takes `ns`, in frames of 1000 bytes.
fn streamed(driver: Driver, round: usize, nth_size: usize, size: usize, ns: u64) -> Measured {
    let (pieces, full) = (size.div_ceil(1000), size.is_multiple_of(1000));
    let layout = MessageLayout { size, pieces, piece: size.div_ceil(pieces), frames: pieces, full };
    let (messages, bytes) = (100 * pieces as u64, (100 * pieces * layout.piece) as u64);
    let time = Duration::from_nanos(ns * 100);
    let outcome = Outcome::Throughput(Throughput { messages, bytes, time, lost: 1, frames_each: 1.0 });
    let (xdp, framing) = (None, "bare");
    Measured { layout, xdp, framing, outcome, ..measured(Bench::Bandwidth, nth_size, driver, round, 1) }
}

/// Two rounds. `am` takes twice as long to start as `raw`; the second round is slower by half.
fn all() -> Vec<Measured> {
    let sizes: [usize; 7] = [1, 10, 100, 1000, 2000, 4000, 1001];
    let mut all = Vec::new();
    for (round, slow) in [(0, 2), (1, 3)] {
        for (driver, start) in [(Driver::Am, 2000), (Driver::Raw, 1000)] {
            for (nth, size) in sizes.into_iter().enumerate() {
                let ns = start * size.div_ceil(1000) as u64 + size as u64;
                all.push(streamed(driver, round, nth, size, ns * slow / 2));
            }
        }
    }
    all
}

fn summary(sweep: &Sweep) -> Value {
    sweep.report().lines.last().unwrap()["summary"].clone()
}

#[test]
fn figures_are_medians_over_rounds_and_ratios_are_within_them() {
    let sweep = Sweep::new(&all(), CORES);
    let summary = summary(&sweep);
    let figure = |name: &str| summary[name].as_f64().expect(name);
    assert!((figure("am_t0_ns") - 2500.0).abs() < 2.0, "{summary}");
    assert!((figure("raw_t0_ns") - 1250.0).abs() < 2.0, "{summary}");
    // 1000 bytes in 3000 or 4500 ns.
    assert!((figure("am_r_inf_bytes_per_s") - (1e12 / 3000.0 + 1e12 / 4500.0) / 2.0).abs() < 1e3, "{summary}");
    assert!(summary.get("udp_t0_ns").is_none(), "it did not run: {summary}");
    assert_eq!(summary["fits"]["am"]["t0_from_sizes"], serde_json::json!([1, 10, 100, 1000]));
    assert_eq!(summary["fits"]["am"]["r_inf_from_sizes"], serde_json::json!([1000, 2000, 4000]));
    assert!((sweep.ratio(Driver::Am, Driver::Raw, &T0).unwrap() - 2.0).abs() < 1e-3);
}
#[test]
fn a_message_counts_once_however_many_pieces_it_has() {
    let lines = Sweep::new(&all()[..14], CORES).report().lines;
    let of_4000 = &lines[6];
    assert_eq!((&of_4000["size"], &of_4000["frames"]), (&4000.into(), &4.into()), "{of_4000}");
    let (messages, frames) = (of_4000["messages_per_s"].as_u64().unwrap(), of_4000["frames_per_s"].as_u64().unwrap());
    assert_eq!((messages, frames), (83_333, 333_333), "12 µs a message: {of_4000}");
}
#[test]
fn a_round_that_was_interrupted_gives_no_figures() {
    let mut all = all();
    all.truncate(all.len() - 1);
    let sweep = Sweep::new(&all, CORES);
    assert_eq!(sweep.curves.iter().map(|curve| curve.rounds.len()).collect::<Vec<_>>(), [2, 1]);
    all.truncate(3);
    let sweep = Sweep::new(&all, CORES);
    assert!(summary(&sweep)["am_t0_ns"].is_null());
    assert!(sweep.report().text.contains('?'), "{}", sweep.report().text);
}
