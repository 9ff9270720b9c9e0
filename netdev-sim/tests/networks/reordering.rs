//! The cost of reordering, compared with a network of the same mean delay that keeps the order.
//!
//! ```sh
//! cargo test -p am-netdev-sim --test networks reordering -- --nocapture --test-threads 1
//! ```

use crate::crowd::{Crowd, Figures, Span, crowd};
use am_netdev_sim::{MS, Nanos, Netem, US};
use am_proto::mutants::{Mutant, activate};

/// `netem delay 2ms 1ms reorder 10%`, and the same mean delay without reordering.
const REORDERS: Netem = Netem { delay: 2 * MS, jitter: MS, reorder: 0.1 };
const DELAYS: Netem = Netem { delay: 1800 * US, jitter: 0, reorder: 0.0 };
const NOTHING: Netem = Netem { delay: 0, jitter: 0, reorder: 0.0 };

/// Many round trips of 2 ms.
const SPAN: Span = Span { from: 50 * MS, until: 250 * MS };

#[derive(Clone, Copy, Debug)]
enum Load {
    /// One full message in a frame.
    Full,
    /// Small messages, coalesced.
    Shared,
    /// Small messages, each answered.
    Answered,
    /// Segments of bulk transfers.
    Bulk,
}

const LOADS: [Load; 4] = [Load::Full, Load::Shared, Load::Answered, Load::Bulk];

/// One sender to one receiver, over links that lose frames. `netem` has the receiver's queue and the sender's.
fn one(load: Load, netem: [Netem; 2], loss: f64, seed: u64) -> Crowd {
    let mut one = crowd(1, 512 * 1024);
    (one.options.netem, one.options.faults_until) = (netem.to_vec(), Nanos::MAX);
    (one.options.loss, one.options.seed) = (loss, seed);
    match load {
        Load::Full => (),
        Load::Shared => one.body = Some(64),
        Load::Answered => (one.body, one.answers) = (Some(200), true),
        Load::Bulk => one.bulk = true,
    }
    one
}

/// A run with the delay alone, and one with reordering, at the sender only or at both ends.
fn delayed_and_reordered(load: Load, at_both: bool, loss: f64, seed: u64) -> [Figures; 2] {
    [DELAYS, REORDERS].map(|netem| {
        let receiver = if at_both { netem } else { NOTHING };
        one(load, [receiver, netem], loss, seed).run(SPAN)
    })
}

/// The part of the rate that is left with reordering: the lowest of some seeds. Prints a line.
fn rate_left(load: Load, at_both: bool, loss: f64) -> f64 {
    let runs = [0, 1].map(|seed| delayed_and_reordered(load, at_both, loss, seed));
    let kept = runs.iter().map(|[delays, reorders]| reorders.link_share / delays.link_share).fold(f64::MAX, f64::min);
    let [again, spurious] = [|of: &Figures| of.retransmitted, |of: &Figures| of.spurious].map(|of| {
        let each = runs.iter().map(|[_, reorders]| of(reorders));
        each.max().unwrap_or_default()
    });
    let ends = if at_both { "both ends" } else { "the sender" };
    println!("| {load:?} | {ends} | {loss} | {kept:.2} | {again} | {spurious} |");
    kept
}

#[test]
fn reordering_costs_at_most_a_fifth() {
    for load in LOADS {
        for at_both in [false, true] {
            assert!(rate_left(load, at_both, 0.0) >= 0.8, "{load:?}");
        }
    }
}

#[test]
fn losses_are_repaired_despite_reordering() {
    for load in LOADS {
        assert!(rate_left(load, false, 0.01) >= 0.7, "{load:?}");
    }
}

/// Fewer than one message in twenty is sent again.
#[test]
fn next_to_nothing_is_sent_again() {
    for load in LOADS {
        let [delays, reorders] = delayed_and_reordered(load, false, 0.0, 3);
        assert_eq!(delays.retransmitted, 0);
        let messages = reorders.messages as f64;
        assert!(
            (reorders.retransmitted as f64) < messages / 20.0,
            "{load:?}: {} of {messages}",
            reorders.retransmitted
        );
    }
}

/// The mutant takes every late frame for a lost one.
#[test]
fn a_sender_that_never_learns_is_caught() {
    activate(Some(Mutant::LateIsLost));
    let shared = rate_left(Load::Shared, false, 0.0);
    let full = delayed_and_reordered(Load::Full, false, 0.0, 0)[1];
    activate(None);
    assert!(shared < 0.5, "{shared}");
    assert!(full.retransmitted > full.messages, "{full:?}");
}
