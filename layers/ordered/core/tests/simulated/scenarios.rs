//! What users of such groups fear, one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use am_ordered_core::{Core, Ended, Level, Member, MemberId, Message, Output, Settings, Time};

use crate::group::Group;

const SECOND: Time = Duration::from_secs(1);

#[test]
fn eight_processes_that_join_at_once_need_few_views() {
    let group = Group::of(9);
    let epoch = group.cores[&MemberId(0)].view().epoch.0;
    assert!(epoch <= 4, "{epoch} epochs");
}

/// Its program may be unable to go on with the state. The next view would have no majority without it.
#[test]
fn a_process_that_leaves_before_it_is_a_member_is_in_no_view() {
    let all =
        [(1, 0, 0), (1, 10, 0), (1, 30, 0), (1, 60, 0), (2, 0, 0), (2, 60, 0), (3, 0, 0), (1, 0, 350), (3, 0, 350)];
    for (count, delay, deaf) in all {
        let mut group = Group::of(count);
        let id = MemberId(9);
        let me = Member { id, name: "m9".into(), link: 0 };
        group.cores.insert(id, Core::join(me, Settings::default(), group.now));
        let is_state = |(by, output): &(MemberId, Output)| *by == id && matches!(output, Output::RestoreState { .. });
        while !group.reports.iter().any(is_state) {
            group.pass(Duration::from_micros(500));
        }
        group.pass(Duration::from_millis(delay));
        group.cores.get_mut(&id).expect("it joins").leave(group.now);
        group.deaf.insert(id);
        let hears_at = group.now + Duration::from_millis(deaf);
        while group.now < hears_at {
            group.pass(Duration::from_micros(500));
            let asks = |message: &Message| matches!(message, Message::Join { .. });
            assert!(!group.sent.iter().any(|(_, from, _, message)| *from == id && asks(message)), "it asks to join");
        }
        group.deaf.clear();
        while !group.reports.contains(&(id, Output::Ended(Ended::Left))) {
            group.pass(Duration::from_micros(500));
            assert!(group.now < 3 * SECOND, "{count} members, {delay} ms: it is let go");
        }
        group.cores.remove(&id);
        group.send(0, Level::Safe, "after");
        group.pass(SECOND);
        assert_eq!(group.delivered(0), [(0, "after")], "{count} members, {delay} ms");
        assert_eq!(group.view(0), (0..count).collect::<Vec<_>>(), "{count} members, {delay} ms");
    }
}

/// A cable that carries one direction only, to and from each member.
#[test]
fn a_member_that_hears_nothing_or_says_nothing_stops_no_other() {
    for id in 0..3 {
        for is_deaf in [true, false] {
            let mut group = Group::of(3);
            let broken = if is_deaf { &mut group.deaf } else { &mut group.mute };
            broken.insert(MemberId(id));
            group.pass(SECOND);
            let sender = (id + 1) % 3;
            group.send(sender, Level::Safe, "after");
            group.pass(SECOND);
            let what = format!("{id}, deaf: {is_deaf}");
            assert_eq!(group.delivered(sender), [(0, "after")], "{what}");
            (group.deaf, group.mute) = Default::default();
            group.pass(SECOND);
            assert_eq!((group.view(id), group.delivered(id)), (vec![0, 1, 2], vec![(0, "after")]), "{what}");
        }
    }
}

#[test]
fn members_that_have_stopped_for_a_while_hear_that_they_go_on_though_all_are_quiet() {
    let mut group = Group::of(3);
    (group.deaf, group.mute) = ([MemberId(0), MemberId(1)].into(), [MemberId(0), MemberId(1)].into());
    group.pass(Duration::from_millis(600));
    (group.deaf, group.mute) = Default::default();
    group.pass(SECOND);
    for id in group.cores.keys() {
        let heard = group.reports.iter().filter_map(|(by, output)| match output {
            Output::Primary(is_primary) if by == id => Some(*is_primary),
            _ => None,
        });
        assert_eq!(heard.collect::<Vec<_>>(), [false, true], "{id:?}");
    }
}

