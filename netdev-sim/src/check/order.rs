//! Handlers get the messages of one flow and class in the order in which they were sent. Returned messages come back in
//! that order, too.

use std::collections::BTreeMap;

use super::content::MessageId;
use super::{Checked, Violation};

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
    if place > *last {
        *last = place;
        return Ok(());
    }
    Err(Violation::new(
        "order",
        format!("{id:?}, number {place} of its flow and class, was {what} after number {last}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::content::NodeRun;
    use super::*;

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
}
