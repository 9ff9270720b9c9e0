//! The objects that a process has: where each is, its writes, and the calls that wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use am_rpc::codec::{from_bytes, to_vec};

use crate::ask::{Answer, Caller, Fate, Reply, Sent};
use crate::calls::Calls;
use crate::command::{Given, NewObject, SavedCall, Snapshot, VERSION};
use crate::digest::Digests;
use crate::entry::Entry;
use crate::error::CallError;
#[cfg(test)]
use crate::mutants;
use crate::object::Object;
use crate::placement::{Home, Wanted};
use crate::replica::{self, Type};
use crate::slot::Outcome;

/// An object, and its number.
pub(crate) type Found<T> = (u64, Arc<replica::Replica<T>>);

/// The objects of a space, as this process has them.
pub(crate) struct Objects {
    types: Vec<Type>,
    pub(crate) all: BTreeMap<u64, Entry>,
    /// The next object's number.
    next: u64,
    /// Messages that were delivered.
    pub(crate) position: u64,
    /// Who waits for the results of operations on objects that are kept here.
    pub(crate) replies: BTreeMap<Caller, Reply>,
    /// Own calls that have not run, because their objects have moved.
    pub(crate) back: Vec<(u64, Sent)>,
    /// Objects that are kept here, and are to be elsewhere.
    pub(crate) leaving: Vec<u64>,
    /// Objects were lost: calls that wait for them end.
    pub(crate) has_lost: bool,
    pub(crate) calls: Rc<RefCell<Calls>>,
    /// This process. Known once the group is open.
    pub(crate) me: Rc<Cell<u64>>,
    /// Calls may wait of processes that are gone, or objects be kept there.
    pub(crate) has_changed: Cell<bool>,
    /// This process does not have what the others have, and why.
    pub(crate) failed: Option<CallError>,
    /// Digests that the others have not got yet, if this process is the one that tells them: object, writes, digest.
    pub(crate) digests: RefCell<Vec<(u64, u64, u64)>>,
    /// Writes of objects that are kept here, for a history: position, object, operation, arguments.
    #[cfg(test)]
    pub(crate) ran: Vec<(u64, u64, u16, Vec<u8>)>,
}

impl Objects {
    pub(crate) fn new(types: Vec<Type>, calls: Calls) -> Objects {
        Objects {
            types,
            all: BTreeMap::new(),
            next: 0,
            position: 0,
            replies: BTreeMap::new(),
            back: vec![],
            leaving: vec![],
            has_lost: false,
            calls: Rc::new(RefCell::new(calls)),
            me: Rc::default(),
            has_changed: Cell::new(false),
            failed: None,
            digests: RefCell::default(),
            #[cfg(test)]
            ran: vec![],
        }
    }

    /// The object of this name.
    pub(crate) fn find<T: Object>(&self, name: &str) -> Option<Result<Found<T>, CallError>> {
        let (id, entry) = self.all.iter().find(|(_, entry)| entry.name == name)?;
        let replica = entry.replica.clone().into_any().downcast();
        Some(replica.map(|replica| (*id, replica)).map_err(|_| CallError::TypeDiffers))
    }

    /// Where an object is. One that was lost is forgotten once there is another one of its name.
    pub(crate) fn home(&self, object: u64) -> Home {
        self.all.get(&object).map_or(Home::Lost, |entry| entry.home)
    }

    /// The objects that this process keeps.
    pub(crate) fn kept(&self) -> Vec<u64> {
        let is_here = |(id, entry): (&u64, &Entry)| entry.home.is_at(self.me.get()).then_some(*id);
        self.all.iter().filter_map(is_here).collect()
    }

    /// How often this process has used an object since it was asked last.
    pub(crate) fn uses(&self, object: u64) -> Option<(u32, u32)> {
        self.all.get(&object).map(|entry| entry.replica.uses().take())
    }

    /// The type of this name, if the program has that version of it.
    fn known(&self, of: &str, schema: u64) -> Option<&Type> {
        self.types.iter().find(|known| known.name == of && known.schema == schema)
    }

