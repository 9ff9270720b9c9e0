//! What has become of each call, as no node knows it, and the promises about it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use am_netdev_sim::{MS, Nanos};
use am_rpc::{CallError, Cancelled};

/// How often what has happened.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

/// A run of a node's endpoint: after a restart, or once it was closed and opened again, there is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) node: u16,
    pub(crate) number: u16,
}

/// The method that may run more than once for a call.
pub(crate) const AGAIN: &str = "again";

/// Later than this after a call's deadline its outcome is missing: a node looks for it in each of its turns.
const LATE: Nanos = 2 * MS;
/// On a network without faults a cancel has arrived by then.
const CANCEL: Nanos = 300 * MS;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Open,
    /// It has its outcome, which says whether the method may have run.
    Over {
        may_have_run: bool,
    },
    /// The caller dropped it at this time.
    Dropped(Nanos),
    /// The caller's run has ended.
    Abandoned,
}

#[derive(Debug)]
struct Record {
    what: &'static str,
    by: Run,
    to: u16,
    due: Nanos,
    runs: u32,
    state: State,
}

/// Of all calls, by their numbers.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) now: Cell<Nanos>,
    /// From then on there are no faults.
    pub(crate) quiet_from: Nanos,
    calls: RefCell<Vec<Record>>,
    /// The calls of each run that wait, by deadline.
    open: RefCell<BTreeMap<Run, BTreeSet<(Nanos, u64)>>>,
    seen: RefCell<Seen>,
    /// The first.
    violation: RefCell<Option<String>>,
}

impl History {
    pub(crate) fn new(quiet_from: Nanos) -> History {
        History { quiet_from, ..History::default() }
    }

