//! The objects that a process has: where each is, its writes, and the calls that wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use am_rpc::codec::{from_bytes, to_vec};

use crate::ask::{Answer, Caller, Fate, Reply, Sent};
use crate::calls::Calls;
use crate::command::{Command, Given, Listed, NewObject, SavedCall, SavedObject, Snapshot, VERSION};
use crate::digest::Digests;
use crate::entry::Entry;
use crate::error::CallError;
#[cfg(test)]
use crate::mutants;
use crate::object::{Object, schema_of};
use crate::placement::{Home, Wanted};
use crate::replica::{self, AnyReplica, Type};
use crate::slot::Outcome;

/// An object, and its number.
pub(crate) type Found<T> = (u64, Arc<replica::Replica<T>>);

/// The objects of a space, as this process has them.
pub(crate) struct Objects {
    types: Rc<[Type]>,
    pub(crate) all: BTreeMap<u64, Entry>,
    /// The next object's number.
    pub(crate) next: u64,
    /// Messages that were carried out.
    pub(crate) position: u64,
    /// Where the results of operations on objects that are kept here go, by their callers.
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

/// No process has this number.
const NOBODY: u64 = u64::MAX;

impl Objects {
    pub(crate) fn new(types: Vec<Type>, calls: Calls) -> Objects {
        Objects::of(types.into(), Rc::new(RefCell::new(calls)))
    }

    /// For the objects of another process, until all of them are here. It keeps none of them, and no call ends.
    pub(crate) fn aside(&self) -> Objects {
        Objects { me: Rc::new(Cell::new(NOBODY)), ..Objects::of(self.types.clone(), self.calls.clone()) }
    }