    pub(crate) fn create(&mut self, process: u64, new: &NewObject<'_>) -> Outcome {
        let NewObject { name, of, schema, state, to } = *new;
        if let Some((id, entry)) = self.all.iter().find(|(_, entry)| entry.name == name)
            && entry.home != Home::Lost
        {
            let is_same = entry.of == of && entry.schema == schema;
            return if is_same { Ok(id.to_le_bytes().into()) } else { Err(CallError::TypeDiffers) };
        }
        let Some(known) = self.known(of, schema) else {
            self.failed = Some(CallError::TypeUnknown);
            return Err(CallError::TypeUnknown);
        };
        let replica = (known.open)(state).ok_or(CallError::Malformed)?;
        let entry = Entry { home: self.home_of(to, process), ..Entry::new(name, known, replica, state.len()) };
        let id = self.next;
        self.next += 1;
        // One of this name that is lost goes. Calls of it that wait are to hear of it.
        self.all.retain(|_, entry| entry.name != name);
        self.all.insert(id, entry);
        self.has_moved(id);
        if to == Wanted::AsUsed {
            self.follow_use(id);
        }
        Ok(id.to_le_bytes().into())
    }

    /// A write has its place in the order. It runs, or waits for its guard.
    pub(crate) fn write(&mut self, object: u64, caller: Caller, operation: u16, arguments: &[u8]) {
        match self.all.get(&object) {
            Some(entry) if entry.home == Home::Everywhere => self.run_or_wait(object, caller, operation, arguments),
            // It runs nowhere. Its caller asks the process that keeps the object.
            Some(_) => {
                let Caller { process, call } = caller;
                self.send_back(object, SavedCall { caller: process, call, operation, arguments: arguments.into() });
            }
            None => self.end(caller, Err(CallError::Lost)),
        }
    }

    pub(crate) fn run_or_wait(&mut self, object: u64, caller: Caller, operation: u16, arguments: &[u8]) {
        let Some(entry) = self.all.get_mut(&object) else { return };
        match entry.replica.may_run(usize::from(operation), arguments) {
            Ok(false) => {
                let Caller { process, call } = caller;
                return entry.waiting.push(SavedCall { caller: process, call, operation, arguments: arguments.into() });
            }
            Ok(true) => self.run(object, caller, operation, arguments),
            Err(why) => return self.end(caller, Err(why)),
        }
        self.run_waiting(object);
    }

    fn run(&mut self, object: u64, caller: Caller, operation: u16, arguments: &[u8]) {
        let Some(entry) = self.all.get_mut(&object) else { return };
        let is_everywhere = entry.home == Home::Everywhere;
        let wants_result = !is_everywhere || caller.process == self.me.get();
        #[cfg(test)]
        if !is_everywhere {
            self.ran.push((self.position, object, operation, arguments.into()));
        }
        let result = entry.replica.run(usize::from(operation), arguments, wants_result);
        entry.writes += 1;
        if is_everywhere && entry.digests.are_due(entry.writes) {
            let digest = entry.digests.add(entry.writes, &entry.replica.canonical());
            self.digests.borrow_mut().push((object, entry.writes, digest));
        }
        self.end(caller, result.map(Option::unwrap_or_default));
    }

    /// After each write the others are tried again, the earliest first.
    fn run_waiting(&mut self, object: u64) {
        #[cfg(test)]
        if mutants::is_active(mutants::Mutant::NotTriedAgain) {
            return;
        }
        while let Some(entry) = self.all.get_mut(&object)
            && let Some((call, may_run)) = entry.waiting.take_next(&*entry.replica)
        {
            let caller = Caller { process: call.caller, call: call.call };
            match may_run {
                Ok(()) => self.run(object, caller, call.operation, &call.arguments),
                Err(why) => self.end(caller, Err(why)),
            }
        }
    }

    pub(crate) fn end(&mut self, caller: Caller, outcome: Outcome) {
        if let Some(reply) = self.replies.remove(&caller) {
            reply(Answer { at: self.position, fate: Fate::of(outcome) });
        } else if caller.process == self.me.get() {
            self.calls.borrow_mut().end(caller.call, outcome);
        }
    }

