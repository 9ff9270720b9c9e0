//! Many senders to one receiver: the rate of its link, each sender's share of it, and the latency.
//!
//! Time is simulated, so figures can be asserted. The output is in `docs/results/incast.md`:
//!
//! ```sh
//! cargo test -p am-netdev-sim --test networks incast -- --nocapture --test-threads 1
//! ```

use crate::crowd::{Crowd, Figures, SETTLED, crowd};
use am_netdev_sim::{MS, Nanos, US};

const KIB: usize = 1024;
/// The buffer of a switch's port.
const BUFFER: usize = 512 * KIB;

/// Print a table with one line for each run. Returns the figures.
fn table(what: &str, of: &str, rows: impl Iterator<Item = (String, Figures)>) -> Vec<Figures> {
    let rows: Vec<(String, Figures)> = rows.collect();
    let lines: String = rows.iter().map(|(name, figures)| format!("| {name} {figures}\n")).collect();
    let (head, under) = Figures::HEAD.split_once('\n').expect("two lines");
    println!("\n### {what}\n\n| {of} {head}\n| ---: {under}\n{lines}");
    rows.into_iter().map(|(_, figures)| figures).collect()
}

fn each<T: ToString + Copy>(of: &[T], run: impl Fn(T) -> Figures) -> impl Iterator<Item = (String, Figures)> {
    of.iter().map(move |&one| (one.to_string(), run(one)))
}

/// The buffer of each port holds 64 full frames and the frames under way, or more.
#[test]
fn sixty_four_to_one_neither_collapses_nor_starves_anybody() {
    let runs = each(&[128, 256, 512, 2048], |buffer| crowd(64, buffer * KIB).run(SETTLED));
    for figures in table("64 senders of full frames, by a port's buffer", "KiB", runs) {
        assert!(figures.link_share >= 0.9, "{figures}");
        assert!(figures.jain >= 0.98, "{figures}");
        assert!(figures.p99_over_share < 4.0, "{figures}");
        assert_eq!((figures.lost, figures.retransmitted), (0, 0), "in the settled state");
    }
}

#[test]
fn a_buffer_for_fewer_than_a_frame_of_each_does_not_stop_them() {
    let runs = each(&[64, 32], |buffer| crowd(64, buffer * KIB).run(SETTLED));
    for figures in table("The same, buffers of less than a frame of each", "KiB", runs) {
        assert!(figures.link_share >= 0.9, "{figures}");
    }
}

#[test]
fn it_settles_within_milliseconds() {
    let mut run = crowd(64, BUFFER).start();
    let runs = (0..8).map(|at| (format!("{at}–{}", at + 1), run.figures_until((at + 1) * MS)));
    let all = table("64 senders, from the first millisecond on", "ms", runs);
    assert!(all.iter().all(|figures| figures.link_share > 0.8), "{all:?}");
    assert!(all[5..].iter().all(|figures| figures.link_share > 0.9 && figures.jain > 0.98), "{all:?}");
}

#[test]
fn with_any_number_of_senders() {
    let runs = each(&[1, 2, 8, 32, 256], |senders| crowd(senders, BUFFER).run(SETTLED));
    let all = table("Full frames, by the number of senders", "senders", runs);
    assert!(all.iter().all(|figures| figures.link_share >= 0.9 && figures.jain >= 0.98), "{all:?}");
}

#[test]
fn with_any_window() {
    let window = |window| Crowd { window: Some(window), ..crowd(64, BUFFER) }.run(SETTLED);
    let all = table("64 senders, other windows", "window", each(&[1, 8, 32, 256], window));
    for figures in all {
        assert!(figures.link_share >= 0.9 && figures.jain >= 0.98 && figures.p99_over_share < 4.0, "{figures}");
    }
}

#[test]
fn losses_of_a_cable_are_not_taken_for_a_full_buffer() {
    let lossy = |of_thousand| {
        let mut crowd = crowd(64, BUFFER);
        crowd.options.loss = of_thousand as f64 / 1000.0;
        crowd.options.faults_until = Nanos::MAX;
        crowd.run(SETTLED)
    };
    let all = table("64 senders, frames lost on each cable", "of 1000", each(&[0, 1, 10], lossy));
    assert!(all.iter().all(|figures| figures.link_share >= 0.9 && figures.jain >= 0.98), "{all:?}");
}

#[test]
fn near_and_far() {
    let far = |farther: u64| {
        let mut crowd = crowd(64, BUFFER);
        crowd.options.extra_delay = (0..65).map(|at| (at % 2) * farther * US).collect();
        crowd.run(SETTLED)
    };
    let all = table("64 senders, every second one farther away", "µs", each(&[0, 10, 50], far));
    assert!(all.iter().all(|figures| figures.link_share >= 0.9), "{all:?}");
    assert!(all[1].jain > 0.95, "{all:?}");
}

/// The senders are so far away that a window of full frames does not fill the receiver's link.
#[test]
fn over_a_long_path() {
    let far = |senders: usize| {
        let mut crowd = crowd(senders, 4 * BUFFER);
        crowd.options.extra_delay = std::iter::once(0).chain((0..senders).map(|_| 200 * US)).collect();
        let mut run = crowd.start();
        _ = run.figures_until(100 * MS);
        run.figures_until(150 * MS)
    };
    let all = table("200 µs away, after 100 ms, by the number of senders", "senders", each(&[1, 2, 8, 64], far));
    assert!(all[2..].iter().all(|figures| figures.link_share >= 0.85 && figures.jain >= 0.98), "{all:?}");
}

#[test]
fn remaining_senders_take_the_rate_of_those_that_stop() {
    let leave = |sender: usize, now: Nanos| sender <= 4 || !(20 * MS..=30 * MS).contains(&now);
    let mut run = Crowd { sends: leave, ..crowd(64, BUFFER) }.start();
    let mut most = vec![];
    let times = [(0, 20), (20, 22), (22, 30), (30, 32), (32, 40)];
    let runs = times.map(|(from, until)| {
        let figures = run.figures_until(until * MS);
        most.push(run.most_granted(4));
        (format!("{from}–{until}"), figures)
    });
    let all = table("60 of 64 stop after 20 ms, and go on after 30 ms", "ms", runs.into_iter());
    println!("Credits of the four that stay, at most, at the end of each line: {most:?}.");
    assert!(all.iter().all(|figures| figures.link_share >= 0.85), "{all:?}");
    assert!(most[0] <= 2 && most[1] >= 8 && most[4] <= 2, "{most:?}");
    assert!(all[4].jain > 0.98 && all[4].p99_over_share < 4.0, "{all:?}");
}

#[test]
fn a_slow_receiver_slows_its_own_senders() {
    let runs = [false, true].map(|slow| {
        let figures = Crowd { slow, ..crowd(16, BUFFER) }.run(SETTLED);
        (["alone", "beside a slow one"][slow as usize].to_string(), figures)
    });
    let all = table("16 senders to one receiver, and to a slow one too", "receiver", runs.into_iter());
    assert!(all.iter().all(|figures| figures.link_share >= 0.9 && figures.jain >= 0.98), "{all:?}");
}

#[test]
fn small_messages_share_frames_and_room() {
    let body = |body| Crowd { body: Some(body), answers: true, ..crowd(64, BUFFER) }.run(SETTLED);
    let all = table("64 senders, each message answered", "bytes", each(&[16, 100, 1000], body));
    assert!(all.iter().all(|figures| figures.jain >= 0.98 && figures.p99_over_share < 4.0), "{all:?}");
}
