//! Where there is no memory: an error, not a signal when a page is touched. And in huge pages, where there are
//! some. Needs root, to mount file systems in a namespace of this thread's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::link::{files, join, options, reaches, receive, until};
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

#[test]
fn a_directory_without_room_for_a_file_is_named_to_the_one_that_cannot_join() {
    // The directory, the segment and the first member's FIFO.
    mounted("tmpfs", "size=8m,nr_inodes=3", |dir| {
        let mut one = join(&options(dir));
        let before = files(dir);
        for which in [options(dir), ShmOptions { name: "another".into(), ..options(dir) }] {
            let error = am_shm::open(&which).unwrap_err();
            assert!(matches!(error, ShmOpenError::Files { .. }) && error.to_string().contains("df -i"), "{error}");
        }
        assert_eq!(files(dir), before);
        fs::write(dir.join("more"), "").unwrap_err();
        assert!(Command::new("mount").args(["-o", "remount,nr_inodes=9"]).arg(dir).status().unwrap().success());
        let mut other = join(&options(dir));
        reaches(&mut one, &mut other);
    });
}

/// A member whose number waits for its readers takes no more memory than there is.
#[test]
fn a_next_run_waits_where_there_is_memory_for_one_pair_of_lanes() {
    mounted("tmpfs", "size=800k", |dir| {
        let [mut stays, mut leaves] = [0, 1].map(|_| join(&options(dir)));
        reaches(&mut stays, &mut leaves);
        assert!(crate::link::send(&mut leaves, stays.caps().address, 5, 100));
        leaves.flush();
        let gone = leaves.caps().address;
        drop(leaves);
        std::thread::scope(|threads| {
            let next = threads.spawn(|| drop(join(&options(dir))));
            std::thread::sleep(std::time::Duration::from_millis(50));
            let mut heard = vec![];
            until("the last frame has arrived", || {
                heard.extend(receive(&mut stays));
                !heard.is_empty()
            });
            assert_eq!(heard, [(gone, 5)]);
            until("the next run has come and gone", || {
                receive(&mut stays);
                next.is_finished()
            });
            next.join().unwrap();
        });
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
