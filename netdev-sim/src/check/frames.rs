//! Frames are conserved: every frame of a pool is in exactly one place. Memory is bounded: no ring, buffer or table holds
//! more than its bound.

use am_transport::Transport;

use super::{Checked, ensure};
use crate::net::Net;
use crate::nic::Nic;

/// Check a running NIC: no frame was written while the NIC owned it, and every frame is free, the NIC's, or one of
/// `others`, the numbers of those that the node holds.
///
/// # Errors
/// A frame was written, is both free and held, or is lost.
pub fn check_running(nic: &Nic, others: &[usize]) -> Checked {
    let overwritten = nic.count().overwritten;
    ensure(overwritten == 0, "frames", || format!("{overwritten} frames were written while the NIC had them"))?;
    let pool = &nic.caps().pool;
    let (frames, free, held) = (pool.layout().frames, pool.available(), nic.frames_held_with(others));
    ensure(free + held <= frames, "frames", || {
        format!("{free} frames are free and {held} are held, of {frames}: some are both")
    })?;
    ensure(free + held == frames, "frames", || {
        format!("{} of {frames} frames are lost: {free} free, {held} held", frames - free - held)
    })
}

/// Check a quiet NIC: no frame is under way, and only the NIC holds frames.
///
/// # Errors
/// Frames are missing.
pub fn check_quiet(nic: &Nic) -> Checked {
    check_running(nic, &[])
}

/// Where the frames of a pool were at the end of its node's turn. Until the next turn only the NIC moves them, and only
/// from ring to ring. So the counts stay the same at every event in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BetweenTurns {
    free: usize,
    in_rings: usize,
    overwritten: u64,
}

impl BetweenTurns {
    /// Record the counts at the end of a turn, after [`check_running`] has passed.
    pub fn record(nic: &Nic) -> BetweenTurns {
        let (free, in_rings) = (nic.caps().pool.available(), nic.card.ring_lengths().iter().sum());
        BetweenTurns { free, in_rings, overwritten: nic.count().overwritten }
    }

    /// Check the counts after an event of the network.
    ///
    /// # Errors
    /// A frame has left the rings, entered them, or been written.
    pub fn check(&self, nic: &Nic) -> Checked {
        let now = BetweenTurns::record(nic);
        ensure(now == *self, "frames", || format!("between two turns the NIC's frames became {now:?}, from {self:?}"))
    }
}

/// Check the rings of a NIC, and the switch's table and buffers.
///
/// # Errors
/// One of them is over its bound.
pub fn check_bounds(net: &mut Net, node: usize) -> Checked {
    let options = net.options();
    let bounds = [options.fill, options.rx, options.tx, options.completion];
    let (buffer, addresses, nodes) = (options.switch_buffer, options.switch_addresses, options.nodes);
    let held = net.nic(node).card.ring_lengths();
    for (ring, (held, most)) in ["fill", "RX", "TX", "completion"].iter().zip(held.into_iter().zip(bounds)) {
        check_within(ring, held, most)?;
    }
    (0..nodes).try_for_each(|port| check_within("switch buffer", net.switch().ports[port].bytes, buffer))?;
    check_within("switch table", net.switch().learned.len(), addresses)
}

fn check_within(what: &str, count: usize, most: usize) -> Checked {
    ensure(count <= most, "memory", || format!("{count} in the {what}, which has room for {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetOptions;

    #[test]
    fn a_frame_that_somebody_keeps_is_missed() {
        let mut net = Net::new(NetOptions::calm(2));
        assert_eq!((check_running(net.nic(0), &[]), check_quiet(net.nic(0))), (Ok(()), Ok(())));
        let kept = net.nic(0).caps().pool.take().expect("a frame");
        assert_eq!(check_running(net.nic(0), &[kept.index()]), Ok(()));
        assert!(check_quiet(net.nic(0)).is_err());
        let index = kept.index();
        drop(kept);
        assert_eq!(check_quiet(net.nic(0)), Ok(()));
        assert!(check_running(net.nic(0), &[index]).is_err(), "free and held");
    }

    #[test]
    fn a_frame_that_goes_between_two_turns_is_missed_at_once() {
        let mut net = Net::new(NetOptions::calm(2));
        let between = BetweenTurns::record(net.nic(0));
        assert_eq!(between.check(net.nic(0)), Ok(()));
        let gone = net.nic(0).caps().pool.take().expect("a frame");
        assert!(between.check(net.nic(0)).is_err());
        drop(gone);
        assert_eq!(between.check(net.nic(0)), Ok(()));
        net.nic(0).receive(1, &mut drop);
        assert_eq!(between.check(net.nic(0)), Ok(()));
    }

    #[test]
    fn too_much_is_seen() {
        assert_eq!(check_bounds(&mut Net::new(NetOptions::calm(2)), 1), Ok(()));
        assert!(check_within("RX", 5, 4).is_err());
    }
}
