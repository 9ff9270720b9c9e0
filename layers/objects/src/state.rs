//! The objects of a space on their way to a process that joins: a list of all, then some at a time, while writes go on.
//!
//! ```text
//!   giver: the list ── objects 0 to 9 ── writes ── objects 10 to 19 ── writes ── .. ── all are there
//!   taker:             a write of an object that is here runs; another one has run already when its object comes
//! ```
//!
//! The list says where each object is. An object that is listed and has not come yet changes its place as any other one does; only its value is missing.
//!
//! A large object is written by another thread. Its writes wait meanwhile, and so does all that comes behind the first of them: this process has one order of
//! writes, too.

use std::collections::VecDeque;
use std::sync::Arc;

use am_ordered::{Delivered, Event, Place, Replica, Saved, Step};
use am_rpc::codec::{from_bytes, to_vec};

use crate::command::{Command, SavedObject, VERSION};
use crate::error::CallError;
#[cfg(test)]
use crate::mutants;
use crate::objects::Objects;
use crate::replica::AnyReplica;
use crate::table::{Placed, Shelf, Table};
use crate::transfer::{AROUND, MOST_WAITING, Making, PART, Part, Waits, Work};

impl Replica for Shelf {
    fn deliver(&mut self, message: &Delivered<'_>) {
        let Delivered { number, sender, from, own, payload, .. } = *message;
        self.0.borrow_mut().on_command(&Placed { number, sender: sender.0, from, is_own: own.is_some(), payload });
    }

    fn save(&self) -> Vec<u8> {
        // A process that gets no bytes says so, and leaves.
        self.0.borrow().objects.state().unwrap_or_default()
    }

    fn restore(&mut self, state: &[u8]) {
        self.0.borrow_mut().take_over(state);
    }

    fn save_part(&mut self, place: Place) -> Saved {
        self.0.borrow_mut().part(place)
    }

    fn restore_part(&mut self, step: Step<'_>) -> bool {
        self.0.borrow_mut().arrives(step);
        true
    }

    fn event(&mut self, event: &Event) {
        self.0.borrow_mut().on_event(event);
    }
}

impl Table {
    /// A command has its place. It is carried out, unless it waits for a large object.
    pub(crate) fn on_command(&mut self, placed: &Placed<'_>) {
        if !self.transfer.is_making() || !self.waits(placed) {
            self.carry_out(placed);
        }
    }

    /// The objects from this place on.
    pub(crate) fn part(&mut self, place: Place) -> Saved {
        // This process leaves, and another one gives what there is.
        if self.objects.failed.is_some() {
            return Saved::NotYet;
        }
        if let Some(making) = &mut self.transfer.making {
            if !making.is_done() {
                return Saved::NotYet;
            }
            self.settle();
        }
        if let Some(making) = self.transfer.making.take() {
            return Saved::Part { bytes: Making::wait(making.work), next: making.next };
        }
        match place.next.checked_sub(1) {
            None => self.list(),
            Some(first) => self.objects_from(first, place.end),
        }
    }

    fn list(&self) -> Saved {
        let Objects { all, next, position, .. } = &self.objects;
        let (objects, next, position) = (all.iter().map(|(id, entry)| entry.listed(*id)).collect(), *next, *position);
        let list = Part::List { version: VERSION, position, next, objects };
        let more = (!all.is_empty()).then_some(Place { next: 1, end: next });
        Saved::Part { bytes: to_vec(&list).unwrap_or_default(), next: more }
    }

    /// Objects that were created after the list do not come: the commands that create them do.
    fn objects_from(&mut self, first: u64, end: u64) -> Saved {
        let (mut objects, mut bytes) = (vec![], 0);
        for (id, entry) in self.objects.all.range(first..end.max(first)) {
            let Some(replica) = &entry.replica else { continue };
            let is_large = replica.size() > self.transfer.large;
            if !objects.is_empty() && (is_large || bytes >= PART) {
                return Saved::Part { bytes: encode(objects), next: Some(Place { next: id + 1, end }) };
            }
            if is_large {
                let (object, replica, saved) = (*id, replica.clone(), entry.saved(*id, vec![]));
                let has_more = self.objects.all.range(id + 1..end.max(id + 1)).next().is_some();
                let next = has_more.then_some(Place { next: id + 2, end });
                return self.make(object, replica, saved, next);
            }
            let state = replica.save().unwrap_or_default();
            bytes += state.len();
            objects.push(entry.saved(*id, state));
        }
        Saved::Part { bytes: encode(objects), next: None }
    }

    /// Let another thread write an object.
    fn make(&mut self, object: u64, replica: Arc<dyn AnyReplica>, saved: SavedObject, next: Option<Place>) -> Saved {
        let inbox = self.transfer.inbox.clone();
        let write = move || encode(vec![SavedObject { state: replica.save().unwrap_or_default(), ..saved }]);
        let work = match self.transfer.large {
            #[cfg(test)]
            0 => Work::Later(20, write()),
            _ => Work::Thread(std::thread::spawn(move || {
                let part = write();
                inbox.wake();
                part
            })),
        };
        self.transfer.making = Some(Making { object, next, work, waiting: VecDeque::new(), bytes: 0 });
        Saved::NotYet
    }