    fn of(types: Rc<[Type]>, calls: Rc<RefCell<Calls>>) -> Objects {
        Objects {
            types,
            all: BTreeMap::new(),
            next: 0,
            position: 0,
            replies: BTreeMap::new(),
            back: vec![],
            leaving: vec![],
            has_lost: false,
            calls,
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
        let replica = entry.replica.clone()?.into_any().downcast();
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
        Some(self.all.get(&object)?.replica.as_ref()?.uses().take())
    }

    /// Tell the last digest of each object. The old sequencer may have crashed before it sent them.
    pub(crate) fn tell_digests_again(&self) {
        let last =
            |(object, entry): (&u64, &Entry)| entry.digests.last().map(|(writes, digest)| (*object, writes, digest));
        self.digests.borrow_mut().extend(self.all.iter().filter_map(last));
    }

    pub(crate) fn knows<T: Object>(&self) -> bool {
        self.known(T::NAME, schema_of::<T>()).is_some()
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
        let replica = (known.open)(state, false).ok_or(CallError::Malformed)?;
        let entry = Entry { home: self.home_of(to, process), ..Entry::new(name, known, Some(replica), state.len()) };
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
        // A value that has not come yet comes with the effect of this write.
        let Some(replica) = &entry.replica else { return };
        match replica.may_run(usize::from(operation), arguments) {
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
        let Some(replica) = &entry.replica else { return };
        let is_everywhere = entry.home == Home::Everywhere;
        let wants_result = !is_everywhere || caller.process == self.me.get();
        #[cfg(test)]
        if !is_everywhere {
            self.ran.push((self.position, object, operation, arguments.into()));
        }
        let result = replica.run(usize::from(operation), arguments, wants_result);
        entry.writes += 1;
        if is_everywhere && entry.digests.are_due(entry.writes) {
            // A value that cannot be written has none, at every process alike.
            if let Ok(value) = replica.canonical() {
                let digest = entry.digests.add(entry.writes, &value);
                self.digests.borrow_mut().push((object, entry.writes, digest));
            }
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
            && let Some(replica) = &entry.replica
            && let Some((call, may_run)) = entry.waiting.take_next(&**replica)
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

    /// An own command has its place in the order.
    pub(crate) fn placed(&self, command: &Command<'_>) {
        command.call().into_iter().for_each(|call| self.calls.borrow_mut().placed(call));
    }

    /// The caller does not wait for this call any more. Returns whether it waited.
    pub(crate) fn forget_call(&mut self, caller: Caller) -> bool {
        self.all.values_mut().any(|entry| entry.waiting.remove(caller))
    }

    pub(crate) fn forget(&mut self, is_gone: impl Fn(&SavedCall) -> bool) {
        for entry in self.all.values_mut().filter(|entry| !entry.waiting.is_empty()) {
            entry.waiting.retain(|call| !is_gone(call));
        }
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
            entry.count();
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
                entry.count();
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
        entry.place(self.me.get());
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
        let replica = self.all.get(&object).and_then(|entry| entry.replica.as_ref());
        let known = replica.and_then(|replica| replica.operation(usize::from(operation)));
        let may_wait = known.is_some_and(|known| known.has_guard);
        Sent { object, is_read: false, may_wait, operation, arguments }
    }

    /// A read of a copy that is here.
    pub(crate) fn read_here(&self, sent: &Sent) -> Outcome {
        let replica = self.all.get(&sent.object).and_then(|entry| entry.replica.as_ref());
        replica.ok_or(CallError::Malformed)?.read(usize::from(sent.operation), &sent.arguments)
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
        let is_value = |replica: &Arc<dyn AnyReplica>| replica.restore(state, is_poisoned);
        if sender != self.me.get() && !entry.replica.as_ref().is_none_or(is_value) {
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
            entry.place(self.me.get());
            self.has_lost = true;
            self.has_arrived(object, &Err(CallError::Lost));
        }
    }

    /// What others than these wait for at an object that is kept here is forgotten.
    pub(crate) fn forget_callers(&mut self, but: &BTreeSet<u64>) {
        let me = self.me.get();
        for entry in self.all.values_mut().filter(|entry| entry.home.is_at(me)) {
            entry.waiting.retain(|call| but.contains(&call.caller));
        }
        let gone: Vec<Caller> = self.replies.keys().filter(|caller| !but.contains(&caller.process)).copied().collect();
        gone.into_iter().for_each(|caller| self.end(caller, Err(CallError::NotRun)));
    }

    /// Give an object away that is kept here and is wanted elsewhere. From now on nothing is done with it here, until all have heard of it.
    pub(crate) fn give<R>(&mut self, object: u64, give: impl FnOnce(Given<'_>) -> R) -> Option<R> {
        let me = self.me.get();
        let entry = self.all.get_mut(&object).filter(|entry| entry.home.is_at(me))?;
        let (Home::At { epoch, .. }, Some(to)) = (entry.home, entry.wanted) else { return None };
        let replica = entry.replica.clone()?;
        entry.is_leaving = true;
        let (is_poisoned, state) = (replica.is_poisoned(), replica.save().ok());
        Some(give(Given { epoch, to, writes: entry.writes, is_poisoned, state: state.as_deref() }))
    }

    fn snapshot(&self) -> Result<Snapshot, CallError> {
        let saved = |(id, entry): (&u64, &Entry)| {
            let state = entry.replica.as_ref().map(|replica| replica.save()).transpose()?;
            Ok(entry.saved(*id, state.unwrap_or_default()))
        };
        let objects = self.all.iter().map(saved).collect::<Result<_, CallError>>()?;
        Ok(Snapshot { version: VERSION, position: self.position, next: self.next, objects })
    }

    /// Those of another process are these.
    pub(crate) fn list(&mut self, position: u64, next: u64, all: Vec<Listed>) -> Result<(), CallError> {
        (self.position, self.next) = (position, next);
        for listed in all {
            let known = self.known(&listed.of, listed.schema).ok_or(CallError::TypeUnknown)?;
            let (id, entry) = (listed.id, Entry::absent(listed, known));
            self.all.insert(id, entry);
        }
        Ok(())
    }

    /// An object of another process is here, with its value.
    pub(crate) fn insert(&mut self, saved: SavedObject) -> Result<(), CallError> {
        let Listed { id, of, schema, .. } = &saved.listed;
        let (id, known) = (*id, self.known(of, *schema).ok_or(CallError::TypeUnknown)?);
        let entry = Entry::of(saved, known).ok_or(CallError::Malformed)?;
        entry.place(self.me.get());
        self.all.insert(id, entry);
        Ok(())
    }

    /// Go on with the objects of another process. Those that this one has already keep their places in memory: the program points to them.
    /// What this process keeps it knows best.
    pub(crate) fn go_on_as(&mut self, coming: Objects) -> Result<(), CallError> {
        // Nobody has the value of one that is lost.
        let all = coming.all.into_iter().filter(|(_, entry)| entry.replica.is_some() || entry.home != Home::Lost);
        let all: BTreeMap<u64, Entry> = all.collect();
        if let Some(why) = coming.failed {
            return Err(why);
        }
        if all.values().any(|entry| entry.replica.is_none()) {
            return Err(CallError::Malformed);
        }
        (self.next, self.position) = (coming.next, coming.position);
        let (mut old, me, mut back) = (std::mem::take(&mut self.all), self.me.get(), vec![]);
        for (id, coming) in all {
            let entry = match old.remove(&id) {
                Some(had) if had.home == coming.home && had.home.is_at(me) => {
                    if coming.wanted.is_some() {
                        self.leaving.push(id);
                    }
                    Entry { wanted: coming.wanted, usage: coming.usage, ..had }
                }
                Some(had) => {
                    if had.home.is_at(me) {
                        back.extend(had.waiting.all().into_iter().map(|call| (id, call)));
                    }
                    coming.in_place_of(had)
                }
                None => coming,
            };
            let entry = Entry { placers: vec![], ..entry };
            entry.place(me);
            entry.count();
            self.all.insert(id, entry);
        }
        // Some may be lost, or gone.
        self.has_lost = true;
        for (id, had) in old.into_iter().filter(|(_, had)| had.home.is_at(me)) {
            had.replica.iter().for_each(|replica| replica.place(false));
            back.extend(had.waiting.all().into_iter().map(|call| (id, call)));
        }
        back.into_iter().for_each(|(id, call)| self.send_back(id, call));
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
    pub(crate) fn state(&self) -> Result<Vec<u8>, CallError> {
        to_vec(&self.snapshot()?).map_err(|_| CallError::Malformed)
    }

    /// Begin with objects that were saved. Nobody waits for the calls that waited then.
    pub(crate) fn begin_with(&mut self, state: &[u8]) -> Result<(), CallError> {
        self.read(state)?;
        self.position = 0;
        self.all.retain(|_, entry| entry.home != Home::Lost);
        for entry in self.all.values_mut() {
            (entry.home, entry.wanted) = (Home::Everywhere, None);
            entry.place(self.me.get());
        }
        self.forget(|_| true);
        Ok(())
    }

    /// Go on with the whole state of another process.
    pub(crate) fn read(&mut self, state: &[u8]) -> Result<(), CallError> {
        let snapshot = from_bytes::<Snapshot>(state).map_err(|_| CallError::Malformed)?;
        if snapshot.version != VERSION {
            return Err(CallError::Malformed);
        }
        let mut coming = self.aside();
        (coming.next, coming.position) = (snapshot.next, snapshot.position);
        snapshot.objects.into_iter().try_for_each(|saved| coming.insert(saved))?;
        self.go_on_as(coming)
    }

    /// Of the calls of this process those go on that wait for their guards in the state of another one.
    pub(crate) fn keep_waiting(&self) {
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

    /// A process has read and written an object this often since its last report.
    pub(crate) fn used(&mut self, object: u64, process: u64, reads: u32, writes: u32) {
        let entry = self.all.get_mut(&object).filter(|entry| entry.wanted.is_none());
        let verdict = entry.and_then(|entry| entry.usage.as_mut()?.report(process, reads, writes, entry.home));
        verdict.into_iter().for_each(|to| self.move_to(object, to, process));
    }
}
