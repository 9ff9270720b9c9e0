//! Jobs that cannot be started, and connections that the agent refuses.

use std::os::unix::ffi::OsStrExt;

use crate::job::{Ended, Job, am_run, example};

fn fails(arguments: &[&str], code: i32) -> Ended {
    let ended = Job::of(arguments).end();
    assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
    ended
}

#[test]
fn a_missing_program_is_named() {
    let ended = fails(&["-n", "2", "no-such-program"], 127);
    assert!(ended.errors().contains("`no-such-program` cannot be started: No such file"), "{ended:?}");
    let ended = fails(&["--directory", "/proc/nowhere", "true"], 125);
    assert!(ended.errors().contains("cannot be started in /proc/nowhere"), "{ended:?}");
    fails(&["/proc/version"], 126);
}

/// A code below 125 is the program's own.
#[test]
fn wrong_arguments_have_one_exit_code() {
    for arguments in [&[][..], &["-n", "2"], &["-n", "two", "true"], &["--wrong", "true"], &["--patience", "true"]] {
        let ended = fails(arguments, 125);
        assert!(ended.errors().contains("--help"), "{ended:?}");
    }
    assert!(fails(&["--help"], 0).output().contains("125 if the arguments are wrong"));
    fails(&["--version"], 0);
}

/// A rank may be ended while it says why it has no program.
#[test]
fn what_a_rank_says_is_a_whole_line() {
    for _ in 0..20 {
        let ended = fails(&["-n", "4", "./no-such-program"], 127);
        let is_whole = |line: &String| {
            line.starts_with("am-run: `./no-such-program` cannot") && line.ends_with("(os error 2)")
                || line.starts_with("am-run: rank")
        };
        assert!(ended.errors.iter().all(is_whole), "{ended:?}");
    }
}

#[test]
fn too_few_slots_say_what_to_write() {
    let ended = fails(&["-n", "3", "-H", "alpha,beta", "true"], 125);
    assert!(ended.errors().contains("`-H alpha:3`"), "{ended:?}");
    fails(&["-n", "1", "-H", "alpha:0", "true"], 125);
    fails(&["-n", "0", "true"], 125);
    let ended = fails(&["-n", "4294967295", "true"], 125);
    assert!(ended.errors().contains("65536 at most"), "{ended:?}");
    fails(&["-H", "no/such/file", "true"], 125);
}

#[test]
fn variables_have_a_name_and_a_value() {
    let ended = fails(&["-x", "AM_TEST_UNSET", "true"], 125);
    assert!(ended.errors().contains("`-x AM_TEST_UNSET=VALUE`"), "{ended:?}");
    let ended = fails(&["-x", "=3", "true"], 125);
    assert!(ended.errors().contains("names no variable"), "{ended:?}");
    fails(&["-x", "AM_TEST_EMPTY=", "true"], 0);
}

#[test]
fn a_transport_that_is_not_utf8_is_not_taken_for_none() {
    let set = |arguments: &[&str]| {
        Job::start(am_run().args(arguments).env("AM_TRANSPORT", std::ffi::OsStr::from_bytes(b"udp:\xff"))).end()
    };
    let ended = set(&["true"]);
    assert!(ended.code == Some(125) && ended.errors().contains("AM_TRANSPORT is not UTF-8"), "{ended:?}");
    assert_eq!(set(&["--transport", "udp", "true"]).code, Some(0));
}

/// It is a typing error more often than the name of a host.
#[test]
fn a_file_of_hosts_that_is_not_there_is_named() {
    let ended = fails(&["-H", "hostz", "--rsh", "false", "true"], 125);
    assert!(ended.errors().contains("there is no file `hostz` here"), "{ended:?}");
    let ended = fails(&["-H", "hostz:4", "--rsh", "false", "true"], 125);
    assert!(!ended.errors().contains("no file"), "{ended:?}");
}

#[test]
fn what_has_no_end_is_no_list_of_hosts() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for (path, words) in [("/dev/zero", "more than 16 MiB"), (fifo.to_str().expect("a text"), "it is a FIFO")] {
        let ended = fails(&["-H", path, "true"], 125);
        assert!(ended.errors().contains(words), "{ended:?}");
    }
    let script = format!("echo localhost:2 | {} -H /dev/stdin echo started", env!("CARGO_BIN_EXE_am-run"));
    let ended = Job::start(std::process::Command::new("sh").args(["-c", &script])).end();
    assert_eq!(ended.output, ["started", "started"], "{ended:?}");
}

#[test]
fn a_segment_has_room_for_64_processes() {
    for transport in ["shm", "shm,frames=128+udp"] {
        let ended = fails(&["-n", "65", "--transport", transport, "echo", "started"], 125);
        assert!(ended.errors().contains("64 on a host at most") && ended.output.is_empty(), "{ended:?}");
    }
    fails(&["-n", "65", "-x", "AM_TRANSPORT=shm", "true"], 125);
    fails(&["-n", "65", "--transport", "shm:lab", "true"], 0);
}

