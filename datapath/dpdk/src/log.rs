//! DPDK's log messages. They go to `tracing`, and errors quote the last of them.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// DPDK's log levels, as in `rte_log.h`.
const ERROR: u32 = 4;
const WARNING: u32 = 5;
const NOTICE: u32 = 6;

/// The most messages that an error quotes.
const MAX_KEPT: usize = 6;

/// Messages without consequence. DPDK prints the first for every memif and AF_XDP device of a process that shares
/// nothing with others, such as ours. It prints the second for every PCI device that it got at its start, and for
/// others after the reason.
const IRRELEVANT: [&str; 2] = ["Failed to register mp action callback", "Failed to attach device on primary process"];

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn last() -> MutexGuard<'static, VecDeque<String>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// DPDK's log callback. It is called on any thread.
///
/// # Safety
/// `text` points to `length` bytes.
pub(crate) unsafe extern "C" fn on_message(level: u32, text: *const c_char, length: usize) {
    if text.is_null() {
        return;
    }
    // SAFETY: the caller's, and not null.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    let text = String::from_utf8_lossy(bytes);
    match level {
        ..=ERROR => tracing::error!(target: "dpdk", "{text}"),
        WARNING => tracing::warn!(target: "dpdk", "{text}"),
        NOTICE => tracing::info!(target: "dpdk", "{text}"),
        _ => tracing::debug!(target: "dpdk", "{text}"),
    }
    if level <= WARNING && !IRRELEVANT.iter().any(|words| text.contains(words)) {
        let mut last = last();
        if last.len() == MAX_KEPT {
            last.pop_front();
        }
        last.push_back(text.into_owned());
    }
}

/// Discard earlier messages: they are about something else.
pub(crate) fn clear() {
    last().clear();
}

/// The warnings and errors since then.
pub(crate) fn complaints() -> String {
    let last = last();
    if last.is_empty() {
        return "DPDK gives no reason".into();
    }
    last.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(level: u32, text: &str) {
        // SAFETY: the pointer and the length are those of `text`.
        unsafe { on_message(level, text.as_ptr().cast(), text.len()) }
    }

    #[test]
    fn the_last_complaints_are_kept() {
        clear();
        assert_eq!(complaints(), "DPDK gives no reason");
        (0..10).for_each(|number| say(ERROR, &format!("error {number}")));
        say(NOTICE, "by the way");
        say(ERROR, "rte_pmd_memif_probe(): Failed to register mp action callback: Operation not supported");
        say(ERROR, "EAL: Failed to attach device on primary process");
        let text = complaints();
        assert!(text.starts_with("error 4; ") && text.ends_with("; error 9"), "{text}");
        clear();
    }
}
