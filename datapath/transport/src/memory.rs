//! A check that there is memory for a pool, before it is allocated. A system that overcommits would grant the allocation, and
//! kill a process, perhaps another one, when the pages are touched.

use std::fs;
use std::path::{Path, PathBuf};

/// A pool is larger than the free memory. The caller adds which of its settings makes the pool smaller.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "frames={frames} of {stride} bytes each take {} MiB, and this process can have {} MiB{}",
    bytes >> 20, free >> 20, limit.map_or_else(String::new, |limit| format!(" by `ulimit -{limit}`, which `ulimit -{limit} unlimited` raises"))
)]
pub struct NoMemory {
    /// The frames of the pool.
    pub frames: usize,
    /// Bytes of each frame, with headroom and alignment.
    pub stride: usize,
    /// Bytes of the pool.
    pub bytes: u64,
    /// Bytes of free memory.
    pub free: u64,
    /// The process limit that leaves no more, by its letter in `ulimit`: `v` for the address space, `d` for the data.
    pub limit: Option<char>,
}

crate::debug_as_display!(NoMemory);

/// Address space and data for everything else that a node allocates when it is opened: tables of frames and messages, rings, a
/// thread. If one of these allocations failed, the process would abort.
const ADDRESS_SPACE_RESERVE: u64 = 24 << 20;
const DATA_RESERVE: u64 = 8 << 20;

/// Check that there is memory for this many frames of this many bytes.
///
/// # Errors
/// There is less free memory. If the system does not report it, the check passes.
pub fn check(frames: usize, stride: usize) -> Result<(), NoMemory> {
    let bytes = (frames as u64).saturating_mul(stride as u64);
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let (limits, status) = (read("/proc/self/limits"), read("/proc/self/status"));
    let left = |limit, use_of, reserve| Some(limit_left(&limits, limit, &status, use_of)?.saturating_sub(reserve));
    let addresses = left("Max address space", "VmSize:", ADDRESS_SPACE_RESERVE);
    let data = left("Max data size", "VmData:", DATA_RESERVE);
    // The machine's memory, or what its control groups have left.
    let machine = bytes_in(&read("/proc/meminfo"), "MemAvailable:");
    let own = read("/proc/self/cgroup");
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let group = group.and_then(|group| group_left(Path::new("/sys/fs/cgroup"), group));
    let free = machine.into_iter().chain(group).min();
    for (free, limit) in [(free, None), (addresses, Some('v')), (data, Some('d'))] {
        if let Some(free) = free.filter(|free| bytes > *free) {
            return Err(NoMemory { frames, stride, bytes, free, limit });
        }
    }
    Ok(())
}

/// The bytes that this process may still use under this limit. `None` without such a limit.
fn limit_left(limits: &str, limit: &str, status: &str, use_of: &str) -> Option<u64> {
    let limit = limits.lines().find_map(|line| line.strip_prefix(limit))?;
    // Without a limit the word is "unlimited", which is no number.
    let most: u64 = limit.split_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(bytes_in(status, use_of)?))
}

/// The value of this line in a file of `/proc`.
fn bytes_in(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The memory left to a control group: the least of its own and that of its ancestors.
fn group_left(root: &Path, group: &str) -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = Path::new(group).ancestors().map(|group| root.join(group));
    let left = groups.filter_map(|group| {
        // Without a limit the word is "max", which is no number.
        let (most, now) = (number(group.join("memory.max"))?, number(group.join("memory.current"))?);
        // The kernel gives up this page cache of the group when memory is needed.
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cache = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
        Some(most.saturating_sub(now.saturating_sub(cache.unwrap_or(0))))
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_a_pool_is_refused_with_the_free_memory() {
        assert_eq!(check(4096, 2048), Ok(()));
        let error = check(1 << 32, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("frames=4294967296 of 1048576 bytes") && error.contains("4294967296 MiB"), "{error}");
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(bytes_in("MemTotal: 9 kB\nMemAvailable:   12 kB\n", "MemAvailable:"), Some(12 << 10));
        assert_eq!(bytes_in("MemTotal: 9 kB\n", "MemAvailable:"), None);
        let limits =
            |most| format!("Limit   Soft Limit\nMax address space         {most}     unlimited            bytes\n");
        let left = |most, status| limit_left(&limits(most), "Max address space", status, "VmSize:");
        assert_eq!(left("30720", "VmPeak: 99 kB\nVmSize:\t      10 kB\n"), Some(20 << 10));
        assert_eq!(left("9", "VmSize: 10 kB\n"), Some(0));
        assert_eq!(left("unlimited", "VmSize: 10 kB\n"), None);
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
        assert_eq!(group_left(root.path(), "a/b"), None);
        say(&inner, "max\n", "5\n");
        assert_eq!(group_left(root.path(), "a/b"), None);
        say(&root.path().join("a"), "1000\n", "400\n");
        assert_eq!(group_left(root.path(), "a/b"), Some(600));
        say(&inner, "300\n", "400\n");
        assert_eq!(group_left(root.path(), "a/b"), Some(0));
        fs::write(inner.join("memory.stat"), "anon 150\ninactive_file 250\n").unwrap();
        assert_eq!(group_left(root.path(), "a/b"), Some(150));
    }
}
