//! Peers that have ended, until the node is told.
//!
//! The daemon says it on the socket, after it has put the peer's last frames into the lane. A node that heard it first would end the
//! connections as unreachable, with a Close of each of them unread in the lane. So it is told when it has read what was in the lane then,
//! however long its handlers take.

use am_wire::Address;

/// If the node never asks, the first ones are kept.
const MAX_DEPARTED: usize = 256;

#[derive(Debug)]
pub(crate) struct Departed(Vec<Peer>);

#[derive(Debug)]
struct Peer {
    address: Address,
    /// The reader's position in the lane when the news came, and how many lines were unread.
    read: u32,
    unread: u32,
}

impl Departed {
    pub(crate) fn new() -> Departed {
        Departed(Vec::with_capacity(MAX_DEPARTED))
    }

    /// `read` and `written`: the positions in the lane up to which it is read and written.
    pub(crate) fn add(&mut self, address: Address, read: u32, written: u32) {
        if self.0.len() < MAX_DEPARTED {
            self.0.push(Peer { address, read, unread: written.wrapping_sub(read) });
        }
    }

    /// Those of which the node is told now. `read`: the reader's position in the lane; `None`: there is nothing to read.
    pub(crate) fn take(&mut self, read: Option<u32>) -> impl Iterator<Item = Address> {
        // In a new session positions count from 0. Then all that was unread is gone.
        let is_due = |peer: &Peer| read.is_none_or(|read| read.wrapping_sub(peer.read) >= peer.unread);
        let count = self.0.iter().position(|peer| !is_due(peer)).unwrap_or(self.0.len());
        self.0.drain(..count).map(|peer| peer.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_first_and_later_ones_delay_nothing() {
        let [one, other] = [1, 2].map(|last| Address([2, 0, 0, 0, 0, last]));
        let mut departed = Departed::new();
        departed.add(one, u32::MAX - 1, 8);
        departed.add(other, u32::MAX, 9);
        assert_eq!(departed.take(Some(7)).count(), 0);
        assert_eq!(departed.take(Some(8)).collect::<Vec<_>>(), [one]);
        assert_eq!(departed.take(Some(20)).collect::<Vec<_>>(), [other], "the lane was never empty");
        departed.add(one, 5, 100);
        assert_eq!(departed.take(Some(0)).count(), 1, "another session");
        departed.add(one, 5, 100);
        assert_eq!(departed.take(None).count(), 1);
    }
}
