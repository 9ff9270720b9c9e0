//! How jobs end by signals. The programs are shell scripts.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal::{SIGINT, SIGKILL, SIGSTOP, SIGTERM};
use nix::sys::signal::kill;

use crate::job::{Job, dp_graph, gone};

fn waiting(trap: &str) -> (Job, Vec<u32>) {
    let script = format!("{trap} echo $$; while :; do sleep 0.1; done");
    Job::start(dp_graph(&["run", "ring:3", "sh", "-c", &script]), 3)
}

#[test]
fn an_interrupt_ends_all_processes() {
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        let (job, pids) = waiting("trap 'echo told; exit 0' INT TERM;");
        job.signal(signal);
        let (ended, said) = job.end();
        assert_eq!(ended, Some(code), "{said}");
        assert_eq!(said.matches("told").count(), 3, "each had time to end: {said}");
        gone(&pids);
    }
}

/// Nobody reads standard error.
#[test]
fn an_interrupt_ends_a_job_whose_output_is_stuck() {
    let directory = tempfile::tempdir().expect("a directory");
    // What one process writes must not fill the pipes before the other has said its id.
    let script = "echo $$; until test -e go; do sleep 0.05; done; exec yes >&2";
    let mut command = dp_graph(&["run", "ring:2", "sh", "-c", script]);
    command.current_dir(&directory);
    let (job, pids) = Job::start(command, 2);
    std::fs::write(directory.path().join("go"), "").expect("it is written");
    // Now the pipes fill. If they are not full yet, this test shows less.
    std::thread::sleep(std::time::Duration::from_millis(500));
    job.signal(SIGTERM);
    assert_eq!(job.end().0, Some(143));
    gone(&pids);
}

#[test]
fn a_killed_dp_graph_leaves_nothing() {
    let (job, pids) = waiting("");
    job.signal(SIGKILL);
    assert_eq!(job.end().0, None);
    gone(&pids);
}

#[test]
fn a_stopped_am_run_ends_the_job_by_a_signal() {
    let (job, pids) = waiting("");
    kill(job.am_run(), SIGSTOP).expect("it runs");
    job.signal(SIGTERM);
    assert_eq!(job.end().0, Some(143));
    gone(&pids);
}

#[test]
fn a_killed_dp_graph_leaves_no_stopped_am_run() {
    let (job, pids) = waiting("");
    let am_run = job.am_run();
    kill(am_run, SIGSTOP).expect("it runs");
    job.signal(SIGKILL);
    assert_eq!(job.end().0, None);
    gone(&pids);
    gone(&[am_run.as_raw().cast_unsigned()]);
}

/// Such an am-run is another program that ignores signals.
#[test]
fn an_am_run_that_does_not_end_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("am-run").display().to_string();
    // Another process writes it: while a file is open for writing, and be it by a fork of this process, it cannot be started.
    let script = "printf '#!/bin/sh\ntrap \"\" TERM; echo $$; exec sleep 1000' > $0; chmod +x $0";
    assert!(Command::new("sh").args(["-c", script, &path]).status().expect("it starts").success());
    let (job, pids) = Job::start(dp_graph(&["run", "--am-run", &path, "ring:2", "true"]), 1);
    let start = std::time::Instant::now();
    job.signal(SIGTERM);
    std::thread::sleep(std::time::Duration::from_millis(100));
    job.signal(SIGTERM);
    let (code, _) = job.end();
    assert_eq!(code, Some(128 + 9));
    assert!(start.elapsed().as_secs() < 15, "after the second signal, it is sooner");
    gone(&pids);
}

/// dp-graph leads the session of the terminal, so the hang-up is for it alone.
#[test]
fn a_hang_up_ends_all_processes() {
    let line = format!("exec {} run ring:2 sh -c 'echo $$; exec sleep 1000'", env!("CARGO_BIN_EXE_dp-graph"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped());
    let (job, pids) = Job::start(command, 2);
    job.signal(SIGKILL);
    gone(&pids);
}

/// The terminal sends the signal to dp-graph and to am-run: a second one would end the processes before they have said anything.
#[test]
fn ctrl_c_on_a_terminal_leaves_time_to_end() {
    let script = "trap \"sleep 0.5; echo told; exit 0\" INT; echo $$; while :; do sleep 0.1; done";
    let line = format!("{} run ring:2 sh -c '{script}'", env!("CARGO_BIN_EXE_dp-graph"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped());
    let (mut job, pids) = Job::start(command, 2);
    job.write(b"\x03");
    let (ended, said) = job.end();
    assert_eq!((ended, said.matches("told").count()), (Some(130), 2), "{said}");
    gone(&pids);
}
