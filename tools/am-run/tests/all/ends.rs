//! Jobs end as a whole, whoever ends first and however.

use std::time::Duration;

use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::job::{Job, children, runs, state, until};

/// A job of processes that say their id and wait, with a child each that has no part in that.
fn waiting(count: usize, trap: &str) -> (Job, Vec<u32>) {
    let script = format!("{trap} (trap '' USR1; exec sleep 1000) & echo $! $$; wait $!; wait $!");
    let mut job = Job::of(&["-n", &count.to_string(), "sh", "-c", &script]);
    let mut pids = vec![];
    for _ in 0..count {
        pids.extend(job.line().split(' ').map(|pid| pid.parse::<u32>().expect("a process id")));
    }
    assert!(pids.iter().all(|pid| runs(*pid)));
    (job, pids)
}

fn gone(pids: &[u32]) {
    until("gone", || pids.iter().all(|pid| !runs(*pid)));
}

#[test]
fn the_first_failure_ends_all_and_is_the_exit_code() {
    let script = "echo $$; test $AM_RANK = 1 && read x </dev/null; test $AM_RANK = 1 && exit 7; exec sleep 1000";
    let ended = Job::of(&["-n", "3", "sh", "-c", script]).end();
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.errors().contains("rank 1 on host localhost ended with exit code 7; ending the others"), "{ended:?}");
    gone(&ended.output.iter().map(|pid| pid.parse().expect("a process id")).collect::<Vec<_>>());
}

#[test]
fn a_killed_process_ends_all() {
    let (job, pids) = waiting(3, "");
    kill(Pid::from_raw(pids[1].cast_signed()), SIGKILL).expect("it runs");
    let ended = job.end();
    assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
    assert!(ended.errors().contains("was ended by signal 9"), "{ended:?}");
    gone(&pids);
}

#[test]
fn a_process_that_ignores_the_request_to_end_is_killed() {
    let (job, pids) = waiting(2, "trap '' TERM INT;");
    job.signal(SIGTERM);
    assert_eq!(job.end().code, Some(128 + 15));
    gone(&pids);
}

#[test]
fn ctrl_c_reaches_all_processes() {
    let (job, pids) = waiting(3, "trap 'echo interrupted; exit 0' INT;");
    job.signal(SIGINT);
    let ended = job.end();
    assert_eq!(ended.code, Some(128 + 2), "{ended:?}");
    assert_eq!(ended.output.iter().filter(|line| *line == "interrupted").count(), 3, "{ended:?}");
    gone(&pids);
}

/// The reader of the output reads nothing, so nothing else of the agent's arrives. The processes are ended all the same, and are asked
/// first.
#[test]
fn ctrl_c_ends_a_job_whose_output_nobody_reads() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let script = "trap '' INT; trap 'touch $AM_RANK.asked; exit 0' TERM; yes & touch $AM_RANK.runs; wait; wait";
    let mut command = crate::job::am_run();
    command.args(["-n", "2", "sh", "-c", script]).current_dir(&directory).stdout(std::process::Stdio::piped());
    let mut job = command.spawn().expect("it starts");
    until("they run", || path("0.runs").exists() && path("1.runs").exists());
    // Now the pipes fill. If they are not full yet, this test shows less.
    std::thread::sleep(Duration::from_millis(500));
    kill(Pid::from_raw(job.id().cast_signed()), SIGINT).expect("it runs");
    assert_eq!(job.wait().expect("it is ours").code(), Some(128 + 2));
    assert!(path("0.asked").exists() && path("1.asked").exists());
}

/// Processes that are killed remove no segment. Their agent does.
#[test]
fn no_segment_is_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = || std::fs::read_dir(&directory).expect("it is there").count();
    let transport = format!("shm,dir={}", directory.path().display());
    let ring = crate::job::example("ring");
    let script = format!("test $AM_RANK = 0 && {{ echo waits; exec sleep 1000; }}; exec {ring}");
    for signal in [SIGINT, SIGKILL] {
        let mut job = Job::of(&["-n", "2", "--transport", &transport, "sh", "-c", &script]);
        job.line();
        until("there is a segment", || files() > 0);
        job.signal(signal);
        job.end();
        until("there is none", || files() == 0);
    }
}

