//! Address identifiers: small numbers that stand for what one node has, in messages
//! of others (PVMAM §5.2: `am_address_to_id`, `am_id_to_address`, `am_bind_address_with_id`).

use slotmap::{DefaultKey, Key, KeyData, SlotMap};

/// What an identifier is in a message: one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u64);

/// A table of what others may name: a part of the state that handlers work on.
///
/// An address of one process means nothing to another, and one that came in a
/// message must not be trusted. An identifier can be sent, kept and sent
/// back; one that is over, or was made up, finds nothing.
///
/// ```
/// use am_api::{Endpoint, HandlerId, Id, Ids, Request};
///
/// struct Matrix(Vec<f64>);
/// struct State { matrices: Ids<Matrix> }
///
/// const SCALE: HandlerId = HandlerId(1);
///
/// fn serve(endpoint: &mut Endpoint<State>) {
///     endpoint.on_request(SCALE, |state: &mut State, Request { message: request, token }| {
///         let factor = f64::from_bits(request.word(1));
///         match state.matrices.lookup_mut(Id(request.word(0))) {
///             Some(Matrix(values)) => values.iter_mut().for_each(|value| *value *= factor),
///             None => _ = token.reply(SCALE, &[], b"no such matrix"),
///         }
///     });
/// }
///
/// let mut matrices = Ids::default();
/// let id = matrices.bind(Matrix(vec![1.0]));
/// assert!(matrices.lookup(id).is_some());
/// matrices.unbind(id);
/// assert!(matrices.lookup(id).is_none(), "whatever has its place now");
/// ```
#[derive(Clone, Debug)]
pub struct Ids<T> {
    bound: SlotMap<DefaultKey, T>,
}

impl<T> Default for Ids<T> {
    fn default() -> Self {
        Ids { bound: SlotMap::new() }
    }
}

impl<T> Ids<T> {
    /// An identifier for this.
    pub fn bind(&mut self, value: T) -> Id {
        Id(self.bound.insert(value).data().as_ffi())
    }

    /// What the identifier stands for; `None` where it stands for nothing (any more).
    pub fn lookup(&self, id: Id) -> Option<&T> {
        self.bound.get(key(id))
    }

    /// The same, to be changed.
    pub fn lookup_mut(&mut self, id: Id) -> Option<&mut T> {
        self.bound.get_mut(key(id))
    }

    /// Let the identifier stand for something else. What it stood for comes
    /// back.
    ///
    /// # Errors
    /// It stands for nothing: the value comes back.
    pub fn rebind(&mut self, id: Id, value: T) -> Result<T, T> {
        match self.bound.get_mut(key(id)) {
            Some(bound) => Ok(std::mem::replace(bound, value)),
            None => Err(value),
        }
    }

    /// The identifier stands for nothing from now on.
    pub fn unbind(&mut self, id: Id) -> Option<T> {
        self.bound.remove(key(id))
    }

    /// How many stand for something.
    pub fn len(&self) -> usize {
        self.bound.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }
}

fn key(id: Id) -> DefaultKey {
    KeyData::from_ffi(id.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_unbound_or_made_up_finds_nothing() {
        let mut ids = Ids::default();
        let first = ids.bind("first");
        assert_eq!(ids.unbind(first), Some("first"));
        let second = ids.bind("second");
        assert_ne!(first, second, "the same place, another identifier");
        assert_eq!((ids.lookup(first), ids.lookup(second)), (None, Some(&"second")));
        assert_eq!(ids.rebind(second, "other"), Ok("second"));
        assert_eq!(ids.rebind(first, "lost"), Err("lost"));
        for word in [0, 1, u64::MAX, second.0 ^ 1, second.0 ^ (1 << 40)] {
            assert_eq!(ids.lookup(Id(word)), None, "{word:x}");
        }
        assert_eq!((ids.len(), ids.is_empty()), (1, false));
    }
}
