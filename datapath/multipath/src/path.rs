//! One path: a transport, and its state.

use std::time::{Duration, Instant};

use am_ring::Frame;
use am_transport::{Notice, Transport};
use am_wire::{Address, EtherType};

use crate::rewrite::{self, FrameClass};

/// A path that takes none of the frames of this time counts as dead, until it takes one again.
pub const STUCK_AFTER: Duration = Duration::from_millis(50);
/// It is tried again with a frame after this time, because all others take other paths.
const TRIAL_AFTER: Duration = Duration::from_millis(200);
/// The pause between two searches on a path for peers that are known only elsewhere. A search is a broadcast, which on some transports is one
/// frame to each peer, and each beacon that answers a peer would be one. While searches are wanted the pause doubles each time.
const SEARCH_PAUSE: Duration = Duration::from_millis(50);
const MAX_SEARCH_PAUSE: Duration = Duration::from_millis(6400);

/// A path takes no frames.
#[derive(Clone, Copy)]
struct Full {
    since: Instant,
    /// When it was tried last. While nothing is tried it may have room: the program may not run.
    tried: Instant,
}

impl Full {
    fn is_stuck(self) -> bool {
        self.tried - self.since >= STUCK_AFTER
    }
}

/// When the last search was, and the pause after it.
#[derive(Debug, Default)]
pub(crate) struct Search {
    last: Option<Instant>,
    pause: Duration,
}

impl Search {
    fn try_take(&mut self, now: Instant) -> bool {
        let since = self.last.map_or(Duration::MAX, |last| now.saturating_duration_since(last));
        if since < self.pause {
            return false;
        }
        // None was wanted for as long again: the next search is the first one of others.
        let is_anew = since >= 2 * self.pause;
        self.pause = if is_anew { SEARCH_PAUSE } else { (2 * self.pause).min(MAX_SEARCH_PAUSE) };
        self.last = Some(now);
        true
    }
}

/// A path: a transport, and its state.
pub(crate) struct TransportPath {
    pub(crate) inner: Box<dyn Transport>,
    ethertype: EtherType,
    /// Its link error, if it has one.
    pub(crate) link_error: Option<String>,
    /// Its mode. A transport that reopens itself may change it.
    mode: String,
    full: Option<Full>,
    search: Search,
    /// Frames that left with rewritten addresses.
    pub(crate) rewritten: u64,
}

impl TransportPath {
    pub(crate) fn new(inner: Box<dyn Transport>, ethertype: EtherType) -> TransportPath {
        let mode = inner.caps().mode.clone();
        TransportPath { inner, ethertype, link_error: None, mode, full: None, search: Search::default(), rewritten: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.inner.caps().name
    }

    /// Why it is not usable now, if it is not.
    #[inline]
    pub(crate) fn unusable_reason(&self) -> Option<&str> {
        self.link_error.as_deref().or_else(|| self.full.is_some_and(Full::is_stuck).then_some("it takes no frames"))
    }

    /// Whether it took no frame when it was last asked to.
    pub(crate) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Whether a frame is to show if it takes frames again.
    pub(crate) fn is_trial_due(&self) -> bool {
        let is_due = |full: Full| full.is_stuck() && full.tried.elapsed() >= TRIAL_AFTER;
        self.link_error.is_none() && self.full.is_some_and(is_due)
    }

    /// Whether a broadcast may search here for a peer that is known on another path. If so, it starts the pause.
    pub(crate) fn may_search(&mut self) -> bool {
        self.search.try_take(Instant::now())
    }

    /// Poll its notices. Whether its own state has changed.
    pub(crate) fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) -> bool {
        let (before, mut now) = (self.link_error.is_some(), false);
        let TransportPath { inner, link_error: broken, .. } = self;
        inner.poll_notices(&mut |notice| match notice {
            // The first text stays.
            Notice::LinkError(why) => {
                now = true;
                broken.get_or_insert_with(|| why.to_owned());
            }
            other => each(other),
        });
        let changed = now != before;
        if !now {
            self.link_error = None;
        }
        if changed {
            match &self.link_error {
                Some(why) => tracing::warn!(way = %self.inner.caps().name, %why, "a path has a link error"),
                None => tracing::info!(way = %self.inner.caps().name, "a path works again"),
            }
        }
        let is_anew = self.inner.caps().mode != self.mode;
        if is_anew {
            self.mode.clone_from(&self.inner.caps().mode);
        }
        changed || is_anew
    }

    /// Send a frame on this path. For the protocol, the peer's address is `to` and the node's is `from`; `link` is the
    /// peer's address here. False if there is no room.
    #[inline]
    pub(crate) fn send(
        &mut self,
        to: Address,
        from: Address,
        link: Address,
        class: &FrameClass,
        frame: &Frame,
    ) -> bool {
        let own = self.inner.caps().address;
        let change = ((link != to).then_some(link), (class.is_plain() && own != from).then_some(own));
        let sent = if change == (None, None) {
            self.inner.send(link, frame)
        } else {
            self.rewritten += 1;
            let copy = rewrite::copy(&self.inner.caps().pool, frame, change, class, self.ethertype);
            copy.is_some_and(|copy| self.inner.send(link, &copy))
        };
        match sent {
            true => self.full = None,
            false => {
                let now = Instant::now();
                self.full.get_or_insert(Full { since: now, tried: now }).tried = now;
            }
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_that_go_on_become_rare_and_the_first_after_a_rest_is_free() {
        let (mut search, start) = (Search::default(), Instant::now());
        let mut at = |ms| search.try_take(start + Duration::from_millis(ms));
        let taken: Vec<u64> = (0..4000).filter(|ms| at(*ms)).collect();
        assert_eq!(taken, [0, 50, 150, 350, 750, 1550, 3150]);
        assert!(at(20_000) && !at(20_049) && at(20_050));
    }
}
