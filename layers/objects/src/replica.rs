//! This process's copy of an object.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use am_rpc::codec::{from_bytes, to_canonical_vec, to_vec};

use crate::error::CallError;
use crate::object::{Object, Operation, schema_of};

/// An object's value here. Threads read it while the node's thread writes.
pub(crate) struct Replica<T>(RwLock<State<T>>);

struct State<T> {
    value: T,
    /// A write has panicked: here and at every other process.
    is_poisoned: bool,
}

impl<T: Object> Replica<T> {
    fn new(state: &[u8]) -> Option<Replica<T>> {
        let value = from_bytes(state).ok()?;
        Some(Replica(RwLock::new(State { value, is_poisoned: false })))
    }

    /// Nothing panics while it has the lock, because operations that panic are caught within.
    fn lock(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn share(&self) -> RwLockReadGuard<'_, State<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Look at the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> Result<R, CallError> {
        let state = self.share();
        if state.is_poisoned { Err(CallError::Poisoned) } else { Ok(read(&state.value)) }
    }
}

/// The same of any type.
pub(crate) trait AnyReplica: Send + Sync {
    /// Whether a write can run now.
    fn may_run(&self, operation: usize, arguments: &[u8]) -> Result<bool, CallError>;
    fn run(&self, operation: usize, arguments: &[u8], wants_result: bool) -> Result<Option<Vec<u8>>, CallError>;
    fn save(&self) -> Vec<u8>;
    /// The value, in bytes that are the same at every process.
    fn canonical(&self) -> Vec<u8>;
    fn is_poisoned(&self) -> bool;
    /// Begin with this value. Returns whether the bytes are one.
    fn restore(&self, state: &[u8], is_poisoned: bool) -> bool;
    fn operation(&self, operation: usize) -> Option<&'static Operation>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Object> AnyReplica for Replica<T> {
    fn may_run(&self, operation: usize, arguments: &[u8]) -> Result<bool, CallError> {
        let mut state = self.lock();
        if state.is_poisoned {
            return Err(CallError::Poisoned);
        }
        let may_run = catch_unwind(AssertUnwindSafe(|| state.value.may_run(operation, arguments)));
        may_run.map_err(|_| poison(&mut state))?.map_err(|_| CallError::Malformed)
    }

    fn run(&self, operation: usize, arguments: &[u8], wants_result: bool) -> Result<Option<Vec<u8>>, CallError> {
        let mut state = self.lock();
        if state.is_poisoned {
            return Err(CallError::Poisoned);
        }
        let run = catch_unwind(AssertUnwindSafe(|| state.value.run(operation, arguments, wants_result)));
        run.map_err(|_| poison(&mut state))?.map_err(|_| CallError::Malformed)
    }

    fn save(&self) -> Vec<u8> {
        to_vec(&self.share().value).unwrap_or_default()
    }

    fn canonical(&self) -> Vec<u8> {
        to_canonical_vec(&self.share().value).unwrap_or_default()
    }

    fn is_poisoned(&self) -> bool {
        self.share().is_poisoned
    }

    fn restore(&self, state: &[u8], is_poisoned: bool) -> bool {
        let Ok(value) = from_bytes(state) else { return false };
        *self.lock() = State { value, is_poisoned };
        true
    }

    fn operation(&self, operation: usize) -> Option<&'static Operation> {
        T::OPERATIONS.get(operation)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

fn poison<T>(state: &mut State<T>) -> CallError {
    state.is_poisoned = true;
    CallError::Poisoned
}

/// An object type that this program has.
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) schema: u64,
    /// A replica with this value. `None`: the bytes are none.
    pub(crate) open: fn(&[u8]) -> Option<Arc<dyn AnyReplica>>,
}

impl Type {
    pub(crate) fn of<T: Object>() -> Type {
        let open = |state: &[u8]| Some(Arc::new(Replica::<T>::new(state)?) as Arc<dyn AnyReplica>);
        Type { name: T::NAME, schema: schema_of::<T>(), open }
    }
}
