//! Received messages that outlive their handler: the frame is kept instead of
//! being copied (the receiving half of the hybrid of copy and DMA).

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use proto::{Delivery, FlowId, Words};
use ring::Frame;
use wire::Class;

use crate::shared::Shared;
use crate::{Handler, Message, Remote};

/// A message kept beyond its handler, in the memory that the NIC wrote it to:
/// [`Message::keep`] gives it. It derefs to the payload, may go to another
/// thread, and may outlive the node.
///
/// **What it costs**: the sender's credit *is* this frame, so it returns only
/// after this was dropped, with a poll of the node. Who keeps many slows their
/// senders down; who keeps for long should copy.
pub struct Kept {
    delivery: Delivery<Frame>,
    words: Words,
    /// Goes behind the frame: a credit is a frame that is at home. `None` for
    /// what this side sent itself, and got back.
    _hold: Option<Hold>,
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Kept>();
};

impl Message<'_> {
    /// Keep the message when the handler returns, without copying it.
    ///
    /// ```
    /// use am_api::{Endpoint, Handler, Kept};
    ///
    /// fn collect(endpoint: &mut Endpoint<Vec<Kept>>) {
    ///     endpoint.on_request(Handler(0), |kept: &mut Vec<Kept>, message, _| kept.push(message.keep()));
    /// }
    /// ```
    pub fn keep(&self) -> Kept {
        let &Delivery { flow, class, .. } = self.delivery;
        let hold = self.kept.and_then(|kept| self.port.shared.borrow_mut().kept.hold(kept, flow, class));
        Kept { delivery: self.delivery.share(), words: self.delivery.words(), _hold: hold }
    }
}

impl Kept {
    /// Its word arguments.
    pub fn words(&self) -> &[u64] {
        self.words.as_slice()
    }

    /// The word argument at this place, 0 where the message has none there.
    pub fn word(&self, at: usize) -> u64 {
        self.words.at(at)
    }

    /// The handler that it named.
    pub fn handler(&self) -> Handler {
        Handler(self.delivery.handler)
    }

    /// The other side of its conversation.
    pub fn from(&self) -> Remote {
        Remote(self.delivery.flow)
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.delivery.payload()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("words", &self.words()).field("payload", &&**self).finish_non_exhaustive()
    }
}

/// What a node and the messages kept of it share: they are dropped on any
/// thread, and only the node's may touch the protocol.
#[derive(Debug)]
struct Ledger {
    /// By place: how many handles on the message of this place are left.
    handles: Box<[AtomicU32]>,
    /// Places whose last handle has gone, counted ever since.
    gone: AtomicU32,
}

/// One handle on a kept message's credit.
struct Hold {
    ledger: Arc<Ledger>,
    place: u32,
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Release: the node must find the place empty, and the frame at home.
        if self.ledger.handles[self.place as usize].fetch_sub(1, AcqRel) == 1 {
            self.ledger.gone.fetch_add(1, Release);
        }
    }
}

/// The credits that stay away because their messages are kept.
#[derive(Debug)]
pub(crate) struct KeptCredits {
    ledger: Arc<Ledger>,
    /// Places in use, and whose credit each is.
    out: Vec<(u32, FlowId, Class)>,
    free: Vec<u32>,
    /// Of the ledger's `gone`, how many were found.
    found: u32,
}

impl KeptCredits {
    /// Places for so many messages.
    pub(crate) fn new(count: usize) -> Self {
        let handles = (0..count).map(|_| AtomicU32::new(0)).collect();
        let ledger = Arc::new(Ledger { handles, gone: AtomicU32::new(0) });
        KeptCredits { ledger, out: Vec::with_capacity(count), free: (0..count as u32).rev().collect(), found: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// A handle on this message's credit, the first or one more. `None` where
    /// more is kept than can be on its way: that credit returns at once.
    fn hold(&mut self, kept: &Cell<Option<u32>>, flow: FlowId, class: Class) -> Option<Hold> {
        let place = kept.get().or_else(|| {
            let place = self.free.pop()?;
            self.out.push((place, flow, class));
            Some(place)
        })?;
        kept.set(Some(place));
        self.ledger.handles[place as usize].fetch_add(1, Relaxed);
        Some(Hold { ledger: self.ledger.clone(), place })
    }

    /// A credit whose message nobody keeps any more.
    fn gone(&mut self) -> Option<(FlowId, Class)> {
        if self.ledger.gone.load(Acquire) == self.found {
            return None;
        }
        let is_gone = |&(place, ..): &(u32, FlowId, Class)| self.ledger.handles[place as usize].load(Acquire) == 0;
        let (place, flow, class) = self.out.swap_remove(self.out.iter().position(is_gone)?);
        self.found = self.found.wrapping_add(1);
        self.free.push(place);
        Some((flow, class))
    }
}

impl Shared {
    /// Credits of kept messages that were dropped return to their senders.
    #[cold]
    pub(crate) fn release_dropped(&mut self) {
        while let Some((flow, class)) = self.kept.gone() {
            self.core().release(flow, class);
        }
    }
}
