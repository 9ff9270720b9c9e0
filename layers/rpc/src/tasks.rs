//! Tasks of the node: calls whose method was not ready at once, and futures of the program.
//!
//! ```text
//!   call arrives ─▶ its future is polled once, in a place that is used again ── ready ─▶ answered, no allocation
//!                      │ not ready
//!                      └─▶ answered: it runs ─▶ task ─▶ ... ─▶ ready ─▶ RESULT
//! ```

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context as PollContext, Poll, Wake, Waker};
use std::time::Duration;

use am_api::{Connection, NodeWaker};
use futures_util::stream::{FuturesUnordered, Stream};

use crate::control::{Cancelled, Control};
use crate::deadlines::{Deadlines, Ticket};
use crate::status::SentCall;

/// A task's control, its place among the deadlines, and how many bytes of arguments it holds.
type Running = (Rc<Control>, Ticket, usize);

/// Gives a task to an executor.
pub(crate) type Spawn = Rc<dyn Fn(LocalTask)>;

/// The most calls of one connection that run as tasks. Further ones get [`Busy`](crate::CallError::Busy).
pub const MAX_TASKS: usize = 1024;

/// The most bytes of one connection: arguments that its tasks hold, or results that it does not take. Further calls that would run as tasks get
/// [`Busy`](crate::CallError::Busy). The last one may go beyond. It is half of what a node has for long messages
/// ([`message_memory`](am_api::Builder::message_memory)), so a caller cannot take all of it.
pub const MAX_TASK_BYTES: usize = 32 << 20;

/// A future of the node's thread.
pub type LocalTask = Pin<Box<dyn Future<Output = ()>>>;

/// Tells the node's thread that a task can go on, from any thread.
pub(crate) struct Woken {
    is_set: AtomicBool,
    node: NodeWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_set.swap(true, SeqCst) {
            self.node.wake();
        }
    }
}

impl Woken {
    pub(crate) fn new(node: NodeWaker) -> Arc<Woken> {
        Arc::new(Woken { is_set: AtomicBool::new(false), node })
    }

    /// Whether it was woken since the last time.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.is_set.load(SeqCst) && self.is_set.swap(false, SeqCst)
    }
}

/// Tasks of one connection, and the bytes of arguments that they hold.
#[derive(Default)]
struct Share {
    tasks: usize,
    bytes: usize,
}

pub(crate) struct Tasks {
    /// The calls that run as tasks.
    running: RefCell<BTreeMap<SentCall, Running>>,
    /// What each connection has of them.
    by_connection: RefCell<HashMap<Connection, Share>>,
    /// Of all connections.
    bytes: Cell<usize>,
    /// The most of one connection.
    most: Cell<usize>,
    due: RefCell<Deadlines<Rc<Control>>>,
    all: RefCell<FuturesUnordered<LocalTask>>,
    /// Tasks that were begun while others were polled.
    begun: RefCell<Vec<LocalTask>>,
    woken: Arc<Woken>,
    /// The executor of the program, if it gave one.
    executor: RefCell<Option<Spawn>>,
    /// No turn comes any more.
    is_closed: Cell<bool>,
}

impl Tasks {
    pub(crate) fn new(node: NodeWaker) -> Tasks {
        Tasks {
            running: RefCell::default(),
            by_connection: RefCell::default(),
            bytes: Cell::default(),
            most: Cell::new(MAX_TASKS),
            due: RefCell::default(),
            all: RefCell::default(),
            begun: RefCell::default(),
            woken: Woken::new(node),
            executor: RefCell::default(),
            is_closed: Cell::new(false),
        }
    }

    pub(crate) fn set_executor(&self, spawn: Spawn) {
        *self.executor.borrow_mut() = Some(spawn);
    }

    pub(crate) fn set_most(&self, most: usize) {
        self.most.set(most);
    }

    /// Drop all tasks, and those that come later.
    pub(crate) fn clear(&self) {
        self.is_closed.set(true);
        let (all, begun, executor) = (self.all.take(), self.begun.take(), self.executor.take());
        drop((all, begun, executor));
    }

    /// No call has a caller any more.
    pub(crate) fn cancel_everything(&self) {
        let all: Vec<_> = self.running.borrow().values().map(|(control, ..)| control.clone()).collect();
        all.into_iter().for_each(|control| control.cancel(Cancelled::Disconnected));
    }

    /// How many calls run as tasks.
    pub(crate) fn len(&self) -> usize {
        self.running.borrow().len()
    }

    /// Begin a task.
    pub(crate) fn spawn(&self, task: LocalTask) {
        if self.is_closed.get() {
            return;
        }
        let executor = self.executor.borrow().clone();
        match executor {
            Some(spawn) => spawn(task),
            None => {
                self.begun.borrow_mut().push(task);
                self.woken.wake_by_ref();
            }
        }
    }

