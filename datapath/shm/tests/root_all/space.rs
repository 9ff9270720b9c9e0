//! Where there is no memory: an error, not a signal when a page is touched. And in huge pages, where there are
//! some. Needs root, to mount file systems in a namespace of this thread's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::link::{files, join, options, reaches};
use am_shm::{ShmOpenError, ShmOptions};
use am_transport::Transport;
use nix::sched::{CloneFlags, unshare};
use tempfile::tempdir;

/// Run in a thread that sees what is mounted there, alone.
fn mounted(kind: &str, settings: &str, run: impl FnOnce(&Path) + Send) {
    assert!(nix::unistd::geteuid().is_root(), "run this as root: it mounts a {kind}");
    let dir = tempdir().unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let at = dir.path().to_str().unwrap();
            let mount =
                |args: &[&str]| assert!(Command::new("mount").args(args).status().unwrap().success(), "{args:?}");
            mount(&["--make-rprivate", "/"]);
            mount(&["-t", kind, "-o", settings, "none", at]);
            run(dir.path());
        });
    });
}

#[test]
fn a_full_file_system_is_an_error() {
    mounted("tmpfs", "size=64k", |dir| {
        fs::write(dir.join("full"), [1; 64 << 10]).unwrap();
        let error = am_shm::open(&options(dir)).unwrap_err();
        assert!(matches!(error, ShmOpenError::Space { .. }) && error.to_string().contains("df "), "{error}");
        assert_eq!(files(dir), ["full"], "nothing of the attempt is left");
    });
}

#[test]
fn room_for_one_pair_is_none_for_a_third_member() {
    mounted("tmpfs", "size=800k", |dir| {
        let [mut one, mut other] = [0, 1].map(|_| join(&options(dir)));
        let before = files(dir);
        for _ in 0..3 {
            let error = am_shm::open(&options(dir)).unwrap_err();
            assert!(matches!(error, ShmOpenError::Space { .. }), "{error}");
        }
        assert_eq!(files(dir), before);
        reaches(&mut one, &mut other);
        reaches(&mut other, &mut one);
    });
}

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

#[test]
fn on_hugetlbfs_the_segment_is_in_huge_pages() {
    // The header and two lanes, a page each. What was set before is set again.
    let before = fs::read_to_string(POOL).unwrap();
    let many: usize = before.trim().parse().unwrap();
    fs::write(POOL, (many + 4).to_string()).unwrap();
    let result = std::panic::catch_unwind(|| {
        mounted("hugetlbfs", "pagesize=2M", |dir| {
            let options = ShmOptions { members: Some(2), ..options(dir) };
            let [mut one, mut other] = [0, 1].map(|_| join(&options));
            assert_eq!(one.caps().mode, "shared memory, 2 MiB pages");
            reaches(&mut one, &mut other);
            drop((one, other));
            assert_eq!(files(dir), [""; 0]);
        });
    });
    fs::write(POOL, before).unwrap();
    assert!(result.is_ok(), "see above");
}
