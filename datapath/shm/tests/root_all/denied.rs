//! Who may join: another user is refused, and let in where the permissions say so. Needs root, to be two users.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::link::{join, options};
use am_shm::{ShmOpenError, ShmOptions};
use tempfile::tempdir;

const DIR: &str = "SHM_TEST_DIR";
/// The error that the other user should get; empty if its access should succeed.
const SAYS: &str = "SHM_TEST_SAYS";
/// Nobody, on most systems; any that is not root will do.
const OTHER: u32 = 65_534;

#[test]
#[ignore = "started by another_user_is_refused_unless_the_file_lets_them_in"]
fn other_user() {
    let (dir, says) = (std::env::var(DIR).unwrap(), std::env::var(SAYS).unwrap());
    match (am_shm::open(&options(Path::new(&dir))), says.as_str()) {
        (Ok(_), "") => (),
        (Err(error), says) if !says.is_empty() => assert!(error.to_string().contains(says), "{error}"),
        (other, says) => panic!("{other:?}, though `{says}`"),
    }
}

fn as_other_user(dir: &Path, says: &str) -> bool {
    // The test program may lie where another user cannot reach it. Another process copies it: a child that another test
    // starts meanwhile has this process's descriptors until it runs its program, and a file that is open for writing
    // cannot be run.
    let program = dir.join("program");
    assert!(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap().success());
    let mut command = Command::new(program);
    command.args(["--exact", "denied::other_user", "--ignored", "--nocapture"]).env(DIR, dir).env(SAYS, says);
    let output = command.uid(OTHER).gid(OTHER).current_dir("/").output().unwrap();
    // A program without a test of that name passes, too.
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
}

#[test]
fn another_user_is_refused_unless_the_file_lets_them_in() {
    assert!(nix::unistd::geteuid().is_root(), "run this as root: it becomes another user");
    let dir = tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let member = join(&options(dir.path()));
    assert!(as_other_user(dir.path(), "belongs to user 0"));
    drop(member);
    let member = join(&ShmOptions { mode: 0o666, ..options(dir.path()) });
    assert!(as_other_user(dir.path(), ""));
    drop(member);
}

#[test]
fn a_directory_where_no_file_can_be_made() {
    assert!(nix::unistd::geteuid().is_root(), "run this as root: it becomes another user");
    let dir = tempdir().unwrap();
    for (mode, says) in [(0o755, "another directory with `dir=`"), (0o711, "have its owner let this user write there")]
    {
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        assert!(as_other_user(dir.path(), says));
    }
}

/// Its owner could cut it short, which ends whoever has it mapped.
#[test]
fn another_users_segment_is_joined_only_with_owner() {
    assert!(nix::unistd::geteuid().is_root(), "run this as root: it gives a file away");
    let dir = tempdir().unwrap();
    let member = join(&ShmOptions { mode: 0o666, ..options(dir.path()) });
    let file = std::fs::read_dir(dir.path())
        .unwrap()
        .flatten()
        .find(|file| file.path().extension().is_some_and(|end| end == "shm"));
    std::os::unix::fs::chown(file.unwrap().path(), Some(OTHER), Some(OTHER)).unwrap();
    let error = am_shm::open(&options(dir.path())).unwrap_err();
    assert!(matches!(error, ShmOpenError::Stranger { owner: OTHER, .. }), "{error}");
    assert!(error.to_string().contains("`owner=65534`"), "{error}");
    let trusting = ShmOptions { owner: Some(OTHER), ..options(dir.path()) };
    assert!(am_shm::open(&trusting).is_ok());
    drop(member);
}
