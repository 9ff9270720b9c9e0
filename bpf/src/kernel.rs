//! The kernel's version, and the features that it lacks.

use std::fs;

/// `bpf_link` for XDP.
const NEEDED: Version = Version(5, 9);
/// `xdp.frags`: frames in several pieces.
const FRAGS: Version = Version(5, 18);
/// BPF memory is no longer charged to `RLIMIT_MEMLOCK`.
const UNLOCKED: Version = Version(5, 11);

/// The verifiers of 5.10 and 6.1 accept our programs only from a process with CAP_PERFMON; that of 6.12 does not need
/// it.
const WITHOUT_PERFMON: Version = Version(6, 12);

/// Whether this kernel asks for CAP_PERFMON beside CAP_BPF to load the programs.
pub fn needs_perfmon() -> bool {
    Kernel::check().is_ok_and(|kernel| kernel.needs_perfmon())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

/// The running kernel, by its release string.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    release: String,
    version: Version,
}

impl Kernel {
    /// # Errors
    /// The release of a kernel that is too old.
    pub(crate) fn check() -> Result<Kernel, String> {
        Kernel::of(fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim())
    }

    fn of(release: &str) -> Result<Kernel, String> {
        // If the release cannot be parsed, try.
        let version = parse(release).unwrap_or(Version(u32::MAX, 0));
        if version < NEEDED {
            return Err(release.to_owned());
        }
        Ok(Kernel { release: release.to_owned(), version })
    }

    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    pub(crate) fn has_frags(&self) -> bool {
        self.version >= FRAGS
    }

    pub(crate) fn needs_perfmon(&self) -> bool {
        self.version < WITHOUT_PERFMON
    }

    pub(crate) fn locks_memory(&self) -> bool {
        self.version < UNLOCKED
    }
}

/// `6.1.0-18-amd64` is 6.1.
fn parse(release: &str) -> Option<Version> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some(Version(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_named_with_what_is_needed() {
        let error = crate::LoadError::KernelTooOld { found: Kernel::of("5.4.0-91-generic").unwrap_err() };
        assert_eq!(error.to_string(), "kernel 5.4.0-91-generic is too old: XDP through a bpf_link needs 5.9 or newer");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let all = |k: Kernel| (k.locks_memory(), k.has_frags(), k.needs_perfmon());
        let features = |release| Kernel::of(release).map(all).unwrap();
        assert_eq!(features("5.10.0-28-amd64"), (true, false, true));
        assert_eq!(features("5.15.0-91-generic"), (false, false, true));
        assert_eq!(features("6.1.0-18-amd64"), (false, true, true));
        assert_eq!(features("6.12.107+deb13-amd64"), (false, true, false));
        assert_eq!(features("10.0-rc1"), (false, true, false));
        assert_eq!(features("unreadable"), (false, true, false));
    }
}
