//! A process of the group: the core's ballot, and a log beside it that follows the core's rules (`change.rs`, `order.rs`).

use am_ordered_core::{Accepted, Ballot, Epoch, MemberId, NewView, Number, Promise, View};

use crate::bug::Bug;
use crate::log::{Entry, Log};

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It waits for a state.
    Joining,
    /// It has the state, and is a member or follows to become one.
    Member,
    /// It has handled messages that are not in the log of its pending view.
    Diverged {
        /// From this number on.
        cut: Number,
    },
}

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// What it has promised and installed: the core's own.
    pub ballot: Ballot,
    /// Where it stands.
    pub role: Role,
    /// What it holds.
    pub log: Log,
    /// The program's state: all messages that it contains.
    pub handled: Vec<Entry>,
}

/// Where the epoch of a new view begins.
pub fn base(history: &[(Epoch, Number)]) -> Number {
    history.last().map_or(0, |(_, base)| *base)
}

impl Process {
    /// A member of a view that is current.
    pub fn member(me: MemberId, view: View, history: Vec<(Epoch, Number)>, handled: Vec<Entry>) -> Process {
        let ballot = Ballot::new(me, view, history);
        Process { ballot, role: Role::Member, log: Log::starting_at(handled.len() as Number), handled }
    }

    /// A process that wants to join.
    pub fn joining(me: MemberId) -> Process {
        let view = View { group: 1, epoch: Epoch(0), members: vec![], sequencer: me, tie_break: None };
        Process { role: Role::Joining, ..Process::member(me, view, vec![], vec![]) }
    }

    /// All before this number were delivered.
    pub fn delivered(&self) -> Number {
        self.handled.len() as Number
    }

    /// Whether it gives numbers.
    pub fn leads(&self, me: MemberId) -> bool {
        self.role == Role::Member && self.ballot.is_open() && self.ballot.view().sequencer == me
    }

    /// Whether it may become a candidate.
    pub fn may_propose(&self, me: MemberId, bug: Option<Bug>) -> bool {
        let is_mute = self.role == Role::Joining
            || matches!(self.role, Role::Diverged { .. }) && bug == Some(Bug::DivergedIsMute);
        !is_mute && self.ballot.voters().contains(&me)
    }

    /// Whether it has the state, and is in no view that it knows.
    pub fn learns(&self, me: MemberId) -> bool {
        self.role == Role::Member && !self.ballot.chain().iter().any(|view| view.has(me))
    }

    /// The epoch whose log it has, or fetches.
    pub fn has_log_of(&self, epoch: Epoch) -> bool {
        self.ballot.pending().map(|new_view| new_view.view.epoch) == Some(epoch) || self.ballot.epoch() == epoch
    }

    /// What it promises with.
    pub fn own_promise(&self, bug: Option<Bug>) -> Promise {
        let ranges = self.log.ranges_behind_gap();
        let held = if bug == Some(Bug::BeyondGap) { self.log.end().max(self.log.held()) } else { self.log.held() };
        Promise { chain: self.ballot.chain().to_vec(), history: self.ballot.history().to_vec(), held, ranges }
    }

    /// Seal the epoch and follow a candidate. Returns the promise, if it is possible.
    pub fn promise(&mut self, epoch: Epoch, bug: Option<Bug>) -> Option<Promise> {
        let mut ballot = self.ballot.clone();
        if !ballot.promise(epoch) {
            return None;
        }
        if bug != Some(Bug::Unsealed) {
            self.ballot = ballot;
        }
        self.converge();
        Some(self.own_promise(bug))
    }

    /// Another epoch is promised, or its view fixed: what this member holds may be part of its log.
    pub fn converge(&mut self) {
        if matches!(self.role, Role::Diverged { .. }) {
            self.role = Role::Member;
        }
    }

    /// What it holds that is part of the log that it has or fetches.
    pub fn answer(&self, number: Number) -> Option<Entry> {
        let is_void = matches!(self.role, Role::Diverged { cut } if number >= cut);
        self.log.get(number).filter(|_| !is_void)
    }

    /// A new view arrives. Returns whether the process answers that it has installed it.
    pub fn on_new_view(&mut self, new_view: &NewView, bug: Option<Bug>) -> bool {
        match self.ballot.on_new_view(new_view) {
            Accepted::Fetch { cut } => {
                let diverges = self.delivered() > cut;
                self.role = if diverges { Role::Diverged { cut } } else { Role::Member };
                let cuts = if diverges { bug == Some(Bug::CutEarly) } else { bug != Some(Bug::KeptBeyondEnd) };
                if cuts {
                    self.log.truncate(cut);
                }
                self.install(bug)
            }
            // Each model has fewer epochs than a history.
            Accepted::Forgotten => unreachable!("an epoch of {new_view:?} is forgotten"),
            Accepted::Installed => true,
            Accepted::Pending | Accepted::Refused => false,
        }
    }

    /// Install the pending view, once the log up to its base is here. Returns whether it is.
    pub fn install(&mut self, bug: Option<Bug>) -> bool {
        let Some(base) = self.ballot.pending().map(|new_view| base(&new_view.history)) else { return false };
        if self.role != Role::Member || self.log.held() < base && bug != Some(Bug::BeforeFetch) {
            return false;
        }
        if bug != Some(Bug::KeptBeyondEnd) {
            self.log.truncate(base);
        }
        self.ballot.install();
        true
    }

    /// Take another member's state: in place of what the program had handled, or of messages that no process holds any more. Returns whether the view is installed then.
    pub fn go_on_with(&mut self, handled: Vec<Entry>, bug: Option<Bug>) -> bool {
        let number = handled.len() as Number;
        if bug == Some(Bug::LogForState) {
            self.log = Log::starting_at(number);
        } else if number < self.log.first() || self.role == Role::Member && number <= self.log.held() {
            return false;
        }
        if let Role::Diverged { cut } = self.role {
            self.log.truncate(cut);
        }
        self.log.skip_to(number);
        (self.role, self.handled) = (Role::Member, handled);
        self.install(bug)
    }
}
