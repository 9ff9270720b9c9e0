//! An object as a program has it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use am_rpc::codec::{Decode, Encode, to_vec};

use crate::ask::Sent;
use crate::call::Call;
use crate::error::CallError;
use crate::inbox::Inbox;
use crate::object::Object;
use crate::replica::{Replica, Seen};

/// An object of a space. Clones are the same object; any thread may have one.
pub struct Shared<T> {
    replica: Arc<Replica<T>>,
    object: u64,
    inbox: Arc<Inbox>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared { replica: self.replica.clone(), object: self.object, inbox: self.inbox.clone() }
    }
}

impl<T: Object> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", T::NAME, self.object)
    }
}

impl<T: Object> Shared<T> {
    pub(crate) fn new(replica: Arc<Replica<T>>, object: u64, inbox: Arc<Inbox>) -> Shared<T> {
        Shared { replica, object, inbox }
    }

    pub(crate) fn is_of(&self, inbox: &Arc<Inbox>) -> bool {
        Arc::ptr_eq(&self.inbox, inbox)
    }

    pub(crate) fn number(&self) -> u64 {
        self.object
    }

    /// The object's reads. They look at this process's copy, without a message. All processes see the writes in one order, and a
    /// process sees a write of its own once the write's call is done. Reads of an object that another process keeps ask that process.
    #[inline]
    pub fn read(&self) -> Reads<'_, T> {
        Reads(self)
    }

    /// The object's reads, once this process has all writes that are done anywhere now: linearizable. It takes a round trip to a majority of the
    /// space's processes. Read at once: what is read later may be old again.
    pub fn read_latest(&self) -> Latest<'_, T> {
        Latest { shared: self, caught_up: Call::pending(self.inbox.catch_up(), self.inbox.clone(), false) }
    }

    /// The object's reads, once this process has all writes that were done anywhere before this time: at once, if it has caught up since, as for
    /// [`read_latest`](Shared::read_latest) of any object.
    pub fn read_within(&self, age: Duration) -> Latest<'_, T> {
        match self.inbox.is_within(age) {
            true => Latest { shared: self, caught_up: Call::ready(Ok(())) },
            false => self.read_latest(),
        }
    }

    /// The object's writes. They run at every process, at the same place in the order of all writes; or at the one process that keeps the object.
    #[inline]
    pub fn write(&self) -> Writes<'_, T> {
        Writes(self)
    }

    fn call<R: for<'a> Decode<'a>>(&self, operation: usize, is_read: bool, arguments: &impl Encode) -> Call<R> {
        let Ok(arguments) = to_vec(arguments) else { return Call::ready(Err(CallError::Malformed)) };
        let may_wait = !is_read && T::OPERATIONS.get(operation).is_some_and(|operation| operation.has_guard);
        let sent = Sent { object: self.object, is_read, may_wait, operation: operation as u16, arguments };
        Call::pending(self.inbox.call(sent), self.inbox.clone(), may_wait)
    }

    #[inline]
    fn count(&self, is_due: bool) {
        if is_due {
            self.inbox.used(self.object);
        }
    }
}

/// The reads of an object: the functions of the trait `QueueReads`, for an object `Queue`.
// The functions of the two have no `self`: an object's operations may have their names.
#[derive(Debug)]
pub struct Reads<'a, T: Object>(&'a Shared<T>);

impl<T: Object> Reads<'_, T> {
    /// The value, if it is at this process.
    #[doc(hidden)]
    #[inline]
    pub fn here(reads: &Self) -> Option<Here<'_, T>> {
        reads.0.count(reads.0.replica.uses.read());
        reads.0.replica.seen().map(Here)
    }

    /// Ask the process that keeps the object.
    #[doc(hidden)]
    pub fn ask<R: for<'a> Decode<'a>>(reads: &Self, operation: usize, arguments: &impl Encode) -> Call<R> {
        reads.0.call(operation, true, arguments)
    }
}

/// An object's value at this process.
#[doc(hidden)]
pub struct Here<'a, T>(Seen<'a, T>);

impl<T> Here<'_, T> {
    #[inline]
    pub fn run<R>(self, read: impl FnOnce(&T) -> R) -> Call<R> {
        Call::ready(self.0.value().map(read))
    }
}

impl<T> fmt::Debug for Here<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Here").finish_non_exhaustive()
    }
}

/// A future of the object's [`Reads`].
#[must_use = "await it, or give it to `Space::block_on`"]
#[derive(Debug)]
pub struct Latest<'a, T: Object> {
    shared: &'a Shared<T>,
    caught_up: Call<()>,
}

impl<'a, T: Object> Latest<'a, T> {
    /// Wait, on a thread that does not poll the space.
    ///
    /// # Errors
    /// [`CallError::NotRun`], if no majority has answered for the space's patience.
    pub fn wait(self) -> Result<Reads<'a, T>, CallError> {
        self.caught_up.wait().map(|()| Reads(self.shared))
    }
}

impl<'a, T: Object> Future for Latest<'a, T> {
    type Output = Result<Reads<'a, T>, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.caught_up).poll(cx).map_ok(|()| Reads(self.shared))
    }
}

/// The writes of an object: the functions of the trait `QueueWrites`, for an object `Queue`.
#[derive(Debug)]
pub struct Writes<'a, T: Object>(&'a Shared<T>);

impl<T: Object> Writes<'_, T> {
    #[doc(hidden)]
    pub fn run<R: for<'a> Decode<'a>>(writes: &Self, operation: usize, arguments: &impl Encode) -> Call<R> {
        writes.0.count(writes.0.replica.uses.write());
        writes.0.call(operation, false, arguments)
    }
}
