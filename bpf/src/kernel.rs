//! The kernel's version, and the features that it lacks.

use nix::sys::utsname::uname;

/// The running kernel, by its release string.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its release: `6.1.0-18-amd64`.
    pub release: String,
    version: (u32, u32),
}

impl Kernel {
    /// The running kernel.
    pub fn running() -> Kernel {
        // `/proc` would take a descriptor, and a process without one would have a kernel without a version.
        let release = uname().map(|names| names.release().to_string_lossy().into_owned());
        Kernel::of(&release.unwrap_or_default())
    }

    fn of(release: &str) -> Kernel {
        // A kernel whose release cannot be parsed counts as new: a later step fails where something is missing.
        Kernel { release: release.to_owned(), version: parse(release).unwrap_or((u32::MAX, 0)) }
    }

    /// Whether its version is below this one.
    pub fn is_older_than(&self, major: u32, minor: u32) -> bool {
        self.version < (major, minor)
    }

    /// `xdp.frags`: frames in several pieces.
    pub(crate) fn has_frags(&self) -> bool {
        !self.is_older_than(5, 18)
    }

    /// Whether the program can stamp group frames. Atomic operations with a result came with 5.12; only the program for frames in several
    /// pieces has them.
    pub fn has_sequencer(&self) -> bool {
        self.has_frags()
    }

    /// Whether it asks for CAP_PERFMON beside CAP_BPF to load the programs. The verifiers of 5.10 and 6.1 do; that of
    /// 6.12 does not.
    pub fn needs_perfmon(&self) -> bool {
        self.is_older_than(6, 12)
    }

    /// Whether it charges BPF memory to `RLIMIT_MEMLOCK`.
    pub(crate) fn locks_memory(&self) -> bool {
        self.is_older_than(5, 11)
    }
}

/// `6.1.0-18-amd64` is 6.1.
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let of = |release| {
            let kernel = Kernel::of(release);
            (kernel.is_older_than(5, 9), kernel.locks_memory(), kernel.has_frags(), kernel.needs_perfmon())
        };
        assert_eq!(of("5.4.0-91-generic"), (true, true, false, true));
        assert_eq!(of("5.10-rc3"), (false, true, false, true));
        assert_eq!(of("5.15.0-91-generic"), (false, false, false, true));
        assert_eq!(of("6.1.0-18-amd64"), (false, false, true, true));
        assert_eq!(of("6.12.107+deb13-amd64"), (false, false, true, false));
        assert_eq!(of("10.0-rc1"), (false, false, true, false));
        assert_eq!(of("unreadable"), (false, false, true, false));
    }
}