    /// Whether a command waits for a large object: it is a write of it, or comes after one that waits. Only writes of other objects do not.
    fn waits(&mut self, placed: &Placed<'_>) -> bool {
        let Some(making) = self.transfer.making.as_mut().filter(|making| making.is_under_way()) else {
            return false;
        };
        let command = from_bytes(placed.payload);
        let passes = matches!(&command, Ok(Command::Write { object, .. }) if *object != making.object);
        if passes && making.waiting.is_empty() {
            return false;
        }
        let Placed { number, sender, from, is_own, payload } = *placed;
        making.bytes += payload.len() + AROUND;
        let (from, payload) = (from.into(), payload.into());
        making.waiting.push_back(Waits::Command { number, sender, from, is_own, payload });
        if making.bytes > MOST_WAITING {
            self.settle();
        }
        true
    }

    /// The large object is written, and what waits for it goes on.
    fn settle(&mut self) {
        let Some(Making { object, next, work, waiting, .. }) = self.transfer.making.take() else { return };
        let work = Work::Done(Making::wait(work));
        for waits in waiting {
            match waits {
                #[cfg(test)]
                Waits::Command { .. } if mutants::is_active(mutants::Mutant::WaitingWriteIsLost) => (),
                Waits::Command { number, sender, from, is_own, payload } => {
                    self.carry_out(&Placed { number, sender, from: &from, is_own, payload: &payload });
                }
                Waits::Event(event) => self.happened(&event),
            }
        }
        self.transfer.making = Some(Making { object, next, work, waiting: VecDeque::new(), bytes: 0 });
    }

    /// Something has happened to the group. What happened before is done first.
    pub(crate) fn on_event(&mut self, event: &Event) {
        let waiting = self.transfer.making.as_mut().map(|making| &mut making.waiting);
        match waiting.filter(|waiting| !waiting.is_empty()) {
            Some(waiting) => waiting.push_back(Waits::Event(event.clone())),
            None => self.happened(event),
        }
    }

    /// The objects of another process arrive.
    pub(crate) fn arrives(&mut self, step: Step<'_>) {
        match (step, &mut self.transfer.coming) {
            (Step::Begins, _) => self.transfer.coming = Some(Box::new(self.aside())),
            (Step::IsVoid, coming) => *coming = None,
            (Step::Part(part), Some(coming)) => {
                // Without its list a later part makes no sense: the first cause stays.
                if coming.objects.failed.is_none() {
                    coming.objects.failed = coming.on_part(part).err();
                }
            }
            (Step::Message(message), Some(coming)) => {
                let Delivered { number, sender, from, payload, .. } = *message;
                coming.carry_out(&Placed { number, sender: sender.0, from, is_own: false, payload });
                // The giver's process sends them.
                coming.objects.digests.take();
            }
            (Step::Ends, coming) => {
                if let Some(coming) = coming.take() {
                    self.go_on_with(|objects| objects.go_on_as(coming.objects));
                }
            }
            (_, None) => (),
        }
    }

    fn on_part(&mut self, part: &[u8]) -> Result<(), CallError> {
        match from_bytes(part).map_err(|_| CallError::Malformed)? {
            Part::List { version: VERSION, position, next, objects } => self.objects.list(position, next, objects),
            Part::List { .. } => Err(CallError::Malformed),
            Part::Objects(objects) => objects.into_iter().try_for_each(|saved| {
                let entry = self.objects.all.get(&saved.listed.id);
                match entry.is_some_and(|entry| entry.replica.is_none()) {
                    true => self.objects.insert(saved),
                    false => Err(CallError::Malformed),
                }
            }),
        }
    }

    /// Go on with the whole state of another process.
    pub(crate) fn take_over(&mut self, state: &[u8]) {
        self.go_on_with(|objects| objects.read(state));
    }

    /// Go on with the objects of another process. Commands that wait have their effects in them, or are void.
    fn go_on_with(&mut self, go_on: impl FnOnce(&mut Objects) -> Result<(), CallError>) {
        let (mut events, waiting) = (vec![], self.transfer.forget());
        let has_waited = !waiting.is_empty();
        for waits in waiting {
            match waits {
                Waits::Command { is_own: true, payload, .. } => {
                    from_bytes(&payload).into_iter().for_each(|command| self.objects.placed(&command));
                }
                Waits::Command { .. } => (),
                Waits::Event(event) => events.push(event),
            }
        }
        self.objects.failed = go_on(&mut self.objects).err();
        self.objects.keep_waiting();
        if has_waited {
            // One of them may have given an object away.
            self.objects.give_again();
        }
        events.iter().for_each(|event| self.happened(event));
    }
}

fn encode(objects: Vec<SavedObject>) -> Vec<u8> {
    to_vec(&Part::Objects(objects)).unwrap_or_default()
}
