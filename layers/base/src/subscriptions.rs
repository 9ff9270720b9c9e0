//! The receiving half of fan-out: messages with the number of those missed before, and credit for handled ones.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use am_api::{Connection, Endpoint, HandlerId, Message, Request, RequestError, WINDOW};

use crate::publisher::{ALL, LATEST, NOTHING, Wanted};

/// A published message.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a, S> {
    /// The message. Its first words are fan-out's own: see [`key`](Publication::key) and [`words`](Publication::words).
    pub message: Message<'a, S>,
    /// How many messages this subscriber missed between the one before and this one: they were dropped because it was slow, or replaced by
    /// newer ones.
    pub missed: u64,
}

impl<S> Publication<'_, S> {
    /// The key that it was published under.
    pub fn key(&self) -> u64 {
        self.message.word(1)
    }

    /// The words that it was published with.
    pub fn words(&self) -> &[u64] {
        self.message.words().get(2..).unwrap_or_default()
    }
}

/// The subscriptions of an endpoint to [`Publisher`](crate::Publisher)s that use one handler id.
///
/// ```
/// use am_api::{Connection, Endpoint, HandlerId, RequestError};
/// use am_base::{Subscriptions, Wanted};
///
/// const PRICES: HandlerId = HandlerId(0);
///
/// /// The latest price of each share, at most 8 messages under way. `to` is an open connection.
/// fn subscribe(endpoint: &mut Endpoint<Vec<u8>>, to: Connection) -> Result<Subscriptions, RequestError> {
///     let subscriptions = Subscriptions::new(endpoint, PRICES, |latest: &mut Vec<u8>, publication| {
///         latest.clear();
///         latest.extend_from_slice(publication.message.payload());
///     });
///     subscriptions.subscribe(endpoint, to, 8, Wanted::Latest)?;
///     Ok(subscriptions)
/// }
/// ```
#[derive(Clone)]
pub struct Subscriptions {
    handler: HandlerId,
    records: Rc<RefCell<HashMap<Connection, Record>>>,
}

/// A connection with a publisher. It stays when the subscription ends, because messages may still be under way.
#[derive(Clone, Copy, Default)]
struct Record {
    is_on: bool,
    window: u64,
    handled: u64,
    /// The number of handled messages that the publisher knows.
    reported: u64,
    /// The number of missed messages that the last message said.
    missed: u64,
}

impl Subscriptions {
    /// Run this for each published message. A message counts as handled when it returns. It may change the window.
    pub fn new<S>(
        endpoint: &mut Endpoint<S>,
        handler: HandlerId,
        mut run: impl FnMut(&mut S, Publication<'_, S>) + 'static,
    ) -> Subscriptions {
        let records: Rc<RefCell<HashMap<Connection, Record>>> = Rc::default();
        let known = records.clone();
        endpoint.on_request(handler, move |state, Request { message, token }| {
            let mut all = known.borrow_mut();
            let Some(record) = all.get_mut(&message.from()) else { return };
            record.handled += 1;
            let (missed, is_on) = (message.word(0).saturating_sub(record.missed), record.is_on);
            record.missed += missed;
            drop(all);
            if is_on {
                run(state, Publication { message, missed });
            }
            let mut all = known.borrow_mut();
            let Some(record) = all.get_mut(&message.from()) else { return };
            if record.handled - record.reported >= record.window.div_ceil(2).max(1) {
                record.reported = record.handled;
                // If it fails, the connection has ended.
                _ = token.reply(handler, &[record.handled], b"");
            }
        });
        Subscriptions { handler, records }
    }

    /// Subscribe to the publisher at the other side, with at most `window` messages under way (512 at most), or change an existing
    /// subscription. A window of 0 is a pause.
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`]. If the peer has no publisher of this id, the request returns to
    /// [`on_returned`](Endpoint::on_returned).
    pub fn subscribe<S>(
        &self,
        endpoint: &Endpoint<S>,
        to: Connection,
        window: usize,
        wanted: Wanted,
    ) -> Result<(), RequestError> {
        let wanted = match wanted {
            Wanted::All => ALL,
            Wanted::Latest => LATEST,
        };
        self.send(endpoint, to, window.min(WINDOW) as u64, wanted)
    }

    /// End the subscription. Messages that are under way are dropped when they arrive.
    ///
    /// # Errors
    /// As for [`Subscriptions::subscribe`]. Nothing has changed then.
    pub fn end<S>(&self, endpoint: &Endpoint<S>, to: Connection) -> Result<(), RequestError> {
        self.send(endpoint, to, 0, NOTHING)
    }

    fn send<S>(&self, endpoint: &Endpoint<S>, to: Connection, window: u64, wanted: u64) -> Result<(), RequestError> {
        let mut all = self.records.borrow_mut();
        let before = all.get(&to).copied().unwrap_or_default();
        endpoint.try_request(to, self.handler, &[window, wanted, before.handled], b"")?;
        all.retain(|&other, _| endpoint.is_open(other));
        all.insert(to, Record { is_on: wanted != NOTHING, window, reported: before.handled, ..before });
        Ok(())
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriptions").field("handler", &self.handler).finish_non_exhaustive()
    }
}
