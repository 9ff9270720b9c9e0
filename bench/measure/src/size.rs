//! The size of a message, and the data messages and frames that carry it.

use crate::driver::Driver;
use crate::error::Error;

/// The limit of `--size`. Both sides keep several transfers of this size in memory.
pub(crate) const MAX_SIZE: usize = 1 << 28;

pub(crate) const MAX_SWEPT_SIZE: usize = 64 << 10;

/// A sweep has sizes before and after each of these numbers of full frames.
const STEPS: [usize; 5] = [1, 2, 4, 8, 16];

/// The sizes of a sweep: powers of two, and the neighbours of the steps.
pub fn swept() -> Vec<Size> {
    let powers = (0..=MAX_SWEPT_SIZE.ilog2()).map(|power| Size::Swept(1 << power));
    powers.chain(STEPS.iter().flat_map(|frames| [0, 1].map(|more| Size::Filling(*frames, more)))).collect()
}

/// A size as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many bytes in one frame.
    Bytes(usize),
    /// As many bytes as one frame of each driver holds.
    Full,
    /// As many bytes as one frame of every driver of the session holds, so that their messages are equal.
    Common(usize),
    /// This many bytes in one bulk transfer; without bulk transfers, in as many frames as needed.
    Bulk(usize),
    /// This many bytes in one data message of any number of frames; skipped if no data message is as long.
    Whole(usize),
    /// This many bytes, in as many data messages as needed.
    Swept(usize),
    /// As many bytes as this many frames hold, and this many more. A sweep has a step where one more frame begins.
    Filling(usize, usize),
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        if text == "full" {
            return Ok(Size::Full);
        }
        match with_unit(text) {
            Some(bytes) if (1..=MAX_SIZE).contains(&bytes) => Ok(Size::Bytes(bytes)),
            _ => {
                Err("not a size: bytes, from 1 to 256M, as in 16, 64K or 1M, or `full` for what one frame holds"
                    .to_owned())
            }
        }
    }
}

