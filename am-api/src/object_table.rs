//! Names for a program's objects in messages (PVMAM §5.2: `am_address_to_id`, `am_id_to_address`, `am_bind_address_with_id`).

use derive_where::derive_where;
use slotmap::{DefaultKey, Key, KeyData, SlotMap};

/// The name of an object in messages: one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u64);

/// Objects that peers may name: a part of the state that handlers work on.
///
/// An address of one process means nothing to another, and one that came in a message must not be trusted. An id can be
/// sent, kept and sent back. An id whose object was removed, or that was made up, finds nothing.
///
/// ```
/// use am_api::{Endpoint, HandlerId, ObjectId, ObjectTable, Request};
///
/// struct Matrix(Vec<f64>);
/// struct State { matrices: ObjectTable<Matrix> }
///
/// const SCALE: HandlerId = HandlerId(1);
///
/// fn serve(endpoint: &mut Endpoint<State>) {
///     endpoint.on_request(SCALE, |state, Request { message, token }| {
///         let factor = f64::from_bits(message.word(1));
///         match state.matrices.get_mut(ObjectId(message.word(0))) {
///             Some(Matrix(values)) => values.iter_mut().for_each(|value| *value *= factor),
///             None => _ = token.reply(SCALE, &[], b"no such matrix"),
///         }
///     });
/// }
///
/// let mut matrices = ObjectTable::default();
/// let id = matrices.insert(Matrix(vec![1.0]));
/// assert!(matrices.get(id).is_some());
/// matrices.remove(id);
/// assert!(matrices.get(id).is_none(), "whatever has its place now");
/// ```
#[derive(Clone, Debug)]
#[derive_where(Default)]
pub struct ObjectTable<T> {
    objects: SlotMap<DefaultKey, T>,
}

impl<T> ObjectTable<T> {
    /// Adds an object and returns its id.
    pub fn insert(&mut self, object: T) -> ObjectId {
        ObjectId(self.objects.insert(object).data().as_ffi())
    }

    /// The object of this id.
    pub fn get(&self, id: ObjectId) -> Option<&T> {
        self.objects.get(key(id))
    }

    /// The object of this id, to change or replace.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut T> {
        self.objects.get_mut(key(id))
    }

    /// Removes and returns the object of this id, which finds nothing from now on.
    pub fn remove(&mut self, id: ObjectId) -> Option<T> {
        self.objects.remove(key(id))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

fn key(id: ObjectId) -> DefaultKey {
    KeyData::from_ffi(id.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_was_removed_or_made_up_finds_nothing() {
        let mut table = ObjectTable::default();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_ne!(first, second, "the same place, another id");
        assert_eq!((table.get(first), table.get(second)), (None, Some(&"second")));
        for word in [0, 1, u64::MAX, second.0 ^ 1, second.0 ^ (1 << 40)] {
            assert_eq!(table.get(ObjectId(word)), None, "{word:x}");
        }
        assert_eq!((table.len(), table.is_empty()), (1, false));
    }
}
