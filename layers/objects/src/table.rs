//! The objects of a space: what each message of the group does to them, at every process alike.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use am_ordered::{Delivered, Event, Replica, View};
use am_rpc::codec::{from_bytes, to_vec};

use crate::calls::Calls;
use crate::command::{Command, SavedCall, SavedObject, Snapshot, VERSION};
use crate::digest::Digests;
use crate::error::CallError;
#[cfg(test)]
use crate::mutants;
use crate::object::Object;
use crate::replica::{self, AnyReplica, Type};
use crate::slot::Outcome;
use crate::waiting::Waiting;

/// An object, and its number.
pub(crate) type Found<T> = (u64, Arc<replica::Replica<T>>);

/// The objects here.
pub(crate) struct Table {
    types: Vec<Type>,
    objects: BTreeMap<u64, Entry>,
    /// The next object's number.
    next: u64,
    pub(crate) calls: Rc<RefCell<Calls>>,
    /// This process. Known once the group is open.
    pub(crate) me: Rc<Cell<u64>>,
    /// The members have changed: calls of those that are gone may wait.
    pub(crate) has_changed: Cell<bool>,
    pub(crate) events: Rc<RefCell<Vec<Event>>>,
    /// This process does not have what the others have, and why.
    pub(crate) failed: Option<CallError>,
    /// Digests that the others have not got yet, if this process is the one that tells them: object, writes, digest.
    pub(crate) digests: RefCell<Vec<(u64, u64, u64)>>,
    /// An object that is not the same here as at another process.
    pub(crate) difference: Option<Difference>,
    /// Messages that were no commands.
    pub(crate) malformed: u64,
}

/// An object that differs.
#[derive(Debug)]
pub(crate) struct Difference {
    object: String,
    of: &'static str,
    writes: u64,
    from: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { object, of, writes, from } = self;
        write!(
            f,
            "the object `{object}` is not the same here as at {from} after {writes} writes: a write of `{of}` depends on more than the object and its arguments, or the two \
             programs differ. Run its operations with `am_objects::Twice`"
        )
    }
}

/// Whose call it is: the process, and its number for the call.
#[derive(Clone, Copy)]
struct Caller {
    process: u64,
    call: u64,
}

struct Entry {
    name: String,
    of: &'static str,
    schema: u64,
    replica: Arc<dyn AnyReplica>,
    waiting: Waiting,
    /// Writes that have run.
    writes: u64,
    digests: Digests,
}

impl Table {
    pub(crate) fn new(types: Vec<Type>, calls: Calls) -> Table {
        Table {
            types,
            objects: BTreeMap::new(),
            next: 0,
            calls: Rc::new(RefCell::new(calls)),
            me: Rc::default(),
            has_changed: Cell::new(false),
            events: Rc::default(),
            digests: RefCell::default(),
            difference: None,
            failed: None,
            malformed: 0,
        }
    }

    /// The object of this name.
    pub(crate) fn find<T: Object>(&self, name: &str) -> Option<Result<Found<T>, CallError>> {
        let (id, entry) = self.objects.iter().find(|(_, entry)| entry.name == name)?;
        let replica = entry.replica.clone().into_any().downcast();
        Some(replica.map(|replica| (*id, replica)).map_err(|_| CallError::TypeDiffers))
    }

    /// The callers of writes that wait, and are not in this view.
    pub(crate) fn gone(&self, view: &View) -> Vec<u64> {
        let waiting = self.objects.values().flat_map(|entry| entry.waiting.all());
        let callers: BTreeSet<u64> = waiting.map(|call| call.caller).collect();
        callers.into_iter().filter(|caller| !view.ids().any(|id| id.0 == *caller)).collect()
    }

    /// The type of this name, if the program has that version of it.
    fn known(&self, of: &str, schema: u64) -> Option<&Type> {
        self.types.iter().find(|known| known.name == of && known.schema == schema)
    }

    fn create(&mut self, name: &str, of: &str, schema: u64, state: &[u8]) -> Outcome {
        if let Some((id, entry)) = self.objects.iter().find(|(_, entry)| entry.name == name) {
            let is_same = entry.of == of && entry.schema == schema;
            return if is_same { Ok(id.to_le_bytes().into()) } else { Err(CallError::TypeDiffers) };
        }
        let Some(known) = self.known(of, schema) else {
            self.failed = Some(CallError::TypeUnknown);
            return Err(CallError::TypeUnknown);
        };
        let replica = (known.open)(state).ok_or(CallError::Malformed)?;
        let (waiting, digests) = (Waiting::default(), Digests::of(state.len()));
        let entry = Entry { name: name.into(), of: known.name, schema, replica, waiting, writes: 0, digests };
        let id = self.next;
        self.next += 1;
        self.objects.insert(id, entry);
        Ok(id.to_le_bytes().into())
    }

