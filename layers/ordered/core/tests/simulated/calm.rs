//! Members of a quiet group stay members, and change their sequencer without a break.

use std::time::Duration;

use am_ordered_core::{Epoch, Level, MemberId, Message, Output, Settings, Time};
use bytes::Bytes;

use crate::group::{DELAY, Group};

/// Longer than the patience.
const LONG: Time = Duration::from_secs(8);

#[test]
fn a_new_sequencer_puts_out_nobody_that_it_has_not_asked() {
    let mut group = Group::of(4);
    group.pass(LONG);
    group.cores.remove(&MemberId(0));
    group.pass(Duration::from_secs(4));
    assert_eq!(group.view(1), [0, 1, 2, 3], "the first one may only be stopped");
    group.pass(LONG);
    assert_eq!(group.view(1), [1, 2, 3]);
}

#[test]
fn members_that_answer_a_candidate_are_not_silent() {
    // In some of these the last sequencer is the next one.
    for (deaf, more) in (0..8).flat_map(|step| [vec![1], vec![0, 1]].map(|deaf| (deaf, step * 37))) {
        let mut group = Group::of(2);
        group.deaf = deaf.iter().copied().map(MemberId).collect();
        group.pass(LONG + Duration::from_millis(more));
        group.deaf.clear();
        group.pass(LONG);
        assert_eq!(group.view(0), [0, 1], "{deaf:?} could hear nothing for 8 s and {more} ms");
    }
}

/// The first report that a majority is missed.
fn missed(group: &Group) -> Option<&(MemberId, Output)> {
    group.reports.iter().find(|(_, output)| matches!(output, Output::Primary(_)))
}

#[test]
fn a_sequencer_is_replaced_before_a_majority_is_missed() {
    let mut group = Group::of(4);
    group.pass(LONG);
    group.cores.remove(&MemberId(0));
    group.pass(Duration::from_secs(1));
    assert_eq!(missed(&group), None);
}

#[test]
fn members_that_leave_miss_no_majority() {
    for pause in (0..40).map(Duration::from_millis) {
        let mut group = Group::of(7);
        for id in (1..7).map(MemberId) {
            let now = group.now;
            group.cores.get_mut(&id).expect("it is there").leave(now);
            group.pass(pause);
        }
        group.pass(Duration::from_secs(1));
        assert_eq!(missed(&group), None, "one leaves each {pause:?}");
        assert_eq!(group.view(0), [0]);
    }
}

#[test]
fn a_sequencer_that_never_rests_beats() {
    let mut group = Group::of(2);
    let beats = |group: &Group| group.sent.iter().filter(|(.., sent)| matches!(sent, Message::Beat(_))).count();
    let before = beats(&group);
    for _ in 0..10_000 {
        group.now += Duration::from_micros(50);
        let (now, sequencer) = (group.now, MemberId(0));
        let nothing = Message::Repair { epoch: Epoch(0), from: 0, to: 0 };
        group.cores.get_mut(&sequencer).expect("it is there").on_message(now, MemberId(1), nothing);
        group.work(sequencer);
    }
    // In half a second, as far as its lease and ten beats more.
    assert!(beats(&group) - before > 12);
}

#[test]
fn between_two_beats_credits_return_and_logs_do_not_overflow() {
    // A token goes round in 13 ms.
    let (beat, silence) = (Duration::from_millis(200), Duration::from_secs(1));
    let mut group = Group::with(4, &Settings { capacity: 32, kept: 32, beat, silence, ..Settings::default() });
    let epoch = group.cores[&MemberId(0)].view().epoch;
    let end = group.now + Duration::from_secs(1);
    while group.now < end {
        for sender in group.cores.values_mut() {
            while sender.send(group.now, Level::Agreed, Bytes::new()).is_ok() {}
        }
        group.pass(DELAY / 4);
    }
    for core in group.cores.values() {
        assert_eq!((core.view().epoch, core.counters().repaired), (epoch, 0), "{:?}", core.me());
        assert!(core.delivered() > 1000, "{}", core.delivered());
    }
}

#[test]
fn a_token_goes_round_once() {
    let mut group = Group::of(3);
    let epoch = group.cores[&MemberId(1)].view().epoch;
    let token = Message::Token { epoch, round: 7, consumed: 0 };
    let mut passed_on = || {
        let (now, core) = (group.now, group.cores.get_mut(&MemberId(1)).expect("it is there"));
        core.on_message(now, MemberId(0), token.clone());
        std::iter::from_fn(|| core.poll())
            .filter(|output| matches!(output, Output::Send { message, .. } if *message == token))
            .count()
    };
    assert_eq!([passed_on(), passed_on()], [1, 0]);
}