#[test]
fn other_signals_reach_all_processes_and_end_nothing() {
    let (mut job, pids) = waiting(2, "trap 'echo seen' USR1;");
    job.signal(SIGUSR1);
    assert_eq!([job.line(), job.line()], ["seen", "seen"]);
    job.signal(SIGTERM);
    job.end();
    gone(&pids);
}

#[test]
fn ctrl_z_stops_all_and_a_continuation_goes_on() {
    let (job, pids) = waiting(2, "");
    job.signal(SIGTSTP);
    let is = |pid: u32, stopped: bool| state(pid).is_some_and(|state| (state == 'T') == stopped);
    until("stopped", || is(job.pid(), true) && pids.iter().all(|pid| is(*pid, true)));
    job.signal(SIGCONT);
    until("continued", || is(job.pid(), false) && pids.iter().all(|pid| is(*pid, false)));
    job.signal(SIGTERM);
    job.end();
    gone(&pids);
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    let (job, pids) = waiting(2, "");
    let agents = children(job.pid());
    assert_eq!(agents.len(), 1);
    job.signal(SIGKILL);
    assert_eq!(job.end().code, None);
    gone(&pids);
    gone(&agents);
}

#[test]
fn a_killed_agent_leaves_no_rank_and_ends_the_job() {
    let (job, pids) = waiting(2, "");
    kill(Pid::from_raw(children(job.pid())[0].cast_signed()), SIGKILL).expect("it runs");
    // The ranks' own children are not the agent's.
    gone(&[pids[1], pids[3]]);
    for child in [pids[0], pids[2]] {
        _ = kill(Pid::from_raw(child.cast_signed()), SIGKILL);
    }
    let ended = job.end();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.errors().contains("host localhost was lost"), "{ended:?}");
}

/// The ranks' own children end, too: they are in the ranks' process groups.
#[test]
fn a_stopped_agent_ends_its_processes() {
    let (job, pids) = waiting(2, "");
    let agent = children(job.pid())[0];
    kill(Pid::from_raw(agent.cast_signed()), SIGSTOP).expect("it runs");
    until("stopped", || state(agent) == Some('T'));
    job.signal(SIGTERM);
    assert_eq!(job.end().code, Some(128 + 15));
    gone(&pids);
}

/// A process that leaves another behind in its group ends with it; the job does not wait for that one.
#[test]
fn what_a_process_leaves_behind_ends_with_it() {
    let ended = Job::of(&["sh", "-c", "sleep 1000 & echo $!"]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    gone(&[ended.output()[..].parse().expect("a process id")]);
}

#[test]
fn ranks_may_end_at_different_times() {
    let start = std::time::Instant::now();
    let ended = Job::of(&["-n", "2", "sh", "-c", "test $AM_RANK = 0 || sleep 1; echo $AM_RANK"]).end();
    assert_eq!((ended.code, &ended.output[..]), (Some(0), &["0".to_owned(), "1".to_owned()][..]));
    assert!(start.elapsed() >= Duration::from_secs(1));
}

/// A process that never opens its node, and one whose others are at a barrier that it does not come to.
#[test]
fn a_process_that_leaves_early_does_not_stop_the_others_forever() {
    let ring = crate::job::example("ring");
    for rank in [0, 1] {
        let script = format!("test $AM_RANK = {rank} || exec {ring}");
        let ended = Job::of(&["-n", "2", "sh", "-c", &script]).end();
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(ended.errors().contains(&format!("rank {rank} has ended, and the others wait")), "{ended:?}");
    }
}

/// A process that ends the job by a call, and one that only exits with the same code.
#[test]
fn a_process_may_end_the_job_on_purpose() {
    let meet = crate::job::example("meet");
    for code in [0, 7] {
        let ended = Job::of(&["-n", "3", &meet, "end", &code.to_string()]).end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let said = format!("rank 1 on host localhost has ended the job with exit code {code}");
        assert_eq!(ended.errors().contains(&said), code != 0, "{ended:?}");
        assert!(!ended.errors().contains("wait for it"), "{ended:?}");
    }
    let ended = Job::of(&["-n", "3", &meet, "leave"]).end();
    assert_eq!((ended.code, ended.output.len()), (Some(0), 2), "{ended:?}");
}
