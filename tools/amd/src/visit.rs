//! A visitor: a program or an administrator's tool that has connected to the daemon and has no answer yet.

use std::time::{Duration, Instant};

use am_vnic::Visitor;
use am_vnic::protocol::Hello;

use crate::member::Owner;

/// How long a visitor waits because its user has attached too often. Shorter than the 5 s after which a program gives up by itself.
const TURN_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a visitor waits for a queue before it gets a port without one, and the interval at which the daemon asks the wire again.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(3);
const QUEUE_PAUSE: Duration = Duration::from_millis(50);

/// A connected visitor.
pub(crate) struct Visit {
    pub(crate) visitor: Visitor,
    pub(crate) owner: Owner,
    pub(crate) since: Instant,
    /// The visitor's request for a port. It waits because the user has attached too often, or for a queue.
    pub(crate) hello: Option<Hello>,
    /// When to ask the wire for a queue again: the kernel may be releasing one. `None` while the visitor does not wait for a queue.
    pub(crate) queue_at: Option<Instant>,
}

impl Visit {
    /// Whether the visitor has waited for too long since its request. A visitor without a request may be slow: it stays until the table is full.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.hello.is_some() && now - self.since >= TURN_TIMEOUT
    }

    /// Let the visitor wait for a queue that may be free soon. Returns false if it has waited long enough.
    pub(crate) fn waits_for_queue(&mut self, now: Instant) -> bool {
        self.queue_at = Some(now + QUEUE_PAUSE);
        now - self.since < QUEUE_TIMEOUT
    }

    /// Refuse the visitor.
    pub(crate) fn end(self) {
        let (uid, asked) = (self.owner.uid, self.hello.is_some());
        let why = if asked { "attaches too often" } else { "has too many connections that say nothing" };
        self.visitor.refuse(format!("user {uid} {why}: wait, or start programs that stay"));
    }
}
