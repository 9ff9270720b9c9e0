//! A process of a simulated space: the protocol's core, the objects, and what its threads have called.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use am_api::NodeWaker;
use am_ordered::{Delivered, Event, Level, MemberId, Place, Saved, SendError, Settings, Step, View};
use am_ordered_core::{Core, Entry, Member, Message, NotSent, Output, Time};

use crate::ask::{Answer, Ask, Caller, Sent, What};
use crate::calls::Calls;
use crate::courier::{Answers, Courier, Heard, NoAnswer, Order};
use crate::inbox::Inbox;
use crate::mutants::{self, Mutant};
use crate::replica::Type;
use crate::simulated::model::Desk;
use crate::slot::Slot;
use crate::table::{Placed, Table};

/// What is in the order at a place: the sender, and the command.
pub(super) type Log = BTreeMap<u64, (u64, Vec<u8>)>;

/// What a process asks of another one.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// No other question has it. The simulation gives it.
    pub(super) number: u64,
    pub(super) caller: Caller,
    pub(super) after: u64,
    pub(super) object: u64,
    /// `None`: the call is taken back.
    pub(super) sent: Option<Sent>,
}

/// The order of messages, as a process has it.
pub(super) struct Simulated {
    pub(super) core: Core,
    pub(super) table: Rc<RefCell<Table>>,
    pub(super) now: Time,
    /// Messages that leave; to any other process where none is named.
    pub(super) leaving: Vec<(Option<MemberId>, Message)>,
    /// What other processes are asked.
    pub(super) asks: Vec<(MemberId, Asked)>,
    /// Where their answers are put. Known once there is one.
    pub(super) answers: Option<Answers>,
    /// What others that have asked are answered.
    pub(super) replies: Rc<RefCell<Vec<(Asked, Answer)>>>,
    pub(super) log: Log,
    has_ended: bool,
    /// States travel in parts, and each object is large.
    gives_parts: bool,
    /// A part that is not written yet.
    asked: Option<(MemberId, Place)>,
    /// States that came in parts.
    pub(super) in_parts: usize,
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
                        self.before = self.table.borrow().objects.state().expect("it is written");
                    }
                    self.log.insert(delivery.number, (delivery.sender.0, delivery.payload.to_vec()));
                    let (number, sender, is_own) = (delivery.number, delivery.sender.0, delivery.own.is_some());
                    let placed = Placed { number, sender, from: "", is_own, payload: &delivery.payload };
                    self.table.borrow_mut().on_command(&placed);
                }
                Output::View(view) => self.table.borrow_mut().on_event(&Event::View(view)),
                Output::TakeState { joiner, place } if self.gives_parts => self.give(joiner, place),
                Output::TakeState { joiner, .. } => {
                    let misses = mutants::is_active(Mutant::StateMissesAWrite) && !self.before.is_empty();
                    let state = if misses {
                        self.before.clone()
                    } else {
                        self.table.borrow().objects.state().expect("it is written")
                    };
                    self.core.state_taken(joiner, state.into());
                }
                output @ (Output::BeginState { .. }
                | Output::StatePart { .. }
                | Output::StateMessages(_)
                | Output::ForgetState
                | Output::RestoreState { .. }) => self.take(output),
                Output::Returned { id, may_be_delivered } => {
                    if mutants::is_active(Mutant::RunTwice) && may_be_delivered {
                        self.again.extend(self.sent.remove(&id));
                    }
                    self.table.borrow_mut().returned(id, may_be_delivered);
                }
                Output::CaughtUp(question) => self.table.borrow_mut().on_event(&Event::CaughtUp(question)),
                Output::Ended(_) => self.has_ended = true,
                Output::Diverged(_) | Output::Primary(_) => (),
            }
        }
    }
}

impl Simulated {
    /// Give the part that begins there, once it is written.
    fn give(&mut self, joiner: MemberId, place: Place) {
        let saved = self.table.borrow_mut().part(place);
        match saved {
            Saved::Part { bytes, next } => self.core.part_taken(joiner, &bytes.into(), next),
            Saved::NotYet => self.asked = Some((joiner, place)),
        }
    }

