//! A process of a simulated space: the protocol's core, the objects, and what its threads have called.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use am_api::NodeWaker;
use am_ordered::{Level, MemberId, SendError, Settings, View};
use am_ordered_core::{Core, Member, Message, NotSent, Output, Time};

use crate::calls::Calls;
use crate::courier::{Courier, Order};
use crate::inbox::Inbox;
use crate::mutants::{self, Mutant};
use crate::replica::Type;
use crate::simulated::model::Desk;
use crate::slot::Slot;
use crate::table::{Placed, Table};

/// What is in the order at a place: the sender, and the command.
pub(super) type Log = BTreeMap<u64, (u64, Vec<u8>)>;

/// The order of messages, as a process has it.
pub(super) struct Simulated {
    pub(super) core: Core,
    pub(super) table: Table,
    pub(super) now: Time,
    /// Messages that leave; to any other process where none is named.
    pub(super) leaving: Vec<(Option<MemberId>, Message)>,
    pub(super) log: Log,
    has_ended: bool,
    /// Own commands, for a mutant.
    sent: BTreeMap<u64, Vec<u8>>,
    again: Vec<Vec<u8>>,
    /// The state before the last command, for a mutant.
    before: Vec<u8>,
}

impl Simulated {
    /// Do all that the core says.
    pub(super) fn carry_out(&mut self) {
        while let Some(output) = self.core.poll() {
            match output {
                Output::Send { to, message } => self.leaving.push((Some(to), message)),
                Output::Multicast(message) => {
                    let audience = self.core.audience();
                    self.leaving.extend(audience.into_iter().map(|to| (Some(to), message.clone())));
                }
                Output::Contact(message) => self.leaving.push((None, message)),
                Output::Deliver(delivery) => {
                    if mutants::is_active(Mutant::StateMissesAWrite) {
                        self.before = self.table.state();
                    }
                    self.log.insert(delivery.number, (delivery.sender.0, delivery.payload.to_vec()));
                    let (sender, is_own) = (delivery.sender.0, delivery.own.is_some());
                    self.table.carry_out(&Placed { sender, from: "", is_own, payload: &delivery.payload });
                }
                Output::View(_) => self.table.has_changed.set(true),
                Output::TakeState { joiner } => {
                    let misses = mutants::is_active(Mutant::StateMissesAWrite) && !self.before.is_empty();
                    let state = if misses { self.before.clone() } else { self.table.state() };
                    self.core.state_taken(joiner, state.into());
                }
                Output::RestoreState { state, .. } => self.table.take_over(&state),
                Output::Returned { id, may_be_delivered } => {
                    if mutants::is_active(Mutant::RunTwice) && may_be_delivered {
                        self.again.extend(self.sent.remove(&id));
                    }
                    self.table.calls.borrow_mut().returned(id, may_be_delivered);
                }
                Output::CaughtUp(question) => self.table.calls.borrow_mut().caught_up(question),
                Output::Ended(_) => self.has_ended = true,
                Output::Diverged(_) | Output::Primary(_) => (),
            }
        }
    }
}

impl Order for Simulated {
    fn send(&mut self, level: Level, bytes: &[u8]) -> Result<u64, SendError> {
        let sent = self.core.send(self.now, level, bytes.to_vec().into()).map_err(|why| match why {
            NotSent::Full(waiting) => SendError::Full(waiting),
            NotSent::Ended => SendError::Ended,
        })?;
        if mutants::is_active(Mutant::RunTwice) {
            self.sent.insert(sent, bytes.into());
        }
        self.carry_out();
        Ok(sent)
    }

    fn catch_up(&mut self, level: Level) -> u64 {
        let question = self.core.catch_up(self.now, level);
        self.carry_out();
        question
    }

    fn me(&self) -> MemberId {
        self.core.me()
    }

    fn view(&self) -> &View {
        self.core.view()
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn table(&self) -> &Table {
        &self.table
    }
}

/// What a thread waits for.
pub(super) struct Waits {
    pub(super) event: usize,
    pub(super) slot: Arc<Slot>,
    pub(super) since: Time,
    pub(super) is_cancelled: bool,
}

pub(super) struct Process {
    pub(super) order: Simulated,
    pub(super) courier: Courier,
    pub(super) inbox: Arc<Inbox>,
    /// What each thread waits for, if it does.
    pub(super) threads: Vec<Option<Waits>>,
    pub(super) is_alive: bool,
    pub(super) stopped_until: Time,
    pub(super) cut_until: Time,
}

impl Process {
    /// The first process founds the space.
    pub(super) fn new(id: u64, now: Time, waker: NodeWaker) -> Process {
        let inbox = Arc::new(Inbox::new(waker));
        let table = Table::new(vec![Type::of::<Desk>()], Calls::new(inbox.clone()));
        table.me.set(id);
        let calls: Rc<RefCell<Calls>> = table.calls.clone();
        let settings = Settings { patience: Duration::from_millis(800), capacity: 64, ..Settings::default() };
        let me = Member { id: MemberId(id), name: format!("m{id}"), link: 0 };
        let core = if id == 0 { Core::found(me, settings, now) } else { Core::join(me, settings, now) };
        let (leaving, log, sent, again) = Default::default();
        let order = Simulated { core, table, now, leaving, log, has_ended: false, sent, again, before: vec![] };
        // By the machine's clock, which is not the simulation's.
        let courier = Courier::new(calls, inbox.clone(), Level::Safe, Duration::from_secs(3600));
        let threads = (0..2).map(|_| None).collect();
        let (stopped_until, cut_until) = (Time::ZERO, Time::ZERO);
        Process { order, courier, inbox, threads, is_alive: true, stopped_until, cut_until }
    }

    /// Do what is due.
    pub(super) fn work(&mut self, now: Time) {
        self.order.now = now;
        self.courier.send_wishes(&mut self.order);
        if self.order.core.next_time() <= now {
            self.order.core.on_time(now);
        }
        self.order.carry_out();
        for bytes in std::mem::take(&mut self.order.again) {
            _ = self.order.send(Level::Safe, &bytes);
        }
        self.courier.go_on(&mut self.order);
        self.order.carry_out();
    }

    pub(super) fn is_up(&self, now: Time) -> bool {
        self.is_alive && self.stopped_until <= now
    }

    pub(super) fn is_live(&self) -> bool {
        self.is_alive && !self.order.has_ended
    }
}