/// No sequencer leads as long as the patience.
#[test]
fn a_dead_member_is_put_out_though_the_sequencer_changes_often() {
    let mut group = Group::of(5);
    (group.deaf, group.mute) = ([MemberId(4)].into(), [MemberId(4)].into());
    let (mut leaders, begin) = (BTreeSet::new(), group.now);
    while group.view(0).contains(&4) {
        assert!(group.now < begin + 40 * SECOND, "{leaders:?}");
        group.pass(SECOND);
        let leader = group.cores[&MemberId(0)].view().sequencer;
        leaders.insert(leader);
        group.mute.insert(leader);
        group.pass(SECOND / 2);
        group.mute.remove(&leader);
    }
    assert!(leaders.len() > 1 && group.now > begin + Settings::default().patience, "{leaders:?}");
    group.pass(SECOND);
    assert_eq!(group.view(1), [0, 1, 2, 3], "the others stay");
}

/// The sequencer delivers what no other member has, and crashes, or comes back.
#[test]
fn what_one_member_alone_has_delivered_is_lost_with_it_unless_it_is_safe() {
    for (level, crashes) in [(Level::Agreed, true), (Level::Agreed, false), (Level::Safe, true), (Level::Safe, false)] {
        let mut group = Group::of(3);
        group.mute.insert(MemberId(0));
        group.send(0, level, "lost");
        group.pass(Duration::from_millis(10));
        let expected = if level == Level::Agreed { vec![(0, "lost")] } else { vec![] };
        assert_eq!(group.delivered(0), expected);
        if crashes {
            group.cores.remove(&MemberId(0));
        }
        group.pass(SECOND);
        group.mute.clear();
        group.send(1, level, "next");
        group.pass(SECOND);
        assert_eq!(group.delivered(2)[0], (0, "next"), "the others go on");
        let diverged = group.reports.iter().any(|(id, output)| id.0 == 0 && matches!(output, Output::Diverged(0)));
        assert_eq!(diverged, level == Level::Agreed && !crashes, "it hears that its message is void");
    }
}

#[test]
fn a_candidate_that_crashes_is_followed_by_another() {
    for step in 0..80 {
        let mut group = Group::of(5);
        group.send(3, Level::Safe, "before");
        group.pass(Duration::from_millis(30));
        group.cores.remove(&MemberId(0));
        group.pass(Duration::from_millis(90 + step));
        group.cores.remove(&MemberId(1));
        group.send(2, Level::Safe, "after");
        group.pass(SECOND);
        for id in 2..5 {
            assert_eq!(group.delivered(id), [(0, "before"), (1, "after")], "member {id}, {step} ms");
        }
    }
}

/// Each has a message, and all have all of them.
#[test]
fn settings_that_cannot_work_are_replaced_by_those_that_do() {
    let (usual, longest) = (Settings::default(), Time::MAX);
    let all = [
        Settings { capacity: 0, ..usual.clone() },
        Settings { capacity: 1, ..usual.clone() },
        Settings { capacity: usize::MAX, kept: usize::MAX, ..usual.clone() },
        Settings { kept: 0, ..usual.clone() },
        Settings { patience: Time::ZERO, ..usual.clone() },
        Settings { patience: longest, slow: Some(longest), ..usual.clone() },
        Settings { gap: longest, resend: longest, ..usual.clone() },
        Settings { silence: longest, patience: longest, ..usual.clone() },
        Settings { silence: Time::ZERO, beat: Time::ZERO, ..usual.clone() },
        Settings { silence: Time::ZERO, ..usual.clone() },
        Settings { beat: longest, ..usual },
    ];
    for settings in all {
        let mut group = Group::with(4, &settings);
        for round in 0..10 {
            (0..4).for_each(|id| group.send(id, if round % 2 == 0 { Level::Safe } else { Level::Agreed }, "one"));
            group.pass(Duration::from_millis(200));
        }
        for id in 0..4 {
            assert_eq!((group.delivered(id).len(), group.view(id).len()), (40, 4), "member {id}, {settings:?}");
        }
    }
}
