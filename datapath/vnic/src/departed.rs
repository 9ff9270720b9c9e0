//! Peers that have ended, until the node is told.
//!
//! The daemon says it on the socket, after it has put the peer's last frames into the lane. A node that heard it first would end the
//! connections as unreachable, with a Close of each of them unread in the lane. So it is told when the lane is empty.

use std::time::{Duration, Instant};

use am_wire::Address;

/// If the node never asks, the first ones are kept.
const MAX_DEPARTED: usize = 256;

/// A lane that others keep filling delays the news for so long at most.
const MAX_DELAY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Departed {
    addresses: Vec<Address>,
    /// When the node is told at the latest.
    until: Option<Instant>,
}

impl Departed {
    pub(crate) fn new() -> Departed {
        Departed { addresses: Vec::with_capacity(MAX_DEPARTED), until: None }
    }

    pub(crate) fn add(&mut self, address: Address) {
        if self.addresses.len() < MAX_DEPARTED {
            self.addresses.push(address);
            self.until.get_or_insert_with(|| Instant::now() + MAX_DELAY);
        }
    }

    /// Those of which the node is told now. `is_drained`: it has read all frames of the lane.
    pub(crate) fn take(&mut self, is_drained: bool) -> std::vec::Drain<'_, Address> {
        let is_due = is_drained || self.until.is_some_and(|until| until <= Instant::now());
        if is_due {
            self.until = None;
        }
        let count = if is_due { self.addresses.len() } else { 0 };
        self.addresses.drain(..count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Address = Address([2, 0, 0, 0, 0, 1]);

    #[test]
    fn frames_come_first_and_not_for_ever() {
        let mut departed = Departed::new();
        departed.add(PEER);
        assert_eq!(departed.take(false).count(), 0);
        assert_eq!(departed.take(true).collect::<Vec<_>>(), [PEER]);
        departed.add(PEER);
        departed.until = Some(Instant::now());
        assert_eq!(departed.take(false).count(), 1);
        assert_eq!(departed.take(true).count(), 0);
    }
}
