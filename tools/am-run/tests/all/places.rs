//! Processes find their places and each other.

use crate::job::{Job, am_run, example};

fn ring(transport: &str) {
    let ended = Job::of(&["-n", "4", "--transport", transport, &example("ring")]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.iter().any(|line| line == "4 processes on the ring"), "{ended:?}");
    let scheme = transport.split('+').next().unwrap_or(transport);
    let by = |line: &&String| line.contains(&format!(" by {scheme}:")) && line.contains("of 4");
    assert_eq!(ended.output.iter().filter(by).count(), 4, "{ended:?}");
}

#[test]
fn udp() {
    ring("udp");
}

#[test]
fn tcp() {
    ring("tcp");
}

#[test]
fn shared_memory() {
    ring("shm");
}

#[test]
fn several_at_once() {
    ring("shm+udp");
}

/// As many as there are slots, and a process alone is a job too.
#[test]
fn one_process() {
    let ended = Job::of(&[&example("ring")]).end();
    assert_eq!((ended.code, ended.output()), (Some(0), "1 process on the ring".to_owned()), "{ended:?}");
    let alone = std::process::Command::new(example("ring")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "1 process on the ring\n", "{alone:?}");
}

#[test]
fn processes_know_where_they_are() {
    let script = "echo $AM_RANK $AM_SIZE $AM_LOCAL_RANK $AM_LOCAL_SIZE $AM_HOST $AM_TRANSPORT $WITH $HERE";
    let mut command = am_run();
    command
        .env_remove("AM_TRANSPORT")
        .env("HERE", "here")
        .args(["-n", "2", "-x", "WITH=a=b", "-x", "HERE", "sh", "-c", script]);
    let mut output = Job::start(&mut command).end().output;
    output.sort();
    assert_eq!(output, ["0 2 0 2 localhost udp a=b here", "1 2 1 2 localhost udp a=b here"]);
}

/// The option counts most, then `-x`, then the variable.
#[test]
fn the_transport_has_three_ways() {
    let transport = |arguments: &[&str]| {
        let mut command = am_run();
        command.env("AM_TRANSPORT", "tcp").args(arguments).args(["sh", "-c", "echo $AM_TRANSPORT"]);
        Job::start(&mut command).end().output()
    };
    assert_eq!(transport(&[]), "tcp");
    assert_eq!(transport(&["-x", "AM_TRANSPORT=shm"]), "shm");
    assert_eq!(transport(&["-x", "AM_TRANSPORT=shm", "--transport", "udp"]), "udp");
}

/// Processes of a launcher without PMIx do not take themselves for alone.
#[test]
fn other_launchers_are_an_error() {
    for (variable, advice) in [("SLURM_STEP_NUM_TASKS", "srun --mpi=pmix"), ("PMI_SIZE", "Open MPI's mpirun")] {
        let ended = Job::start(std::process::Command::new(example("ring")).env(variable, "2")).end();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.errors().contains("2 processes") && ended.errors().contains(advice), "{ended:?}");
        let one = Job::start(std::process::Command::new(example("ring")).env(variable, "1")).end();
        assert_eq!(one.code, Some(0), "{one:?}");
    }
}

#[test]
fn two_jobs_have_two_names() {
    let name = || Job::of(&["sh", "-c", "echo $AM_JOB"]).end().output();
    assert_ne!(name(), name());
}

/// Longer than what a process says at once, and of other lengths at other ranks.
#[test]
fn blobs_have_any_length() {
    let ended = Job::of(&["-n", "4", &example("meet"), "blobs"]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.output().matches(": all blobs of 4").count(), 4, "{ended:?}");
}

#[test]
fn calls_that_do_not_belong_together_are_an_error() {
    let ended = Job::of(&["-n", "3", &example("meet"), "apart"]).end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors().contains("rank 1 waits at a barrier"), "{ended:?}");
}
