//! Each message is delivered once or returned once, with its exact content.
//!
//! A returned message may have been delivered, if the flow ended and only the acknowledgement was lost. A node that dies
//! or closes its endpoint loses the messages that it had sent and those that it had accepted. These are only delivered
//! at most once.
//!
//! Messages of one flow and class are delivered in the order in which they were sent, and returned in that order, too. A
//! sender keeps each message until the receiver has accepted it.

use std::collections::BTreeMap;

use super::content::{MessageId, NodeRun, fill};
use super::{Checked, Violation, ensure};

#[derive(Clone, Copy, Debug, Default)]
struct MessageRecord {
    to: u16,
    size: usize,
    note: u64,
    delivered: bool,
    returned: bool,
    /// It was returned as certainly not delivered.
    certain: bool,
    /// Its sender or its receiver has died since.
    excused: bool,
}

/// Every message that was admitted, and its outcome.
#[derive(Debug, Default)]
pub struct Deliveries {
    records: BTreeMap<MessageId, MessageRecord>,
    unresolved: usize,
    delivered: u64,
    returned: u64,
    scratch: Vec<u8>,
}

impl Deliveries {
    /// The message was admitted. Its body is `size` bytes that [`fill`] wrote.
    pub fn sent(&mut self, id: MessageId, to: u16, size: usize, note: u64) {
        self.records.insert(id, MessageRecord { to, size, note, ..MessageRecord::default() });
        self.unresolved += 1;
    }

    /// A handler got the message.
    ///
    /// # Errors
    /// It was delivered before, came to the wrong node, was never sent, or has changed.
    pub fn delivered(&mut self, at: NodeRun, words: &[u64], payload: &[u8]) -> Checked {
        let (id, record) = self.look_up(words, payload)?;
        ensure_of(id, !record.delivered, || format!("was delivered twice, the second time at {at:?}"))?;
        ensure_of(id, !record.certain, || "was delivered, but had been returned as not delivered".into())?;
        ensure_of(id, record.to == at.node, || format!("was for node {}, and came to {at:?}", record.to))?;
        self.delivered += 1;
        self.resolve(id, |record| record.delivered = true);
        Ok(())
    }

    /// The message came back to its sender. `certain`: as certainly not delivered.
    ///
    /// # Errors
    /// It was returned before, came to another node, its flow lives, it was never sent, it has changed, or it is certain
    /// and was delivered.
    pub fn returned(
        &mut self,
        at: NodeRun,
        flow_is_over: bool,
        certain: bool,
        words: &[u64],
        payload: &[u8],
    ) -> Checked {
        let (id, record) = self.look_up(words, payload)?;
        let is_possible = !(certain && record.delivered);
        ensure_of(id, !record.returned, || "was returned twice".into())?;
        ensure_of(id, id.from == at, || format!("was returned to {at:?}"))?;
        ensure_of(id, flow_is_over, || "was returned, but its flow lives".into())?;
        ensure_of(id, is_possible, || "was returned as not delivered, but a handler had got it".into())?;
        self.returned += 1;
        self.resolve(id, |record| (record.returned, record.certain) = (true, certain));
        Ok(())
    }

    /// A message that outlived its handler is read again.
    ///
    /// # Errors
    /// It has changed.
    pub fn check_unchanged(&mut self, words: &[u64], payload: &[u8]) -> Checked {
        self.look_up(words, payload).map(|_| ())
    }

    /// A node died, or closed its endpoint. Its messages are excused.
    pub fn excuse(&mut self, dead: NodeRun) {
        for (id, record) in &mut self.records {
            if (record.to == dead.node || id.from == dead) && record.is_open() {
                record.excused = true;
                self.unresolved -= 1;
            }
        }
    }

    /// How many messages of live nodes are neither delivered nor returned.
    pub fn unresolved(&self) -> usize {
        self.unresolved
    }

    /// One of these messages, for the error text.
    pub fn first_unresolved(&self) -> Option<MessageId> {
        self.records.iter().find(|(_, record)| record.is_open()).map(|(id, _)| *id)
    }

