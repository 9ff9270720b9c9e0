//! This process's calls that have no result yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ask::Sent;
use crate::error::CallError;
use crate::inbox::Inbox;
use crate::slot::{Outcome, Slot};

#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) inbox: Arc<Inbox>,
    next: u64,
    pending: BTreeMap<u64, Pending>,
    by_message: BTreeMap<u64, u64>,
    /// Reads that wait until this process has what the others have, by the numbers of the group's questions.
    questions: BTreeMap<u64, Question>,
    /// A question that was answered before it had its reads.
    answered: Option<u64>,
    /// Late calls are looked for then: many may wait for their guards, and are passed over.
    looks_at: Duration,
}

/// Late calls are looked for this often.
const LOOK: Duration = Duration::from_millis(10);

/// Reads that wait for one question.
#[derive(Debug)]
struct Question {
    reads: Vec<Arc<Slot>>,
    asked_at: Duration,
    until: Duration,
}

#[derive(Debug)]
struct Pending {
    slot: Arc<Slot>,
    /// Its place in the order, or the process that keeps the object, has to take it by then. By the node's clock.
    deadline: Duration,
    /// It may wait for its guard from now on, for as long as it takes.
    may_wait: bool,
    asked_at: Duration,
    message: Option<u64>,
    /// The process that keeps the object, and what it was asked.
    asked: Option<(u64, Sent)>,
}

impl Pending {
    /// A read of an object that another process keeps. It has no effect, so it can be asked again.
    fn is_read(&self) -> bool {
        self.asked.as_ref().is_some_and(|(_, sent)| sent.is_read)
    }
}

impl Calls {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Calls {
        let (pending, by_message, questions) = Default::default();
        Calls { inbox, next: 0, pending, by_message, questions, answered: None, looks_at: Duration::ZERO }
    }

    /// A call that leaves now. Returns its number.
    pub(crate) fn begin(&mut self, slot: Arc<Slot>, deadline: Duration) -> u64 {
        let call = self.next;
        self.next += 1;
        let asked_at = Duration::ZERO;
        slot.set_number(call);
        let new = Pending { slot, deadline, may_wait: false, asked_at, message: None, asked: None };
        self.pending.insert(call, new);
        call
    }

    /// The call has left as this message.
    pub(crate) fn left_as(&mut self, call: u64, message: u64) {
        if let Some(pending) = self.pending.get_mut(&call).filter(|pending| !pending.may_wait) {
            pending.message = Some(message);
            self.by_message.insert(message, call);
        }
    }

    /// The process that keeps the object is asked. Its patience is not renewed: it may be asked again and again.
    pub(crate) fn ask_for(&mut self, call: u64, process: u64, sent: Sent, now: Duration) {
        if let Some(pending) = self.pending.get_mut(&call) {
            pending.may_wait = sent.may_wait;
            (pending.asked, pending.asked_at) = (Some((process, sent)), now);
        }
    }

    /// Whether no process has taken this call in its time.
    pub(crate) fn is_overdue(&self, call: u64, now: Duration) -> bool {
        self.pending.get(&call).is_some_and(|pending| pending.deadline <= now)
    }

    /// The object has moved. A call that has waited for its guard has its time again.
    pub(crate) fn moved(&mut self, call: u64, now: Duration, patience: Duration) {
        if let Some(pending) = self.pending.get_mut(&call)
            && now.saturating_sub(pending.asked_at) >= patience
        {
            pending.deadline = now + patience;
        }
    }

    /// The process that is asked for this call, and what.
    pub(crate) fn asked(&self, call: u64) -> Option<&(u64, Sent)> {
        self.pending.get(&call)?.asked.as_ref()
    }

    /// The other process has not run it.
    pub(crate) fn take_asked(&mut self, call: u64) -> Option<Sent> {
        self.pending.get_mut(&call)?.asked.take().map(|(_, sent)| sent)
    }

    /// The calls for which other processes are asked.
    pub(crate) fn all_asked(&self) -> impl Iterator<Item = (u64, &Sent)> {
        self.pending.iter().filter_map(|(call, pending)| Some((*call, &pending.asked.as_ref()?.1)))
    }

