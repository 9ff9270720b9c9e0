//! Messages of the layer's own that wait for room at their receivers: results, cancels. Calls wait in their peer's queue.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use am_api::{Connection, HandlerId, RequestError, Sender};

/// A message that has to be sent.
pub(crate) struct Parcel<'a> {
    pub(crate) handler: HandlerId,
    pub(crate) words: [u64; 2],
    /// Of the payload.
    pub(crate) bytes: usize,
    /// Writes the payload, and says how many bytes count.
    pub(crate) write: &'a dyn Fn(&mut [u8]) -> usize,
}

impl Parcel<'static> {
    /// One without a payload.
    pub(crate) fn of_words(handler: HandlerId, words: [u64; 2]) -> Parcel<'static> {
        Parcel { handler, words, bytes: 0, write: &|_| 0 }
    }
}

/// A message that waits.
struct Waiting {
    handler: HandlerId,
    words: [u64; 2],
    payload: Vec<u8>,
}

/// The messages that wait, by connection and in order. A connection for which many wait begins no more tasks.
#[derive(Default)]
pub(crate) struct Outbox(RefCell<BTreeMap<Connection, VecDeque<Waiting>>>);

impl Outbox {
    /// Send it now, or once the peer has room. A peer that is gone needs it no more.
    pub(crate) fn send(&self, sender: &Sender, to: Connection, parcel: &Parcel<'_>) {
        let Parcel { handler, words, bytes, write } = *parcel;
        let mut waiting = self.0.borrow_mut();
        if waiting.contains_key(&to) || is_temporary(sender.try_request_with(to, handler, &words, bytes, write)) {
            let mut payload = vec![0; bytes];
            let length = write(&mut payload);
            payload.truncate(length);
            waiting.entry(to).or_default().push_back(Waiting { handler, words, payload });
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().values().map(VecDeque::len).sum()
    }

    /// How many wait for this one, and their bytes.
    pub(crate) fn waiting(&self, to: Connection) -> (usize, usize) {
        let all = self.0.borrow();
        all.get(&to).map_or((0, 0), |queue| (queue.len(), queue.iter().map(|each| each.payload.len()).sum()))
    }

    /// Send what the peers have room for now.
    pub(crate) fn flush(&self, sender: &Sender) {
        self.0.borrow_mut().retain(|&to, queue| {
            while let Some(Waiting { handler, words, payload }) = queue.front()
                && !is_temporary(sender.try_request(to, *handler, words, payload))
            {
                queue.pop_front();
            }
            !queue.is_empty()
        });
    }
}

fn is_temporary(sent: Result<(), RequestError>) -> bool {
    sent.is_err_and(|error| error.is_temporary())
}
