//! Long messages, whose content and order arrive apart from each other.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::log::{Entry, Long};
use crate::view::{MemberId, Number, View};

/// The most bytes of contents whose order is not known. What is dropped beyond them is asked for again, like a gap.
const MOST_BYTES: usize = 256 << 20;
/// The most messages of either kind.
const MOST: usize = 8192;

/// Contents of messages that are not delivered, and places without a content. A content outlives its epoch: what the epoch has not ordered
/// gets another place in the next one, and is not sent again.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    contents: BTreeMap<(MemberId, u64), Bytes>,
    bytes: usize,
    entries: BTreeMap<(MemberId, u64), Entry>,
}

impl Apart {
    /// A message with this place has no content yet.
    pub(crate) fn wait(&mut self, long: Long, entry: Entry) {
        if self.entries.len() < MOST {
            self.entries.insert((entry.sender, long.id), entry);
        }
    }

    /// Whether a member waits for this content.
    pub(crate) fn awaits(&self, sender: MemberId, id: u64) -> bool {
        self.entries.contains_key(&(sender, id))
    }

    /// If the message at this number waits for its content: its sender, and the content's name.
    pub(crate) fn awaited(&self, number: Number) -> Option<(MemberId, Long)> {
        let entry = self.entries.values().find(|entry| entry.number == number)?;
        Some((entry.sender, entry.long?))
    }

    /// The bytes of all contents that are waited for.
    pub(crate) fn awaited_bytes(&self) -> u64 {
        let lengths = self.entries.values().filter_map(|entry| entry.long).map(|long| long.length);
        lengths.fold(0, u64::saturating_add)
    }

    /// A content that has arrived.
    pub(crate) fn content(&self, sender: MemberId, id: u64) -> Option<&Bytes> {
        self.contents.get(&(sender, id))
    }

    /// A content has arrived. Returns the message, if its place is known.
    pub(crate) fn arrived(&mut self, sender: MemberId, id: u64, payload: Bytes) -> Option<Entry> {
        let fits = self.contents.len() < MOST && self.bytes + payload.len() <= MOST_BYTES;
        if fits && !self.contents.contains_key(&(sender, id)) {
            self.bytes += payload.len();
            self.contents.insert((sender, id), payload.clone());
        }
        self.entries.remove(&(sender, id)).map(|entry| Entry { payload, ..entry })
    }

    /// A message is delivered, and so are those that its sender has sent before it.
    pub(crate) fn forget(&mut self, sender: MemberId, id: u64) {
        self.retain(|of, other| of != sender || other > id);
    }

    /// The messages from this number on are others.
    pub(crate) fn truncate(&mut self, end: Number) {
        self.entries.retain(|_, entry| entry.number < end);
    }

    /// An epoch ends: its places are void. A process that is no member any more sends nothing for its contents.
    pub(crate) fn begin(&mut self, view: &View) {
        self.entries.clear();
        self.retain(|sender, _| view.has(sender));
    }

    fn retain(&mut self, is_kept: impl Fn(MemberId, u64) -> bool) {
        self.contents.retain(|(sender, id), _| is_kept(*sender, *id));
        self.bytes = self.contents.values().map(Bytes::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::log::Level;
    use crate::view::{Epoch, Member};

    const SENDER: MemberId = MemberId(3);
    const LONG: Long = Long { id: 5, length: 4 };

    fn entry() -> Entry {
        let (epoch, level, payload) = (Epoch(1), Level::Agreed, Bytes::new());
        Entry { epoch, number: 7, sender: SENDER, seq: 0, level, long: Some(LONG), payload }
    }

    #[test]
    fn content_and_place_come_together_in_either_order() {
        let (mut apart, payload) = (Apart::default(), Bytes::from_static(b"long"));
        apart.wait(LONG, entry());
        assert_eq!((apart.awaited(7), apart.awaited(8), apart.awaited_bytes()), (Some((SENDER, LONG)), None, 4));
        assert_eq!(apart.arrived(SENDER, 5, payload.clone()), Some(Entry { payload: payload.clone(), ..entry() }));
        assert_eq!(apart.arrived(SENDER, 6, payload.clone()), None);
        assert_eq!((apart.content(SENDER, 6), apart.awaited(7)), (Some(&payload), None));
    }

    #[test]
    fn a_place_that_another_message_has_is_not_waited_for() {
        let mut apart = Apart::default();
        apart.wait(LONG, entry());
        apart.truncate(8);
        assert!(apart.awaits(SENDER, LONG.id));
        apart.truncate(7);
        assert!(!apart.awaits(SENDER, LONG.id) && apart.awaited(7).is_none());
    }

    #[test]
    fn a_content_outlives_its_epoch_until_it_is_delivered() {
        let (mut apart, other) = (Apart::default(), MemberId(4));
        let members = vec![Member { id: SENDER, name: "m3".into(), link: 0 }];
        let view = View { group: 7, epoch: Epoch(2), members, sequencer: SENDER, tie_break: None };
        apart.wait(LONG, entry());
        for (sender, id) in [(SENDER, 5), (SENDER, 6), (other, 5)] {
            apart.arrived(sender, id, Bytes::from_static(b"long"));
        }
        apart.wait(Long { id: 7, length: 4 }, entry());
        apart.begin(&view);
        assert!(apart.content(SENDER, 5).is_some() && apart.content(other, 5).is_none() && apart.awaited(7).is_none());
        apart.forget(SENDER, 5);
        assert!(apart.content(SENDER, 5).is_none() && apart.content(SENDER, 6).is_some() && apart.bytes == 4);
    }

    #[test]
    fn contents_are_bounded() {
        let mut apart = Apart::default();
        for id in 0..300 {
            apart.arrived(SENDER, id, Bytes::from(vec![0; 1 << 20]));
        }
        assert_eq!((apart.contents.len(), apart.bytes), (256, MOST_BYTES));
    }
}
