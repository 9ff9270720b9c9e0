//! Messages of the layer's own that wait for room at their receivers: results, cancels. Calls wait in their peer's queue.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use am_api::{Connection, HandlerId, RequestError, Sender};

/// A message that has to be sent.
pub(crate) struct Parcel {
    pub(crate) handler: HandlerId,
    pub(crate) words: [u64; 2],
    pub(crate) payload: Vec<u8>,
}

/// The messages that wait, by connection and in order. Each belongs to a task or a call, which are bounded.
#[derive(Default)]
pub(crate) struct Outbox(RefCell<HashMap<Connection, VecDeque<Parcel>>>);

impl Outbox {
    /// Send it now, or once the peer has room. A peer that is gone needs it no more.
    pub(crate) fn send(&self, sender: &Sender, to: Connection, parcel: Parcel) {
        let mut waiting = self.0.borrow_mut();
        if waiting.contains_key(&to) || is_temporary(try_send(sender, to, &parcel)) {
            waiting.entry(to).or_default().push_back(parcel);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Send what the peers have room for now.
    pub(crate) fn flush(&self, sender: &Sender) {
        self.0.borrow_mut().retain(|&to, queue| {
            while let Some(parcel) = queue.front()
                && !is_temporary(try_send(sender, to, parcel))
            {
                queue.pop_front();
            }
            !queue.is_empty()
        });
    }
}

fn try_send(sender: &Sender, to: Connection, parcel: &Parcel) -> Result<(), RequestError> {
    sender.try_request(to, parcel.handler, &parcel.words, &parcel.payload)
}

fn is_temporary(sent: Result<(), RequestError>) -> bool {
    sent.is_err_and(|error| error.is_temporary())
}