    /// A write has its place. It runs, or waits for its guard.
    fn write(&mut self, object: u64, caller: Caller, operation: u16, arguments: &[u8]) {
        let Some(entry) = self.objects.get_mut(&object) else {
            return self.end(caller, Err(CallError::Malformed));
        };
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
        let Some(entry) = self.objects.get_mut(&object) else { return };
        let is_own = caller.process == self.me.get();
        let result = entry.replica.run(usize::from(operation), arguments, is_own);
        entry.writes += 1;
        if entry.digests.are_due(entry.writes) {
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
        while let Some(entry) = self.objects.get_mut(&object)
            && let Some((call, may_run)) = entry.waiting.take_next(&*entry.replica)
        {
            let caller = Caller { process: call.caller, call: call.call };
            match may_run {
                Ok(()) => self.run(object, caller, call.operation, &call.arguments),
                Err(why) => self.end(caller, Err(why)),
            }
        }
    }

    fn end(&self, caller: Caller, outcome: Outcome) {
        if caller.process == self.me.get() {
            self.calls.borrow_mut().end(caller.call, outcome);
        }
    }

    fn forget(&mut self, is_gone: impl Fn(&SavedCall) -> bool) {
        for entry in self.objects.values_mut().filter(|entry| !entry.waiting.is_empty()) {
            entry.waiting.retain(|call| !is_gone(call));
        }
    }

    fn snapshot(&self) -> Snapshot {
        let saved = |(id, entry): (&u64, &Entry)| SavedObject {
            id: *id,
            name: entry.name.clone(),
            of: entry.of.into(),
            schema: entry.schema,
            is_poisoned: entry.replica.is_poisoned(),
            state: entry.replica.save(),
            writes: entry.writes,
            waiting: entry.waiting.all(),
        };
        Snapshot { version: VERSION, next: self.next, objects: self.objects.iter().map(saved).collect() }
    }

    /// The objects of another process. Those that this one has already keep their places in memory: the program points to them.
    fn go_on_with(&mut self, snapshot: Snapshot) -> Result<(), CallError> {
        let mut old = std::mem::take(&mut self.objects);
        for SavedObject { id, name, of, schema, is_poisoned, state, writes, waiting } in snapshot.objects {
            let known = self.known(&of, schema).ok_or(CallError::TypeUnknown)?;
            let had = old.remove(&id).filter(|entry| entry.of == of && entry.schema == schema);
            let replica = match had {
                Some(entry) => entry.replica,
                None => (known.open)(&state).ok_or(CallError::Malformed)?,
            };
            if !replica.restore(&state, is_poisoned) {
                return Err(CallError::Malformed);
            }
            let (waiting, digests) = (waiting.into_iter().collect(), Digests::of(state.len()));
            self.objects.insert(id, Entry { name, of: known.name, schema, replica, waiting, writes, digests });
        }
        self.next = snapshot.next;
        Ok(())
    }
}

/// A command at its place in the order.
pub(crate) struct Placed<'a> {
    pub(crate) sender: u64,
    /// The name of the sender's node.
    pub(crate) from: &'a str,
    pub(crate) is_own: bool,
    pub(crate) payload: &'a [u8],
}

impl Table {
    /// Do what a command says.
    pub(crate) fn carry_out(&mut self, Placed { sender: process, from, is_own, payload }: &Placed<'_>) {
        if self.failed.is_some() {
            return;
        }
        let (Ok(command), process) = (from_bytes(payload), *process) else {
            self.malformed += 1;
            return;
        };
        let place = |call: u64| {
            if *is_own {
                self.calls.borrow_mut().placed(call);
            }
        };
        match command {
            Command::Create { call, name, of, schema, state } => {
                place(call);
                let outcome = self.create(name, of, schema, state);
                self.end(Caller { process, call }, outcome);
            }
            Command::Write { call, object, operation, arguments } => {
                place(call);
                self.write(object, Caller { process, call }, operation, arguments);
            }
            Command::Cancel { call } => {
                self.forget(|waiting| (waiting.caller, waiting.call) == (process, call));
                self.end(Caller { process, call }, Err(CallError::NotRun));
            }
            Command::Digest { object, writes, digest } => {
                let differs = |entry: &&Entry| entry.digests.differ(writes, digest);
                if let Some(entry) = self.objects.get(&object).filter(differs) {
                    let (object, of, from) = (entry.name.clone(), entry.of, (*from).into());
                    self.difference.get_or_insert(Difference { object, of, writes, from });
                }
            }
            Command::Gone { members } => self.forget(|waiting| members.contains(&waiting.caller)),
        }
    }

    /// All objects, for a process that joins.
    pub(crate) fn state(&self) -> Vec<u8> {
        to_vec(&self.snapshot()).unwrap_or_default()
    }

    /// Begin with objects that were saved. Nobody waits for the calls that waited then.
    pub(crate) fn begin_with(&mut self, state: &[u8]) -> Result<(), CallError> {
        self.read(state)?;
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
            .objects
            .values()
            .flat_map(|entry| entry.waiting.all())
            .filter(|call| call.caller == me)
            .map(|call| call.call)
            .collect();
        self.calls.borrow_mut().keep_waiting(|call| waiting.contains(&call));
    }
}

impl Replica for Table {
    fn deliver(&mut self, message: &Delivered<'_>) {
        let Delivered { sender, from, own, payload, .. } = *message;
        self.carry_out(&Placed { sender: sender.0, from, is_own: own.is_some(), payload });
    }

    fn save(&self) -> Vec<u8> {
        self.state()
    }

    fn restore(&mut self, state: &[u8]) {
        self.take_over(state);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Returned { message, may_be_delivered } => {
                self.calls.borrow_mut().returned(message.number(), *may_be_delivered);
            }
            Event::CaughtUp(question) => return self.calls.borrow_mut().caught_up(*question),
            Event::View(_) => self.has_changed.set(true),
            Event::Ended(_) => self.calls.borrow_mut().end_all(CallError::Ended),
            _ => (),
        }
        self.events.borrow_mut().push(event.clone());
    }
}
