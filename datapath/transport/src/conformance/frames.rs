//! Numbered frames whose every bit can be checked.

use am_ring::{Frame, Pool};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use super::{CheckFailure, ensure};

/// The flow of the checks.
pub(super) const FLOW: Flow = Flow::new(7).unwrap();

/// The first byte of a control frame's body: a probe, which may have any length.
const PROBE: u8 = 6;

/// The description of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) to: Address,
    /// The source address, if it is not the sender's own.
    pub(super) from: Option<Address>,
    pub(super) kind: Kind,
    pub(super) flow: Flow,
    pub(super) number: u64,
    pub(super) len: usize,
    /// Applied to the complete frame, to make it a bad one.
    pub(super) damage: fn(&mut [u8]),
}

impl Spec {
    /// A request on [`FLOW`].
    pub(super) fn new(to: Address, number: u64, len: usize) -> Spec {
        Spec { to, from: None, kind: Kind::Request, flow: FLOW, number, len, damage: |_| () }
    }

    /// A broadcast, as discovery sends it.
    pub(super) fn broadcast(number: u64) -> Spec {
        Spec::control(Address::BROADCAST, number)
    }

    /// A control frame to one address, or to all.
    pub(super) fn control(to: Address, number: u64) -> Spec {
        Spec { kind: Kind::Control, flow: Flow::NODE, ..Spec::new(to, number, 100) }
    }

    /// Build the frame, unless the pool is empty. In `plain` framing, which passes everywhere. Its body is the number, the
    /// length, and a pattern that follows from the number.
    pub(super) fn build(&self, pool: &Pool, from: Address) -> Option<Frame> {
        let mut frame = pool.take()?;
        let space = frame.space()?;
        let body = self.len - Framing::Plain.body_at();
        let place = frame::body(space, Framing::Plain, body).ok()?;
        place.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(self.number, at));
        place[..8].copy_from_slice(&self.number.to_be_bytes());
        place[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        if self.kind == Kind::Control {
            place[0] = PROBE;
        }
        let header =
            Header { kind: self.kind, flow: self.flow, nonce: 0, handler: 0, words: 0, seq: self.number as u32 };
        let link = LinkAddresses { to: self.to, from: self.from.unwrap_or(from), ethertype: EtherType::DEFAULT };
        let len = frame::emit(space, Framing::Plain, &link, &header, body, None).ok()?;
        (self.damage)(space);
        frame.set_len(len);
        Some(frame)
    }
}

#[inline]
fn pattern(number: u64, at: usize) -> u8 {
    (number as u8).wrapping_mul(31).wrapping_add(at as u8) ^ (at >> 8) as u8
}

/// Check every bit of a frame that has arrived. Returns its number.
pub(super) fn read_number(frame: &Frame) -> Result<u64, CheckFailure> {
    let parsed = frame::parse(frame.bytes(), EtherType::DEFAULT).map_err(|why| {
        CheckFailure(format!("a frame of {} bytes arrived that does not parse: {why}", frame.bytes().len()))
    })?;
    let len = parsed.payload.len();
    let too_short = || CheckFailure(format!("a frame arrived with {len} bytes of payload, fewer than were sent"));
    let (head, _) = parsed.payload.split_first_chunk::<12>().ok_or_else(too_short)?;
    let [mut n @ .., l0, l1, l2, l3] = *head;
    if parsed.header.kind == Kind::Control {
        n[0] = 0;
    }
    let (number, sent) = (u64::from_be_bytes(n), u32::from_be_bytes([l0, l1, l2, l3]) as usize);
    ensure!(len == sent, "frame {number} has {len} bytes of payload, {sent} were sent");
    let wrong = (12..len).find(|at| parsed.payload[*at] != pattern(number, *at));
    ensure!(wrong.is_none(), "byte {wrong:?} of the {len} bytes of frame {number}'s payload changed on the way");
    Ok(number)
}
