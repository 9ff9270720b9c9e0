//! What the process has.

use std::fs;

pub(crate) struct Held {
    files: Vec<String>,
    kib: usize,
}

/// More than an allocator keeps for itself; a hundredth of what a thousand visitors use.
const SLACK_KIB: usize = 8 << 10;

impl Held {
    pub(crate) fn now() -> Held {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let entries = fs::read_dir("/proc/self/fd").unwrap();
        let files = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        Held { files: files.map(|path| path.display().to_string()).collect(), kib }
    }

    pub(crate) fn larger(self, other: Held) -> Held {
        if other.kib > self.kib { other } else { self }
    }

    pub(crate) fn assert_no_more_files_than(&self, before: &Held) {
        assert_eq!(self.files.len(), before.files.len(), "{:?} then {:?}", before.files, self.files);
    }

    pub(crate) fn assert_no_more_memory_than(&self, before: &Held) {
        assert!(self.kib < before.kib + SLACK_KIB, "{} KiB, then {} KiB", before.kib, self.kib);
    }
}
