//! Messages that are longer than a peer accepts at once: pieces of a member's state, as a rule.
//!
//! ```text
//!   sender ── part: to, place in bytes, bytes in all ──▶ the same connection, in order ──▶ whole again
//! ```
//!
//! A connection that ends takes the parts with it, and the protocol asks for the message again: its first part begins anew.

use std::collections::BTreeMap;

use am_ordered_core::MemberId;

/// The longest message.
const MOST: usize = 1 << 30;
/// The memory that a first part is given: a piece of a state fits. What a peer claims beyond it is not believed.
const AT_FIRST: usize = 1 << 20 | 1 << 12;
/// The most messages of which parts are here.
const MOST_AT_ONCE: usize = 4;

/// Messages of which not all parts are here, by their senders.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    messages: BTreeMap<MemberId, Vec<u8>>,
}

/// A part that fits no other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misplaced;

impl Parts {
    /// A part has arrived, which begins at this place of a message of `all` bytes. Returns the message once it is whole.
    pub(crate) fn on_part(
        &mut self,
        from: MemberId,
        place: usize,
        all: usize,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, Misplaced> {
        if place == 0 {
            if self.messages.len() >= MOST_AT_ONCE && !self.messages.contains_key(&from) {
                self.messages.pop_first();
            }
            self.messages.insert(from, Vec::with_capacity(all.min(AT_FIRST)));
        }
        let message = self.messages.get_mut(&from).filter(|message| message.len() == place).ok_or(Misplaced)?;
        let end = place.saturating_add(bytes.len());
        if bytes.is_empty() || end > all || all > MOST {
            self.messages.remove(&from);
            return Err(Misplaced);
        }
        message.extend_from_slice(bytes);
        Ok(if end == all { self.messages.remove(&from) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: MemberId = MemberId(7);

    #[test]
    fn parts_are_whole_again_and_a_first_part_begins_anew() {
        let mut parts = Parts::default();
        assert_eq!(parts.on_part(FROM, 0, 5, b"ab"), Ok(None));
        assert_eq!(parts.on_part(FROM, 0, 5, b"AB"), Ok(None));
        assert_eq!(parts.on_part(MemberId(8), 0, 1, b"x"), Ok(Some(b"x".into())));
        assert_eq!(parts.on_part(FROM, 2, 5, b"CDE"), Ok(Some(b"ABCDE".into())));
        assert_eq!(parts.on_part(FROM, 5, 6, b"F"), Err(Misplaced), "it is over");
    }

    #[test]
    fn what_makes_no_sense_is_forgotten() {
        for (place, all, bytes) in
            [(1, 5, &b"c"[..]), (2, 5, b""), (2, 3, b"cd"), (2, usize::MAX, b"cd"), (usize::MAX, usize::MAX, b"cd")]
        {
            let mut parts = Parts::default();
            parts.on_part(FROM, 0, 5, b"ab").expect("it is the first");
            assert_eq!(parts.on_part(FROM, place, all, bytes), Err(Misplaced), "{place} of {all}");
        }
        let mut parts = Parts::default();
        (0..9).for_each(|id| _ = parts.on_part(MemberId(id), 0, 5, b"ab"));
        assert_eq!(parts.messages.len(), MOST_AT_ONCE);
    }
}
