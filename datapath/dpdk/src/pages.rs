//! Decides whether to use huge pages.

use std::fs;
use std::path::Path;

use crate::DpdkOpenError;
use crate::options::PageKind;

/// MiB that DPDK and a pool of default size need.
const MIN_FREE_MIB: u64 = 64;
const HUGE_PAGE_SIZES: &str = "/sys/kernel/mm/hugepages";

/// Whether to use huge pages.
///
/// # Errors
/// Huge pages are required, and too few are free.
pub(crate) fn use_huge(wanted: PageKind) -> Result<bool, DpdkOpenError> {
    decide(wanted, free(Path::new(HUGE_PAGE_SIZES)) >> 20)
}

fn decide(wanted: PageKind, free: u64) -> Result<bool, DpdkOpenError> {
    match wanted {
        PageKind::Normal => Ok(false),
        PageKind::IfAvailable => Ok(free >= MIN_FREE_MIB),
        PageKind::Huge if free < MIN_FREE_MIB => Err(DpdkOpenError::HugePages { free, needed: MIN_FREE_MIB }),
        PageKind::Huge => Ok(true),
    }
}

/// Free bytes in huge pages of all sizes.
fn free(sizes: &Path) -> u64 {
    let Ok(sizes) = fs::read_dir(sizes) else { return 0 };
    let of_size = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let kib: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count: u64 = fs::read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some((kib << 10) * count)
    };
    sizes.flatten().filter_map(of_size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_pages_of_all_sizes_count() {
        let sizes = tempfile::tempdir().unwrap();
        for (size, count) in [("hugepages-2048kB", "3\n"), ("hugepages-1048576kB", "1\n"), ("other", "7\n")] {
            fs::create_dir(sizes.path().join(size)).unwrap();
            fs::write(sizes.path().join(size).join("free_hugepages"), count).unwrap();
        }
        assert_eq!(free(sizes.path()), (6 << 20) + (1 << 30));
        assert_eq!(free(Path::new("/nowhere")), 0);
    }

    #[test]
    fn they_are_used_where_there_are_enough() {
        assert!(decide(PageKind::IfAvailable, 64).unwrap() && !decide(PageKind::IfAvailable, 63).unwrap());
        assert!(decide(PageKind::Huge, 64).unwrap() && !decide(PageKind::Normal, 1 << 20).unwrap());
        let text = decide(PageKind::Huge, 10).unwrap_err().to_string();
        assert!(text.contains("10 MiB") && text.contains("nr_hugepages"), "{text}");
    }
}
