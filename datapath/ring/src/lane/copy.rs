//! Copies from and to memory that others write at the same time.
//!
//! `memcpy` is not allowed: to the compiler a race on plain memory is undefined, and it may read twice. Atomic words
//! are defined everywhere. On known processors we use instructions about which the compiler assumes nothing. Words
//! copied in pieces of 16 bytes are read again sooner than in pieces of 8, which header fields straddle; for a page or
//! more, `rep movsb` is fastest.

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
use super::shape::ONE_LINE;

/// The least length that [`copy`] takes. Miri, the model checker and other processors have only words.
pub(super) const FEWEST: usize =
    if cfg!(all(target_arch = "x86_64", not(miri), not(loom))) { PIECE + 1 } else { usize::MAX };

const PIECE: usize = 16;

/// Copy [`FEWEST`] bytes or more.
///
/// # Safety
/// Both ranges are mapped, `from` readable and `to` writable, and they do not overlap. Nobody has a reference to what others write.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(len >= FEWEST);
    /// From this length on, `rep movsb` is faster, though it starts slowly.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    const MOVSB_FROM: usize = 768;
    // SAFETY: the caller's. The direction flag is clear, as the ABI says; what the copy races with is not the
    // compiler's concern, which sees instructions that write memory.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        if len >= MOVSB_FROM {
            core::arch::asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags));
        } else if len <= 4 * PIECE {
            copy_from_ends(from, to, len);
        } else {
            copy_pieces(from, to, len);
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unreachable!("{len} bytes from {from:?} to {to:?}: only words are copied here");
}

/// Copy the bytes of a record of one line, to and from places that far behind the pointers.
///
/// # Safety
/// As for [`copy`], with [`ONE_LINE`] bytes in each range.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline(always)]
pub(super) unsafe fn copy_line<const FROM: usize, const TO: usize>(from: *const u8, to: *mut u8) {
    const { assert!(ONE_LINE == 3 * PIECE + 12, "the last piece overlaps the one before") };
    // SAFETY: the caller's. The last piece ends where the ranges do.
    unsafe {
        core::arch::asm!(
            "movups {a}, [{from} + {FROM}]",
            "movups {b}, [{from} + {FROM} + 16]",
            "movups {c}, [{from} + {FROM} + 32]",
            "movups {d}, [{from} + {FROM} + 44]",
            "movups [{to} + {TO}], {a}",
            "movups [{to} + {TO} + 16], {b}",
            "movups [{to} + {TO} + 32], {c}",
            "movups [{to} + {TO} + 44], {d}",
            FROM = const FROM,
            TO = const TO,
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copy 17 to 64 bytes, two pieces from each end: no loop for the frames that there are most of.
///
/// # Safety
/// As for [`copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_from_ends(from: *const u8, to: *mut u8, len: usize) {
    // With up to 32 bytes one piece from each end is all, and is copied twice.
    let half = if len > 2 * PIECE { PIECE } else { 0 };
    // SAFETY: the caller's. Each piece begins and ends within the range, since it is longer than `half + PIECE`.
    unsafe {
        core::arch::asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + {half}]",
            "movups {c}, [{from} + {late}]",
            "movups {d}, [{from} + {last}]",
            "movups [{to}], {a}",
            "movups [{to} + {half}], {b}",
            "movups [{to} + {late}], {c}",
            "movups [{to} + {last}], {d}",
            half = in(reg) half,
            late = in(reg) len - PIECE - half,
            last = in(reg) len - PIECE,
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Copy more than a piece, in a loop.
///
/// # Safety
/// As for [`copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_pieces(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's. Pieces start below `last`, and the last one at it: it ends where the range ends, and
    // overlaps the one before.
    unsafe {
        core::arch::asm!(
            "2:",
            "movups {piece}, [{from} + {at}]",
            "movups [{to} + {at}], {piece}",
            "add {at}, 16",
            "cmp {at}, {last}",
            "jb 2b",
            "movups {piece}, [{from} + {last}]",
            "movups [{to} + {last}], {piece}",
            at = inout(reg) 0usize => _,
            last = in(reg) len - PIECE,
            from = in(reg) from,
            to = in(reg) to,
            piece = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Hint that this cache line and the next will be written.
#[inline]
pub(super) fn will_write(line: *const u8) {
    // SAFETY: a hint, which does nothing with an address that leads nowhere; processors without it take it for none.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("prefetchw [{line}]", "prefetchw [{line} + 64]", line = in(reg) line,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
