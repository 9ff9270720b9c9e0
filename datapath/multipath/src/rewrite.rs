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
    pub(crate) fn beacon(&self) -> Option<&Beacon> {
        if let FrameClass::Beacon(beacon) = self { Some(beacon) } else { None }
    }
}

/// Classify a frame that leaves or has arrived.
#[inline]
pub(crate) fn classify(bytes: &[u8], ethertype: EtherType) -> FrameClass {
    let kind =
        bytes.get(ETHERTYPE..ETHERTYPE + 2).and_then(|two| two.first_chunk()).map(|two| u16::from_be_bytes(*two));
    let is_plain = kind == Some(ethertype.plain());
    match control(bytes, ethertype) {
        Some(Control::Beacon(beacon)) if is_plain => FrameClass::Beacon(beacon),
        Some(Control::Probe(_)) if !is_plain => FrameClass::Probe,
        Some(_) if is_plain => FrameClass::Setup,
        _ if is_plain => FrameClass::Plain,
        _ => FrameClass::HeaderInSource,
    }
}

/// The control message of a frame. Most frames have none, and their header says so.
#[inline]
fn control(bytes: &[u8], ethertype: EtherType) -> Option<Control> {
    let parsed = frame::parse(bytes, ethertype).ok().filter(|parsed| parsed.header.kind == Kind::Control)?;
    Control::parse(parsed.payload).ok()
}

/// The source address of a frame. It names the sender only in `plain` framing.
pub(crate) fn source(bytes: &[u8]) -> Option<Address> {
    bytes.get(SOURCE..)?.first_chunk().map(|address| Address(*address))
}

/// The addresses to write into a frame. `None` leaves the present one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddressChange {
    pub(crate) to: Option<Address>,
    pub(crate) from: Option<Address>,
}

impl AddressChange {
    pub(crate) fn is_none(&self) -> bool {
        self.to.is_none() && self.from.is_none()
    }

    /// Write the addresses. A beacon has its sender's address in its content, too.
    fn write(&self, bytes: &mut [u8], beacon: Option<&Beacon>, ethertype: EtherType) {
        for (at, address) in [(DESTINATION, self.to), (SOURCE, self.from)] {
            if let (Some(address), Some(place)) = (address, bytes.get_mut(at..at + 6)) {
                place.copy_from_slice(&address.0);
            }
        }
        if let (Some(address), Some(beacon)) = (self.from, beacon) {
            let mut body = [0; Control::MAX_BYTES];
            let length = Control::Beacon(Beacon { address, ..*beacon }).emit(&mut body);
            let at = frame::parse(bytes, ethertype).map_or(0, |parsed| parsed.framing.body_at());
            // The same beacon with another address is as long as it was.
            if let Some(place) = bytes.get_mut(at..at + length).filter(|_| at > 0) {
                place.copy_from_slice(&body[..length]);
            }
        }
    }
}

/// A copy of a frame with other addresses, because the sender may keep the frame itself. `None` if the pool is empty.
pub(crate) fn copy(
    pool: &Pool,
    old: &Frame,
    change: AddressChange,
    beacon: Option<&Beacon>,
    ethertype: EtherType,
) -> Option<Frame> {
    let mut frame = pool.copy(old.bytes())?;
    let length = frame.bytes().len();
    change.write(&mut frame.space()?[..length], beacon, ethertype);
    Some(frame)
}
