//! The rules by which views follow each other. Pure: no time, no messages, no log.
//!
//! ```text
//!   candidate                         members of each view that may be current
//!   propose(E) ─────────────────────▶ promise(E): seal the epoch; never again follow a lower one
//!            ◀── chain, held, ranges ─┘
//!   majority of each view in the chain of the latest promise:
//!   new view(E, base) ──────────────▶ fetch the log up to the base, then install(E)
//!            ◀──────────── installed ─┘
//!   majority of each view in that chain, and of the new one: current(E)
//! ```
//!
//! - An epoch has one candidate, because two majorities of a view share a member, and a member promises an epoch to one.
//! - A view that is current was installed by a majority of each view before it that may have been current. So a candidate hears
//!   of it, and of everything that it had decided.
//! - The log of the next epoch begins with what the promising members of the latest epoch hold together, up to the first gap.
//!   None of these members has delivered anything beyond it. A message that each majority of the latest view has is part of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{NewView, Promise};
use crate::view::{Epoch, Member, MemberId, Number, View};

/// The most epochs whose beginnings are remembered.
const MOST_EPOCHS: usize = 64;

/// What a member has promised and installed, and its candidacy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ballot {
    me: MemberId,
    promised: Epoch,
    chain: Vec<View>,
    is_current: bool,
    history: Vec<(Epoch, Number)>,
    pending: Option<NewView>,
    campaign: Option<Campaign>,
}

/// A candidacy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Campaign {
    /// Promises are awaited.
    Proposed { promises: BTreeMap<MemberId, Promise>, changes: Changes },
    /// The view is fixed, and members install it.
    Fixed { new_view: NewView, installed: BTreeSet<MemberId> },
}

/// What is to be different in the next view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changes {
    /// Processes that have the state and become members.
    pub add: Vec<Member>,
    /// Members that are put out.
    pub remove: BTreeSet<MemberId>,
}

/// What a member does with a new view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Remove the log from this number on: the epoch that had decided it ended before. Then fetch what is missing up to the base.
    Fetch {
        /// From where on the log holds nothing that was decided.
        cut: Number,
    },
    /// The log is being fetched.
    Pending,
    /// It was installed before.
    Installed,
    /// A higher epoch was promised.
    Refused,
    /// The member missed more epochs than are remembered: what in its log was decided is not known.
    Forgotten,
}

impl Ballot {
    /// A member that has installed a view, which is current.
    pub fn new(me: MemberId, view: View, history: Vec<(Epoch, Number)>) -> Ballot {
        let promised = view.epoch;
        Ballot { me, promised, chain: vec![view], is_current: true, history, pending: None, campaign: None }
    }

    /// The view that was installed last.
    pub fn view(&self) -> &View {
        self.chain.last().expect("there is one from the start")
    }

    /// The views that may be current.
    pub fn chain(&self) -> &[View] {
        &self.chain
    }

    /// The epoch of that view.
    pub fn epoch(&self) -> Epoch {
        self.view().epoch
    }

    /// The highest epoch that was promised.
    pub fn promised(&self) -> Epoch {
        self.promised
    }

    /// The numbers with which the last epochs began.
    pub fn history(&self) -> &[(Epoch, Number)] {
        &self.history
    }

    /// The epoch that decides a number in the log that is here, or is being fetched, if it is remembered.
    pub fn epoch_at(&self, number: Number) -> Option<Epoch> {
        let history = self.pending.as_ref().map_or(&self.history, |pending| &pending.history);
        history.iter().rev().find(|(_, begin)| *begin <= number).map(|(epoch, _)| *epoch)
    }

    /// A new view whose log is being fetched.
    pub fn pending(&self) -> Option<&NewView> {
        self.pending.as_ref()
    }

    /// The new view of the own candidacy.
    pub fn fixed(&self) -> Option<&NewView> {
        match &self.campaign {
            Some(Campaign::Fixed { new_view, .. }) => Some(new_view),
            _ => None,
        }
    }

    /// Whether the installed view is current, and no other has been promised. Only then messages are accepted and delivered.
    pub fn is_open(&self) -> bool {
        self.is_current && self.promised == self.epoch()
    }

