//! The state of the handlers of the driver's endpoint. They record received messages, and the driver hands these over after its poll.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use am_api::{
    CallId, Connection, ConnectionChange, ConnectionEvent, Endpoint, Fate, Message, Outcome, ReturnReason, Returned,
    Transfer, TransferKind,
};
use slotmap::DefaultKey;

use crate::inbox::{
    Handlers, Inbox, Item, SharedConnectionEvent, SharedMessage, SharedRequest, SharedReturned, SharedTransferEvent,
};
use crate::shared::{AnswerHead, Phase, Shared, weight};
use crate::under_way::UnderWay;
use crate::words::Words;
use crate::{CallError, Peer, Tokens};

pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) tokens: Tokens,
    /// Calls that were sent.
    pub(crate) calls: HashMap<CallId, (DefaultKey, Peer)>,
    pub(crate) peers: HashMap<Connection, Peer>,
    /// Items for the inbox.
    pub(crate) arrived: Vec<Item>,
    /// The wakers of calls that have their outcome.
    pub(crate) wakers: Vec<Waker>,
    /// Calls that returned and were certainly not handled.
    pub(crate) unhandled: Vec<(DefaultKey, Peer, CallError)>,
    pub(crate) under_way: UnderWay,
    /// Connections that failed or ended.
    pub(crate) ended: Vec<(Connection, ConnectionChange)>,
}

impl Local {
    pub(crate) fn new(shared: Arc<Shared>, inbox: Arc<Inbox>) -> Local {
        let tokens = Tokens::new(shared.clone());
        let (calls, peers, under_way) = Default::default();
        let (arrived, wakers, unhandled, ended) = Default::default();
        Local { shared, inbox, tokens, calls, peers, under_way, arrived, wakers, unhandled, ended }
    }

    /// The peer of a connection. If no handle knows it yet, because the peer has connected, make a new one.
    pub(crate) fn peer_of(&mut self, connection: Connection) -> Peer {
        *self.peers.entry(connection).or_insert_with(|| Peer(self.shared.lock().peers.insert(None)))
    }

    fn keep(&mut self, message: &Message<'_, Local>) -> SharedMessage {
        SharedMessage { message: message.keep(), from: self.peer_of(message.from()) }
    }

    fn on_returned(&mut self, returned: &Returned<'_, Local>) {
        let Returned { message, reason, fate } = *returned;
        let to = self.peer_of(returned.to());
        self.return_message(SharedReturned {
            to,
            class: returned.class(),
            handler: message.handler(),
            words: Words::new(message.words()).unwrap_or_default(),
            payload: message.payload().to_vec(),
            why: CallError::Returned { reason, fate },
        });
    }

    /// A message was not sent, or returned. It counts as a queued request until a thread takes it. If there is no handler for returned
    /// messages, it is dropped, because no thread would take it.
    pub(crate) fn return_message(&mut self, returned: SharedReturned) {
        if self.inbox.handlers.returned.is_some() {
            self.shared.lock().queued += weight(&returned.payload);
            self.arrived.push(Item::Returned(returned));
        }
    }

    /// A transfer of this side or of a peer has ended.
    fn on_transfer(&mut self, transfer: &Transfer<'_, Local>) {
        let &Transfer { kind, id, connection, region, offset, length, result, .. } = transfer;
        match kind {
            TransferKind::Put | TransferKind::Get => self.under_way.end((connection, id), result),
            TransferKind::Deposited | TransferKind::Served if self.inbox.handlers.transfer.is_some() => {
                let peer = self.peer_of(connection);
                let event = SharedTransferEvent { peer, kind, region, offset, length, result, dropped: 0 };
                self.arrived.push(Item::Transfer(event));
            }
            TransferKind::Deposited | TransferKind::Served => {}
        }
    }

    fn on_connection(&mut self, event: &ConnectionEvent<'_, Local>) {
        let &ConnectionEvent { change, connection, peer: name, .. } = event;
        let peer = self.peer_of(connection);
        let how = event.endpoint.describe(connection);
        let mut state = self.shared.lock();
        state.peers.get_mut(peer.0).into_iter().for_each(|known| known.clone_from(&how));
        drop(state);
        if self.inbox.handlers.connection.is_some() {
            self.arrived.push(Item::Connection(SharedConnectionEvent { peer, change, name }));
        }
        if matches!(change, ConnectionChange::Failed(_) | ConnectionChange::Ended(_)) {
            self.ended.push((connection, change));
        }
    }

    /// A call has its outcome.
    pub(crate) fn on_outcome(&mut self, outcome: Outcome<'_, Local>) {
        let Some((key, peer)) = self.calls.remove(&outcome.id) else { return };
        let error = match outcome.result {
            Ok(answer) => return self.on_answer(key, &answer),
            Err(am_api::CallError::Returned(returned)) => {
                let Returned { reason, fate, .. } = returned;
                let error = CallError::Returned { reason, fate };
                // The next connection may deliver it, except if the handler is missing or the tag differs: those would not change.
                if fate == Fate::NotDelivered && !matches!(reason, ReturnReason::NoHandler | ReturnReason::Tag) {
                    return self.unhandled.push((key, peer, error));
                }
                error
            }
            Err(am_api::CallError::Ended(reason)) => CallError::Ended(reason),
            Err(am_api::CallError::TimedOut) => CallError::TimedOut,
        };
        let waker = self.shared.lock().finish(key, Err(error));
        self.wakers.extend(waker);
    }

    fn on_answer(&mut self, key: DefaultKey, answer: &Message<'_, Local>) {
        // The first word is the call's id.
        let words = Words::new(answer.words().get(1..).unwrap_or_default()).unwrap_or_default();
        let connection = answer.from();
        let incarnation = answer.endpoint().incarnation(connection);
        let mut state = self.shared.lock();
        if let Some(slot) = state.calls.get_mut(key)
            && matches!(slot.phase, Phase::Waiting)
        {
            slot.payload.clear();
            slot.payload.extend_from_slice(answer.payload());
        }
        let waker = state.finish(key, Ok(AnswerHead { words, connection, incarnation }));
        drop(state);
        self.wakers.extend(waker);
    }
}

/// Set the handlers of the driver's endpoint: for all messages that the shared endpoint has handlers for, and for events.
pub(crate) fn set_handlers(endpoint: &mut Endpoint<Local>, handlers: &Handlers) {
    for &(handler, _) in &handlers.requests {
        endpoint.on_request(handler, |local, request| {
            let (message, token) = (local.keep(&request.message), local.tokens.detach(request.token));
            local.arrived.push(Item::Request(SharedRequest { message, token }));
        });
    }
    for &(handler, _) in &handlers.replies {
        endpoint.on_reply(handler, |local, message| {
            let message = local.keep(&message);
            local.arrived.push(Item::Reply(message));
        });
    }
    endpoint.on_returned(|local, returned| local.on_returned(&returned));
    endpoint.on_transfer(|local, transfer| local.on_transfer(&transfer));
    endpoint.on_connection(|local, event| local.on_connection(&event));
}
