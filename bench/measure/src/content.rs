//! The content of data messages, and its check at the receiver.
//!
//! Both sides know the bytes of each message in advance, so a sender that prepares its frames once can still do so. The
//! receiver compares the length of every message, and all bytes of one message in [`COMPARED_SHARE`]. Every driver is checked in
//! the same way, at the same cost.

use am_wire::frame::{ETHERNET_HEADER, MIN_FRAME};

use crate::channel::Arrived;

/// All bytes of one message in this many are compared, at a position that varies: a fault may strike every second
/// message, or one slot of a ring. Of a bulk transfer, one byte in this many is compared.
pub(crate) const COMPARED_SHARE: u64 = 16;

/// The bytes of a message that its sender builds in place, without a source to copy from.
pub(crate) const IN_PLACE_BYTE: u8 = 0xa5;

/// The messages of one measurement, and the one that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Content {
    bytes: Vec<u8>,
    /// Messages that have arrived.
    seen: u64,
    /// The number of the next message that is compared.
    compared: u64,
    /// Bytes of the present message that have arrived.
    at: usize,
    /// Whether one of them is wrong.
    is_wrong: bool,
}

impl Content {
    /// Messages of this size, without repetition in their bytes. The first byte is 0, which tells a message from a
    /// control message on a shared socket.
    pub(crate) fn of(size: usize) -> Content {
        let mut bytes = vec![0; size];
        for (at, piece) in bytes.chunks_mut(8).enumerate() {
            let drawn = mix((size as u64).rotate_left(32) ^ at as u64);
            piece.copy_from_slice(&drawn.to_be_bytes()[..piece.len()]);
        }
        bytes.iter_mut().take(1).for_each(|first| *first = 0);
        Content { bytes, ..Content::default() }
    }

    /// Messages of this size that are built in place.
    pub(crate) fn in_place(size: usize) -> Content {
        Content { bytes: vec![IN_PLACE_BYTE; size], ..Content::default() }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload of a bare frame, without the padding of a short one.
    #[inline]
    pub(crate) fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end =
            if frame.len() == MIN_FRAME { (ETHERNET_HEADER + self.bytes.len()).min(MIN_FRAME) } else { frame.len() };
        &frame[ETHERNET_HEADER..end]
    }

    #[inline]
    pub(crate) fn count(&mut self, message: &[u8], arrived: &mut Arrived) {
        self.piece(message);
        self.end(arrived);
    }

    #[inline]
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        if self.seen == self.compared {
            self.is_wrong |= self.bytes.get(self.at..self.at + piece.len()) != Some(piece);
        }
        self.at += piece.len();
    }

    /// Bytes of the present message that have not arrived.
    #[inline]
    pub(crate) fn missing(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Count the message that the last piece completed.
    #[inline]
    pub(crate) fn end(&mut self, arrived: &mut Arrived) {
        arrived.messages += 1;
        arrived.bytes += self.at as u64;
        arrived.wrong += u64::from(self.is_wrong || self.at != self.bytes.len());
        if self.seen == self.compared {
            let share = self.seen / COMPARED_SHARE + 1;
            self.compared = share * COMPARED_SHARE + mix(share) % COMPARED_SHARE;
        }
        (self.seen, self.at, self.is_wrong) = (self.seen.wrapping_add(1), 0, false);
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles a number (splitmix64's last step).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of wrong messages.
    fn wrong(content: &mut Content, messages: impl IntoIterator<Item = Vec<u8>>) -> u64 {
        let mut arrived = Arrived::default();
        messages.into_iter().for_each(|message| content.count(&message, &mut arrived));
        arrived.wrong
    }

    #[test]
    fn a_cut_or_longer_message_is_always_wrong_and_counts_with_its_own_length() {
        for size in [1, 45, 46, 47, 1500] {
            let (mut content, mut arrived) = (Content::of(size), Arrived::default());
            let mut longer = content.bytes().to_vec();
            longer.push(0);
            for length in [size, size - 1, size + 1, size] {
                content.count(&longer[..length], &mut arrived);
            }
            let bytes = 4 * size as u64;
            assert_eq!(arrived, Arrived { messages: 4, bytes, wrong: 2, control: None }, "{size}");
        }
    }

    #[test]
    fn a_changed_byte_is_found_in_one_message_of_the_share() {
        for at in [0, 1, 700, 1499] {
            let mut content = Content::of(1500);
            let mut spoilt = content.bytes().to_vec();
            spoilt[at] ^= 1;
            assert_eq!(wrong(&mut content, vec![spoilt; 10 * COMPARED_SHARE as usize]), 10, "{at}");
        }
    }

    #[test]
    fn a_fault_that_strikes_regularly_is_found() {
        for (period, first) in
            [2, 4, 8, 16].into_iter().flat_map(|period| (0..period).map(move |first| (period, first)))
        {
            let mut content = Content::of(100);
            let message = |number: usize| {
                let mut bytes = content.bytes().to_vec();
                bytes[50] ^= u8::from(number % period == first);
                bytes
            };
            let messages: Vec<_> = (0..4000).map(message).collect();
            assert!(wrong(&mut content, messages) > 0, "message {first} of each {period}");
        }
    }
    #[test]
    fn padding_is_not_payload_and_a_frame_cut_to_the_shortest_is_no_padded_one() {
        let payload = |size, frame: usize| Content::of(size).payload(&vec![0; frame]).len();
        assert_eq!([payload(1, 60), payload(45, 60), payload(46, 60), payload(1500, 60)], [1, 45, 46, 46]);
        assert_eq!([payload(1, 61), payload(1500, 1514), payload(1500, 1024)], [47, 1500, 1010]);
    }
}
