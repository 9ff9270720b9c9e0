//! The length check: a code in every header for the length of its frame.
//!
//! Some drivers round the room for a frame down, cut what does not fit, and hand over the first part as a good frame.
//! Others pad, or include the frame's check sequence. The receiver compares the code with the length that arrived.
//!
//! A code has 7 bits in `bare` and 11 in the other framings, so it cannot name every length. Drivers cut at multiples
//! of some unit of at least 16 bytes. Lengths that are such multiples have their own codes. So a frame that is cut
//! there always has a wrong code, unless its length was a multiple of 16 as well and the cut removed a multiple of
//! [`Lengths::units`] of them. All other lengths share the remaining codes. Both moduli are odd, so no missing piece of
//! 16, 32, 64, ... bytes leaves the code unchanged.

/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;

/// Bytes of the smallest Ethernet frame, without its check sequence.
pub const MIN_FRAME: usize = 60;

/// The code of a short frame: it has [`MIN_FRAME`] bytes, and its trailer has the length of its body.
pub(crate) const SHORT_FRAME_CODE: u16 = 0;

/// Drivers cut frames at multiples of this many bytes.
const UNIT: usize = 16;

pub(crate) struct Lengths {
    /// Codes of the lengths that are multiples of [`UNIT`].
    units: u16,
    /// Codes of the other lengths.
    others: u16,
}

/// The 7 bits of `bare`: a cut at a unit is always detected in frames of up to 1,520 bytes.
pub(crate) const NARROW: Lengths = Lengths { units: 95, others: 31 };

/// The 11 bits of `split` and `plain`: the same in frames of up to 16,368 bytes.
pub(crate) const WIDE: Lengths = Lengths { units: 1023, others: 1023 };

const _: () = assert!(NARROW.units + NARROW.others < 1 << 7 && WIDE.units + WIDE.others < 1 << 11);
const _: () = assert!(NARROW.units % 2 == 1 && NARROW.others % 2 == 1 && WIDE.units % 2 == 1 && WIDE.others % 2 == 1);

impl Lengths {
    /// The code of a frame of this length that is not short. Frame lengths fit 32 bits, whose remainders take half the
    /// instructions.
    #[inline(always)]
    pub(crate) const fn code(&self, length: usize) -> u16 {
        let (length, unit) = (length as u32, UNIT as u32);
        let code = if length.is_multiple_of(unit) {
            1 + length / unit % self.units as u32
        } else {
            1 + self.units as u32 + length % self.others as u32
        };
        code as u16
    }

    /// Whether a frame of this length may have this code.
    #[inline(always)]
    pub(crate) fn fits(&self, code: u16, length: usize) -> bool {
        #[cfg(feature = "planted")]
        if planted::IGNORES_LENGTHS.get() {
            return true;
        }
        if code == SHORT_FRAME_CODE { length == MIN_FRAME } else { code == self.code(length) }
    }
}

/// A mutant: a bug on purpose that a checker has to find. It exists only with the feature `planted`, which tests switch
/// on, and then only on a thread that asked for it.
#[cfg(feature = "planted")]
pub mod planted {
    extern crate std;

    std::thread_local! {
        /// A frame on this thread may have any length, whatever its header says.
        pub static IGNORES_LENGTHS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    const MTU_1500: usize = 1518;

    fn confused(lengths: &Lengths, from: usize, to: usize) -> bool {
        lengths.code(from) == lengths.code(to)
    }

    #[test]
    fn every_cut_at_a_unit_is_found_out() {
        for (lengths, longest) in [(&NARROW, MTU_1500), (&WIDE, 16_367)] {
            for from in MIN_FRAME + 1..=longest {
                for to in (64..from).step_by(UNIT) {
                    assert!(!confused(lengths, from, to), "{from} cut to {to}");
                }
            }
        }
    }

    #[test]
    fn a_few_bytes_more_or_less_are_found_out() {
        for lengths in [&NARROW, &WIDE] {
            for length in MIN_FRAME..20_000 {
                assert!((1..31).all(|more| !confused(lengths, length, length + more)), "{length}");
            }
        }
    }

    /// A driver that loses one buffer of a frame in several.
    #[test]
    fn a_missing_piece_is_found_out() {
        for lengths in [&NARROW, &WIDE] {
            for length in MIN_FRAME..20_000 {
                let pieces: Vec<usize> = (4..14).map(|power| 1 << power).filter(|piece| piece + 60 <= length).collect();
                assert!(pieces.iter().all(|piece| !confused(lengths, length, length - piece)), "{length}");
            }
        }
    }

    /// No known driver joins frames. A joined frame passes by chance.
    #[test]
    fn most_joined_frames_are_found_out() {
        for (lengths, one_in) in [(&NARROW, 25), (&WIDE, 250)] {
            let pairs = (61..1515).flat_map(|first| (61..1515).map(move |second| (first, second)));
            let passed = pairs.filter(|&(first, second)| confused(lengths, first, first + second)).count();
            assert!(passed * one_in < 1454 * 1454, "{passed}");
        }
    }

    #[test]
    fn a_short_frame_is_60_bytes_long() {
        for lengths in [&NARROW, &WIDE] {
            let fitting: Vec<usize> = (0..3000).filter(|&length| lengths.fits(SHORT_FRAME_CODE, length)).collect();
            assert_eq!(fitting, [MIN_FRAME]);
            assert!((MIN_FRAME..70_000).all(|length| lengths.code(length) != SHORT_FRAME_CODE));
        }
    }
}