    pub(crate) fn saw(&self, what: &'static str) {
        *self.seen.borrow_mut().entry(what).or_default() += 1;
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    pub(crate) fn wrong(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    fn wrong_call(&self, number: u64, record: &Record, what: &str) {
        self.wrong(format!("call {number}, `{}`: {what} at {} us: {record:?}", record.what, self.now.get() / 1000));
    }

    pub(crate) fn take(&self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// A call begins. Returns its number.
    pub(crate) fn begins(&self, what: &'static str, by: Run, to: u16, within: Nanos) -> u64 {
        let mut calls = self.calls.borrow_mut();
        let (number, due) = (calls.len() as u64, self.now.get() + within);
        calls.push(Record { what, by, to, due, runs: 0, state: State::Open });
        self.open.borrow_mut().entry(by).or_default().insert((due, number));
        number
    }

    /// Its method begins at this node.
    pub(crate) fn runs(&self, number: u64, at: u16) {
        let mut calls = self.calls.borrow_mut();
        let Some(record) = calls.get_mut(number as usize) else {
            return self.wrong(format!("a method runs for call {number}, which nobody made"));
        };
        record.runs += 1;
        if record.runs > 1 {
            self.saw("ran again");
        }
        if record.runs > 1 && record.what != AGAIN {
            self.wrong_call(number, record, "its method ran twice");
        }
        if record.to != at {
            self.wrong_call(number, record, "its method ran at another node");
        }
        if record.state == (State::Over { may_have_run: false }) {
            self.wrong_call(number, record, "its method runs, though its outcome said that it did not");
        }
    }

    /// Its method is told that nobody waits.
    pub(crate) fn cancelled(&self, number: u64, why: Cancelled) {
        self.saw(match why {
            Cancelled::ByCaller => "cancelled by its caller",
            Cancelled::Deadline => "cancelled by its deadline",
            Cancelled::Disconnected => "cancelled by the end of its connection",
        });
        let calls = self.calls.borrow();
        let record = &calls[number as usize];
        match (why, record.state) {
            (Cancelled::ByCaller, State::Open) => self.wrong_call(number, record, "cancelled while its caller waits"),
            (Cancelled::Deadline, State::Dropped(at))
                if at > self.quiet_from && self.now.get() > at + CANCEL && record.due > at + CANCEL =>
            {
                self.wrong_call(number, record, "its deadline ended it, and no cancel came before");
            }
            _ => (),
        }
    }

    fn ends(&self, number: u64, state: State) {
        let mut calls = self.calls.borrow_mut();
        let record = &mut calls[number as usize];
        if record.state != State::Open {
            self.wrong_call(number, record, "a second outcome");
        }
        record.state = state;
        self.open.borrow_mut().entry(record.by).or_default().remove(&(record.due, number));
    }

    /// Its caller dropped it.
    pub(crate) fn dropped(&self, number: u64) {
        self.saw("dropped");
        self.ends(number, State::Dropped(self.now.get()));
    }

    /// It has this outcome.
    pub(crate) fn over<V, E>(&self, number: u64, outcome: &Result<V, CallError<E>>) {
        let may_have_run = outcome.as_ref().err().is_none_or(CallError::may_have_run);
        self.ends(number, State::Over { may_have_run });
        self.saw(outcome.as_ref().map_or_else(name, |_| "value"));
        let calls = self.calls.borrow();
        let record = &calls[number as usize];
        let has_run = record.runs > 0;
        if has_run && !may_have_run {
            self.wrong_call(
                number,
                record,
                &format!("`{}`, and its method ran", outcome.as_ref().map_or_else(name, |_| "")),
            );
        }
        let must_have_run = outcome.as_ref().err().is_none_or(|error| {
            matches!(error, CallError::Service(_) | CallError::Panicked | CallError::ResultTooLong)
        });
        if must_have_run && !has_run {
            self.wrong_call(number, record, "an outcome of a method that did not run");
        }
        if matches!(outcome, Err(CallError::Malformed | CallError::MalformedResult(_) | CallError::Mismatch(_))) {
            self.wrong_call(number, record, name(outcome.as_ref().err().expect("it is one")));
        }
    }

    /// This run had a turn that began at this time: no outcome that was due long before is missing.
    pub(crate) fn check_deadlines(&self, run: Run, turn: Nanos) {
        let open = self.open.borrow();
        let first = open.get(&run).and_then(|calls| calls.first());
        if let Some(&(due, number)) = first
            && due.saturating_add(LATE) < turn
        {
            self.wrong_call(number, &self.calls.borrow()[number as usize], "no outcome, and its time is over");
        }
    }

    /// A run has ended: its calls have no outcome.
    pub(crate) fn run_ended(&self, run: Run) {
        let mut calls = self.calls.borrow_mut();
        let open = self.open.borrow_mut().remove(&run).unwrap_or_default();
        open.into_iter().for_each(|(_, number)| calls[number as usize].state = State::Abandoned);
    }

    /// How many calls wait for their outcomes.
    pub(crate) fn open(&self) -> usize {
        self.open.borrow().values().map(BTreeSet::len).sum()
    }

    /// One of them.
    pub(crate) fn first_open(&self) -> String {
        let open = self.open.borrow();
        let first = open.values().flatten().next();
        first.map_or("no call is open".into(), |(_, number)| format!("{:?}", self.calls.borrow()[*number as usize]))
    }
}

/// What an outcome is called that is no value.
fn name<E>(error: &CallError<E>) -> &'static str {
    match error {
        CallError::Service(_) => "the service's error",
        CallError::UnknownMethod(_) => "no such method",
        CallError::Mismatch(_) => "another signature",
        CallError::Deadline => "deadline",
        CallError::Late => "late",
        CallError::Panicked => "panicked",
        CallError::Malformed => "malformed",
        CallError::MalformedResult(_) => "malformed result",
        CallError::ShuttingDown => "shutting down",
        CallError::Busy => "busy",
        CallError::Forbidden => "forbidden",
        CallError::ResultTooLong => "result too long",
        CallError::UnencodableResult => "unencodable result",
        CallError::Refused(_) => "connection refused",
        CallError::Unencodable(_) => "unencodable",
        CallError::Dead(_) => "dead",
        CallError::Unknown(_) => "unknown",
        CallError::NotSent(_) => "not sent",
    }
}
