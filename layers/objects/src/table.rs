//! What each message of the group, and each process that asks, does to the objects of a space.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use am_ordered::{Event, View};
use am_rpc::codec::from_bytes;

use crate::ask::{Answer, Ask, Caller, Fate, Reply, Sent, What};
use crate::calls::Calls;
use crate::command::{Command, Given};
use crate::digest::Difference;
use crate::entry::Entry;
use crate::error::CallError;
use crate::objects::Objects;
use crate::placement::Home;
use crate::replica::Type;
use crate::transfer::Transfer;

/// The most operations that wait until this process can run them. Others are asked again by their callers.
const MOST_LATER: usize = 1 << 16;

/// The objects here, and what happens to them.
pub(crate) struct Table {
    pub(crate) objects: Objects,
    pub(crate) transfer: Transfer<Table>,
    /// The processes of the space.
    members: BTreeSet<u64>,
    /// This process has left the space, or was put out.
    is_closed: bool,
    /// With a majority of the others. Without it nothing runs that others ask for.
    pub(crate) is_primary: bool,
    /// Asked of this process too early.
    later: Vec<(u64, Caller, Sent, Reply)>,
    /// Own calls that were taken back in the order, and had moved.
    pub(crate) cancelled: Vec<u64>,
    pub(crate) events: Rc<RefCell<Vec<Event>>>,
    /// An object that is not the same here as at another process.
    pub(crate) difference: Option<Difference>,
    /// Messages that were no commands.
    pub(crate) malformed: u64,
}

impl Table {
    pub(crate) fn new(types: Vec<Type>, calls: Calls) -> Table {
        Table::of(Objects::new(types, calls))
    }

    /// For the objects of another process, until all of them are here.
    pub(crate) fn aside(&self) -> Table {
        Table::of(self.objects.aside())
    }

    fn of(objects: Objects) -> Table {
        let transfer = Transfer::new(objects.calls.borrow().inbox.clone());
        Table {
            objects,
            transfer,
            members: BTreeSet::new(),
            is_closed: false,
            is_primary: true,
            later: vec![],
            cancelled: vec![],
            events: Rc::default(),
            difference: None,
            malformed: 0,
        }
    }

    /// The processes are these from now on.
    pub(crate) fn on_view(&mut self, view: &View) {
        self.members = view.ids().map(|id| id.0).collect();
        self.objects.has_changed.set(true);
        self.objects.tell_digests_again();
        // What waits at an object that is kept here is known to no other process. A caller was there when it began to wait.
        self.objects.forget_callers(&self.members);
    }

    /// Whether there is anything that follows from messages.
    pub(crate) fn has_news(&self) -> bool {
        let waits = [self.later.len(), self.cancelled.len(), self.objects.back.len(), self.objects.leaving.len()];
        let is_told = self.objects.digests.borrow().is_empty() && !self.objects.has_changed.get();
        waits != [0; 4] || !is_told || self.objects.has_lost
    }

    /// The callers of writes that wait, and the processes that keep objects, and are not in the space any more.
    pub(crate) fn gone(&self) -> Vec<u64> {
        let waiting = self.objects.all.values().flat_map(|entry| entry.waiting.all());
        let homes = self.objects.all.values().filter_map(|entry| match entry.home {
            Home::At { process, .. } => Some(process),
            Home::Everywhere | Home::Lost => None,
        });
        let all: BTreeSet<u64> = waiting.map(|call| call.caller).chain(homes).collect();
        all.difference(&self.members).copied().collect()
    }

    /// An operation on an object that is kept here.
    pub(crate) fn ask(&mut self, ask: &Ask<'_>, reply: Reply) {
        let Ask { caller, object, after, what } = *ask;
        let (is_read, operation, arguments) = match what {
            What::Cancel => return self.take_back(caller, reply),
            What::Read { operation, arguments } => (true, operation, arguments),
            What::Write { operation, arguments } => (false, operation, arguments),
        };
        if self.is_closed || self.later.len() >= MOST_LATER {
            return reply(Answer { at: self.objects.position, fate: Fate::Moved });
        }
        if self.objects.replies.contains_key(&caller) {
            return reply(Answer { at: self.objects.position, fate: Fate::Malformed });
        }
        let is_leaving = self.objects.all.get(&object).is_some_and(|entry| entry.is_leaving);
        let knows_caller = self.members.contains(&caller.process);
        // This thread does not wait for the one that writes the object.
        let is_free = !is_leaving && !self.transfer.writes(object);
        if after > self.objects.position || !is_free || !(self.is_primary && knows_caller) {
            let sent = Sent { is_read, ..self.objects.sent(object, operation, arguments.into()) };
            return self.later.push((after, caller, sent, reply));
        }
        let here = self.objects.all.get(&object).filter(|entry| entry.home.is_at(self.objects.me.get()));
        match here.and_then(|entry| entry.replica.as_ref()) {
            None => reply(Answer { at: self.objects.position, fate: Fate::Moved }),
            Some(replica) if is_read => {
                let outcome = replica.read(usize::from(operation), arguments);
                reply(Answer { at: self.objects.position, fate: Fate::of(outcome) });
            }
            Some(_) => {
                self.objects.replies.insert(caller, reply);
                self.objects.run_or_wait(object, caller, operation, arguments);
            }
        }
    }