    /// How many messages were delivered, and how many returned.
    pub fn counts(&self) -> (u64, u64) {
        (self.delivered, self.returned)
    }

    fn resolve(&mut self, id: MessageId, how: impl FnOnce(&mut MessageRecord)) {
        if let Some(record) = self.records.get_mut(&id) {
            self.unresolved -= record.is_open() as usize;
            how(record);
        }
    }

    fn look_up(&mut self, words: &[u64], payload: &[u8]) -> Result<(MessageId, MessageRecord), Violation> {
        let id = MessageId::from_word(words.first().copied().unwrap_or_default());
        let never = || Violation { checker: "delivery", what: format!("{id:?} was never sent") };
        let record = *self.records.get(&id).ok_or_else(never)?;
        self.scratch.resize(record.size, 0);
        fill(&mut self.scratch, id, record.note);
        let bytes = words.iter().flat_map(|word| word.to_be_bytes());
        let split = (words.len() * 8).min(self.scratch.len());
        let exact = bytes.eq(self.scratch[..split].iter().copied()) && self.scratch[split..] == *payload;
        ensure(exact, "delivery", || format!("the content of {id:?} is not what was sent"))?;
        Ok((id, record))
    }
}

impl MessageRecord {
    fn is_open(&self) -> bool {
        !(self.delivered || self.returned || self.excused)
    }
}

fn ensure_of(id: MessageId, holds: bool, what: impl FnOnce() -> String) -> Checked {
    ensure(holds, "delivery", || format!("{id:?} {}", what()))
}

/// A flow, and a class of its messages.
type Stream = (u64, usize);

/// The position of every message on the flows that keep the order, and the last position that each stream has reached.
#[derive(Debug, Default)]
pub struct DeliveryOrder {
    places: BTreeMap<MessageId, (Stream, u64)>,
    sent: BTreeMap<Stream, u64>,
    delivered: BTreeMap<Stream, u64>,
    returned: BTreeMap<Stream, u64>,
}

impl DeliveryOrder {
    /// The message was admitted. It comes after all earlier messages of its stream.
    pub fn sent(&mut self, id: MessageId, stream: Stream) {
        let count = self.sent.entry(stream).or_default();
        *count += 1;
        self.places.insert(id, (stream, *count));
    }

    /// A handler got the message.
    ///
    /// # Errors
    /// A handler has already got a later message of the stream.
    pub fn delivered(&mut self, id: MessageId) -> Checked {
        let Some(&(stream, place)) = self.places.get(&id) else { return Ok(()) };
        after(self.delivered.entry(stream).or_default(), place, id, "delivered")
    }

    /// The message came back to its sender.
    ///
    /// # Errors
    /// A later message of the stream has already come back.
    pub fn returned(&mut self, id: MessageId) -> Checked {
        let Some(&(stream, place)) = self.places.get(&id) else { return Ok(()) };
        after(self.returned.entry(stream).or_default(), place, id, "returned")
    }
}

fn after(last: &mut u64, place: u64, id: MessageId, what: &str) -> Checked {
    ensure(place > *last, "order", || {
        format!("{id:?}, number {place} of its flow and class, was {what} after number {last}")
    })?;
    *last = place;
    Ok(())
}

