//! Peers that have ended, until the node is notified.
//!
//! The daemon reports the end of a peer on the socket, after it has put the peer's last frames into the lane. These may have a Close of
//! each connection. If the node learned of the end first, it would end the connections as unreachable. So it is notified only when it has
//! read the frames that were in the lane when the report arrived.

use am_wire::Address;

/// The most departed peers. If the node never reads them, only the first ones are kept.
const MAX_DEPARTED: usize = 256;

#[derive(Debug)]
pub(crate) struct Departed(Vec<Peer>);

#[derive(Debug)]
struct Peer {
    address: Address,
    /// The reader's position in the lane when the report arrived, and how many lines were unread then.
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

    /// The peers to report to the node now. `read` is the reader's position in the lane, `None` if there is nothing to read.
    pub(crate) fn take(&mut self, read: Option<u32>) -> impl Iterator<Item = Address> {
        // In a new session positions start at 0, and the unread frames are gone. The difference is large then, so the peer is due.
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
