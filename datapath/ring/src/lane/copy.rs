//! Long copies between our memory and memory that others write meanwhile.
//!
//! `memcpy` may not be used: to the compiler a race for plain memory is undefined, and it may read twice. Atomic words
//! are defined and not slower for short records. For long ones there is the processor's own instruction, of which the compiler
//! assumes nothing.

/// From so many bytes on.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) const LONG: usize = 768;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) const LONG: usize = usize::MAX;

/// # Safety
/// Both ranges are mapped, `from` readable and `to` writable, and one of them is nobody else's.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's. The direction flag is clear, as the ABI says; what the copy races with is
    // not the compiler's concern, which sees an instruction that writes memory.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (from, to, len);
}

/// A hint that the line will be written.
#[inline]
pub(super) fn will_write(line: *const u8) {
    // SAFETY: a hint, which does nothing with an address that leads nowhere; processors without it take it for none.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
