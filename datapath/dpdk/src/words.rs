//! DPDK's messages: to `tracing`, and the last of them for errors.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Its levels, as in `rte_log.h`.
const ERROR: u32 = 4;
const WARNING: u32 = 5;
const NOTICE: u32 = 6;

/// How many of its messages an error quotes.
const KEPT: usize = 6;

/// The first it says of every memif and AF_XDP device of a process that shares with no other, as ours do; the second of every
/// PCI device that it has got when it started, and of others after the reason. Nothing follows from either.
const IRRELEVANT: [&str; 2] = ["Failed to register mp action callback", "Failed to attach device on primary process"];

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn last() -> MutexGuard<'static, VecDeque<String>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// DPDK says something, on whichever thread.
///
/// # Safety
/// `text` is `length` bytes.
pub(crate) unsafe extern "C" fn hear(level: u32, text: *const c_char, length: usize) {
    // SAFETY: the caller's.
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
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(text.into_owned());
    }
}

/// What it said before is about something else.
pub(crate) fn forget() {
    last().clear();
}

/// What it has complained of since.
pub(crate) fn complaints() -> String {
    let last = last();
    if last.is_empty() {
        return "DPDK says no more".into();
    }
    last.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(level: u32, text: &str) {
        // SAFETY: so many bytes.
        unsafe { hear(level, text.as_ptr().cast(), text.len()) }
    }

    #[test]
    fn the_last_complaints_are_kept() {
        forget();
        assert_eq!(complaints(), "DPDK says no more");
        (0..10).for_each(|number| say(ERROR, &format!("error {number}")));
        say(NOTICE, "by the way");
        say(ERROR, "rte_pmd_memif_probe(): Failed to register mp action callback: Operation not supported");
        say(ERROR, "EAL: Failed to attach device on primary process");
        let text = complaints();
        assert!(text.starts_with("error 4; ") && text.ends_with("; error 9"), "{text}");
        forget();
    }
}
