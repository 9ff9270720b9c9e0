//! The padding of a short frame, put to use.
//!
//! Ethernet pads every frame to 60 bytes. A body that does not fill them leaves at least one byte: the last byte of the
//! frame has the true length of the body. If there is room, the 8 bytes before it carry acknowledgements and credits
//! for free.
//!
//! ```text
//!  frame byte   …51         51..53      53..55     55..57      57..59     59
//!         body, zeros │ requests: accepted, limit │ replies: accepted, limit │ length (6) ack (1) 0
//! ```

use crate::framing::Framing;
use crate::length::MIN_FRAME;
use crate::{Class, Reason};

const ACK: u8 = 0b10;
const BLOCK: usize = 8;
const LAST: usize = MIN_FRAME - 1;

// The longest body that leaves a trailer has a length of six bits; a block is
// two numbers of two bytes a class; every framing leaves room for one.
const _: () = assert!(LAST - Framing::Bare.body_at() < 1 << 6);
const _: () = assert!(BLOCK == 2 * 2 * size_of::<u16>());
const _: () = assert!(has_room_for_piggyback(Framing::Plain, 0));

/// The low 16 bits of an acknowledgement of both classes: everything before `accepted` has arrived, everything before `limit` may be sent.
/// It is one number, as in the frame, so that it is read and written as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Piggyback(u64);

/// One class of a [`Piggyback`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PiggybackClass {
    /// The first sequence number that has not arrived.
    pub accepted: u16,
    /// The first sequence number that is not allowed yet: the credit's end.
    pub limit: u16,
}

impl Piggyback {
    /// Of requests and of replies.
    #[inline]
    pub fn new(classes: [PiggybackClass; 2]) -> Self {
        let [q, r] = classes.map(|class| (class.accepted as u64) << 16 | class.limit as u64);
        Piggyback(q << 32 | r)
    }

    /// What it says about one class.
    #[inline]
    pub const fn class(self, class: Class) -> PiggybackClass {
        let half = self.0 >> if matches!(class, Class::Request) { 32 } else { 0 };
        PiggybackClass { accepted: (half >> 16) as u16, limit: half as u16 }
    }

    /// The content of both.
    #[inline]
    #[must_use]
    pub fn later(self, other: Piggyback) -> Piggyback {
        // Usually no number of the other is earlier: the four differences at once, none of which borrows from the next.
        const SIGNS: u64 = 0x8000_8000_8000_8000;
        let differences = ((other.0 | SIGNS) - (self.0 & !SIGNS)) ^ (other.0 ^ !self.0) & SIGNS;
        if differences & SIGNS == 0 {
            return other;
        }
        let later = |a: u16, b: u16| if (b.wrapping_sub(a) as i16) < 0 { a } else { b };
        let of = |class| {
            let (a, b) = (self.class(class), other.class(class));
            PiggybackClass { accepted: later(a.accepted, b.accepted), limit: later(a.limit, b.limit) }
        };
        Piggyback::new(Class::ALL.map(of))
    }
}

/// Whether a body of this length leaves a trailer.
#[inline]
pub(crate) const fn is_short(framing: Framing, body: usize) -> bool {
    framing.body_at() + body <= LAST
}

/// Whether the trailer after a body of this length has room for a [`Piggyback`].
#[inline]
pub const fn has_room_for_piggyback(framing: Framing, body: usize) -> bool {
    framing.body_at() + body + BLOCK <= LAST
}

/// Write the trailer of a short frame, whose padding is clear.
#[inline]
pub(crate) fn emit(frame: &mut [u8; MIN_FRAME], framing: Framing, body: usize, piggyback: Option<&Piggyback>) {
    let has_room = has_room_for_piggyback(framing, body);
    if has_room {
        let Piggyback(acks) = piggyback.copied().unwrap_or_default();
        frame[LAST - BLOCK..LAST].copy_from_slice(&acks.to_be_bytes());
    }
    frame[LAST] = (body as u8) << 2 | if has_room && piggyback.is_some() { ACK } else { 0 };
}

/// Write the trailer of a short frame that has room for acknowledgements.
#[inline(always)]
pub(crate) fn emit_acks(frame: &mut [u8; MIN_FRAME], body: usize, acks: Piggyback) {
    frame[ACKS_AT..LAST].copy_from_slice(&acks.0.to_be_bytes());
    frame[LAST] = (body as u8) << 2 | ACK;
}

/// Where the acknowledgements are.
pub(crate) const ACKS_AT: usize = LAST - BLOCK;

/// The body's length and the acknowledgements. `None` if there are none, or the trailer is malformed.
#[inline(always)]
pub(crate) fn parse_acks(frame: &[u8; MIN_FRAME]) -> Option<(u8, Piggyback)> {
    let last = frame[LAST];
    let acks = Piggyback(u64::from_be_bytes(*frame[ACKS_AT..].first_chunk()?));
    (last & (ACK | 1) == ACK).then_some((last >> 2, acks))
}

/// The body's length, and what is in the padding.
#[inline]
pub(crate) fn parse(frame: &[u8; MIN_FRAME], framing: Framing) -> Result<(usize, Option<Piggyback>), Reason> {
    let last = frame[LAST];
    let body = (last >> 2) as usize;
    if last & 1 != 0 || !is_short(framing, body) {
        return Err(Reason::Length);
    }
    if last & ACK == 0 {
        return Ok((body, None));
    }
    if !has_room_for_piggyback(framing, body) {
        return Err(Reason::Length);
    }
    let (_, block) = frame[..LAST].split_last_chunk::<BLOCK>().ok_or(Reason::Length)?;
    Ok((body, Some(Piggyback(u64::from_be_bytes(*block)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_later_of_each_number(earlier: [u16; 4], steps in prop::array::uniform4(-3i32..40_000)) {
            let of = |[a, b, c, d]: [u16; 4]| {
                Piggyback::new([PiggybackClass { accepted: a, limit: b }, PiggybackClass { accepted: c, limit: d }])
            };
            let mut other = earlier;
            other.iter_mut().zip(steps).for_each(|(number, step)| *number = number.wrapping_add(step as u16));
            let mut later = other;
            later.iter_mut().zip(earlier).zip(steps).for_each(|((number, before), step)| {
                *number = if (0..1 << 15).contains(&step) { *number } else { before };
            });
            prop_assert_eq!(of(earlier).later(of(other)), of(later));
        }
    }
}
