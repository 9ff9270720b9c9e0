//! Checks the kernel's version.

use std::fs;

/// The oldest supported kernel. It needs `bpf_link` for XDP (5.9), every field of `XDP_STATISTICS` (5.9), shared memory
/// for maps (5.5) and need_wakeup (5.4). 5.10 is the oldest long-term kernel with all of them.
pub(crate) const NEEDED: (u32, u32) = (5, 10);

/// # Errors
/// The kernel is too old: its release.
pub(crate) fn check() -> Result<(), String> {
    // Without /proc the version is unknown. Then a later step fails where something is missing.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    check_release(release.trim())
}

fn check_release(release: &str) -> Result<(), String> {
    match version(release) {
        Some(found) if found < NEEDED => Err(release.to_owned()),
        _ => Ok(()),
    }
}

/// The first two numbers of `6.1.0-13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version("5.10-rc3"), Some((5, 10)));
        assert_eq!(version(""), None);
    }

    #[test]
    fn old_kernels_are_named() {
        assert!(check_release("5.10.1").is_ok());
        assert!(check_release("unheard of").is_ok());
        let found = check_release("4.19.0-25-amd64").unwrap_err();
        let error = crate::XdpOpenError::KernelTooOld { found }.to_string();
        assert!(error.contains("4.19.0-25-amd64") && error.contains("5.10"), "{error}");
    }
}