    /// Everybody that a candidate asks, and that has to install a new view.
    pub fn voters(&self) -> BTreeSet<MemberId> {
        let fixed = self.fixed().into_iter().flat_map(|new| new.chain.iter().chain([&new.view]));
        self.chain.iter().chain(fixed).flat_map(View::ids).collect()
    }

    /// Become a candidate for an epoch above all that were heard of.
    pub fn propose(&mut self, above: Epoch, own: Promise, changes: Changes) -> Epoch {
        self.promised = Epoch(self.promised.max(above).0.saturating_add(1));
        self.pending = None;
        let promises = BTreeMap::from([(self.me, own)]);
        self.campaign = Some(Campaign::Proposed { promises, changes });
        self.promised
    }

    /// Promise to follow a candidate. Returns whether it was possible.
    pub fn promise(&mut self, epoch: Epoch) -> bool {
        if epoch <= self.promised {
            return false;
        }
        (self.promised, self.pending, self.campaign) = (epoch, None, None);
        true
    }

    /// Whether this epoch is promised, and its view has not arrived. Until then what a promise says stays true.
    pub fn awaits_view(&self, epoch: Epoch) -> bool {
        epoch == self.promised && epoch > self.epoch() && self.pending.is_none()
    }

    /// A promise to this candidate.
    pub fn on_promise(&mut self, from: MemberId, epoch: Epoch, promise: Promise) {
        if epoch == self.promised
            && !promise.chain.is_empty()
            && let Some(Campaign::Proposed { promises, .. }) = &mut self.campaign
        {
            promises.insert(from, promise);
        }
    }

    /// The members whose promise a candidate still lacks.
    pub fn awaited(&self) -> BTreeSet<MemberId> {
        let Some(Campaign::Proposed { promises, .. }) = &self.campaign else { return BTreeSet::new() };
        let voters: BTreeSet<MemberId> = self.promised_views().iter().flat_map(View::ids).collect();
        voters.into_iter().filter(|id| !promises.contains_key(id)).collect()
    }

    /// The views that the latest promise to this candidate names. Their members decide.
    pub fn promised_views(&self) -> &[View] {
        match &self.campaign {
            Some(Campaign::Proposed { promises, .. }) => latest(promises).map_or(&[], |latest| &latest.chain),
            _ => &[],
        }
    }

    /// Fix the next view, if a majority of each view that may be current has promised.
    pub fn fix(&mut self) -> Option<NewView> {
        let Some(Campaign::Proposed { promises, changes }) = &self.campaign else { return None };
        let latest = latest(promises)?;
        let is_majority = |view: &View| view.is_majority(|id| promises.contains_key(&id));
        if !latest.chain.iter().all(is_majority) {
            return None;
        }
        let old = latest.chain.last().expect("no promise without a view is kept");
        if !old.has(self.me) {
            // It was put out meanwhile.
            return None;
        }
        let mut members = old.members.clone();
        members.retain(|member| !changes.remove.contains(&member.id));
        members.extend(changes.add.iter().filter(|member| !old.has(member.id)).cloned());
        let view = View {
            group: old.group,
            epoch: self.promised,
            members,
            sequencer: self.me,
            tie_break: old.tie_break.clone(),
        };
        let base = held_together(promises.values().filter(|promise| promise.chain.last() == Some(old)));
        let mut history = latest.history.clone();
        history.push((self.promised, base));
        history.drain(..history.len().saturating_sub(MOST_EPOCHS));
        let new_view = NewView { view, chain: latest.chain.clone(), history };
        self.campaign = Some(Campaign::Fixed { new_view: new_view.clone(), installed: BTreeSet::new() });
        Some(new_view)
    }

    /// A candidate has fixed the next view.
    pub fn on_new_view(&mut self, new_view: &NewView) -> Accepted {
        let (epoch, installed) = (new_view.view.epoch, self.epoch());
        if epoch < self.promised {
            return Accepted::Refused;
        }
        if epoch == installed {
            return Accepted::Installed;
        }
        if self.pending.as_ref().is_some_and(|pending| pending.view.epoch == epoch) {
            return Accepted::Pending;
        }
        let cut = cut(&new_view.history, installed);
        if epoch > self.promised {
            (self.promised, self.campaign) = (epoch, None);
        }
        self.pending = Some(new_view.clone());
        cut.map_or(Accepted::Forgotten, |cut| Accepted::Fetch { cut })
    }

