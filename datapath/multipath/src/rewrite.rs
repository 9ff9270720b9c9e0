//! Rewriting addresses in frames, because a node has one address on each path.

use am_ring::{Frame, Pool};
use am_wire::control::{Beacon, Control};
use am_wire::{Address, Buffer, EtherType, Kind, frame};

const DESTINATION: usize = 0;
const SOURCE: usize = 6;
const ETHERTYPE: usize = 12;

/// The class of a frame, as far as paths need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameClass {
    /// The header is in the source address, so the frame does not name its sender.
    HeaderInSource,
    /// The same, and a probe.
    Probe,
    /// The source address is true: a message, or an acknowledgement.
    Plain,
    /// The same, and part of a set-up, whose frames are answered.
    Setup,
    /// The same, and a beacon, which names the sender.
    Beacon(Beacon),
}

impl FrameClass {
    /// Whether the source address is true, so that it is another one on each path.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, FrameClass::Plain | FrameClass::Setup | FrameClass::Beacon(_))
    }
}

/// Classify a frame that leaves or has arrived.
#[inline]
pub(crate) fn classify(bytes: &[u8], ethertype: EtherType) -> FrameClass {
    let kind = bytes.get(ETHERTYPE..).and_then(|rest| rest.first_chunk()).map(|two| u16::from_be_bytes(*two));
    let is_plain = kind == Some(ethertype.plain());
    // Most frames have no control message, and their header says so.
    let parsed = frame::parse(bytes, ethertype).ok().filter(|parsed| parsed.header.kind == Kind::Control);
    match parsed.and_then(|parsed| Control::parse(parsed.payload).ok()) {
        Some(Control::Beacon(beacon)) if is_plain => FrameClass::Beacon(beacon),
        Some(Control::Probe(_)) if !is_plain => FrameClass::Probe,
        Some(_) if is_plain => FrameClass::Setup,
        _ if is_plain => FrameClass::Plain,
        _ => FrameClass::HeaderInSource,
    }
}

/// The source address of a frame. It names the sender only in `plain` framing.
pub(crate) fn source(bytes: &[u8]) -> Option<Address> {
    bytes.get(SOURCE..)?.first_chunk().map(|address| Address(*address))
}

/// A copy of a frame with other addresses, because the sender may keep the frame itself. `None` leaves the present address.
/// A beacon has its sender's address in its content, too. No copy if the pool is empty.
pub(crate) fn copy(
    pool: &Pool,
    old: &Frame,
    addresses: (Option<Address>, Option<Address>),
    class: &FrameClass,
    ethertype: EtherType,
) -> Option<Frame> {
    let mut frame = pool.copy(old.bytes())?;
    let length = frame.bytes().len();
    readdress(&mut frame.space()?[..length], addresses, class, ethertype);
    Some(frame)
}

/// The same in place.
pub(crate) fn readdress(
    bytes: &mut [u8],
    (to, from): (Option<Address>, Option<Address>),
    class: &FrameClass,
    ethertype: EtherType,
) {
    for (at, address) in [(DESTINATION, to), (SOURCE, from)] {
        if let (Some(address), Some(place)) = (address, bytes.get_mut(at..at + 6)) {
            place.copy_from_slice(&address.0);
        }
    }
    if let (Some(address), FrameClass::Beacon(beacon)) = (from, class) {
        let mut body = [0; Control::MAX_BYTES];
        let length = Control::Beacon(Beacon { address, ..*beacon }).emit(&mut body);
        let at = frame::parse(bytes, ethertype).map_or(0, |parsed| parsed.framing.body_at());
        // The same beacon with another address is as long as it was.
        if let Some(place) = bytes.get_mut(at..at + length).filter(|_| at > 0) {
            place.copy_from_slice(&body[..length]);
        }
    }
}
