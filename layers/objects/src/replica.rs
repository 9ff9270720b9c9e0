//! This process's copy of an object.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use am_rpc::codec::{EncodeError, from_bytes, to_canonical_vec, to_vec};

use crate::error::CallError;
use crate::object::{Object, Operation, schema_of};
use crate::running::{self, Running};
use crate::uses::Uses;

/// An object's value here. Threads read it while the node's thread writes.
pub(crate) struct Replica<T> {
    state: RwLock<State<T>>,
    pub(crate) uses: Uses,
}

struct State<T> {
    value: T,
    /// A write has panicked: here and at every other process.
    is_poisoned: bool,
    /// The value is the object's. It is not while another process keeps the object.
    is_here: bool,
}

/// The value, while no write runs. `None`: an operation of the object runs on this thread, which would wait for itself.
pub(crate) struct Seen<'a, T>(Option<(RwLockReadGuard<'a, State<T>>, Running)>);

impl<T> Seen<'_, T> {
    pub(crate) fn value(&self) -> Result<&T, CallError> {
        let (state, _) = self.0.as_ref().ok_or(CallError::InOperation)?;
        if state.is_poisoned { Err(CallError::Poisoned) } else { Ok(&state.value) }
    }
}

impl<T: Object> Replica<T> {
    fn new(state: &[u8], is_poisoned: bool) -> Option<Replica<T>> {
        let value = read(state)?;
        let state = RwLock::new(State { value, is_poisoned, is_here: true });
        Some(Replica { state, uses: Uses::default() })
    }

    /// Nothing panics while it has the lock, because operations that panic are caught within.
    fn lock(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn share(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value. `None`: another process keeps the object.
    #[inline]
    pub(crate) fn seen(&self) -> Option<Seen<'_, T>> {
        if running::runs(self) {
            return Some(Seen(None));
        }
        let state = self.share();
        state.is_here.then(|| Seen(Some((state, Running::of(self)))))
    }
}

/// The same of any type.
pub(crate) trait AnyReplica: Send + Sync {
    /// Whether a write can run now.
    fn may_run(&self, operation: usize, arguments: &[u8]) -> Result<bool, CallError>;
    fn run(&self, operation: usize, arguments: &[u8], wants_result: bool) -> Result<Option<Vec<u8>>, CallError>;
    /// A read for another process.
    fn read(&self, operation: usize, arguments: &[u8]) -> Result<Vec<u8>, CallError>;
    /// The bytes of the value.
    fn size(&self) -> usize;
    /// `Malformed`: its `Encode` fails or panics.
    fn save(&self) -> Result<Vec<u8>, CallError>;
    /// The value, in bytes that are the same at every process.
    fn canonical(&self) -> Result<Vec<u8>, CallError>;
    fn is_poisoned(&self) -> bool;
    /// Begin with this value. Returns whether the bytes are one.
    fn restore(&self, state: &[u8], is_poisoned: bool) -> bool;
    /// Go on with the value of another replica, if it is of the same type.
    fn take_from(&self, other: Arc<dyn AnyReplica>) -> bool;
    /// Whether the object is here from now on.
    fn place(&self, is_here: bool);
    fn uses(&self) -> &Uses;
    fn operation(&self, operation: usize) -> Option<&'static Operation>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Object> AnyReplica for Replica<T> {
    fn may_run(&self, operation: usize, arguments: &[u8]) -> Result<bool, CallError> {
        let mut state = self.lock();
        if state.is_poisoned {
            return Err(CallError::Poisoned);
        }
        let _runs = Running::of(self);
        let may_run = catch_unwind(AssertUnwindSafe(|| state.value.may_run(operation, arguments)));
        may_run.map_err(|_| poison(&mut state))?.map_err(|_| CallError::Malformed)
    }

    fn run(&self, operation: usize, arguments: &[u8], wants_result: bool) -> Result<Option<Vec<u8>>, CallError> {
        let mut state = self.lock();
        if state.is_poisoned {
            return Err(CallError::Poisoned);
        }
        let _runs = Running::of(self);
        let run = catch_unwind(AssertUnwindSafe(|| state.value.run(operation, arguments, wants_result)));
        run.map_err(|_| poison(&mut state))?.map_err(|_| CallError::Malformed)
    }

    fn read(&self, operation: usize, arguments: &[u8]) -> Result<Vec<u8>, CallError> {
        let state = self.share();
        if state.is_poisoned {
            return Err(CallError::Poisoned);
        }
        // A read that panics changes nothing.
        let _runs = Running::of(self);
        let read = catch_unwind(AssertUnwindSafe(|| state.value.read(operation, arguments)));
        read.map_err(|_| CallError::Malformed)?.map_err(|_| CallError::Malformed)
    }

    fn size(&self) -> usize {
        let state = self.share();
        catch_unwind(AssertUnwindSafe(|| state.value.size())).unwrap_or_default()
    }

    fn save(&self) -> Result<Vec<u8>, CallError> {
        let state = self.share();
        written(|| to_vec(&state.value))
    }

    fn canonical(&self) -> Result<Vec<u8>, CallError> {
        let state = self.share();
        written(|| to_canonical_vec(&state.value))
    }

    fn is_poisoned(&self) -> bool {
        self.share().is_poisoned
    }

    fn restore(&self, state: &[u8], is_poisoned: bool) -> bool {
        let Some(value) = read(state) else { return false };
        let mut state = self.lock();
        let old = std::mem::replace(&mut state.value, value);
        state.is_poisoned = is_poisoned;
        drop(state);
        // The value here is the new one, whatever the old one's `Drop` does.
        catch_unwind(AssertUnwindSafe(|| drop(old))).unwrap_or_default();
        true
    }

    fn take_from(&self, other: Arc<dyn AnyReplica>) -> bool {
        let Ok(other) = other.into_any().downcast::<Replica<T>>() else { return false };
        std::mem::swap(&mut *self.lock(), &mut *other.lock());
        true
    }

    fn place(&self, is_here: bool) {
        self.lock().is_here = is_here;
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }

    fn operation(&self, operation: usize) -> Option<&'static Operation> {
        T::OPERATIONS.get(operation)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A value, unless its `Decode` fails or panics.
fn read<T: Object>(bytes: &[u8]) -> Option<T> {
    catch_unwind(|| from_bytes(bytes).ok()).ok()?
}

fn written(write: impl FnOnce() -> Result<Vec<u8>, EncodeError>) -> Result<Vec<u8>, CallError> {
    catch_unwind(AssertUnwindSafe(write)).unwrap_or(Err(EncodeError::Panicked)).map_err(|_| CallError::Malformed)
}

fn poison<T>(state: &mut State<T>) -> CallError {
    state.is_poisoned = true;
    CallError::Poisoned
}

/// Opens a replica by its value, and whether it is poisoned.
type Open = fn(&[u8], bool) -> Option<Arc<dyn AnyReplica>>;

/// An object type that this program has.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) schema: u64,
    /// A replica with this value, which may be poisoned. `None`: the bytes are none.
    pub(crate) open: Open,
}

impl Type {
    pub(crate) fn of<T: Object>() -> Type {
        let open =
            |state: &[u8], is_poisoned| Some(Arc::new(Replica::<T>::new(state, is_poisoned)?) as Arc<dyn AnyReplica>);
        Type { name: T::NAME, schema: schema_of::<T>(), open }
    }
}
