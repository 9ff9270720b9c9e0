//! Whether there is memory for a pool, asked before it is taken: a system that gives out more than it has ends
//! somebody later, when the pages are touched, and that need not be who asked.

use std::fs;
use std::path::{Path, PathBuf};

/// A pool that is larger than what is left. Who asked says which of its settings makes it smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "frames={frames} of {stride} bytes each take {} MiB, and this process can have {} MiB",
    bytes >> 20, free >> 20
)]
pub struct NoMemory {
    /// As asked for.
    pub frames: usize,
    /// Bytes of each, with what is around it.
    pub stride: usize,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes that there are.
    pub free: u64,
}

/// Whether there is memory for so many frames of so many bytes.
///
/// # Errors
/// There is less. Where the system does not say how much there is, it decides itself.
pub fn check(frames: usize, stride: usize) -> Result<(), NoMemory> {
    let bytes = (frames as u64).saturating_mul(stride as u64);
    match free().filter(|free| bytes > *free) {
        Some(free) => Err(NoMemory { frames, stride, bytes, free }),
        None => Ok(()),
    }
}

/// What this process can have: what the machine has, or what is left to its control groups.
fn free() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available);
    let own = fs::read_to_string("/proc/self/cgroup").ok();
    let group = own.as_deref().and_then(|own| own.lines().find_map(|line| line.strip_prefix("0::/")));
    let left = group.and_then(|group| left_to(Path::new("/sys/fs/cgroup"), group));
    machine.into_iter().chain(left).min()
}

/// Of `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// The least that is left to a group or to any that it is in.
fn left_to(root: &Path, group: &str) -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = Path::new(group).ancestors().map(|group| root.join(group));
    let left = groups.filter_map(|group| {
        // "max", which is no number, where nothing limits it.
        let (most, now) = (number(group.join("memory.max"))?, number(group.join("memory.current"))?);
        Some(most.saturating_sub(now.saturating_sub(caches(&group).unwrap_or(0))))
    });
    left.min()
}

/// What the kernel keeps for a group only as long as nobody wants the memory.
fn caches(group: &Path) -> Option<u64> {
    let stat = fs::read_to_string(group.join("memory.stat")).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_refused_with_how_much_that_is() {
        assert_eq!(check(4096, 2048), Ok(()));
        let error = check(1 << 32, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("frames=4294967296 of 1048576 bytes") && error.contains("4294967296 MiB"), "{error}");
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   12 kB\n"), Some(12 << 10));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let say = |dir: &Path, most: &str, now: &str| {
            fs::write(dir.join("memory.max"), most).unwrap();
            fs::write(dir.join("memory.current"), now).unwrap();
        };
        assert_eq!(left_to(root.path(), "a/b"), None);
        say(&inner, "max\n", "5\n");
        assert_eq!(left_to(root.path(), "a/b"), None);
        say(&root.path().join("a"), "1000\n", "400\n");
        assert_eq!(left_to(root.path(), "a/b"), Some(600));
        say(&inner, "300\n", "400\n");
        assert_eq!(left_to(root.path(), "a/b"), Some(0));
        fs::write(inner.join("memory.stat"), "anon 150\ninactive_file 250\n").unwrap();
        assert_eq!(left_to(root.path(), "a/b"), Some(150));
    }
}