    /// Whether what a member of this epoch has before a number is a part of the pending view's log.
    pub fn keeps(&self, epoch: Epoch, number: Number) -> bool {
        let keeps = |pending: &NewView| cut(&pending.history, epoch).is_some_and(|cut| number <= cut);
        self.pending.as_ref().is_some_and(|pending| epoch == pending.view.epoch || keeps(pending))
    }

    /// Whether the own candidate, or the sequencer of the installed view, is followed, and no other one.
    pub fn follows(&self) -> bool {
        self.promised == self.epoch()
    }

    /// The log up to the base of the pending view is here.
    pub fn install(&mut self) {
        if let Some(new_view) = self.pending.take() {
            // Views of the chain that are older than one known to be current are not needed any more.
            let current = self.chain.first().map_or(Epoch(0), |view| view.epoch);
            self.chain = new_view.chain.into_iter().filter(|view| view.epoch >= current).collect();
            self.chain.push(new_view.view);
            (self.history, self.is_current) = (new_view.history, false);
        }
    }

    /// A member has installed the view of this candidate. Returns whether the view has become current.
    pub fn on_installed(&mut self, from: MemberId, epoch: Epoch) -> bool {
        let Some(Campaign::Fixed { new_view, installed }) = &mut self.campaign else { return false };
        if epoch != new_view.view.epoch {
            return false;
        }
        installed.insert(from);
        let is_majority = |view: &View| view.is_majority(|id| installed.contains(&id));
        let all = new_view.chain.iter().chain([&new_view.view]);
        all.into_iter().all(is_majority) && self.is_installed(epoch) && self.on_current(epoch)
    }

    fn is_installed(&self, epoch: Epoch) -> bool {
        self.epoch() == epoch
    }

    /// The view of this epoch is current. Returns whether that is new.
    pub fn on_current(&mut self, epoch: Epoch) -> bool {
        if epoch != self.epoch() || self.is_current {
            return false;
        }
        self.chain.drain(..self.chain.len() - 1);
        self.is_current = true;
        true
    }

    /// Give the candidacy up.
    pub fn withdraw(&mut self) {
        self.campaign = None;
    }

    /// Whether this member is a candidate without a view.
    pub fn is_candidate(&self) -> bool {
        matches!(self.campaign, Some(Campaign::Proposed { .. }))
    }
}

/// The promise of the latest epoch; of several, one that knows that views before it are not current any more: their members
/// may be gone.
fn latest(promises: &BTreeMap<MemberId, Promise>) -> Option<&Promise> {
    let epoch = |view: Option<&View>| view.map(|view| view.epoch);
    promises.values().max_by_key(|promise| (epoch(promise.chain.last()), epoch(promise.chain.first())))
}

/// From which number on a member of this epoch may hold what these epochs did not decide. `None`: it is not remembered.
fn cut(history: &[(Epoch, Number)], epoch: Epoch) -> Option<Number> {
    let is_known = history.first().is_some_and(|(first, _)| *first <= epoch);
    history.iter().find(|(begun, _)| *begun > epoch).filter(|_| is_known).map(|(_, cut)| *cut)
}

