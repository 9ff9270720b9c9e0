//! What this process's threads want, and what the order of messages brings, to each other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use am_ordered::{Level, MemberId, SendError, View};
use am_rpc::codec::to_vec;

use crate::ask::{Answer, Ask, Caller, Sent, What};
use crate::calls::Calls;
use crate::command::{Command, Given};
use crate::error::CallError;
use crate::inbox::{Inbox, Wish};
use crate::placement::Home;
use crate::slot::{Outcome, Slot};
use crate::table::Table;

/// What fits around a command's own bytes.
const AROUND: usize = 64;
/// A process that could not be asked is asked again after this time.
const AGAIN: Duration = Duration::from_millis(10);

/// The one order of the space's messages, and the way to the processes that keep objects: a group on a network, or a simulated one.
pub(crate) trait Order {
    /// Returns which of this process's messages it is.
    fn send(&mut self, level: Level, bytes: &[u8]) -> Result<u64, SendError>;
    /// Returns the number of the question.
    fn catch_up(&mut self, level: Level) -> u64;
    fn me(&self) -> MemberId;
    fn view(&self) -> &View;
    fn has_ended(&self) -> bool;
    /// Whether this process is with a majority of the others.
    fn is_primary(&self) -> bool;
    /// The bytes of the longest command.
    fn max_command(&self) -> usize;
    /// Ask another process.
    fn ask(&mut self, to: MemberId, ask: &Ask<'_>, answers: &Answers);
}

/// What processes that were asked have answered.
pub(crate) type Answers = Rc<RefCell<VecDeque<Heard>>>;

/// The answer for a call.
pub(crate) struct Heard {
    pub(crate) call: u64,
    /// The process was asked to take the call back.
    pub(crate) is_cancel: bool,
    pub(crate) answer: Result<Answer, NoAnswer>,
}

impl Heard {
    pub(crate) fn of(ask: &Ask<'_>, answer: Result<Answer, NoAnswer>) -> Heard {
        Heard { call: ask.caller.call, is_cancel: ask.what == What::Cancel, answer }
    }
}

/// A process did not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoAnswer {
    /// The operation has not run. It is asked again.
    NotRun,
    /// It may have run.
    Unknown,
    /// It never gets another answer.
    Never(CallError),
}

/// Carries commands, and operations on objects that other processes keep.
pub(crate) struct Courier {
    pub(crate) calls: Rc<RefCell<Calls>>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) level: Level,
    pub(crate) patience: Duration,
    table: Rc<RefCell<Table>>,
    /// Commands that found no room, in their order. The number is the call's.
    full: VecDeque<(Option<u64>, Vec<u8>)>,
    answers: Answers,
    /// Answers of processes that have more of the order than this one.
    early: Vec<(u64, Answer)>,
    /// Calls that are made again, at these times; or taken back again.
    again: VecDeque<(Duration, u64, bool)>,
}

impl Courier {
    pub(crate) fn new(table: Rc<RefCell<Table>>, inbox: Arc<Inbox>, level: Level, patience: Duration) -> Courier {
        let (calls, full, answers) = (table.borrow().objects.calls.clone(), VecDeque::new(), Answers::default());
        Courier { calls, inbox, level, patience, table, full, answers, early: vec![], again: VecDeque::new() }
    }

    /// What threads want becomes messages.
    pub(crate) fn send_wishes(&mut self, order: &mut impl Order) -> usize {
        let (mut sent, mut reads) = (self.send_full(order), vec![]);
        while self.full.is_empty()
            && let Some(wish) = self.inbox.pop()
        {
            sent += 1;
            match wish {
                Wish::Call { sent, slot } => {
                    let call = self.begin(slot);
                    self.issue(order, call, sent);
                }
                Wish::CatchUp(slot) => reads.push(slot),
                Wish::Cancel(slot) => {
                    let call = self.calls.borrow().number(&slot);
                    call.into_iter().for_each(|call| self.cancel(order, call));
                }
                Wish::Report(object) => {
                    let uses = self.table.borrow().objects.uses(object);
                    if let Some((reads, writes)) = uses {
                        self.send(order, None, &Command::Used { object, reads, writes });
                    }
                }
            }
        }
        if !reads.is_empty() {
            let (asked_at, question) = (self.inbox.time(), order.catch_up(self.level));
            self.calls.borrow_mut().wait_for(question, reads, asked_at, self.patience);
        }
        sent
    }

    /// A number for a call.
    pub(crate) fn begin(&mut self, slot: Arc<Slot>) -> u64 {
        let until = self.inbox.time() + self.patience;
        self.calls.borrow_mut().begin(slot, until)
    }