    /// Give an object away that is kept here and is wanted elsewhere. One that another thread writes goes later.
    pub(crate) fn give<R>(&mut self, object: u64, give: impl FnOnce(Given<'_>) -> R) -> Option<R> {
        if self.transfer.writes(object) {
            self.objects.leaving.push(object);
            return None;
        }
        self.objects.give(object, give)
    }

    /// This process has left the space. Nothing runs here any more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        for object in self.objects.kept() {
            let waiting = self.objects.all.get_mut(&object).map(|entry| std::mem::take(&mut entry.waiting).all());
            waiting.into_iter().flatten().for_each(|call| self.objects.send_back(object, call));
        }
        self.ask_again();
    }

    pub(crate) fn take_back(&mut self, caller: Caller, reply: Reply) {
        let early = self.later.iter().position(|(_, of, ..)| *of == caller);
        let answer = |fate| Answer { at: self.objects.position, fate };
        if let Some((.., waits)) = early.map(|at| self.later.remove(at)) {
            waits(answer(Fate::NotRun));
        } else if self.objects.replies.contains_key(&caller) {
            self.objects.forget_call(caller);
            self.objects.end(caller, Err(CallError::NotRun));
        }
        reply(Answer { at: self.objects.position, fate: Fate::Done(vec![]) });
    }

    /// What was asked too early.
    pub(crate) fn ask_again(&mut self) {
        for (after, caller, sent, reply) in std::mem::take(&mut self.later) {
            self.ask(&Ask { caller, object: sent.object, after, what: sent.what() }, reply);
        }
    }
}

/// A command at its place in the order.
pub(crate) struct Placed<'a> {
    pub(crate) number: u64,
    pub(crate) sender: u64,
    /// The name of the sender's node.
    pub(crate) from: &'a str,
    pub(crate) is_own: bool,
    pub(crate) payload: &'a [u8],
}

impl Table {
    /// Do what a command says.
    pub(crate) fn carry_out(&mut self, Placed { number, sender: process, from, is_own, payload }: &Placed<'_>) {
        self.objects.position = number + 1;
        if self.objects.failed.is_some() {
            return;
        }
        let (Ok(command), process) = (from_bytes(payload), *process) else {
            self.malformed += 1;
            return;
        };
        if *is_own {
            self.objects.placed(&command);
        }
        match command {
            Command::Create { call, new } => {
                let outcome = self.objects.create(process, &new);
                self.objects.end(Caller { process, call }, outcome);
            }
            Command::Place { call, object, to } => {
                self.objects.place(object, Caller { process, call }, to);
            }
            Command::Moved { object, given } => self.objects.take_in(object, process, &given),
            Command::Used { object, reads, writes } => self.objects.used(object, process, reads, writes),
            Command::Write { call, object, operation, arguments } => {
                self.objects.write(object, Caller { process, call }, operation, arguments);
            }
            Command::Cancel { call } => {
                if self.objects.forget_call(Caller { process, call }) {
                    self.objects.end(Caller { process, call }, Err(CallError::NotRun));
                } else if *is_own {
                    self.cancelled.push(call);
                }
            }
            Command::Digest { object, writes, digest } => {
                let differs = |entry: &&Entry| entry.digests.differ(writes, digest);
                if let Some(entry) = self.objects.all.get(&object).filter(differs) {
                    let (object, of, from) = (entry.name.clone(), entry.of, (*from).into());
                    self.difference.get_or_insert(Difference { object, of, writes, from });
                }
            }
            Command::Gone { members } => {
                self.objects.forget(|waiting| members.contains(&waiting.caller));
                self.objects.lose(&members);
            }
        }
    }

    pub(crate) fn returned(&mut self, message: u64, may_be_delivered: bool) {
        self.objects.calls.borrow_mut().returned(message, may_be_delivered);
        self.objects.give_again();
    }
}

#[cfg(test)]
impl Table {
    pub(crate) fn describe(&self) -> String {
        let objects = self.objects.all.iter().map(|(id, entry)| {
            let Entry { home, wanted, is_leaving, .. } = entry;
            format!(" {id}: {home:?} wanted {wanted:?} leaving {is_leaving} waiting {:?};", entry.waiting.all())
        });
        let later: Vec<_> = self.later.iter().map(|(after, caller, ..)| (after, caller)).collect();
        format!(
            "primary {}, later {later:?}, replies {:?},{}",
            self.is_primary,
            self.objects.replies.keys().collect::<Vec<_>>(),
            objects.collect::<String>()
        )
    }
}

/// The objects as the group has them.
pub(crate) struct Shelf(pub(crate) Rc<RefCell<Table>>);

impl Table {
    /// Something has happened to the group.
    pub(crate) fn happened(&mut self, event: &Event) {
        match event {
            Event::Returned { message, may_be_delivered } => self.returned(message.number(), *may_be_delivered),
            Event::CaughtUp(question) => return self.objects.calls.borrow_mut().caught_up(*question),
            Event::View(view) => self.on_view(view),
            Event::Ended(_) => self.objects.calls.borrow_mut().end_all(CallError::Ended),
            _ => (),
        }
        self.events.borrow_mut().push(event.clone());
    }
}