/// Bytes, as in `16`, `64K` or `1M`.
pub fn with_unit(text: &str) -> Option<usize> {
    let unit = [(['K', 'k'], 1 << 10), (['M', 'm'], 1 << 20)]
        .into_iter()
        .find_map(|(unit, of)| Some((text.strip_suffix(unit)?, of)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// How data messages lie in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    /// The most payload in one frame.
    pub(crate) largest: usize,
    /// The most payload in one data message, which may take several frames.
    pub(crate) most: usize,
    /// Bytes of a longer message in each of its frames, and of the header before them.
    fragment: usize,
    header: usize,
}

impl FrameLayout {
    /// Messages of one frame each.
    pub(crate) const fn of_frames(largest: usize) -> FrameLayout {
        FrameLayout { largest, most: largest, fragment: if largest > 0 { largest } else { 1 }, header: 0 }
    }

    /// UDP datagrams over an interface with this MTU, by IPv4 or else IPv6: whole, or in fragments.
    pub(crate) fn of_datagrams(mtu: usize, ipv4: bool) -> FrameLayout {
        const MAX_IP_PACKET: usize = 65_535;
        const UDP: usize = 8;
        // IPv6 marks fragments by a header of 8 bytes, and its longest packet has so much payload.
        let (header, mark, most) = if ipv4 { (20, 0, MAX_IP_PACKET - 20 - UDP) } else { (40, 8, MAX_IP_PACKET - UDP) };
        // Fragments begin at multiples of eight.
        let fragment = (mtu.saturating_sub(header + mark) & !7).max(8);
        FrameLayout { largest: mtu.saturating_sub(header + UDP).min(most), most, fragment, header: UDP }
    }

    /// The frames of a data message of this size.
    pub(crate) fn frames(&self, size: usize) -> usize {
        if size <= self.largest { 1 } else { (size + self.header).div_ceil(self.fragment) }
    }

    /// The payload that fills this many frames.
    pub(crate) fn filling(&self, frames: usize) -> usize {
        if frames <= 1 { self.largest } else { frames * self.fragment - self.header }
    }
}

/// How a message is carried. Its pieces have one length, the shortest that suffices. If a piece takes a constant time
/// and a time for each byte, as within a frame, the sum equals that of full pieces and a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLayout {
    /// Bytes of the message.
    pub size: usize,
    /// The data messages that carry it.
    pub(crate) pieces: usize,
    pub(crate) piece: usize,
    /// The frames of all data messages.
    pub(crate) frames: usize,
    /// Whether it fills them all.
    pub(crate) full: bool,
}

impl Size {
    /// How a message of this size is carried in such frames, or in segments of a bulk transfer if there are any; `None` if it is skipped.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the user named the size, and it fits no frame.
    pub(crate) fn layout(
        self,
        driver: Driver,
        layout: FrameLayout,
        segment: Option<usize>,
    ) -> Result<Option<MessageLayout>, Error> {
        let most = layout.largest;
        let one = |size| Ok(Some(MessageLayout { size, pieces: 1, piece: size, frames: 1, full: size == most }));
        match self {
            Size::Full => one(most),
            // A frame may hold less than was known before the driver was open.
            Size::Common(size) => one(size.min(most)),
            Size::Bytes(size) if size <= most => one(size),
            Size::Bytes(size) => Err(Error::TooLarge { driver: driver.name(), size, most }),
            Size::Bulk(size) => match segment {
                Some(segment) => {
                    let frames = size.div_ceil(segment.max(1));
                    Ok(Some(MessageLayout { size, pieces: 1, piece: size, frames, full: size.is_multiple_of(segment) }))
                }
                None => {
                    let is_full = size.is_multiple_of(most.max(1));
                    Ok(Some(in_pieces(size, is_full, FrameLayout::of_frames(most))))
                }
            },
            Size::Whole(size) => Ok((size <= layout.most).then(|| in_pieces(size, false, layout))),
            Size::Swept(size) => Ok(Some(in_pieces(size, false, layout))),
            Size::Filling(frames, more) => {
                let size = layout.filling(frames) + more;
                Ok((size <= MAX_SWEPT_SIZE).then(|| in_pieces(size, more == 0, layout)))
            }
        }
    }
}

fn in_pieces(size: usize, full: bool, layout: FrameLayout) -> MessageLayout {
    let pieces = size.div_ceil(layout.most.max(1)).max(1);
    let piece = size.div_ceil(pieces);
    MessageLayout { size, pieces, piece, frames: pieces * layout.frames(piece), full }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of 1500 bytes, without bulk transfers.
    const FRAMES: FrameLayout = FrameLayout::of_frames(1500);

    #[test]
    fn sizes() {
        assert_eq!("full".parse(), Ok(Size::Full));
        assert_eq!(["64k", "1m"].map(str::parse), [64 << 10, 1 << 20].map(|size| Ok(Size::Bytes(size))));
        assert_eq!(["16", "64K", "1M"].map(str::parse), [16, 64 << 10, 1 << 20].map(|size| Ok(Size::Bytes(size))));
        for text in ["0", "-1", "", "sixteen", "1.5", "K", "0M", "257M", "1G", "18446744073709551615K"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    fn layout(size: Size) -> Option<MessageLayout> {
        size.layout(Driver::Raw, FRAMES, None).unwrap()
    }

    #[test]
    fn what_a_data_message_holds_goes_in_one() {
        assert_eq!(
            layout(Size::Full),
            Some(MessageLayout { size: 1500, pieces: 1, piece: 1500, frames: 1, full: true })
        );
        assert_eq!(
            layout(Size::Swept(1)),
            Some(MessageLayout { size: 1, pieces: 1, piece: 1, frames: 1, full: false })
        );
        assert_eq!(layout(Size::Filling(1, 0)), layout(Size::Full));
        assert!(Size::Bytes(1501).layout(Driver::Raw, FRAMES, None).is_err());
    }

    #[test]
    fn what_it_does_not_goes_in_pieces_that_miss_nothing() {
        assert_eq!(
            layout(Size::Filling(1, 1)),
            Some(MessageLayout { size: 1501, pieces: 2, piece: 751, frames: 2, full: false })
        );
        assert_eq!(
            layout(Size::Swept(MAX_SWEPT_SIZE)),
            Some(MessageLayout { size: MAX_SWEPT_SIZE, pieces: 44, piece: 1490, frames: 44, full: false })
        );
        for size in swept().into_iter().filter_map(layout) {
            assert!((size.size..size.size + size.pieces).contains(&(size.pieces * size.piece)), "{size:?}");
            assert!(size.piece <= 1500, "{size:?}");
        }
    }
    #[test]
    fn fragments_as_ip_makes_them() {
        for (ipv4, largest, two, most) in [(true, 1472, 2952, 65_507), (false, 1452, 2888, 65_527)] {
            let layout = FrameLayout::of_datagrams(1500, ipv4);
            assert_eq!((layout.filling(1), layout.filling(2), layout.most), (largest, two, most));
            assert_eq!([largest, largest + 1, two, two + 1].map(|size| layout.frames(size)), [1, 2, 2, 3]);
        }
    }
}