    /// Call an operation where its object is.
    fn issue(&mut self, order: &mut impl Order, call: u64, sent: Sent) {
        if !self.calls.borrow().is_pending(call) {
            return;
        }
        let home = self.table.borrow().objects.home(sent.object);
        match home {
            Home::Lost => self.end(call, Err(CallError::Lost)),
            Home::Everywhere if sent.is_read => {
                let outcome = self.table.borrow().objects.read_here(&sent);
                self.end(call, outcome);
            }
            Home::Everywhere => {
                let Sent { object, operation, arguments, .. } = &sent;
                let (object, operation) = (*object, *operation);
                self.send(order, Some(call), &Command::Write { call, object, operation, arguments });
            }
            Home::At { process, .. } => {
                let ask = self.question(order, call, sent.object, sent.what());
                self.ask(order, process, &ask);
                self.calls.borrow_mut().ask_for(call, process, sent, self.inbox.time());
            }
        }
    }

    /// Ask the process that keeps the object.
    fn ask(&mut self, order: &mut impl Order, process: u64, ask: &Ask<'_>) {
        if process == ask.caller.process {
            let (answers, nothing) = (self.answers.clone(), Err(NoAnswer::NotRun));
            let heard = Heard::of(ask, nothing);
            let reply = move |answer| answers.borrow_mut().push_back(Heard { answer: Ok(answer), ..heard });
            self.table.borrow_mut().ask(ask, Box::new(reply));
        } else {
            order.ask(MemberId(process), ask, &self.answers);
        }
    }

