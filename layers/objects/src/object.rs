//! What a type is as an object. `#[object]` writes it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use am_rpc::codec::{Decode, DecodeError, Encode, EncodeError, Schema, to_vec};

/// A type whose values are shared. [`#[object]`](crate::object) writes it; its value travels to processes that join, so the type derives
/// [`Wire`](crate::Wire).
pub trait Object: Encode + for<'a> Decode<'a> + Schema + Send + Sync + 'static {
    /// The type's name, the same in all programs of a space.
    const NAME: &'static str;
    /// Its reads.
    const READS: &'static [Operation];
    /// Its writes.
    const OPERATIONS: &'static [Operation];

    /// Runs a read, for a process that has no copy. Returns its result in bytes.
    ///
    /// # Errors
    /// There is no such operation, the bytes are no arguments of it, or its result cannot be written.
    fn read(&self, operation: usize, arguments: &[u8]) -> Result<Vec<u8>, Malformed>;

    /// Whether the guard of a write holds. One without a guard may always run.
    ///
    /// # Errors
    /// The bytes are no arguments of it.
    fn may_run(&self, operation: usize, arguments: &[u8]) -> Result<bool, Malformed>;

    /// Runs a write. Returns its result in bytes, if it is wanted.
    ///
    /// # Errors
    /// There is no such operation, the bytes are no arguments of it, or its result cannot be written.
    fn run(&mut self, operation: usize, arguments: &[u8], wants_result: bool) -> Result<Option<Vec<u8>>, Malformed>;
}

/// An operation of an object type.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// Whether it waits until a guard holds.
    pub has_guard: bool,
    /// Whether its guard depends on its arguments.
    pub guard_has_arguments: bool,
    /// A number for its arguments and its result.
    pub schema: u64,
}

/// Bytes that are no arguments of an operation, or a result that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl From<DecodeError> for Malformed {
    fn from(_: DecodeError) -> Malformed {
        Malformed
    }
}

impl From<EncodeError> for Malformed {
    fn from(_: EncodeError) -> Malformed {
        Malformed
    }
}

/// An operation's result in bytes, for the process that has called it. The operation has run, there and at the others: a panic is the result's alone.
#[doc(hidden)]
pub fn result_bytes(result: &impl Encode) -> Result<Vec<u8>, Malformed> {
    catch_unwind(AssertUnwindSafe(|| to_vec(result))).map_err(|_| Malformed)?.map_err(Malformed::from)
}

/// A number for a type's value and its operations: programs whose numbers are equal have the same type.
pub(crate) fn schema_of<T: Object>() -> u64 {
    T::OPERATIONS.iter().chain(T::READS).fold(T::SCHEMA, |sum, operation| {
        let name = operation.name.bytes().fold(operation.schema, |sum, byte| mix(sum ^ u64::from(byte)));
        mix(sum.rotate_left(1) ^ name ^ u64::from(operation.has_guard))
    })
}

fn mix(number: u64) -> u64 {
    (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
