//! A test's helper: operations that run twice.

use std::fmt::Debug;

use am_rpc::codec::{from_bytes, to_canonical_vec};

use crate::object::Object;

/// Runs each operation on two copies of an object, and tells them apart: for tests of an object type. A write that depends on a clock, on random numbers or on the order of a
/// `HashMap` differs at the processes of a space; here it panics.
///
/// ```
/// # use am_objects::{Twice, Wire, object};
/// # use std::collections::HashSet;
/// #[derive(Default, Wire)]
/// struct Names(HashSet<String>);
///
/// #[object]
/// impl Names {
///     #[write]
///     fn add(&mut self, name: String) {
///         self.0.insert(name);
///     }
///
///     #[write]
///     fn first(&mut self) -> Option<String> {
///         self.0.iter().next().cloned() // Which one is that?
///     }
/// }
///
/// let mut names = Twice::new(&Names::default());
/// (0..9).for_each(|number| names.run(|names| names.add(number.to_string())));
/// let differs = std::panic::catch_unwind(move || (0..9).for_each(|_| _ = names.run(|names| names.first())));
/// assert!(differs.is_err());
/// ```
#[derive(Debug)]
pub struct Twice<T>([T; 2]);

impl<T: Object> Twice<T> {
    /// Two copies of this value.
    ///
    /// # Panics
    /// The value cannot be written and read again.
    #[must_use]
    pub fn new(value: &T) -> Twice<T> {
        Twice([copy(value), copy(value)])
    }

    /// Run an operation on both copies. Then one of them goes on as a copy of itself, as at a process that joins.
    ///
    /// # Panics
    /// The results or the values differ.
    pub fn run<R: PartialEq + Debug>(&mut self, operation: impl Fn(&mut T) -> R) -> R {
        let [one, other] = &mut self.0;
        let (result, again) = (operation(one), operation(other));
        assert_eq!(result, again, "two processes would have different results");
        assert!(bytes(one) == bytes(other), "two processes would have different values of `{}`", T::NAME);
        *other = copy(other);
        result
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.0[0]
    }
}

fn bytes<T: Object>(value: &T) -> Vec<u8> {
    to_canonical_vec(value).expect("a value of an object travels to processes that join")
}

fn copy<T: Object>(value: &T) -> T {
    from_bytes(&bytes(value)).expect("what was written is read again")
}
