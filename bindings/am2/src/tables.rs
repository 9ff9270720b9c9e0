//! Bundles and endpoints by the handles of C programs. A freed or invented handle finds nothing.

use std::ffi::c_void;
use std::ptr;

/// A handle of a C program. It is a number, not a pointer.
pub(crate) type Handle = *mut c_void;

/// A table of values by handle.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// Each place has a generation: the number of values that it has had.
    places: Vec<(usize, Option<T>)>,
    /// The number in this table's handles that distinguishes them from those of other tables.
    kind: usize,
}

/// The most bundles of a process, and the places of each table.
pub const MAX_BUNDLES: usize = 1 << 16;
const MAX_PLACES: usize = MAX_BUNDLES;
const PLACE_BITS: u32 = MAX_PLACES.trailing_zeros();
/// The number of kinds.
const KINDS: usize = 4;

impl<T: Clone> Table<T> {
    pub(crate) fn new(kind: usize) -> Table<T> {
        Table { places: vec![], kind }
    }

    /// `None` if the table is full.
    pub(crate) fn add(&mut self, make: impl FnOnce(Handle) -> T) -> Option<Handle> {
        let free = self.places.iter().position(|(_, thing)| thing.is_none());
        let at = free.unwrap_or(self.places.len());
        if at == MAX_PLACES {
            return None;
        }
        if free.is_none() {
            self.places.push((0, None));
        }
        let (generation, thing) = &mut self.places[at];
        *generation += 1;
        let handle = ptr::without_provenance_mut((((*generation << PLACE_BITS) | at) * KINDS) | self.kind);
        *thing = Some(make(handle));
        Some(handle)
    }

    fn place(&self, handle: Handle) -> Option<usize> {
        let number = handle.addr();
        let (at, generation) = (number / KINDS % MAX_PLACES, (number / KINDS) >> PLACE_BITS);
        let (last, _) = self.places.get(at)?;
        (number % KINDS == self.kind && *last == generation).then_some(at)
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<T> {
        self.places[self.place(handle)?].1.clone()
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let at = self.place(handle)?;
        self.places[at].1.take()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, thing)| thing.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_finds_what_it_was_made_for() {
        let (mut table, mut other) = (Table::new(1), Table::new(2));
        let first = table.add(|_| 'a').unwrap();
        assert_eq!((table.get(first), other.get(first)), (Some('a'), None));
        other.add(|_| 'x').unwrap();
        assert_eq!(other.get(first), None, "of another kind");
        assert_eq!((table.remove(first), table.get(first)), (Some('a'), None));
        let second = table.add(|_| 'b').unwrap();
        assert_eq!((table.get(first), table.get(second)), (None, Some('b')));
        assert_eq!((table.get(ptr::null_mut()), table.get(ptr::without_provenance_mut(usize::MAX))), (None, None));
        assert_eq!(table.all().copied().collect::<String>(), "b");
    }
}
