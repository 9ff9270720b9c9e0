//! Long messages, whose content and order arrive apart from each other.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::log::Entry;
use crate::view::{MemberId, Number};

/// The most bytes of contents whose order is not known. What is dropped beyond them is asked for again, like a gap.
const MOST_BYTES: usize = 256 << 20;
/// The most messages of either kind.
const MOST: usize = 8192;

/// Contents without a place in the order, and places without a content.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    contents: BTreeMap<(MemberId, u64), Bytes>,
    bytes: usize,
    /// With the length of the content.
    entries: BTreeMap<(MemberId, u64), (Entry, u64)>,
}

impl Apart {
    /// A message with this place has no content yet.
    pub(crate) fn wait(&mut self, id: u64, length: u64, entry: Entry) {
        if self.entries.len() < MOST {
            self.entries.insert((entry.sender, id), (entry, length));
        }
    }

    /// If the message at this number waits for its content: the bytes of all contents that are waited for.
    pub(crate) fn awaited(&self, number: Number) -> Option<u64> {
        let mut entries = self.entries.values();
        let all = || self.entries.values().fold(0, |sum: u64, (_, length)| sum.saturating_add(*length));
        entries.any(|(entry, _)| entry.number == number).then(all)
    }

    /// The content of a message whose place is known by now.
    pub(crate) fn take(&mut self, sender: MemberId, id: u64) -> Option<Bytes> {
        let payload = self.contents.remove(&(sender, id))?;
        self.bytes -= payload.len();
        Some(payload)
    }

    /// A content has arrived. Returns the message, if its place is known.
    pub(crate) fn arrived(&mut self, sender: MemberId, id: u64, payload: Bytes) -> Option<Entry> {
        if let Some((entry, _)) = self.entries.remove(&(sender, id)) {
            return Some(Entry { payload, ..entry });
        }
        let fits = self.contents.len() < MOST && self.bytes + payload.len() <= MOST_BYTES;
        if fits && !self.contents.contains_key(&(sender, id)) {
            self.bytes += payload.len();
            self.contents.insert((sender, id), payload);
        }
        None
    }

    /// An epoch ends: its places are void, and what has none is sent again in the next one.
    pub(crate) fn clear(&mut self) {
        *self = Apart::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::log::Level;
    use crate::view::Epoch;

    const SENDER: MemberId = MemberId(3);

    fn entry() -> Entry {
        let (epoch, level, payload) = (Epoch(1), Level::Agreed, Bytes::new());
        Entry { epoch, number: 7, sender: SENDER, seq: 0, level, payload }
    }

    #[test]
    fn content_and_place_come_together_in_either_order() {
        let (mut apart, payload) = (Apart::default(), Bytes::from_static(b"long"));
        apart.wait(5, 4, entry());
        assert_eq!((apart.awaited(7), apart.awaited(8)), (Some(4), None));
        assert_eq!(apart.arrived(SENDER, 5, payload.clone()), Some(Entry { payload: payload.clone(), ..entry() }));
        assert_eq!(apart.arrived(SENDER, 6, payload.clone()), None);
        assert_eq!((apart.take(SENDER, 6), apart.take(SENDER, 6)), (Some(payload), None));
        assert_eq!(apart.bytes, 0);
    }

    #[test]
    fn contents_are_bounded() {
        let mut apart = Apart::default();
        for id in 0..300 {
            apart.arrived(SENDER, id, Bytes::from(vec![0; 1 << 20]));
        }
        assert_eq!((apart.contents.len(), apart.bytes), (256, MOST_BYTES));
        apart.clear();
        assert_eq!((apart.contents.len(), apart.bytes), (0, 0));
    }
}