    /// Whether this call runs as a task: no caller uses an id twice.
    pub(crate) fn has(&self, call: SentCall) -> bool {
        self.running.borrow().contains_key(&call)
    }

    /// Whether this connection may have a further task.
    pub(crate) fn has_room(&self, for_one_of: Connection) -> bool {
        let most = self.most.get();
        if self.len() < most && self.bytes.get() < MAX_TASK_BYTES {
            return true;
        }
        let has_room = |share: &Share| share.tasks < most && share.bytes < MAX_TASK_BYTES;
        self.by_connection.borrow().get(&for_one_of).is_none_or(has_room)
    }

    /// A call with so many bytes of arguments runs as a task from now on.
    pub(crate) fn add(&self, call: SentCall, control: Rc<Control>, due: Duration, bytes: usize) {
        let ticket = self.due.borrow_mut().add(due, control.clone());
        self.running.borrow_mut().insert(call, (control, ticket, bytes));
        let mut shares = self.by_connection.borrow_mut();
        let share = shares.entry(call.on).or_default();
        share.tasks += 1;
        share.bytes += bytes;
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// A call that ran as a task is over.
    pub(crate) fn remove(&self, call: SentCall) {
        let removed = self.running.borrow_mut().remove(&call);
        if let Some((_, ticket, bytes)) = removed {
            self.due.borrow_mut().remove(ticket);
            self.bytes.set(self.bytes.get() - bytes);
            let mut shares = self.by_connection.borrow_mut();
            if let Some(share) = shares.get_mut(&call.on) {
                share.tasks -= 1;
                share.bytes -= bytes;
                if share.tasks == 0 {
                    shares.remove(&call.on);
                }
            }
        }
    }

    /// The caller waits for this call no more.
    pub(crate) fn cancel(&self, call: SentCall) {
        let control = self.running.borrow().get(&call).cloned();
        if let Some((control, ..)) = control {
            control.cancel(Cancelled::ByCaller);
        }
    }

    /// This connection has ended.
    pub(crate) fn cancel_all(&self, on: Connection) {
        let running = self.running.borrow();
        let on_it = running.range(SentCall::all_on(on));
        let all: Vec<_> = on_it.map(|(_, (control, ..))| control.clone()).collect();
        drop(running);
        all.into_iter().for_each(|control| control.cancel(Cancelled::Disconnected));
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.borrow().next()
    }

    /// Wakes the node, as a task does that can go on.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(self.woken.clone())
    }

    /// Whether a task was woken.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.is_set.load(SeqCst)
    }

    /// Cancel the tasks whose time is over, and poll those that can go on. Returns whether there was one.
    pub(crate) fn run(&self, now: Duration) -> bool {
        let next_late = || self.due.borrow_mut().pop(now);
        while let Some(control) = next_late() {
            control.cancel(Cancelled::Deadline);
        }
        if !self.woken.take() {
            return false;
        }
        let mut all = self.all.borrow_mut();
        all.extend(self.begun.take());
        let waker = self.waker();
        // If one panics, and the program goes on, the others are polled in the next turn.
        let _others = WakeOnPanic(&self.woken);
        while let Poll::Ready(Some(())) = Pin::new(&mut *all).poll_next(&mut PollContext::from_waker(&waker)) {}
        true
    }
}

/// Sets the flag if it is dropped by a panic.
struct WakeOnPanic<'a>(&'a Arc<Woken>);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.wake_by_ref();
        }
    }
}

/// Places for the futures of one method. A future that is ready when it is polled first leaves its place for the next.
#[derive(Default)]
pub struct TaskPool(RefCell<Vec<Box<dyn Any>>>);

/// A place for a future, and how its call is told.
pub(crate) struct Place<F> {
    future: Pin<Box<Option<F>>>,
    pub(crate) control: Rc<Control>,
}

impl TaskPool {
    /// A place that is free, or a new one.
    pub(crate) fn take<F: Future + 'static>(&self) -> Box<Place<F>> {
        let free = self.0.borrow_mut().pop();
        let found = free.and_then(|place| place.downcast::<Place<F>>().ok());
        found.unwrap_or_else(|| Box::new(Place { future: Box::pin(None), control: Rc::default() }))
    }

    pub(crate) fn give_back<F: Future + 'static>(&self, mut place: Box<Place<F>>) {
        place.future.set(None);
        // A context that the method kept may still look at its control.
        if Rc::strong_count(&place.control) == 1 {
            self.0.borrow_mut().push(place);
        }
    }
}

impl<F: Future> Place<F> {
    pub(crate) fn put(&mut self, future: F) {
        self.future.set(Some(future));
    }

    /// # Panics
    /// Where the future does.
    pub(crate) fn poll(&mut self, context: &mut PollContext<'_>) -> Poll<F::Output> {
        self.future.as_mut().as_pin_mut().map_or(Poll::Pending, |future| future.poll(context))
    }
}
