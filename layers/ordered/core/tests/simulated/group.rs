//! A group on a network with no faults but those that a test asks for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use am_ordered_core::{Core, Level, Member, MemberId, Message, Number, Output, Settings, Time};
use bytes::Bytes;

/// The time that a message takes.
pub(crate) const DELAY: Time = Duration::from_micros(3000);

/// Processes, and what they have reported.
pub(crate) struct Group {
    pub(crate) now: Time,
    pub(crate) cores: BTreeMap<MemberId, Core>,
    pub(crate) sent: VecDeque<(Time, MemberId, MemberId, Message)>,
    pub(crate) reports: Vec<(MemberId, Output)>,
    /// Nothing that is sent arrives at these.
    pub(crate) deaf: BTreeSet<MemberId>,
    /// Nothing that these send arrives.
    pub(crate) mute: BTreeSet<MemberId>,
}

impl Group {
    /// A group with this number of members.
    pub(crate) fn of(count: u64) -> Group {
        Group::with(count, &Settings::default())
    }

    pub(crate) fn with(count: u64, settings: &Settings) -> Group {
        let mut group = Group {
            now: Duration::ZERO,
            cores: BTreeMap::new(),
            sent: VecDeque::new(),
            reports: vec![],
            deaf: BTreeSet::new(),
            mute: BTreeSet::new(),
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

    /// A member sends this.
    pub(crate) fn send(&mut self, id: u64, level: Level, payload: &'static str) {
        let core = self.cores.get_mut(&MemberId(id)).expect("it is there");
        core.send(self.now, level, payload.into()).expect("room");
    }

    /// What a member has delivered.
    pub(crate) fn delivered(&self, id: u64) -> Vec<(Number, &str)> {
        let of = self.reports.iter().filter(|(by, _)| by.0 == id);
        of.filter_map(|(_, output)| match output {
            Output::Deliver(delivery) => Some((delivery.number, std::str::from_utf8(&delivery.payload).expect("text"))),
            _ => None,
        })
        .collect()
    }

    /// The members of a member's view.
    pub(crate) fn view(&self, id: u64) -> Vec<u64> {
        self.cores[&MemberId(id)].view().ids().map(|id| id.0).collect()
    }

    pub(crate) fn pass(&mut self, time: Time) {
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
            let sequencers = self.cores.values().filter(|core| core.gives_numbers(self.now)).count();
            assert!(sequencers <= 1, "{sequencers} members give numbers");
            self.now += DELAY / 4;
        }
    }

    pub(crate) fn work(&mut self, id: MemberId) {
        let core = self.cores.get_mut(&id).expect("it is there");
        if core.next_time() <= self.now {
            core.on_time(self.now);
        }
        while let Some(output) = core.poll() {
            let mut send = |to, message| {
                if !self.mute.contains(&id) {
                    self.sent.push_back((self.now + DELAY, id, to, message));
                }
            };
            match output {
                Output::Send { to, message } => send(to, message),
                Output::Multicast(message) => core.audience().into_iter().for_each(|to| send(to, message.clone())),
                Output::Contact(message) => send(MemberId(0), message),
                Output::TakeState { joiner, .. } => core.state_taken(joiner, Bytes::new()),
                other => self.reports.push((id, other)),
            }
        }
    }
}
