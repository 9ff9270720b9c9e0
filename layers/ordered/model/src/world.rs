//! What there is at one moment: processes, messages in flight, and what has happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use am_ordered_core::{Epoch, MemberId, NewView, Number, Promise, View};

use crate::log::Entry;
use crate::process::{Process, Role, base};

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The processes, by their ids. Those that crashed or ended are gone.
    pub processes: Vec<Option<Arc<Process>>>,
    /// What was sent. It may arrive at any time, several times, or never.
    pub sent: Arc<Sent>,
    /// What the group has done.
    pub past: Arc<Past>,
    /// What may still happen.
    pub left: Left,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    /// Candidacies.
    pub proposals: u8,
    /// Messages that get a number.
    pub messages: u8,
    /// Crashes.
    pub crashes: u8,
    /// Members that are put out.
    pub removals: u8,
}

/// Messages that may arrive and make a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sent {
    /// Candidacies, and the members that are asked.
    pub proposed: BTreeMap<(Epoch, MemberId), BTreeSet<MemberId>>,
    /// Promises: to a candidate, of a member.
    pub promises: BTreeMap<(Epoch, MemberId, MemberId), Promise>,
    /// New views, by their candidates.
    pub new_views: BTreeMap<(Epoch, MemberId), NewView>,
    /// To a candidate: a member has installed its view.
    pub installed: BTreeSet<(Epoch, MemberId, MemberId)>,
    /// Messages with their numbers.
    pub stamped: BTreeSet<(Number, Entry)>,
    /// What members have said that they hold of an epoch's log.
    pub acked: BTreeMap<(Epoch, MemberId), Number>,
    /// States for processes that join.
    pub states: BTreeSet<(MemberId, Epoch, Vec<Entry>)>,
}

/// What has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    /// Messages that some program got as `Safe`: in which epoch, at which number.
    pub safe: BTreeSet<(Epoch, Number, Entry)>,
    /// Views that were current.
    pub current: Vec<Current>,
    /// Processes that have crashed.
    pub crashed: BTreeSet<MemberId>,
}

/// A view that is current, or was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// The view.
    pub view: View,
    /// The views before it.
    pub chain: Vec<View>,
    /// The epochs that lead to it.
    pub history: Vec<(Epoch, Number)>,
    /// With what its log begins.
    pub log: Vec<Entry>,
    /// Whether somebody had crashed by then.
    pub is_after_crash: bool,
}

impl World {
    /// A process that runs.
    pub fn process(&self, id: MemberId) -> Option<&Process> {
        self.processes.get(id.0 as usize)?.as_deref()
    }

    /// A process that runs, to change it.
    pub fn process_mut(&mut self, id: MemberId) -> &mut Process {
        Arc::make_mut(self.processes[id.0 as usize].as_mut().expect("it runs"))
    }

    /// The processes that run.
    pub fn running(&self) -> impl Iterator<Item = (MemberId, &Process)> + Clone {
        let all = self.processes.iter().enumerate();
        all.filter_map(|(id, process)| Some((MemberId(id as u64), process.as_deref()?)))
    }

    /// Those that have a state.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &Process)> + Clone {
        self.running().filter(|(_, process)| process.role != Role::Joining)
    }

    /// A member says how far it is.
    pub fn acknowledge(&mut self, id: MemberId) {
        let process = self.process(id).expect("it runs");
        let (epoch, held) = (process.ballot.epoch(), process.log.held());
        // All members of a current view have what its log begins with.
        if held > base(process.ballot.history()) || process.learns(id) {
            let acked = Arc::make_mut(&mut self.sent).acked.entry((epoch, id)).or_default();
            *acked = held.max(*acked);
        }
    }

    /// Whether members that have said that they hold this number meet each majority of a view.
    pub fn is_safe(&self, view: &View, number: Number) -> bool {
        view.meets_each_majority(|id| self.sent.acked.get(&(view.epoch, id)).is_some_and(|held| *held > number))
    }

    /// The view with which the sequencer has begun its epoch.
    pub fn begins(&mut self, id: MemberId) {
        let process = self.process(id).expect("it runs");
        let new_view = process.ballot.fixed().expect("it is the candidate");
        // What was handled is not part of the log of a process that has begun with a state.
        let held = process.log.held();
        let log =
            (0..held).map_while(|number| process.log.get(number).or(process.handled.get(number as usize).copied()));
        let current = Current {
            view: new_view.view.clone(),
            chain: new_view.chain.clone(),
            history: new_view.history.clone(),
            log: log.collect(),
            is_after_crash: !self.past.crashed.is_empty(),
        };
        Arc::make_mut(&mut self.past).current.push(current);
    }

    /// Forget messages that cannot make a difference any more, so that moments that differ in nothing else are one.
    pub fn forget(&mut self) {
        let world = self.clone();
        let running = |id: &MemberId| world.process(*id);
        let is_ahead = |epoch: Epoch| world.running().any(|(_, process)| process.ballot.promised() <= epoch);
        let sent = Arc::make_mut(&mut self.sent);
        let awaits = |id: &MemberId, epoch: Epoch| running(id).is_some_and(|process| process.ballot.promised() < epoch);
        sent.proposed.retain(|(epoch, _), to| to.iter().any(|id| awaits(id, *epoch)));
        sent.promises.retain(|(epoch, to, _), _| {
            running(to).is_some_and(|process| process.ballot.is_candidate() && process.ballot.promised() == *epoch)
        });
        sent.new_views.retain(|(epoch, _), _| is_ahead(*epoch));
        sent.installed.retain(|(epoch, to, _)| {
            let fixed = running(to).and_then(|process| process.ballot.fixed().filter(|_| !process.ballot.is_open()));
            fixed.is_some_and(|new_view| new_view.view.epoch == *epoch)
        });
        sent.stamped.retain(|(_, entry)| is_ahead(entry.epoch));
        sent.acked.retain(|(epoch, _), _| is_ahead(*epoch));
        sent.states.retain(|(to, _, _)| {
            running(to).is_some_and(|process| process.role == Role::Joining || process.learns(*to))
        });
    }
}
