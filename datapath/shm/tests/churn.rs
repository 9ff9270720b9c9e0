//! Members come and go, many times. Alone in its process: it counts what the process has.

mod link;

use std::fs;
use std::os::unix::fs::MetadataExt;

use am_shm::ShmOptions;
use am_transport::Transport;
use link::{files, join, options, reaches, receive, send, until};
use tempfile::tempdir;

fn lines(path: &str) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

/// Open descriptors, mappings, and blocks of the file.
fn held(dir: &std::path::Path) -> [usize; 3] {
    let blocks = fs::metadata(dir.join("am-test.shm")).unwrap().blocks() as usize;
    [fs::read_dir("/proc/self/fd").unwrap().count(), lines("/proc/self/maps"), blocks]
}

#[test]
fn a_thousand_come_and_go_and_leave_nothing() {
    let dir = tempdir().unwrap();
    let options = ShmOptions { frames: 64, ..options(dir.path()) };
    let mut stays = join(&options);
    let mut before = None;
    for round in 0..1000 {
        let mut comes = join(&options);
        reaches(&mut stays, &mut comes);
        reaches(&mut comes, &mut stays);
        // Also with frames on their way, seen and unseen.
        send(&mut comes, stays.caps().address, 1, 100);
        send(&mut stays, comes.caps().address, 1, 100);
        stays.flush();
        drop(comes);
        until("the last words arrive", || receive(&mut stays).iter().any(|(_, number)| *number == 1));
        if round == 10 {
            before = Some(held(dir.path()));
        }
    }
    let [fds, maps, blocks] = before.unwrap();
    let after = held(dir.path());
    // Mappings of the allocator come and go a little.
    assert!(after[0] == fds && after[1] < maps + 20 && after[2] == blocks, "{before:?} then {after:?}");
    drop(stays);
    assert_eq!(files(dir.path()), [""; 0]);
}
