//! What this process's threads want, and what the order of messages brings, to each other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use am_ordered::{Level, MemberId, SendError, View};
use am_rpc::codec::to_vec;

use crate::calls::Calls;
use crate::command::Command;
use crate::error::CallError;
use crate::inbox::{Inbox, Wish};
use crate::slot::{Outcome, Slot};
use crate::table::Table;

/// What fits around a command's own bytes.
const AROUND: usize = 64;

/// The one order of the space's messages: a group, or a simulated one.
pub(crate) trait Order {
    /// Returns which of this process's messages it is.
    fn send(&mut self, level: Level, bytes: &[u8]) -> Result<u64, SendError>;
    /// Returns the number of the question.
    fn catch_up(&mut self, level: Level) -> u64;
    fn me(&self) -> MemberId;
    fn view(&self) -> &View;
    fn has_ended(&self) -> bool;
    fn table(&self) -> &Table;
}

/// Carries commands.
pub(crate) struct Courier {
    pub(crate) calls: Rc<RefCell<Calls>>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) level: Level,
    pub(crate) patience: Duration,
    /// Commands that found no room, in their order. The number is the call's.
    full: VecDeque<(Option<u64>, Vec<u8>)>,
}

impl Courier {
    pub(crate) fn new(calls: Rc<RefCell<Calls>>, inbox: Arc<Inbox>, level: Level, patience: Duration) -> Courier {
        Courier { calls, inbox, level, patience, full: VecDeque::new() }
    }

    /// What threads want becomes messages of the group.
    pub(crate) fn send_wishes(&mut self, order: &mut impl Order) -> usize {
        let (mut sent, mut reads) = (self.send_full(order), vec![]);
        while self.full.is_empty()
            && let Some(wish) = self.inbox.pop()
        {
            sent += 1;
            match wish {
                Wish::Write { object, operation, arguments, slot } => {
                    self.send(order, Some(slot), |call| Command::Write {
                        call,
                        object,
                        operation,
                        arguments: &arguments,
                    });
                }
                Wish::CatchUp(slot) => reads.push(slot),
                Wish::Cancel(slot) => {
                    let call = self.calls.borrow().number(&slot);
                    if let Some(call) = call {
                        self.send(order, None, |_| Command::Cancel { call });
                    }
                }
            }
        }
        if !reads.is_empty() {
            let (asked_at, question) = (self.inbox.time(), order.catch_up(self.level));
            self.calls.borrow_mut().ask(question, reads, asked_at, self.patience);
        }
        sent
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

    pub(crate) fn send<'c>(
        &mut self,
        order: &mut impl Order,
        slot: Option<Arc<Slot>>,
        command: impl FnOnce(u64) -> Command<'c>,
    ) {
        let until = self.inbox.time() + self.patience;
        let call = slot.map(|slot| self.calls.borrow_mut().begin(slot, until));
        match to_vec(&command(call.unwrap_or_default())) {
            Ok(bytes) if !self.full.is_empty() || !self.send_bytes(order, call, &bytes) => {
                self.full.push_back((call, bytes))
            }
            Ok(_) => (),
            Err(_) => self.end(call, Err(CallError::Malformed)),
        }
    }

    /// Returns whether there was room.
    fn send_bytes(&mut self, order: &mut impl Order, call: Option<u64>, bytes: &[u8]) -> bool {
        match order.send(self.level, bytes) {
            Ok(message) => call.into_iter().for_each(|call| self.calls.borrow_mut().left_as(call, message)),
            Err(SendError::Full(_)) => return false,
            Err(SendError::Ended) => self.end(call, Err(CallError::Ended)),
            Err(SendError::TooLong { needs, most }) => {
                self.end(call, Err(CallError::TooLong { needs, most: most.saturating_sub(AROUND) }));
            }
        }
        true
    }

    fn end(&self, call: Option<u64>, outcome: Outcome) {
        call.into_iter().for_each(|call| self.calls.borrow_mut().end(call, outcome.clone()));
    }

    /// What follows from the messages that have arrived.
    pub(crate) fn go_on(&mut self, order: &mut impl Order) -> usize {
        let now = self.inbox.time();
        self.calls.borrow_mut().expire(now);
        let failed = order.table().failed;
        if let Some(why) = failed.or_else(|| order.has_ended().then_some(CallError::Ended)) {
            self.calls.borrow_mut().end_all(why);
            self.inbox.close(&Err(why));
            return 0;
        }
        let (view, table) = (order.view(), order.table());
        let digests = table.digests.take();
        if view.sequencer != order.me() {
            return 0;
        }
        let members = if table.has_changed.replace(false) { table.gone(view) } else { vec![] };
        let sent = digests.len() + usize::from(!members.is_empty());
        for (object, writes, digest) in digests {
            self.send(order, None, |_| Command::Digest { object, writes, digest });
        }
        if !members.is_empty() {
            self.send(order, None, |_| Command::Gone { members });
        }
        sent
    }
}