/// All before this number are held by these members together, and no gap is before it.
fn held_together<'a>(promises: impl Iterator<Item = &'a Promise> + Clone) -> Number {
    let mut held = promises.clone().map(|promise| promise.held).max().unwrap_or(0);
    let mut ranges: Vec<(Number, Number)> = promises.flat_map(|promise| promise.ranges.iter().copied()).collect();
    ranges.sort_unstable();
    for (from, to) in ranges {
        if from <= held {
            held = held.max(to);
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64) -> Member {
        Member { id: MemberId(id), name: format!("m{id}"), link: 0 }
    }

    fn view(epoch: u32, ids: &[u64]) -> View {
        let members = ids.iter().map(|id| member(*id)).collect();
        View { group: 1, epoch: Epoch(epoch), members, sequencer: MemberId(ids[0]), tie_break: None }
    }

    fn promise(chain: &[View], held: Number, ranges: &[(Number, Number)]) -> Promise {
        let history = chain.iter().map(|view| (view.epoch, 0)).collect();
        Promise { chain: chain.to_vec(), history, held, ranges: ranges.to_vec() }
    }

    /// The first member of three proposes, and these promise.
    fn fixed(own: Promise, others: &[(u64, Promise)], changes: Changes) -> Option<NewView> {
        let mut ballot = Ballot::new(MemberId(0), own.chain[0].clone(), own.history.clone());
        let epoch = ballot.propose(Epoch(5), own, changes);
        others.iter().for_each(|(id, promise)| ballot.on_promise(MemberId(*id), epoch, promise.clone()));
        ballot.fix()
    }

    #[test]
    fn a_view_needs_a_majority_of_the_last_one() {
        let chain = [view(1, &[0, 1, 2])];
        let own = || promise(&chain, 4, &[]);
        assert_eq!(fixed(own(), &[], Changes::default()), None);
        let new = fixed(own(), &[(1, promise(&chain, 7, &[]))], Changes::default()).expect("two of three");
        assert_eq!((new.view.epoch, new.base(), new.view.members.len()), (Epoch(6), 7, 3));
    }

    #[test]
    fn the_log_ends_at_the_first_gap_that_all_together_have() {
        let chain = [view(1, &[0, 1, 2])];
        let others = [(1, promise(&chain, 2, &[(4, 6), (7, 9)]))];
        let new = fixed(promise(&chain, 4, &[]), &others, Changes::default()).expect("two of three");
        assert_eq!(new.base(), 6);
    }

    #[test]
    fn only_members_of_the_latest_epoch_say_what_is_held() {
        let (old, new) = (view(1, &[0, 1, 2]), view(3, &[1, 0, 2]));
        let others = [(1, promise(&[old.clone(), new], 5, &[]))];
        let next = fixed(promise(&[old], 9, &[]), &others, Changes::default()).expect("two of three, of both views");
        assert_eq!((next.base(), next.chain.len()), (5, 2));
    }

    #[test]
    fn a_view_that_may_be_current_needs_its_own_majority_too() {
        let (old, new) = (view(1, &[0, 1, 2]), view(3, &[1, 0, 2, 7, 8]));
        let late = promise(&[old.clone(), new.clone()], 5, &[]);
        assert_eq!(fixed(promise(std::slice::from_ref(&old), 9, &[]), &[(1, late.clone())], Changes::default()), None);
        let others = [(1, late.clone()), (7, late)];
        assert!(fixed(promise(&[old], 9, &[]), &others, Changes::default()).is_some());
    }

    #[test]
    fn a_candidate_that_was_put_out_fixes_nothing() {
        let (old, new) = (view(1, &[0, 1, 2]), view(3, &[1, 2]));
        let late = promise(&[new], 5, &[]);
        let others = [(1, late.clone()), (2, late)];
        assert_eq!(fixed(promise(&[old], 9, &[]), &others, Changes::default()), None);
    }

    #[test]
    fn an_epoch_is_promised_once() {
        let mut ballot = Ballot::new(MemberId(1), view(1, &[0, 1, 2]), vec![(Epoch(1), 0)]);
        assert!(ballot.is_open() && ballot.promise(Epoch(2)) && !ballot.is_open());
        assert!(!ballot.promise(Epoch(2)) && !ballot.promise(Epoch(1)) && ballot.promise(Epoch(4)));
    }

    #[test]
    fn what_an_epoch_has_not_decided_is_cut_before_the_next_is_installed() {
        let mut ballot = Ballot::new(MemberId(1), view(1, &[0, 1, 2]), vec![(Epoch(1), 0)]);
        let history = vec![(Epoch(1), 0), (Epoch(4), 30), (Epoch(6), 50)];
        let new = NewView { view: view(6, &[0, 1, 2]), chain: vec![view(4, &[0, 1, 2])], history };
        assert_eq!(ballot.on_new_view(&new), Accepted::Fetch { cut: 30 });
        assert_eq!(ballot.on_new_view(&new), Accepted::Pending);
        ballot.install();
        assert_eq!(
            (ballot.epoch(), ballot.is_open(), ballot.on_new_view(&new)),
            (Epoch(6), false, Accepted::Installed)
        );
        assert!(ballot.on_current(Epoch(6)) && ballot.is_open() && ballot.chain().len() == 1);
    }
}