#[test]
fn a_host_that_does_not_answer_is_named() {
    let ended = fails(&["-H", "alpha", "--rsh", "false", "true"], 125);
    assert!(ended.errors().contains("no agent on host alpha (`false alpha"), "{ended:?}");
    let ended = fails(&["-H", "alpha", "--rsh", "no-such-shell", "true"], 125);
    assert!(ended.errors().contains("`no-such-shell alpha"), "{ended:?}");
    let ended = fails(&["-H", "alpha", "--rsh", "echo Welcome to", "true"], 125);
    assert!(ended.errors().contains("it said only `Welcome to alpha"), "{ended:?}");
    let ended = fails(&["-H", "alpha", "--rsh", "sleep 1000", "--patience", "1", "true"], 125);
    assert!(ended.errors().contains("no agent on host alpha"), "{ended:?}");
}

/// A remote shell that goes on without its output, or says what is no agent's.
#[test]
fn a_shell_that_stays_is_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let shell = directory.path().join("shell");
    for (script, words) in [
        ("exec >&-; sleep 1000", "it said nothing; the command was ended"),
        ("printf '\\001am-run 99.1\\n'; sleep 1000", "am-run there is 99.1"),
        ("exec yes", "65536 bytes that are no agent's"),
    ] {
        std::fs::write(&shell, script).expect("a file");
        let ended = fails(&["-H", "alpha", "--rsh", &format!("sh {}", shell.display()), "true"], 125);
        assert!(ended.errors().contains(words), "{ended:?}");
    }
}

/// Nothing has started yet, so there is nothing to wait for.
#[test]
fn ctrl_c_ends_a_start_that_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let shell = directory.path().join("hangs");
    std::fs::write(&shell, "exec sleep 1000").unwrap();
    let shell = format!("sh {}", shell.display());
    let job = Job::of(&["-H", "localhost,alpha", "--rsh", &shell, "sh", "-c", "exec sleep 1000"]);
    crate::job::until("started", || crate::job::children(job.pid()).len() == 2);
    let agents = crate::job::children(job.pid());
    job.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(job.end().code, Some(128 + 2));
    crate::job::until("gone", || agents.iter().all(|pid| !crate::job::runs(*pid)));
}

/// The reason comes before its consequences.
#[test]
fn a_rank_that_cannot_be_started_is_the_reason() {
    let script = format!("ulimit -n 40; exec {} -n 30 sleep 1000", env!("CARGO_BIN_EXE_am-run"));
    let ended = Job::start(std::process::Command::new("sh").args(["-c", &script])).end();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.errors().contains("`ulimit -n`") && !ended.errors().contains("signal"), "{ended:?}");
}

/// One host fails: no process is left on the others.
#[test]
fn a_job_without_one_of_its_hosts_does_not_run() {
    let ended = fails(&["-H", "localhost,alpha", "--rsh", "false", "sh", "-c", "echo $$; exec sleep 1000"], 125);
    for pid in &ended.output {
        crate::job::until("gone", || !crate::job::runs(pid.parse().expect("a process id")));
    }
}

#[test]
fn a_remote_shell_may_say_something_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let shell = directory.path().join("shell");
    std::fs::write(&shell, "echo Welcome\nshift\nexec \"$@\"\n").expect("a file");
    let rsh = format!("sh {}", shell.display());
    let ended = Job::of(&["-H", "alpha:2", "--rsh", &rsh, &example("ring")]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output().contains("2 processes on the ring") && ended.errors().contains("Welcome"), "{ended:?}");
}

#[test]
fn who_does_not_know_the_secret_has_no_place() {
    let ring = example("ring");
    let ended = Job::of(&["env", "AM_SECRET=guess", &ring]).end();
    assert_eq!(ended.code, Some(1));
    assert!(ended.errors().contains("it does not belong to the job"), "{ended:?}");
    let ended = Job::of(&["-n", "2", "env", "AM_RANK=7", "AM_SIZE=9", &ring]).end();
    assert!(ended.errors().contains("it does not belong to the job"), "{ended:?}");
    let ended = Job::of(&["env", "-u", "AM_SECRET", &ring]).end();
    assert!(ended.errors().contains("`AM_SECRET` is missing"), "{ended:?}");
    let ended = Job::of(&["env", "AM_SIZE=many", &ring]).end();
    assert!(ended.errors().contains("`AM_SIZE` is `many`"), "{ended:?}");
    let script = format!("AM_TRANSPORT=$(printf 'udp:\\377') exec {ring}");
    let ended = Job::of(&["sh", "-c", &script]).end();
    assert!(ended.errors().contains("`AM_TRANSPORT` is not UTF-8"), "{ended:?}");
}

#[test]
fn a_rank_is_one_process() {
    let ring = example("ring");
    let ended = Job::of(&["sh", "-c", &format!("{ring} && {ring}")]).end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors().contains("another process has this rank already"), "{ended:?}");
}

#[test]
fn the_manual_and_the_help_name_the_same_options() {
    let help = Job::start(am_run().arg("--help")).end().output();
    let manual = include_str!("../../../../docs/am-run.md");
    let options: Vec<&str> = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2).collect();
    assert!(options.len() > 8, "{help}");
    for option in options.into_iter().map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-')) {
        assert!(manual.contains(&format!("`{option}")) || option == "--agent", "{option} is not in docs/am-run.md");
    }
}