    /// Returns whether there were any.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&SavedCall) -> bool) -> bool {
        let mut had_some = false;
        for entry in self.all.values_mut().filter(|entry| !entry.waiting.is_empty()) {
            entry.waiting.retain(|call| {
                had_some |= is_gone(call);
                !is_gone(call)
            });
        }
        had_some
    }

    /// The home that a message makes. No other message has this number and this sender.
    fn home_of(&self, to: Wanted, sender: u64) -> Home {
        match to {
            Wanted::At(process) => Home::At { process, epoch: sender.rotate_left(32) ^ self.position },
            Wanted::Everywhere | Wanted::AsUsed => Home::Everywhere,
        }
    }

    pub(crate) fn follow_use(&mut self, object: u64) {
        if let Some(entry) = self.all.get_mut(&object) {
            entry.usage.get_or_insert_default();
            entry.replica.uses().count(true);
        }
    }

    /// A program wants an object elsewhere.
    pub(crate) fn place(&mut self, object: u64, placer: Caller, to: Wanted) {
        match self.all.get_mut(&object) {
            Some(_) if to == Wanted::AsUsed => {
                self.follow_use(object);
                self.end(placer, Ok(vec![]));
            }
            Some(entry) => {
                entry.usage = None;
                entry.replica.uses().count(false);
                entry.placers.push(placer);
                self.move_to(object, to, placer.process);
            }
            None => self.end(placer, Err(CallError::Lost)),
        }
    }

    /// From a copy everywhere to one at one process an object moves at once: its copy is there. Otherwise the process that keeps it has to
    /// send its value.
    fn move_to(&mut self, object: u64, to: Wanted, sender: u64) {
        let home = self.home_of(to, sender);
        let Some(entry) = self.all.get_mut(&object) else { return };
        match entry.home {
            Home::Everywhere if home != Home::Everywhere => {
                entry.home = home;
                self.has_moved(object);
                self.has_arrived(object, &Ok(vec![]));
            }
            Home::Everywhere => self.has_arrived(object, &Ok(vec![])),
            Home::At { process, .. } if entry.wanted.is_none() && to == Wanted::At(process) => {
                self.has_arrived(object, &Ok(vec![]));
            }
            Home::At { process, .. } => {
                entry.wanted = Some(to);
                if process == self.me.get() {
                    self.leaving.push(object);
                }
            }
            Home::Lost => self.has_arrived(object, &Err(CallError::Lost)),
        }
    }

    /// An object is elsewhere from here on. Writes that wait for their guards go back to their callers, which ask there.
    fn has_moved(&mut self, object: u64) {
        let Some(entry) = self.all.get_mut(&object) else { return };
        #[cfg(test)]
        if mutants::is_active(mutants::Mutant::TwoPlacements) && !entry.home.is_at(self.me.get()) {
            entry.home = Home::Everywhere;
        }
        entry.replica.place(entry.home.has_copy(self.me.get()));
        self.has_changed.set(true);
        let waiting = std::mem::take(&mut entry.waiting).all();
        waiting.into_iter().for_each(|call| self.send_back(object, call));
    }

    pub(crate) fn send_back(
        &mut self,
        object: u64,
        SavedCall { caller: process, call, operation, arguments }: SavedCall,
    ) {
        if let Some(reply) = self.replies.remove(&Caller { process, call }) {
            reply(Answer { at: self.position, fate: Fate::Moved });
        } else if process == self.me.get() {
            self.back.push((call, self.sent(object, operation, arguments)));
        }
    }

    /// A write as its caller has made it.
    pub(crate) fn sent(&self, object: u64, operation: u16, arguments: Vec<u8>) -> Sent {
        let replica = self.all.get(&object).map(|entry| &entry.replica);
        let known = replica.and_then(|replica| replica.operation(usize::from(operation)));
        let may_wait = known.is_some_and(|known| known.has_guard);
        Sent { object, is_read: false, may_wait, operation, arguments }
    }

    /// A read of a copy that is here.
    pub(crate) fn read_here(&self, sent: &Sent) -> Outcome {
        let entry = self.all.get(&sent.object).ok_or(CallError::Malformed)?;
        entry.replica.read(usize::from(sent.operation), &sent.arguments)
    }

    /// An object is where it is wanted, or never will be.
    fn has_arrived(&mut self, object: u64, outcome: &Outcome) {
        let Some(entry) = self.all.get_mut(&object) else { return };
        entry.wanted = None;
        let placers = std::mem::take(&mut entry.placers);
        placers.into_iter().for_each(|placer| self.end(placer, outcome.clone()));
    }

    /// The process that kept an object has given it away.
    pub(crate) fn take_in(&mut self, object: u64, sender: u64, given: &Given<'_>) {
        let Given { epoch, to, writes, is_poisoned, state } = *given;
        let (home, next) = (Home::At { process: sender, epoch }, self.home_of(to, sender));
        // A second message of it changes nothing.
        let Some(entry) = self.all.get_mut(&object).filter(|entry| entry.home == home) else { return };
        entry.is_leaving = false;
        let Some(state) = state else { return self.has_arrived(object, &Err(CallError::NotMoved)) };
        if sender != self.me.get() && !entry.replica.restore(state, is_poisoned) {
            self.failed = Some(CallError::Malformed);
            return;
        }
        (entry.writes, entry.digests, entry.home) = (writes, Digests::of(state.len()), next);
        let wanted = entry.wanted.take().filter(|wanted| *wanted != to);
        self.has_moved(object);
        match wanted {
            Some(wanted) => self.move_to(object, wanted, sender),
            None => self.has_arrived(object, &Ok(vec![])),
        }
    }

    /// These processes are gone, and the objects that they kept.
    pub(crate) fn lose(&mut self, members: &[u64]) {
        let is_gone = |entry: &Entry| members.iter().any(|member| entry.home.is_at(*member));
        let lost: Vec<u64> = self.all.iter().filter(|(_, entry)| is_gone(entry)).map(|(id, _)| *id).collect();
        for object in lost {
            let Some(entry) = self.all.get_mut(&object) else { continue };
            (entry.home, entry.usage) = (Home::Lost, None);
            entry.replica.place(false);
            self.has_lost = true;
            self.has_arrived(object, &Err(CallError::Lost));
        }
        let is_gone = |caller: &&Caller| members.contains(&caller.process);
        for caller in self.replies.keys().filter(is_gone).copied().collect::<Vec<_>>() {
            self.end(caller, Err(CallError::NotRun));
        }
    }

    /// Give an object away that is kept here and is wanted elsewhere. From now on nothing is done with it here, until all have heard of it.
    pub(crate) fn give<R>(&mut self, object: u64, give: impl FnOnce(Given<'_>) -> R) -> Option<R> {
        let me = self.me.get();
        let entry = self.all.get_mut(&object).filter(|entry| entry.home.is_at(me))?;
        let (Home::At { epoch, .. }, Some(to)) = (entry.home, entry.wanted) else { return None };
        entry.is_leaving = true;
        let (is_poisoned, state) = (entry.replica.is_poisoned(), entry.replica.save());
        Some(give(Given { epoch, to, writes: entry.writes, is_poisoned, state: Some(&state) }))
    }

    fn snapshot(&self) -> Snapshot {
        let objects = self.all.iter().map(|(id, entry)| entry.saved(*id)).collect();
        Snapshot { version: VERSION, position: self.position, next: self.next, objects }
    }

    /// The objects of another process. Those that this one has already keep their places in memory: the program points to them. What this process
    /// keeps it knows best.
    fn go_on_with(&mut self, snapshot: Snapshot) -> Result<(), CallError> {
        (self.next, self.position) = (snapshot.next, snapshot.position);
        let (mut old, me) = (std::mem::take(&mut self.all), self.me.get());
        for saved in snapshot.objects {
            let (id, known) = (saved.id, self.known(&saved.of, saved.schema).copied().ok_or(CallError::TypeUnknown)?);
            let had = old.remove(&id).filter(|entry| entry.of == saved.of && entry.schema == saved.schema);
            let entry = match had {
                Some(entry) if entry.home == saved.home && entry.home.is_at(me) => {
                    if saved.wanted.is_some() {
                        self.leaving.push(id);
                    }
                    Entry { wanted: saved.wanted, usage: saved.usage, ..entry }
                }
                had => {
                    let (replica, waiting) = match had {
                        Some(entry) => (entry.replica, if entry.home.is_at(me) { entry.waiting.all() } else { vec![] }),
                        None => ((known.open)(&saved.state).ok_or(CallError::Malformed)?, vec![]),
                    };
                    waiting.into_iter().for_each(|call| self.send_back(id, call));
                    Entry::of(saved, known.name, replica).ok_or(CallError::Malformed)?
                }
            };
            entry.replica.place(entry.home.has_copy(me));
            entry.replica.uses().count(entry.usage.is_some());
            self.all.insert(id, entry);
        }
        // Some may be lost, or gone.
        self.has_lost = true;
        for (id, entry) in old.into_iter().filter(|(_, entry)| entry.home.is_at(me)) {
            entry.replica.place(false);
            entry.waiting.all().into_iter().for_each(|call| self.send_back(id, call));
        }
        Ok(())
    }

    /// An object that is lost.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.all.values().find(|entry| entry.home == Home::Lost).map(|entry| &*entry.name)
    }

    /// An object whose value another process has.
    pub(crate) fn kept_elsewhere(&self) -> Option<&str> {
        let is_elsewhere = |entry: &&Entry| entry.home != Home::Lost && !entry.home.has_copy(self.me.get());
        self.all.values().find(is_elsewhere).map(|entry| &*entry.name)
    }

    /// All objects, for a process that joins.
    pub(crate) fn state(&self) -> Vec<u8> {
        to_vec(&self.snapshot()).unwrap_or_default()
    }

    /// Begin with objects that were saved. Nobody waits for the calls that waited then.
    pub(crate) fn begin_with(&mut self, state: &[u8]) -> Result<(), CallError> {
        self.read(state)?;
        self.position = 0;
        self.all.retain(|_, entry| entry.home != Home::Lost);
        for entry in self.all.values_mut() {
            (entry.home, entry.wanted) = (Home::Everywhere, None);
            entry.replica.place(true);
        }
        self.forget(|_| true);
        Ok(())
    }

    fn read(&mut self, state: &[u8]) -> Result<(), CallError> {
        let snapshot = from_bytes::<Snapshot>(state).map_err(|_| CallError::Malformed)?;
        if snapshot.version != VERSION {
            return Err(CallError::Malformed);
        }
        self.go_on_with(snapshot)
    }

    /// Go on with the state of another process.
    pub(crate) fn take_over(&mut self, state: &[u8]) {
        self.failed = self.read(state).err();
        let me = self.me.get();
        let waiting: BTreeSet<u64> = self
            .all
            .values()
            .flat_map(|entry| entry.waiting.all())
            .filter(|call| call.caller == me)
            .map(|call| call.call)
            .collect();
        self.calls.borrow_mut().keep_waiting(|call| waiting.contains(&call));
    }

    /// A message came back that may have given an object away.
    pub(crate) fn give_again(&mut self) {
        self.leaving.extend(self.all.iter().filter(|(_, entry)| entry.is_leaving).map(|(id, _)| *id));
    }

    /// This often a process has used an object.
    pub(crate) fn used(&mut self, object: u64, process: u64, (reads, writes): (u32, u32)) {
        let entry = self.all.get_mut(&object).filter(|entry| entry.wanted.is_none());
        let verdict = entry.and_then(|entry| entry.usage.as_mut()?.report(process, reads, writes, entry.home));
        verdict.into_iter().for_each(|to| self.move_to(object, to, process));
    }
}
