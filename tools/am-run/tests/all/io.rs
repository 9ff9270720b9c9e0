//! Output, input, exit codes.

use crate::job::{Job, am_run};

#[test]
fn lines_stay_whole() {
    // Each process writes long lines in pieces.
    let script =
        "i=0; while [ $i -lt 200 ]; do printf 'begin %s ' $AM_RANK; printf 'end %s\\n' $AM_RANK; i=$((i+1)); done";
    let ended = Job::of(&["-n", "4", "sh", "-c", script]).end();
    assert_eq!(ended.output.len(), 800);
    for line in &ended.output {
        let words: Vec<_> = line.split(' ').collect();
        assert!(words.len() == 4 && words[1] == words[3], "{line}");
    }
}

#[test]
fn a_prefix_names_the_rank() {
    let script = "echo out $AM_RANK; echo error $AM_RANK >&2; printf 'without end'";
    let mut ended = Job::of(&["-p", "-n", "2", "sh", "-c", script]).end();
    ended.output.sort();
    ended.errors.sort();
    // A last line without an end has none here: the next begins behind it.
    let all = ended.output();
    assert!(all.contains("[0] out 0") && all.contains("[1] out 1"), "{ended:?}");
    assert_eq!(all.matches("without end").count(), 2, "{ended:?}");
    assert_eq!(ended.errors, ["[0] error 0", "[1] error 1"]);
}

#[test]
fn input_goes_to_rank_0() {
    let mut job = Job::of(&["-p", "-n", "3", "sh", "-c", "while read line; do echo \"got $line\"; done; echo end"]);
    job.write(b"one\n");
    while job.line() != "[0] got one" {}
    job.write(b"two\n");
    // The others may end at any time.
    while job.line() != "[0] got two" {}
    job.close_input();
    let ended = job.end();
    assert_eq!(ended.output.iter().filter(|line| line.ends_with("] end")).count(), 3, "{ended:?}");
}

#[test]
fn much_input_arrives_whole() {
    let mut command = am_run();
    let mut job = Job::start(command.args(["-n", "2", "sh", "-c", "test $AM_RANK = 1 || md5sum"]));
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    job.write(&data);
    job.close_input();
    let mut sum = std::process::Command::new("md5sum");
    let mut sum = Job::start(&mut sum);
    sum.write(&data);
    sum.close_input();
    assert_eq!(job.end().output, sum.end().output);
}

/// Nobody reads the input of a process that does not want any.
#[test]
fn input_that_nobody_reads_stops_nothing() {
    let mut job = Job::of(&["-n", "2", "sh", "-c", "exec <&-; echo closed; sleep 1"]);
    job.line();
    // The agent's pipe has room for some of this, and the launcher reads no more than that.
    job.write(&[b'x'; 1000]);
    let ended = job.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let script = format!("{} -n 2 sh -c 'while echo line; do :; done' | head -n 1", env!("CARGO_BIN_EXE_am-run"));
    let ended = Job::start(std::process::Command::new("sh").args(["-c", &script])).end();
    assert_eq!(ended.output, ["line"]);
}

#[test]
fn an_output_that_takes_nothing_is_a_reason() {
    let script = format!("{} -n 2 sh -c 'echo line; exec sleep 1000' > /dev/full", env!("CARGO_BIN_EXE_am-run"));
    let ended = Job::start(std::process::Command::new("sh").args(["-c", &script])).end();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.errors().contains("No space left"), "{ended:?}");
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for option in ["--help", "--version"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        assert_eq!(am_run().arg(option).stdout(full).status().expect("it starts").code(), Some(125), "{option}");
    }
}

/// The job's exit code is that of its process, whether its messages can be written or not.
#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let mut command = am_run();
    command.args(["-n", "2", "sh", "-c", "sleep 0.1; exit 7"]).stderr(full);
    assert_eq!(command.status().expect("it starts").code(), Some(7));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    assert_eq!(am_run().args(["-n", "0", "true"]).stderr(full).status().expect("it starts").code(), Some(125));
}