/// Check the messages of one flow and class, when none waits at the receiver to be delivered: of those that were sent, these
/// were delivered, and the sender still keeps these. Both nodes are in the incarnations in which they opened the flow.
///
/// # Errors
/// Some messages are neither delivered nor kept.
pub fn check_kept(flow: u64, sent: usize, delivered: usize, kept: usize) -> Checked {
    let gone = sent.saturating_sub(delivered + kept);
    let what =
        || format!("flow {flow:#x}: {gone} messages count as acknowledged, but their receiver never accepted them");
    ensure(gone == 0, "kept", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeRun = NodeRun { node: 0, run: 1 };
    const B: NodeRun = NodeRun { node: 1, run: 1 };
    const ID: MessageId = MessageId { from: A, number: 3 };

    /// One message under way, as its receiver sees it.
    fn one() -> (Deliveries, Vec<u64>, Vec<u8>) {
        let mut body = [0; 27];
        fill(&mut body, ID, 9);
        let mut deliveries = Deliveries::default();
        deliveries.sent(ID, 1, 27, 9);
        let words = body[..16].chunks(8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap())).collect();
        (deliveries, words, body[16..].to_vec())
    }

    #[test]
    fn once_is_fine() {
        let (mut deliveries, words, payload) = one();
        assert_eq!(deliveries.unresolved(), 1);
        assert_eq!(deliveries.delivered(B, &words, &payload), Ok(()));
        assert_eq!(deliveries.returned(A, true, false, &words, &payload), Ok(()), "the acknowledgement was lost");
        assert_eq!((deliveries.unresolved(), deliveries.counts()), (0, (1, 1)));
    }

    #[test]
    fn twice_is_a_violation() {
        let (mut deliveries, words, payload) = one();
        deliveries.delivered(B, &words, &payload).unwrap();
        assert!(deliveries.delivered(B, &words, &payload).unwrap_err().what.contains("twice"));
        deliveries.returned(A, true, false, &words, &payload).unwrap();
        assert!(deliveries.returned(A, true, false, &words, &payload).unwrap_err().what.contains("twice"));
    }

    #[test]
    fn a_wrong_node_or_content_or_an_early_return_is_seen() {
        let (mut deliveries, words, payload) = one();
        assert!(deliveries.delivered(A, &words, &payload).is_err());
        assert!(deliveries.delivered(B, &words, &payload[1..]).is_err());
        assert!(deliveries.delivered(B, &[words[0], 8], &payload).is_err());
        assert!(deliveries.delivered(B, &[4, 9], &payload).is_err());
        assert!(deliveries.returned(A, false, false, &words, &payload).is_err());
        assert!(deliveries.returned(B, true, false, &words, &payload).is_err());
        assert_eq!(deliveries.check_unchanged(&words, &payload), Ok(()));
        assert!(deliveries.check_unchanged(&words, &payload[1..]).is_err());
    }

    #[test]
    fn a_certain_return_excludes_delivery() {
        let (mut deliveries, words, payload) = one();
        deliveries.delivered(B, &words, &payload).unwrap();
        assert!(deliveries.returned(A, true, true, &words, &payload).is_err());
        let (mut deliveries, words, payload) = one();
        assert_eq!(deliveries.returned(A, true, true, &words, &payload), Ok(()));
        assert!(deliveries.delivered(B, &words, &payload).unwrap_err().what.contains("not delivered"));
    }

    #[test]
    fn the_dead_are_excused_but_not_twice() {
        let (mut deliveries, words, payload) = one();
        deliveries.excuse(B);
        assert_eq!((deliveries.unresolved(), deliveries.first_unresolved()), (0, None));
        deliveries.delivered(B, &words, &payload).unwrap();
        assert!(deliveries.delivered(B, &words, &payload).is_err());
    }

    #[test]
    fn a_gap_is_fine_and_what_comes_late_is_not() {
        let ids = [0, 1, 2].map(|number| MessageId { from: NodeRun { node: 0, run: 1 }, number });
        let mut order = DeliveryOrder::default();
        ids.iter().for_each(|id| order.sent(*id, (7, 0)));
        assert_eq!((order.delivered(ids[0]), order.delivered(ids[2])), (Ok(()), Ok(())));
        assert!(order.delivered(ids[1]).is_err());
        assert_eq!(order.returned(ids[1]), Ok(()), "returned messages have their own order");
        assert!(order.returned(ids[0]).is_err());
    }

    #[test]
    fn an_acknowledgement_for_nothing_is_seen() {
        assert_eq!(check_kept(1, 5, 3, 2), Ok(()));
        assert_eq!(check_kept(1, 5, 4, 2), Ok(()), "not acknowledged yet");
        assert!(check_kept(1, 5, 3, 1).is_err());
    }
}
