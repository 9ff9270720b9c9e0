//! A program or an administrator that has connected, and has no answer yet.

use std::time::{Duration, Instant};

use am_vnic::Visitor;
use am_vnic::protocol::Hello;

use crate::member::Owner;

/// How long one waits for the rate of its user. It gives up after 5 s by itself.
const TURN_TIMEOUT: Duration = Duration::from_secs(4);

/// How long one waits for a queue before it gets a port alone, and how often the daemon tries.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(3);
const QUEUE_PAUSE: Duration = Duration::from_millis(50);

/// One that has connected.
pub(crate) struct Visit {
    pub(crate) visitor: Visitor,
    pub(crate) owner: Owner,
    pub(crate) since: Instant,
    /// What it has asked for. It waits because its user has attached too often, or for a queue.
    pub(crate) hello: Option<Hello>,
    /// When it is its turn again: its user's rate allows it, and it waits for a queue that the kernel may be releasing.
    pub(crate) queue_at: Option<Instant>,
}

impl Visit {
    /// Whether it has waited for its turn for too long. One that has said nothing may be slow: it stays until its place is needed.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.hello.is_some() && now - self.since >= TURN_TIMEOUT
    }

    /// Whether it is better off with an answer later: a queue may be free soon.
    pub(crate) fn waits_for_queue(&mut self, now: Instant) -> bool {
        self.queue_at = Some(now + QUEUE_PAUSE);
        now - self.since < QUEUE_TIMEOUT
    }

    /// It gets no answer but this one.
    pub(crate) fn end(self) {
        let (uid, asked) = (self.owner.uid, self.hello.is_some());
        let why = if asked { "attaches too often" } else { "has too many connections that say nothing" };
        self.visitor.refuse(format!("user {uid} {why}: wait, or start programs that stay"));
    }
}
