//! Addresses in frames: a node has one on each way.

use am_ring::{Frame, Pool};
use am_wire::control::{Beacon, Control};
use am_wire::{Address, Buffer, EtherType, Kind, frame};

const DESTINATION: usize = 0;
const SOURCE: usize = 6;
const ETHERTYPE: usize = 12;

/// What a frame is, as far as its way is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A header for a source address: nothing in it says where it comes from.
    Hidden,
    /// A hidden header, and there only to find out whether it arrives.
    Probe,
    /// A true source address: a message, or what acknowledges some.
    Plain,
    /// The same, and part of a set-up, in which each frame is answered.
    Setup,
    /// The same, and its content says who that is.
    Beacon(Beacon),
}

impl Sort {
    pub(crate) fn beacon(&self) -> Option<&Beacon> {
        if let Sort::Beacon(beacon) = self { Some(beacon) } else { None }
    }
}

/// Look at a frame that leaves or has arrived.
#[inline]
pub(crate) fn sort(bytes: &[u8], ethertype: EtherType) -> Sort {
    let kind =
        bytes.get(ETHERTYPE..ETHERTYPE + 2).and_then(|two| two.first_chunk()).map(|two| u16::from_be_bytes(*two));
    let is_plain = kind == Some(ethertype.plain());
    match control(bytes, ethertype) {
        Some(Control::Beacon(beacon)) if is_plain => Sort::Beacon(beacon),
        Some(Control::Probe(_)) if !is_plain => Sort::Probe,
        Some(_) if is_plain => Sort::Setup,
        _ if is_plain => Sort::Plain,
        _ => Sort::Hidden,
    }
}

/// Most frames are none, which their header says.
#[inline]
fn control(bytes: &[u8], ethertype: EtherType) -> Option<Control> {
    let parsed = frame::parse(bytes, ethertype).ok().filter(|parsed| parsed.header.kind == Kind::Control)?;
    Control::parse(parsed.payload).ok()
}

/// Where a frame comes from, if its source address is true.
pub(crate) fn source(bytes: &[u8]) -> Option<Address> {
    bytes.get(SOURCE..)?.first_chunk().map(|address| Address(*address))
}

/// Addresses to put into a frame; `None` leaves what is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) to: Option<Address>,
    pub(crate) from: Option<Address>,
}

impl Change {
    pub(crate) fn is_none(&self) -> bool {
        self.to.is_none() && self.from.is_none()
    }

    /// A beacon's content names its sender's address, too.
    fn write(&self, bytes: &mut [u8], beacon: Option<&Beacon>, ethertype: EtherType) {
        for (at, address) in [(DESTINATION, self.to), (SOURCE, self.from)] {
            if let (Some(address), Some(place)) = (address, bytes.get_mut(at..at + 6)) {
                place.copy_from_slice(&address.0);
            }
        }
        if let (Some(address), Some(beacon)) = (self.from, beacon) {
            let mut body = [0; Control::LONGEST];
            let length = Control::Beacon(Beacon { address, ..*beacon }).emit(&mut body);
            let at = frame::parse(bytes, ethertype).map_or(0, |parsed| parsed.framing.body_at());
            // The same beacon with another address is as long as it was.
            if let Some(place) = bytes.get_mut(at..at + length).filter(|_| at > 0) {
                place.copy_from_slice(&body[..length]);
            }
        }
    }
}

/// A copy of a frame, with other addresses: the frame itself may be kept to be
/// sent again. `None` where the pool has no frame.
pub(crate) fn copy(
    pool: &Pool,
    old: &Frame,
    change: Change,
    beacon: Option<&Beacon>,
    ethertype: EtherType,
) -> Option<Frame> {
    let mut frame = pool.copy(old.bytes())?;
    let length = frame.bytes().len();
    change.write(&mut frame.space()?[..length], beacon, ethertype);
    Some(frame)
}
