//! What may happen next.

use std::collections::BTreeSet;
use std::sync::Arc;

use am_ordered_core::{Changes, Epoch, Member, MemberId, Number, Promise, View};

use crate::bug::{self, Bug};
use crate::log::Entry;
use crate::process::{Process, Role, base};
use crate::world::{Current, Left, Past, Sent, World};

/// A group, and the bounds within which it is looked at.
#[derive(Clone, Debug)]
pub struct Group {
    /// Members of the first view. The first is its sequencer.
    pub members: u64,
    /// Processes that want to join.
    pub joiners: u64,
    /// Whether the first member decides if half of the members are on its side.
    pub has_tie_break: bool,
    /// How often each may happen.
    pub bounds: Left,
    /// A rule that is left out.
    pub bug: Option<Bug>,
}

/// What happens next. `at` is where, `by` who does it, `from`, `of` and `to` the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "a field's name says what it is")]
pub enum Action {
    /// A sequencer gives a message its number.
    Stamp { by: MemberId, is_safe: bool },
    /// A message with its number arrives.
    Receive { at: MemberId, number: Number, entry: Entry },
    /// A program gets its next message.
    Deliver { at: MemberId },
    /// A member becomes a candidate.
    Propose { by: MemberId, epoch: Epoch, add: BTreeSet<MemberId>, remove: Option<MemberId> },
    /// A candidacy arrives at a member that promises to follow it.
    Promise { at: MemberId, to: MemberId, epoch: Epoch },
    /// Promises arrive at a candidate that fixes the view with them.
    Fix { by: MemberId, promised: BTreeSet<MemberId> },
    /// A new view arrives.
    NewView { at: MemberId, from: MemberId, epoch: Epoch },
    /// The first missing message arrives from another member.
    Repair { at: MemberId, of: MemberId },
    /// Enough members have installed the view of this candidate.
    Begin { at: MemberId },
    /// A member hears that its view is current.
    Hear { at: MemberId },
    /// A sequencer sends a process that wants to join the state.
    SendState { by: MemberId, to: MemberId },
    /// It arrives.
    State { at: MemberId, epoch: Epoch, handled: Vec<Entry> },
    /// A member that diverged gets another one's state.
    Recover { at: MemberId, of: MemberId },
    /// A process crashes.
    Crash { at: MemberId },
    /// A process that is in the view no more ends.
    End { at: MemberId },
}

fn ids(views: &[View]) -> impl Iterator<Item = MemberId> + '_ {
    views.iter().flat_map(View::ids)
}

fn member(id: MemberId) -> Member {
    // Only the name of the first one counts, for the tie-break. Others need no memory.
    let name = if id.0 == 0 { "0".to_owned() } else { String::new() };
    Member { id, name, link: 0 }
}

/// The first message that a process lacks and another one holds.
fn repair(process: &Process, other: &Process) -> Option<(Number, Entry)> {
    let number = process.log.held();
    let is_wanted = process.ballot.pending().is_none_or(|new_view| number < base(&new_view.history));
    let entry = other.answer(number).filter(|_| is_wanted)?;
    Some((number, entry))
}

impl Group {
    /// The first moment: all members are in the first view.
    pub fn start(&self) -> World {
        let all = (0..self.members).map(MemberId);
        let tie_break = self.has_tie_break.then(|| member(MemberId(0)).name);
        let view = View {
            group: 1,
            epoch: Epoch(1),
            members: all.clone().map(member).collect(),
            sequencer: MemberId(0),
            tie_break,
        };
        let history = vec![(Epoch(1), 0)];
        let members = all.map(|id| Process::member(id, view.clone(), history.clone(), vec![]));
        let joiners = (self.members..self.members + self.joiners).map(|id| Process::joining(MemberId(id)));
        let current =
            Current { view: view.clone(), chain: vec![], history: history.clone(), log: vec![], is_after_crash: false };
        World {
            processes: members.chain(joiners).map(|process| Some(Arc::new(process))).collect(),
            sent: Arc::new(Sent::default()),
            past: Arc::new(Past { current: vec![current], ..Past::default() }),
            left: self.bounds,
        }
    }