    /// A question of this process, for a call.
    fn question<'w>(&self, order: &impl Order, call: u64, object: u64, what: What<'w>) -> Ask<'w> {
        let after = self.table.borrow().objects.position;
        Ask { caller: Caller { process: order.me().0, call }, object, after, what }
    }

    /// The caller does not wait for this call any more.
    fn cancel(&mut self, order: &mut impl Order, call: u64) {
        if !self.calls.borrow().is_pending(call) {
            return;
        }
        let asked = self.calls.borrow().asked(call).map(|(process, sent)| (*process, sent.object));
        match asked {
            Some((process, object)) => {
                let ask = self.question(order, call, object, What::Cancel);
                self.ask(order, process, &ask);
            }
            None => self.send(order, None, &Command::Cancel { call }),
        }
    }

    fn send_full(&mut self, order: &mut impl Order) -> usize {
        let mut sent = 0;
        while let Some((call, bytes)) = self.full.pop_front() {
            if !self.send_bytes(order, call, &bytes) {
                self.full.push_front((call, bytes));
                break;
            }
            sent += 1;
        }
        sent
    }

    /// Give a command its place in the order, for this call.
    pub(crate) fn send(&mut self, order: &mut impl Order, call: Option<u64>, command: &Command<'_>) {
        match to_vec(command) {
            Ok(bytes) => self.send_or_keep(order, call, bytes),
            Err(_) => call.into_iter().for_each(|call| self.end(call, Err(CallError::Malformed))),
        }
    }

    fn send_or_keep(&mut self, order: &mut impl Order, call: Option<u64>, bytes: Vec<u8>) {
        if !self.full.is_empty() || !self.send_bytes(order, call, &bytes) {
            self.full.push_back((call, bytes));
        }
    }

    /// Returns whether there was room.
    fn send_bytes(&mut self, order: &mut impl Order, call: Option<u64>, bytes: &[u8]) -> bool {
        let ended = match order.send(self.level, bytes) {
            Ok(message) => {
                call.into_iter().for_each(|call| self.calls.borrow_mut().left_as(call, message));
                return true;
            }
            Err(SendError::Full(_)) => return false,
            Err(SendError::Ended) => CallError::Ended,
            Err(SendError::TooLong { needs, most }) => CallError::TooLong { needs, most: most.saturating_sub(AROUND) },
        };
        call.into_iter().for_each(|call| self.end(call, Err(ended)));
        true
    }

    fn end(&self, call: u64, outcome: Outcome) {
        self.calls.borrow_mut().end(call, outcome);
    }

    /// What follows from the messages that have arrived.
    pub(crate) fn go_on(&mut self, order: &mut impl Order) -> usize {
        let mut table = self.table.borrow_mut();
        table.is_primary = order.is_primary() && !order.has_ended();
        let failed = table.objects.failed.or_else(|| order.has_ended().then_some(CallError::Ended));
        if let Some(why) = failed {
            self.calls.borrow_mut().end_all(why);
            self.inbox.close(&Err(why));
            table.close();
            return 0;
        }
        let has_news = table.has_news() || !self.early.is_empty() || !self.again.is_empty();
        drop(table);
        if !self.calls.borrow().is_empty() {
            let now = self.inbox.time();
            self.calls.borrow_mut().expire(now);
        }
        // Most turns have none.
        if !has_news && self.answers.borrow().is_empty() {
            return 0;
        }
        self.go_on_with_calls(order) + self.give_away(order) + self.tell_all(order)
    }

    /// What one process tells the others.
    fn tell_all(&mut self, order: &mut impl Order) -> usize {
        let table = self.table.borrow();
        let (digests, has_changed) = (table.objects.digests.take(), table.objects.has_changed.replace(false));
        if order.view().sequencer != order.me() {
            return 0;
        }
        let members = if has_changed { table.gone() } else { vec![] };
        drop(table);
        let sent = digests.len() + usize::from(!members.is_empty());
        for (object, writes, digest) in digests {
            self.send(order, None, &Command::Digest { object, writes, digest });
        }
        if !members.is_empty() {
            self.send(order, None, &Command::Gone { members });
        }
        sent
    }

    /// Calls that other processes have answered, or that are made again.
    fn go_on_with_calls(&mut self, order: &mut impl Order) -> usize {
        let now = self.inbox.time();
        let mut table = self.table.borrow_mut();
        table.ask_again();
        let (back, cancelled, position) =
            (std::mem::take(&mut table.objects.back), std::mem::take(&mut table.cancelled), table.objects.position);
        let has_lost = std::mem::take(&mut table.objects.has_lost);
        drop(table);
        let mut done = back.len();
        for (call, sent) in back {
            self.calls.borrow_mut().moved(call, now, self.patience);
            self.issue(order, call, sent);
        }
        cancelled.into_iter().for_each(|call| self.cancel(order, call));
        let (ready, early) = std::mem::take(&mut self.early).into_iter().partition(|(_, answer)| answer.at <= position);
        self.early = early;
        let ready: Vec<(u64, Answer)> = ready;
        done += ready.len();
        ready.into_iter().for_each(|(call, answer)| self.on_answer(order, call, answer));
        while let Some(Heard { call, is_cancel, answer }) = self.next_answer() {
            done += 1;
            match answer {
                // If nothing was taken back, the call is on its way elsewhere.
                _ if is_cancel => self.again.push_back((now + AGAIN, call, true)),
                Ok(answer) if answer.at > position => self.early.push((call, answer)),
                Ok(answer) => self.on_answer(order, call, answer),
                Err(NoAnswer::Unknown) if !self.calls.borrow().is_read(call) => self.end(call, Err(CallError::Unknown)),
                Err(NoAnswer::Never(why)) => self.end(call, Err(why)),
                // A read that ran has changed nothing.
                Err(NoAnswer::NotRun | NoAnswer::Unknown) => self.again.push_back((now + AGAIN, call, false)),
            }
        }
        while self.again.front().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, call, is_cancel)) = self.again.pop_front()
        {
            if is_cancel {
                self.cancel(order, call);
            } else if self.calls.borrow().is_overdue(call, now) {
                self.end(call, Err(CallError::NotRun));
            } else {
                let sent = self.calls.borrow_mut().take_asked(call);
                sent.into_iter().for_each(|sent| self.issue(order, call, sent));
            }
        }
        if has_lost {
            let is_lost = |(call, sent): (u64, &Sent)| {
                (self.table.borrow().objects.home(sent.object) == Home::Lost).then_some(call)
            };
            let lost: Vec<u64> = self.calls.borrow().all_asked().filter_map(is_lost).collect();
            lost.into_iter().for_each(|call| self.end(call, Err(CallError::Lost)));
        }
        done
    }

    fn next_answer(&self) -> Option<Heard> {
        self.answers.borrow_mut().pop_front()
    }

    fn on_answer(&mut self, order: &mut impl Order, call: u64, answer: Answer) {
        if let Some(outcome) = answer.fate.outcome() {
            return self.end(call, outcome);
        }
        // It has not run. The same process is not asked at once again: it may have left the space, and this one has not heard of it.
        let mut calls = self.calls.borrow_mut();
        calls.moved(call, self.inbox.time(), self.patience);
        let Some((process, sent)) = calls.asked(call) else { return };
        if self.table.borrow().objects.home(sent.object).is_at(*process) {
            return self.again.push_back((self.inbox.time() + AGAIN, call, false));
        }
        let sent = calls.take_asked(call);
        drop(calls);
        sent.into_iter().for_each(|sent| self.issue(order, call, sent));
    }

    /// Give those objects away that are wanted elsewhere.
    fn give_away(&mut self, order: &mut impl Order) -> usize {
        let leaving = std::mem::take(&mut self.table.borrow_mut().objects.leaving);
        let mut done = 0;
        for object in leaving {
            let most = order.max_command();
            let command = self.table.borrow_mut().give(object, |given| {
                let bytes = |given| to_vec(&Command::Moved { object, given }).unwrap_or_default();
                let whole = bytes(given);
                if whole.len() > most { bytes(Given { state: None, ..given }) } else { whole }
            });
            done += usize::from(command.is_some());
            command.into_iter().for_each(|bytes| self.send_or_keep(order, None, bytes));
        }
        done
    }
}

/// The space is gone. Threads that wait for their calls hear of it.
impl Drop for Courier {
    fn drop(&mut self) {
        self.calls.borrow_mut().end_all(CallError::Ended);
        self.inbox.close(&Err(CallError::Ended));
    }
}
