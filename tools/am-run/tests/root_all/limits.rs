//! The limit of processes and threads is reached.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use am_testing::example::copy_program;

use crate::job::{Job, until};

/// A user of this test alone: the limit holds for all processes of a user together.
const USER: u32 = 20_031;

/// The processes of the user that are no zombies.
fn processes() -> usize {
    let status = |path: &Path| std::fs::read_to_string(path.join("status")).unwrap_or_default();
    let is_its = |status: &str| status.contains(&format!("\nUid:\t{USER}\t")) && !status.contains("\nState:\tZ");
    let all = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    all.filter(|process| is_its(&status(&process.path()))).count()
}

#[test]
fn a_job_at_the_limit_of_processes_ends_as_a_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let am_run = directory.path().join("am-run");
    copy_program(env!("CARGO_BIN_EXE_am-run"), &am_run);
    // With few the launcher has no thread, with more the agent has none, or no process.
    for limit in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 60] {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nproc={limit}")).args(["setpriv", &format!("--reuid={USER}"), "--clear-groups"]);
        command.arg(&am_run).args(["-n", "100", "sleep", "1000"]).current_dir(directory.path());
        let ended = Job::start(&mut command).end();
        assert_eq!(ended.code, Some(125), "{limit}: {ended:?}");
        assert!(ended.errors().contains("`ulimit -u`"), "{limit}: {ended:?}");
        until("all have ended", || processes() == 0);
    }
}