    /// The state of another process arrives.
    fn take(&mut self, output: Output) {
        let mut table = self.table.borrow_mut();
        match output {
            Output::BeginState { .. } => table.arrives(Step::Begins),
            Output::StatePart { bytes, is_last } => {
                assert!(is_last, "it is short");
                table.arrives(Step::Part(&bytes));
            }
            Output::StateMessages(messages) => {
                for Entry { number, sender, level, payload, .. } in messages {
                    let message = Delivered { number, sender, from: "", level, own: None, payload: &payload };
                    table.arrives(Step::Message(&message));
                }
            }
            Output::ForgetState => table.arrives(Step::IsVoid),
            Output::RestoreState { state: Some(state), .. } if !self.gives_parts => table.take_over(&state),
            Output::RestoreState { state: Some(state), .. } => {
                [Step::Begins, Step::Part(&state), Step::Ends].into_iter().for_each(|step| table.arrives(step));
            }
            Output::RestoreState { state: None, .. } => {
                self.in_parts += 1;
                table.arrives(Step::Ends);
            }
            _ => (),
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

    fn is_primary(&self) -> bool {
        self.core.is_primary()
    }

    fn max_command(&self) -> usize {
        usize::MAX
    }

    fn ask(&mut self, to: MemberId, ask: &Ask<'_>, answers: &Answers) {
        let Ask { caller, object, after, what } = *ask;
        let sent = |is_read, operation, arguments: &[u8]| {
            Some(Sent { object, is_read, may_wait: false, operation, arguments: arguments.into() })
        };
        let sent = match what {
            What::Read { operation, arguments } => sent(true, operation, arguments),
            What::Write { operation, arguments } => sent(false, operation, arguments),
            What::Cancel => None,
        };
        self.answers = Some(answers.clone());
        self.asks.push((to, Asked { number: 0, caller, after, object, sent }));
    }
}

impl Simulated {
    /// Another process asks this one.
    pub(super) fn on_ask(&self, asked: &Asked) {
        let Asked { caller, after, object, sent, .. } = asked;
        let (caller, replies, of) = (*caller, self.replies.clone(), asked.clone());
        let what = sent.as_ref().map_or(What::Cancel, Sent::what);
        let reply = move |answer| replies.borrow_mut().push((of, answer));
        self.table.borrow_mut().ask(&Ask { caller, object: *object, after: *after, what }, Box::new(reply));
    }

    pub(super) fn on_answer(&self, call: u64, is_cancel: bool, answer: Result<Answer, NoAnswer>) {
        let answers = self.answers.as_ref().expect("it has asked");
        answers.borrow_mut().push_back(Heard { call, is_cancel, answer });
    }
}

/// What a thread waits for.
pub(super) struct Waits {
    pub(super) event: usize,
    pub(super) slot: Arc<Slot>,
    pub(super) since: Time,
    pub(super) is_cancelled: bool,
    /// A latest read that another process is asked for.
    pub(super) is_asked: bool,
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
    pub(super) fn new(id: u64, now: Time, waker: NodeWaker, gives_parts: bool) -> Process {
        let inbox = Arc::new(Inbox::new(waker));
        let mut table = Table::new(vec![Type::of::<Desk>()], Calls::new(inbox.clone()));
        if gives_parts {
            table.transfer.large = 0;
        }
        table.objects.me.set(id);
        let table = Rc::new(RefCell::new(table));
        let settings = Settings { patience: Duration::from_millis(800), capacity: 64, ..Settings::default() };
        let me = Member { id: MemberId(id), name: format!("m{id}"), link: 0 };
        let core = if id == 0 { Core::found(me, settings, now) } else { Core::join(me, settings, now) };
        let order = Simulated {
            core,
            table: table.clone(),
            now,
            leaving: vec![],
            asks: vec![],
            answers: None,
            replies: Rc::default(),
            log: Log::new(),
            has_ended: false,
            gives_parts,
            asked: None,
            in_parts: 0,
            sent: BTreeMap::new(),
            again: vec![],
            before: vec![],
        };
        let courier = Courier::new(table, inbox.clone(), Level::Safe, Duration::from_secs(3600));
        let threads = (0..2).map(|_| None).collect();
        let (stopped_until, cut_until) = (Time::ZERO, Time::ZERO);
        Process { order, courier, inbox, threads, is_alive: true, stopped_until, cut_until }
    }

    /// Do what is due.
    pub(super) fn work(&mut self, now: Time) {
        self.order.now = now;
        self.inbox.simulated.store(now.as_nanos() as u64, Relaxed);
        self.courier.send_wishes(&mut self.order);
        if self.order.core.next_time() <= now {
            self.order.core.on_time(now);
        }
        if let Some((joiner, place)) = self.order.asked.take() {
            self.order.give(joiner, place);
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
