//! Membership among many: views are right soon, and the frames that this takes do not grow as the members do.
#![allow(unreachable_pub, reason = "a module of a test program: nothing outside of it can reach it")]

mod segment;

use am_netdev_sim::{MS, Nanos, US};
use am_proto::mutants::{Mutant, activate};

use segment::Segment;

const SECOND: Nanos = 1000 * MS;

/// Two hundred nodes that need a millisecond for each frame, as many processes on few cores do. Returns the seconds until
/// all views are right, and until ten deaths are seen; and the control frames that a node receives in a second of
/// calm, on average.
fn slow_machines() -> (Option<f64>, Option<f64>, u64) {
    let mut segment = Segment::new(1, 200, SECOND, MS);
    segment.run(SECOND);
    let joined = segment.seconds_until_right(10);
    (100..110).for_each(|at| segment.kill(at));
    let missed = segment.seconds_until_right(3);
    segment.run(5 * SECOND);
    let before = segment.received();
    segment.run(5 * SECOND);
    (joined, missed, (segment.received() - before) / 5)
}

#[test]
fn two_hundred_members_on_slow_machines_are_right_within_ten_seconds() {
    let (joined, missed, frames) = slow_machines();
    println!("joined after {joined:?} s, deaths seen after {missed:?} s, {frames} control frames a second");
    assert!(joined.is_some() && missed.is_some());
    assert!(frames < 300, "{frames} control frames in a second");
}

#[test]
fn without_rates_that_follow_the_members_the_same_views_stay_wrong() {
    activate(Some(Mutant::RatesStay));
    let (joined, _, frames) = slow_machines();
    activate(None);
    assert!(joined.is_none() && frames > 300, "{joined:?}, {frames}");
}

#[test]
fn without_reports_deaths_are_seen_later() {
    activate(Some(Mutant::SilenceStays));
    let (joined, missed, _) = slow_machines();
    activate(None);
    assert!(joined.is_some() && missed.is_none(), "{missed:?}");
}

#[test]
fn a_thousand_members_are_right_within_ten_seconds() {
    let mut segment = Segment::new(1, 1000, SECOND, 5 * US);
    segment.run(SECOND);
    let joined = segment.seconds_until_right(10);
    println!("joined after {joined:?} s");
    (100..110).for_each(|at| segment.kill(at));
    let missed = segment.seconds_until_right(10);
    println!("10 deaths are seen after {missed:?} s");
    assert!(joined.is_some() && missed.is_some());
}

/// A node that was descheduled blames no other, and is back in all views soon.
#[test]
fn a_late_node_removes_no_other() {
    let mut segment = Segment::new(2, 100, SECOND, 100 * US);
    segment.run(SECOND);
    segment.seconds_until_right(10).expect("all have joined");
    for time in [1200 * MS, 3 * SECOND, 8 * SECOND] {
        segment.silent.clear();
        segment.stop(7, time);
        segment.run(time);
        segment.seconds_until_right(10).expect("all are right again");
        let blamed: Vec<_> = segment.silent.iter().filter(|(_, member)| *member != 7).collect();
        assert!(blamed.is_empty(), "{blamed:?}");
    }
}