    pub(crate) fn is_read(&self, call: u64) -> bool {
        self.pending.get(&call).is_some_and(Pending::is_read)
    }

    pub(crate) fn is_pending(&self, call: u64) -> bool {
        self.pending.contains_key(&call)
    }

    /// The call has its place in the order.
    pub(crate) fn placed(&mut self, call: u64) {
        if let Some(pending) = self.pending.get_mut(&call) {
            pending.may_wait = true;
            pending.message.take().map(|message| self.by_message.remove(&message));
        }
    }

    /// The number of a call that has no result yet.
    pub(crate) fn number(&self, slot: &Arc<Slot>) -> Option<u64> {
        slot.number().filter(|call| self.pending.get(call).is_some_and(|pending| Arc::ptr_eq(&pending.slot, slot)))
    }

    pub(crate) fn end(&mut self, call: u64, outcome: Outcome) {
        if let Some(pending) = self.pending.remove(&call) {
            pending.message.map(|message| self.by_message.remove(&message));
            pending.slot.put(outcome);
        }
    }

    /// These reads wait for a question that was asked at this time. Alone a process has its answer already.
    pub(crate) fn wait_for(&mut self, question: u64, reads: Vec<Arc<Slot>>, asked_at: Duration, patience: Duration) {
        self.questions.insert(question, Question { reads, asked_at, until: asked_at + patience });
        if self.answered.take() == Some(question) {
            self.caught_up(question);
        }
    }

    /// A question is answered.
    pub(crate) fn caught_up(&mut self, question: u64) {
        let Some(Question { reads, asked_at, .. }) = self.questions.remove(&question) else {
            self.answered = Some(question);
            return;
        };
        self.inbox.is_fresh_at(asked_at);
        reads.into_iter().for_each(|read| read.put(Ok(vec![])));
    }

    /// A message came back.
    pub(crate) fn returned(&mut self, message: u64, may_be_delivered: bool) {
        if let Some(call) = self.by_message.get(&message).copied() {
            self.end(call, Err(if may_be_delivered { CallError::Unknown } else { CallError::NotRun }));
        }
    }

    /// This process goes on with the state of another one. A write that waited here, and does not there, has run.
    pub(crate) fn keep_waiting(&mut self, waits: impl Fn(u64) -> bool) {
        let is_placed = |pending: &Pending| pending.may_wait && pending.asked.is_none();
        let has_run = |(call, pending): (&u64, &Pending)| (is_placed(pending) && !waits(*call)).then_some(*call);
        for call in self.pending.iter().filter_map(has_run).collect::<Vec<_>>() {
            self.end(call, Err(CallError::Unknown));
        }
    }

    /// Calls that have waited for their place for too long end.
    pub(crate) fn expire(&mut self, now: Duration) {
        if now < self.looks_at {
            return;
        }
        self.looks_at = now + LOOK;
        let is_late = |pending: &Pending| !pending.may_wait && pending.deadline <= now;
        let late = self.pending.iter().filter(|(_, pending)| is_late(pending));
        let why = |pending: &Pending| if pending.is_read() { CallError::NotRun } else { CallError::Unknown };
        let is_over = |question: &Question| question.until <= now;
        while let Some(question) = self.questions.first_entry().filter(|question| is_over(question.get())) {
            question.remove().reads.into_iter().for_each(|read| read.put(Err(CallError::NotRun)));
        }
        for (call, why) in late.map(|(call, pending)| (*call, why(pending))).collect::<Vec<_>>() {
            self.end(call, Err(why));
        }
    }

    /// No call gets a result any more. What has left may have run, or run yet.
    pub(crate) fn end_all(&mut self, why: CallError) {
        for read in std::mem::take(&mut self.questions).into_values().flat_map(|question| question.reads) {
            read.put(Err(why));
        }
        while let Some((call, pending)) = self.pending.first_key_value() {
            let has_left = pending.message.is_some() || pending.asked.is_some() || pending.may_wait;
            let has_left = has_left && !pending.is_read();
            self.end(*call, Err(if has_left { CallError::Unknown } else { why }));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.questions.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}
