//! Groups on a network with no faults but those that a test asks for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use am_ordered_core::{Core, Epoch, Level, Member, MemberId, Message, Output, Settings, Time};
use bytes::Bytes;

/// The time that a message takes.
const DELAY: Time = Duration::from_micros(3000);

/// Processes, and what they have reported.
struct Group {
    now: Time,
    cores: BTreeMap<MemberId, Core>,
    sent: VecDeque<(Time, MemberId, MemberId, Message)>,
    reports: Vec<(MemberId, Output)>,
    /// Nothing that is sent arrives at these.
    deaf: BTreeSet<MemberId>,
}

impl Group {
    /// A group with this number of members.
    fn of(count: u64) -> Group {
        Group::with(count, &Settings::default())
    }

    fn with(count: u64, settings: &Settings) -> Group {
        let mut group = Group {
            now: Duration::ZERO,
            cores: BTreeMap::new(),
            sent: VecDeque::new(),
            reports: vec![],
            deaf: BTreeSet::new(),
        };
        for id in (0..count).map(MemberId) {
            let me = Member { id, name: format!("m{id}"), link: 0 };
            let core = match id.0 {
                0 => Core::found(me, settings.clone(), group.now),
                _ => Core::join(me, settings.clone(), group.now),
            };
            group.cores.insert(id, core);
        }
        group.pass(Duration::from_secs(1));
        assert!(group.cores.values().all(|core| core.view().members.len() == group.cores.len()), "all have joined");
        group.reports.clear();
        group
    }

    /// The members of a member's view.
    fn view(&self, id: u64) -> Vec<u64> {
        self.cores[&MemberId(id)].view().ids().map(|id| id.0).collect()
    }

    fn pass(&mut self, time: Time) {
        let end = self.now + time;
        while self.now < end {
            while self.sent.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, from, to, message) = self.sent.pop_front().expect("there is one");
                if let Some(core) = self.cores.get_mut(&to).filter(|_| !self.deaf.contains(&to)) {
                    core.on_message(self.now, from, message);
                }
            }
            for id in self.cores.keys().copied().collect::<Vec<_>>() {
                self.work(id);
            }
            self.now += DELAY / 4;
        }
    }

    fn work(&mut self, id: MemberId) {
        let core = self.cores.get_mut(&id).expect("it is there");
        if core.next_time() <= self.now {
            core.on_time(self.now);
        }
        while let Some(output) = core.poll() {
            let mut send = |to, message| self.sent.push_back((self.now + DELAY, id, to, message));
            match output {
                Output::Send { to, message } => send(to, message),
                Output::Multicast(message) => core.audience().into_iter().for_each(|to| send(to, message.clone())),
                Output::Contact(message) => send(MemberId(0), message),
                Output::TakeState { joiner } => core.state_taken(joiner, Bytes::new()),
                other => self.reports.push((id, other)),
            }
        }
    }
}

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
    // In half a second.
    assert!(beats(&group) - before > 20);
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
