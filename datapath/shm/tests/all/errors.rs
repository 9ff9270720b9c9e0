//! What cannot be opened, and what is said of it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::link::{files, join, options, reaches};
use am_shm::{ShmOpenError, ShmOptions};
use tempfile::tempdir;

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join("am-test.shm")
}

fn error(options: &ShmOptions, says: &str) -> ShmOpenError {
    let error = am_shm::open(options).err().unwrap_or_else(|| panic!("opened, though `{says}`"));
    assert!(error.to_string().contains(says), "{error}");
    error
}

#[test]
fn names_that_are_none() {
    let dir = tempdir().unwrap();
    for name in ["", "a/b", "..\0", "a b", "../../etc/x", "ü", &"x".repeat(65)] {
        let error = error(&ShmOptions { name: name.into(), ..options(dir.path()) }, "is not a valid name");
        assert!(matches!(error, ShmOpenError::Name(_)));
    }
    assert!(am_shm::open(&ShmOptions { name: "x".repeat(64), ..options(dir.path()) }).is_ok());
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn a_directory_that_is_missing_or_none() {
    let dir = tempdir().unwrap();
    assert!(matches!(error(&options(&dir.path().join("none")), "dir="), ShmOpenError::Directory { .. }));
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(error(&options(&dir.path().join("file")), "no directory"), ShmOpenError::Directory { .. }));
    assert!(matches!(error(&options(Path::new("/proc")), "with `dir=`"), ShmOpenError::Rights { .. }));
}

#[test]
fn links_are_not_followed_and_what_is_not_ours_is_left_alone() {
    let dir = tempdir().unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, file(dir.path())).unwrap();
    assert!(matches!(error(&options(dir.path()), "symbolic link"), ShmOpenError::NoFile { .. }));
    fs::remove_file(file(dir.path())).unwrap();

    fs::create_dir(file(dir.path())).unwrap();
    assert!(matches!(error(&options(dir.path()), "no regular file"), ShmOpenError::NoFile { .. }));
    fs::remove_dir(file(dir.path())).unwrap();

    for content in ["precious".to_owned(), "precious and much longer than any header".repeat(10)] {
        fs::write(file(dir.path()), &content).unwrap();
        assert!(matches!(error(&options(dir.path()), "no segment"), ShmOpenError::Foreign { .. }));
        assert_eq!(fs::read_to_string(file(dir.path())).unwrap(), content);
    }
    assert_eq!(fs::read_to_string(target).unwrap(), "precious");
}

#[test]
fn a_fifo_in_the_place_of_the_segment() {
    let dir = tempdir().unwrap();
    nix::unistd::mkfifo(&file(dir.path()), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(error(&options(dir.path()), "no regular file"), ShmOpenError::NoFile { .. }));
}

#[test]
fn another_version_is_refused_while_it_is_in_use_and_replaced_when_not() {
    let dir = tempdir().unwrap();
    let member = join(&options(dir.path()));
    let segment = File::options().write(true).open(file(dir.path())).unwrap();
    segment.write_all_at(&77u32.to_le_bytes(), 8).unwrap();
    let error = error(&options(dir.path()), "version 77");
    assert!(matches!(error, ShmOpenError::Version { found: 77, .. }));
    drop(member);
    // As one that was killed leaves it behind.
    fs::write(file(dir.path()), b"am-shm\r\n\x4d\0\0\0and what that version has there").unwrap();
    let [mut one, mut other] = [0, 1].map(|_| join(&options(dir.path())));
    reaches(&mut one, &mut other);
}

#[test]
fn a_segment_that_was_cut_short_is_refused() {
    let dir = tempdir().unwrap();
    let mut member = join(&options(dir.path()));
    let segment = File::options().write(true).open(file(dir.path())).unwrap();
    let length = segment.metadata().unwrap().len();
    // Its last lane, which nobody uses.
    segment.set_len(length - 4096).unwrap();
    assert!(matches!(error(&options(dir.path()), "cut short"), ShmOpenError::Broken { .. }));
    assert!(am_transport::TransportExt::link_error(&mut member).unwrap().contains("cut short"));
    segment.write_all_at(&[0xff; 12], 16).unwrap();
    assert!(matches!(error(&options(dir.path()), "header is invalid"), ShmOpenError::Broken { .. }));
    segment.write_all_at(&[0; 64], 0).unwrap();
    assert!(matches!(error(&options(dir.path()), "header is gone"), ShmOpenError::Broken { .. }));
    drop(member);
    assert!(am_shm::open(&options(dir.path())).is_ok());
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn the_first_member_decides() {
    let dir = tempdir().unwrap();
    let first = join(&ShmOptions { frame: Some(2048), members: Some(3), ..options(dir.path()) });
    let conflict = |options| matches!(error(&options, "leave the setting out"), ShmOpenError::Conflict { .. });
    assert!(conflict(options(dir.path())));
    let any = ShmOptions { frame: None, ..options(dir.path()) };
    assert!(conflict(ShmOptions { members: Some(4), ..any.clone() }));
    let others = [join(&any), join(&ShmOptions { frame: Some(2048), ..any.clone() })];
    assert!(others.iter().all(|other| am_transport::Transport::caps(other).max_frame == 2048));
    assert!(matches!(error(&any, "3 processes"), ShmOpenError::Full { members: 3 }));
    drop(first);
    assert!(am_shm::open(&any).is_ok(), "there is a place again");
}

#[test]
fn permissions_are_those_that_were_asked_for() {
    let dir = tempdir().unwrap();
    for mode in [0o600, 0o660, 0o666] {
        let _member = join(&ShmOptions { mode, ..options(dir.path()) });
        for name in ["am-test.shm", "am-test.0.wake"] {
            assert_eq!(fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
        }
    }
    assert!(matches!(error(&ShmOptions { mode: 0o044, ..options(dir.path()) }, "mode=44"), ShmOpenError::Options(_)));
}

const DIR: &str = "SHM_TEST_DIR";
const SAYS: &str = "SHM_TEST_SAYS";

#[test]
#[ignore = "started by what_a_process_may_not_have_is_named"]
fn limited() {
    let (dir, says) = (std::env::var(DIR).unwrap(), std::env::var(SAYS).unwrap());
    error(&ShmOptions { members: Some(64), frame: Some(1 << 16), ..options(Path::new(&dir)) }, &says);
}

#[test]
fn what_a_process_may_not_have_is_named() {
    let program = std::env::current_exe().unwrap();
    for (limit, says) in [("-n 5", "`ulimit -n`"), ("-v 2000000", "`ulimit -v`"), ("-f 1000", "`ulimit -f unlimited`")]
    {
        let dir = tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit} && exec \"$0\" --exact errors::limited --ignored --nocapture")]);
        // Not to this program's output: that may be a file which is longer than the limit.
        let output = command.arg(&program).env(DIR, dir.path()).env(SAYS, says).output().unwrap();
        assert!(output.status.success(), "ulimit {limit}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(files(dir.path()), [""; 0], "nothing of the attempt is left");
    }
}
