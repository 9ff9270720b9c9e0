//! Calls on their way from the program's threads to the node's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use am_api::NodeWaker;

use crate::ask::Sent;
use crate::error::CallError;
use crate::slot::{Outcome, Slot};
use crate::waiters::Waiters;

/// The most calls that wait to leave, and the most bytes of their arguments, unless one alone has more.
const MOST: usize = 1 << 16;
const MOST_BYTES: usize = 64 << 20;

/// What a thread wants.
#[derive(Debug)]
pub(crate) enum Wish {
    Call {
        sent: Sent,
        slot: Arc<Slot>,
    },
    /// Nobody waits for this call any more.
    Cancel(Arc<Slot>),
    /// Have all writes that are done anywhere.
    CatchUp(Arc<Slot>),
    /// Tell the others how often this object was used here.
    Report(u64),
}

impl Wish {
    /// Bytes of arguments.
    fn bytes(&self) -> usize {
        match self {
            Wish::Call { sent, .. } => sent.arguments.len(),
            Wish::Cancel(_) | Wish::CatchUp(_) | Wish::Report(_) => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Wishes {
    queue: VecDeque<Wish>,
    bytes: usize,
}

/// Wishes in the order of each thread.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// `None` once the space has ended.
    wishes: Mutex<Option<Wishes>>,
    waker: NodeWaker,
    pub(crate) waiters: Waiters,
    owner: ThreadId,
    began: Instant,
    /// When the last question whose answer has come was asked, in nanoseconds after the beginning: the objects here are not older. 0: never.
    fresh_at: AtomicU64,
    /// The time of a simulation, in nanoseconds.
    #[cfg(test)]
    pub(crate) simulated: AtomicU64,
}

impl Inbox {
    pub(crate) fn new(waker: NodeWaker) -> Inbox {
        let (wishes, owner) = (Mutex::new(Some(Wishes::default())), thread::current().id());
        Inbox {
            wishes,
            waker,
            waiters: Waiters::default(),
            owner,
            began: Instant::now(),
            fresh_at: AtomicU64::new(0),
            #[cfg(test)]
            simulated: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Wishes>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// End a wait of the thread that polls.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn is_on_node_thread(&self) -> bool {
        self.owner == thread::current().id()
    }

    pub(crate) fn call(&self, sent: Sent) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        self.push_for(Wish::Call { sent, slot: slot.clone() }, &slot);
        slot
    }

    /// A report on the use of an object is due. Without room there is another time.
    #[cold]
    pub(crate) fn used(&self, object: u64) {
        self.push(Wish::Report(object), MOST).unwrap_or_default();
    }

    /// The slot gets a result once all writes that are done anywhere now are done here.
    pub(crate) fn catch_up(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        self.push_for(Wish::CatchUp(slot.clone()), &slot);
        slot
    }

    /// Since the space was opened.
    pub(crate) fn time(&self) -> Duration {
        #[cfg(test)]
        if let nanoseconds @ 1.. = self.simulated.load(Relaxed) {
            return Duration::from_nanos(nanoseconds);
        }
        self.began.elapsed()
    }

    /// The objects here have all that was done anywhere at this time.
    pub(crate) fn is_fresh_at(&self, time: Duration) {
        self.fresh_at.fetch_max(time.as_nanos() as u64, Relaxed);
    }

    /// Whether the objects here are not older than this.
    pub(crate) fn is_within(&self, age: Duration) -> bool {
        let fresh_at = self.fresh_at.load(Relaxed);
        fresh_at > 0 && self.time().saturating_sub(Duration::from_nanos(fresh_at)) <= age
    }

    pub(crate) fn cancel(&self, slot: Arc<Slot>) {
        // It is for a call that had room.
        self.push(Wish::Cancel(slot), usize::MAX).unwrap_or_default();
    }

    fn push_for(&self, wish: Wish, slot: &Slot) {
        if let Err(why) = self.push(wish, MOST) {
            slot.put(Err(why));
        }
    }

    fn push(&self, wish: Wish, most: usize) -> Result<(), CallError> {
        let mut wishes = self.lock();
        let Wishes { queue, bytes } = wishes.as_mut().ok_or(CallError::Ended)?;
        let more = wish.bytes();
        if queue.len() >= most || more > 0 && *bytes > 0 && *bytes + more > MOST_BYTES {
            return Err(CallError::Full(queue.len()));
        }
        *bytes += more;
        queue.push_back(wish);
        drop(wishes);
        if !self.is_on_node_thread() {
            self.waker.wake();
        }
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<Wish> {
        let mut wishes = self.lock();
        let Wishes { queue, bytes } = wishes.as_mut()?;
        let wish = queue.pop_front()?;
        *bytes -= wish.bytes();
        Some(wish)
    }

    /// The space has ended: what waits here, and what comes, gets this.
    pub(crate) fn close(&self, outcome: &Outcome) {
        let wishes = self.lock().take();
        for wish in wishes.into_iter().flat_map(|wishes| wishes.queue) {
            match wish {
                Wish::Call { slot, .. } | Wish::CatchUp(slot) => slot.put(outcome.clone()),
                Wish::Cancel(_) | Wish::Report(_) => (),
            }
        }
    }
}
