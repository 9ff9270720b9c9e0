//! Bytes that stay in the sender's memory until the receiver copies them, where the transport can read it: one copy.
//!
//! The sender may end a transfer at any time, and its memory is then used for something else. So each transfer has a lease in
//! the sender's memory, which the receiver reads before it copies and afterwards. The sender ends the lease before it gives
//! the memory up.

use std::sync::atomic::{AtomicU64, Ordering::*, fence};

use am_proto::Delivery;
use am_ring::Frame;
use am_transport::Transport;
use am_wire::bulk::{LENT_BYTES, Notice, NoticeKind, Segment};
use am_wire::{Address, Kind};

/// How much of a turn's budget a receiver spends on one copy of [`LENT_BYTES`].
pub(super) const TURNS_SHARE: usize = 16;

/// What the sender keeps in its memory while a receiver may read a transfer's bytes: its number, and the address of its first
/// byte. The number is 0 once it has ended.
#[derive(Debug)]
pub(super) struct Lease(Box<[AtomicU64; 2]>);

/// Bytes of a lease.
const LEASE_BYTES: usize = 16;

impl Lease {
    pub(super) fn new(transfer: u32, first: u64) -> Lease {
        Lease(Box::new([AtomicU64::new(number(transfer)), AtomicU64::new(first)]))
    }

    /// The notice that lends the bytes of this segment.
    pub(super) fn lend(&self, segment: &Segment) -> Notice {
        let &Segment { region, transfer, start, total, at } = segment;
        let into_offset = self.0.as_ptr().addr() as u64;
        let (into, offset, length) = (at as u32, start, total);
        Notice { region, into, offset, into_offset, length, ..Notice::of(NoticeKind::Lent, transfer) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0[0].store(0, SeqCst);
        // A receiver that sees what is written here later also sees that the lease has ended.
        fence(SeqCst);
    }
}

/// A transfer's number in its lease, which is not 0.
fn number(transfer: u32) -> u64 {
    1 << 32 | u64::from(transfer)
}

/// The segment that a frame carries or lends.
pub(super) fn segment_in(frame: &Delivery<Frame>) -> Option<Segment> {
    let body = frame.payload();
    match frame.kind {
        Kind::Put => Segment::parse(body).map(|(segment, _)| segment),
        _ => Notice::parse(body).filter(|notice| notice.what == NoticeKind::Lent).map(|notice| segment_of(&notice)),
    }
}

/// The segment that a notice lends.
fn segment_of(notice: &Notice) -> Segment {
    let &Notice { transfer, region, into, offset: start, length: total, .. } = notice;
    Segment { region, transfer, start, total, at: into.into() }
}

/// The bytes of a segment.
pub(super) enum Data<'a> {
    /// In its frame.
    Here(&'a [u8]),
    /// In the memory of the sender's process.
    Lent(Lent<'a>),
}

/// Bytes in the memory of another process.
pub(super) struct Lent<'a> {
    transport: &'a mut dyn Transport,
    /// The link address of that process.
    of: Address,
    lease_at: u64,
    segment: Segment,
}

impl Data<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Data::Here(bytes) => bytes.len(),
            Data::Lent(Lent { segment, .. }) => segment.total.saturating_sub(segment.at).min(LENT_BYTES) as usize,
        }
    }

    /// Copy them to `place`, which has their length. Returns whether they could be read.
    pub(super) fn copy_to(&mut self, place: &mut [u8]) -> bool {
        match self {
            Data::Here(bytes) => place.copy_from_slice(bytes),
            Data::Lent(lent) => return lent.copy_to(place),
        }
        true
    }
}

impl<'a> Lent<'a> {
    /// The segment that this notice of the process at `of` lends.
    pub(super) fn of(transport: &'a mut dyn Transport, of: Address, notice: &Notice) -> (Segment, Data<'a>) {
        let segment = segment_of(notice);
        (segment, Data::Lent(Lent { transport, of, lease_at: notice.into_offset, segment }))
    }

    fn copy_to(&mut self, place: &mut [u8]) -> bool {
        let Some(lease) = self.lease() else { return false };
        let [of, first] = [0, 8].map(|at| lease[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)));
        let is_read = of == number(self.segment.transfer)
            && self.transport.read_memory(self.of, first.wrapping_add(self.segment.at), place);
        fence(SeqCst);
        is_read && self.lease() == Some(lease)
    }

    fn lease(&mut self) -> Option<[u8; LEASE_BYTES]> {
        let mut lease = [0; LEASE_BYTES];
        self.transport.read_memory(self.of, self.lease_at, &mut lease).then_some(lease)
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use am_transport::{Caps, Command, PeerAddressError};
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    use nix::unistd::Pid;

    use super::*;

    /// Reads this process's memory. The lease in it ends before the read with this number.
    struct Own(u32, Option<Lease>);

    impl Transport for Own {
        fn caps(&self) -> &Caps {
            unreachable!()
        }

        fn receive(&mut self, _budget: usize, _each: &mut dyn FnMut(Frame)) -> usize {
            unreachable!()
        }

        fn send(&mut self, _to: Address, _frame: &Frame) -> bool {
            unreachable!()
        }

        fn control(&mut self, _command: Command<'_>) -> Result<(), PeerAddressError> {
            unreachable!()
        }

        fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}

        fn read_memory(&mut self, _of: Address, at: u64, into: &mut [u8]) -> bool {
            self.0 = self.0.wrapping_sub(1);
            if self.0 == 0 {
                self.1 = None;
            }
            let (base, len) = (at as usize, into.len());
            let (mut local, remote) = ([IoSliceMut::new(into)], [RemoteIoVec { base, len }]);
            process_vm_readv(Pid::this(), &mut local, &remote) == Ok(len)
        }
    }

    /// Lend the end of `bytes`, and copy it. The lease ends before this read.
    fn copy(bytes: &[u8], ends_before: u32, change: impl Fn(&mut Notice)) -> Option<Vec<u8>> {
        let lease = Lease::new(7, bytes.as_ptr().addr() as u64);
        let (start, total) = (0, bytes.len() as u64);
        let mut notice = lease.lend(&Segment { region: 1, transfer: 7, start, total, at: total - 3 });
        change(&mut notice);
        let mut own = Own(ends_before, Some(lease));
        let (_, mut data) = Lent::of(&mut own, Address::BROADCAST, &notice);
        let mut copied = vec![0; data.len()];
        data.copy_to(&mut copied).then_some(copied)
    }

    #[test]
    fn what_is_copied_was_lent_all_the_time() {
        let bytes: Vec<u8> = (0..100).collect();
        assert_eq!(copy(&bytes, 4, |_| ()), Some(vec![97, 98, 99]));
        for ends_before in 1..=3 {
            assert_eq!(copy(&bytes, ends_before, |_| ()), None, "{ends_before}");
        }
        assert_eq!(copy(&bytes, 4, |notice| notice.transfer = 8), None, "the lease is another transfer's");
        assert_eq!(copy(&bytes, 4, |notice| notice.into_offset = 8), None, "there is no memory");
    }
}