    /// What may happen next.
    pub fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        self.messages(world, actions);
        self.candidacies(world, actions);
        self.changes(world, actions);
        self.states(world, actions);
        for (at, _) in world.running().filter(|_| world.left.crashes > 0) {
            actions.push(Action::Crash { at });
        }
    }

    fn messages(&self, world: &World, actions: &mut Vec<Action>) {
        for (id, process) in world.members() {
            let (ballot, at) = (&process.ballot, id);
            if process.leads(id) && world.left.messages > 0 {
                actions.extend([false, true].map(|is_safe| Action::Stamp { by: id, is_safe }));
            }
            let is_new = |(number, entry): &&(Number, Entry)| {
                let is_stale = entry.epoch != ballot.epoch() && self.bug != Some(Bug::StaleEpoch);
                ballot.is_open() && !is_stale && *number >= process.log.held() && process.log.get(*number).is_none()
            };
            for (number, entry) in world.sent.stamped.iter().filter(is_new) {
                actions.push(Action::Receive { at, number: *number, entry: *entry });
            }
            if self.next_delivery(world, id, process).is_some() {
                actions.push(Action::Deliver { at });
            }
            let epoch =
                ballot.pending().map(|new_view| new_view.view.epoch).or(ballot.is_open().then(|| ballot.epoch()));
            for (of, other) in world.members().filter(|(of, _)| *of != id && process.role == Role::Member) {
                if epoch.is_some_and(|epoch| other.has_log_of(epoch)) && repair(process, other).is_some() {
                    actions.push(Action::Repair { at, of });
                }
            }
        }
    }

    /// The next message for the program.
    fn next_delivery(&self, world: &World, id: MemberId, process: &Process) -> Option<Entry> {
        let (view, number) = (process.ballot.view(), process.delivered());
        if process.role != Role::Member || !process.ballot.is_open() || !view.has(id) {
            return None;
        }
        let entry = process.log.get(number).filter(|_| number < process.log.held())?;
        let is_decided = number < base(process.ballot.history()) || !entry.is_safe || self.bug == Some(Bug::SafeAtOnce);
        (is_decided || world.is_safe(view, number)).then_some(entry)
    }

    fn candidacies(&self, world: &World, actions: &mut Vec<Action>) {
        let highest = world.running().map(|(_, process)| process.ballot.promised()).max().unwrap_or_default();
        for (by, process) in world.members() {
            let ballot = &process.ballot;
            if process.may_propose(by, self.bug) && world.left.proposals > 0 {
                let epochs = BTreeSet::from([ballot.promised(), highest].map(|epoch| Epoch(epoch.0 + 1)));
                for epoch in epochs {
                    actions.push(Action::Propose { by, epoch, add: BTreeSet::new(), remove: None });
                }
                if process.leads(by) {
                    self.changed(world, by, process, actions);
                }
            }
            self.promises(world, by, process, actions);
        }
    }

    /// What a sequencer changes in the next view.
    fn changed(&self, world: &World, by: MemberId, process: &Process, actions: &mut Vec<Action>) {
        let view = process.ballot.view();
        let epoch = Epoch(process.ballot.promised().0 + 1);
        let follows = |id: &MemberId| world.sent.acked.contains_key(&(view.epoch, *id)) && !view.has(*id);
        let joiners = (self.members..self.members + self.joiners).map(MemberId);
        let ready: BTreeSet<MemberId> = joiners.filter(follows).collect();
        let removed = view.ids().filter(|id| *id != by && world.left.removals > 0).map(Some);
        for remove in removed.chain([None]) {
            for add in BTreeSet::from([ready.clone(), BTreeSet::new()]) {
                if !add.is_empty() || remove.is_some() {
                    actions.push(Action::Propose { by, epoch, add, remove });
                }
            }
        }
    }

    /// Candidacies that a member may follow, and what a candidate can do with its promises.
    fn promises(&self, world: &World, id: MemberId, process: &Process, actions: &mut Vec<Action>) {
        let ballot = &process.ballot;
        for ((epoch, to), asked) in &world.sent.proposed {
            let is_foreign = ballot.is_open() && !ballot.view().has(*to);
            if *to != id && asked.contains(&id) && !is_foreign && *epoch > ballot.promised() {
                actions.push(Action::Promise { at: id, to: *to, epoch: *epoch });
            }
        }
        if ballot.is_candidate() && ballot.pending().is_none() && ballot.epoch() < ballot.promised() {
            let to_me = world.sent.promises.keys().filter(|(_, to, _)| *to == id);
            let from: Vec<MemberId> = to_me.map(|(_, _, from)| *from).collect();
            for subset in 0..1_u32 << from.len() {
                let chosen =
                    from.iter().enumerate().filter(|(index, _)| subset & 1 << index != 0).map(|(_, from)| *from);
                actions.push(Action::Fix { by: id, promised: chosen.collect() });
            }
        }
    }

    fn changes(&self, world: &World, actions: &mut Vec<Action>) {
        for (at, process) in world.members() {
            let ballot = &process.ballot;
            for ((epoch, from), new_view) in &world.sent.new_views {
                let is_voter = ids(&new_view.chain).chain(new_view.view.ids()).any(|id| id == at);
                let is_current = world.past.current.iter().any(|current| current.view == new_view.view);
                let is_known = process.has_log_of(*epoch) && ballot.pending().is_some();
                if (is_voter || is_current && process.learns(at)) && !is_known && *epoch >= ballot.promised() {
                    actions.push(Action::NewView { at, from: *from, epoch: *epoch });
                }
            }
            if world.sent.installed.iter().any(|(_, to, _)| *to == at) {
                actions.push(Action::Begin { at });
            }
            let is_mine = |current: &Current| current.view == *ballot.view();
            if !ballot.is_open() && world.past.current.iter().any(is_mine) {
                actions.push(Action::Hear { at });
            }
            if self.may_end(world, at, process) {
                actions.push(Action::End { at });
            }
        }
    }

    /// Whether a member hears that a view is current in which it is not. It hears that only when a majority of the view knows it:
    /// until then others may need its promise.
    fn may_end(&self, world: &World, id: MemberId, process: &Process) -> bool {
        let knows = |current: &Current, id| {
            let of = world.process(id).map(|process| &process.ballot);
            of.is_some_and(|ballot| ballot.chain()[0].epoch >= current.view.epoch)
        };
        let is_over =
            |current: &&Current| self.bug == Some(Bug::EndsEarly) || current.view.is_majority(|id| knows(current, id));
        let ends = |current: &&Current| ids(&current.chain).any(|other| other == id) && !current.view.has(id);
        let from = process.ballot.epoch();
        let mut since = world.past.current.iter().filter(|current| current.view.epoch >= from);
        process.role != Role::Joining && since.any(|current| ends(&current) && is_over(&current))
    }

    fn states(&self, world: &World, actions: &mut Vec<Action>) {
        for (by, process) in world.running().filter(|(by, process)| process.leads(*by)) {
            let view = process.ballot.view();
            for (to, other) in world.running().filter(|(to, _)| to.0 >= self.members && !view.has(*to)) {
                let is_sent = world.sent.states.contains(&(to, view.epoch, process.handled.clone()));
                if (other.role == Role::Joining || other.learns(to)) && !is_sent {
                    actions.push(Action::SendState { by, to });
                }
            }
        }
        for (at, epoch, handled) in &world.sent.states {
            actions.push(Action::State { at: *at, epoch: *epoch, handled: handled.clone() });
        }
        for (at, process) in world.members() {
            let Some(pending) = process.ballot.pending() else { continue };
            let has_log = |other: &Process| other.role == Role::Member && other.has_log_of(pending.view.epoch);
            let others = || world.members().filter(|(of, other)| *of != at && has_log(other));
            let (held, is_short) = (process.log.held(), process.log.held() < base(&pending.history));
            let lacks = || is_short && !world.members().any(|(_, other)| other.answer(held).is_some());
            if matches!(process.role, Role::Diverged { .. }) || self.bug != Some(Bug::GapForEver) && lacks() {
                actions.extend(others().map(|(of, _)| Action::Recover { at, of }));
            }
        }
    }

    /// The moment after.
    pub fn after(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Stamp { by, is_safe } => self.stamp(&mut world, by, is_safe),
            Action::Receive { at, number, entry } => {
                world.process_mut(at).log.insert(number, entry);
                world.acknowledge(at);
            }
            Action::Deliver { at } => self.deliver(&mut world, at)?,
            Action::Propose { by, epoch, add, remove } => self.propose(&mut world, by, epoch, &add, remove),
            Action::Promise { at, to, epoch } => {
                let promise = world.process_mut(at).promise(epoch, self.bug)?;
                let sent = Arc::make_mut(&mut world.sent);
                // The candidate asks the members of the views that it hears of, too.
                let asked = sent.proposed.get_mut(&(epoch, to))?;
                asked.extend(ids(&promise.chain).filter(|id| *id != to));
                sent.promises.insert((epoch, to, at), promise);
            }
            Action::Fix { by, promised } => self.fix(&mut world, by, &promised)?,
            Action::NewView { at, from, epoch } => self.new_view(&mut world, at, from, epoch)?,
            Action::Repair { at, of } => {
                let (number, entry) = repair(world.process(at)?, world.process(of)?)?;
                world.process_mut(at).log.insert(number, entry);
                match world.process(at)?.ballot.pending().is_some() {
                    true => self.install(&mut world, at),
                    false => world.acknowledge(at),
                }
            }
            Action::Begin { at } => self.begin(&mut world, at)?,
            Action::Hear { at } => {
                let epoch = world.process(at)?.ballot.epoch();
                let is_new = world.process_mut(at).ballot.on_current(epoch);
                is_new.then(|| world.acknowledge(at))?;
            }
            Action::SendState { by, to } => {
                let process = before.process(by)?;
                let state = (to, process.ballot.epoch(), process.handled.clone());
                Arc::make_mut(&mut world.sent).states.insert(state);
            }
            Action::State { at, epoch, handled } => self.state(&mut world, at, epoch, handled)?,
            Action::Recover { at, of } => {
                let handled = world.process(of)?.handled.clone();
                let is_installed = world.process_mut(at).go_on_with(handled, self.bug);
                self.say_installed(&mut world, at, is_installed);
            }
            Action::Crash { at } => {
                world.processes[at.0 as usize] = None;
                Arc::make_mut(&mut world.past).crashed.insert(at);
                world.left.crashes -= 1;
            }
            Action::End { at } => world.processes[at.0 as usize] = None,
        }
        world.forget();
        (world != *before).then_some(world)
    }

    fn stamp(&self, world: &mut World, by: MemberId, is_safe: bool) {
        let process = world.process_mut(by);
        let (number, epoch) = (process.log.end().max(process.log.held()), process.ballot.epoch());
        let entry = Entry { epoch, by, is_safe };
        process.log.insert(number, entry);
        Arc::make_mut(&mut world.sent).stamped.insert((number, entry));
        world.acknowledge(by);
        world.left.messages -= 1;
    }

    fn deliver(&self, world: &mut World, at: MemberId) -> Option<()> {
        let process = world.process(at)?;
        let (epoch, number) = (process.ballot.epoch(), process.delivered());
        let entry = self.next_delivery(world, at, process)?;
        world.process_mut(at).handled.push(entry);
        if entry.is_safe {
            Arc::make_mut(&mut world.past).safe.insert((epoch, number, entry));
        }
        Some(())
    }

    fn propose(
        &self,
        world: &mut World,
        by: MemberId,
        epoch: Epoch,
        add: &BTreeSet<MemberId>,
        remove: Option<MemberId>,
    ) {
        world.left.proposals -= 1;
        world.left.removals -= u8::from(remove.is_some());
        let process = world.process_mut(by);
        process.converge();
        let own = process.own_promise(self.bug);
        let changes = Changes { add: add.iter().copied().map(member).collect(), remove: remove.into_iter().collect() };
        process.ballot.propose(Epoch(epoch.0 - 1), own, changes);
        let mut voters = process.ballot.voters();
        voters.remove(&by);
        Arc::make_mut(&mut world.sent).proposed.insert((epoch, by), voters);
    }

    fn fix(&self, world: &mut World, by: MemberId, promised: &BTreeSet<MemberId>) -> Option<()> {
        let process = world.process(by)?;
        let epoch = process.ballot.promised();
        let own = process.own_promise(self.bug);
        let of = |from: &MemberId| world.sent.promises.get(&(epoch, by, *from)).map(|promise| (*from, promise.clone()));
        let mut promises: Vec<(MemberId, Promise)> =
            promised.iter().filter_map(of).chain([(by, own.clone())]).collect();
        bug::spoil(self.bug, &own, &mut promises);
        let ballot = &mut world.process_mut(by).ballot;
        promises.into_iter().for_each(|(from, promise)| ballot.on_promise(from, epoch, promise));
        let new_view = ballot.fix()?;
        Arc::make_mut(&mut world.sent).new_views.insert((epoch, by), new_view);
        self.new_view(world, by, by, epoch)
    }

    fn new_view(&self, world: &mut World, at: MemberId, from: MemberId, epoch: Epoch) -> Option<()> {
        let new_view = world.sent.new_views.get(&(epoch, from))?.clone();
        let is_installed = world.process_mut(at).on_new_view(&new_view, self.bug);
        if is_installed {
            Arc::make_mut(&mut world.sent).installed.insert((epoch, from, at));
        }
        Some(())
    }

    fn install(&self, world: &mut World, at: MemberId) {
        let is_installed = world.process_mut(at).install(self.bug);
        self.say_installed(world, at, is_installed);
    }

    fn say_installed(&self, world: &mut World, at: MemberId, is_installed: bool) {
        if is_installed {
            let view = world.process(at).expect("it runs").ballot.view();
            let (epoch, to) = (view.epoch, view.sequencer);
            Arc::make_mut(&mut world.sent).installed.insert((epoch, to, at));
        }
    }

    fn begin(&self, world: &mut World, at: MemberId) -> Option<()> {
        let installed: Vec<_> = world.sent.installed.iter().filter(|(_, to, _)| *to == at).copied().collect();
        let ballot = &mut world.process_mut(at).ballot;
        let mut results = installed.iter().map(|(epoch, _, from)| ballot.on_installed(*from, *epoch));
        // A member counts itself when it installs its view, so the order makes no difference.
        if !results.any(|is_current| is_current) {
            return None;
        }
        world.begins(at);
        Some(())
    }

    fn state(&self, world: &mut World, at: MemberId, epoch: Epoch, handled: Vec<Entry>) -> Option<()> {
        let process = world.process(at)?;
        let current = world.past.current.iter().find(|current| current.view.epoch == epoch)?;
        let (view, history) = (current.view.clone(), current.history.clone());
        let is_earlier = self.bug != Some(Bug::EarlierState) && epoch < process.ballot.promised();
        let is_older = handled.len() as Number <= process.log.held() || is_earlier;
        let is_wanted = process.role == Role::Joining || process.learns(at) && !is_older;
        if !is_wanted {
            return None;
        }
        *world.process_mut(at) = Process::member(at, view, history, handled);
        world.acknowledge(at);
        Some(())
    }
}
