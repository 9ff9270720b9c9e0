//! Two hosts: `scripts/pvm-hosts`, which makes them of namespaces.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::kills::{processes_of, wait_for_none};
use crate::machine::{Machine, Said, clean};

/// The script. It has a machine of its own.
fn script(machine: &Machine, transport: &str) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/pvm-hosts");
    let mut command = Command::new(script);
    clean(&mut command, machine.directory());
    command.env("PVM_AM_LIBRARY", machine.library()).env("PVM_AM", transport).env("PVM_AM_REPORT", "1");
    command
}

/// Run this program of a machine's directory on two hosts.
fn run(machine: &Machine, options: &[&str], transport: &str, program: &[&str]) -> Said {
    let mut command = script(machine, transport);
    let said = machine.run(command.args(options).arg(machine.path(program[0])).args(&program[1..]), "");
    wait_for_none(|| processes_of(machine.directory()));
    said
}

/// It ends well, and says this.
fn check(options: &[&str], transport: &str, program: &[&str], wanted: &str) -> Said {
    let machine = Machine::start();
    machine.compile(program[0]);
    let said = run(&machine, options, transport, program);
    assert!(said.is_good && said.output.contains(wanted), "{options:?} {program:?} over {transport}: {said:#?}");
    said
}

/// How many tasks of the second host have sent active messages. Its tasks have numbers from 80001 on.
fn second_ones(said: &Said) -> usize {
    said.errors.lines().filter(|line| line.contains("pvm-am: t8") && !line.contains(" 0 messages sent")).count()
}

#[test]
fn tasks_of_two_hosts_talk_by_active_messages() {
    for transport in ["shm+udp", "udp", "tcp"] {
        let said = check(&[], transport, &["all", "6", "30"], "6 tasks, 30 rounds: all contents are right");
        assert!(said.received() >= 500 && second_ones(&said) == 3, "over {transport}: {said:#?}");
        let said = check(&[], transport, &["order", "2000"], "2000 messages in their order");
        assert!(said.received() >= 2000 && second_ones(&said) == 1, "over {transport}: {said:#?}");
    }
}

#[test]
fn a_host_without_the_library_is_reached_as_before() {
    let said = check(&["--plain"], "shm+udp", &["all", "6", "30"], "6 tasks, 30 rounds: all contents are right");
    // The three of the first host reach each other.
    assert!(said.received() >= 100 && second_ones(&said) == 0, "{said:#?}");
    let said = check(&["--plain"], "shm+udp", &["order", "1000"], "1000 messages in their order");
    assert_eq!(said.received(), 0, "{said:#?}");
}

#[test]
fn a_host_comes_and_goes_and_its_tasks_with_it() {
    for transport in ["shm+udp", "udp"] {
        let said = check(&["--add"], transport, &["hosts"], "a host has come and gone 3 times");
        assert!(said.received() >= 500, "over {transport}: {said:#?}");
    }
}

#[test]
fn the_notice_of_an_exit_comes_after_the_last_message_from_another_host() {
    for (way, times) in [("exit", "5"), ("leave", "5"), ("kill", "8")] {
        let said = check(&[], "shm+udp", &["ending", way, times], "tasks have ended, with whole messages");
        assert!(said.received() >= 100, "{said:#?}");
    }
}

/// A halt kills the server of PVM's groups, which has the library, and leaves shared memory to others.
#[test]
fn nothing_is_left_of_two_hosts() {
    for options in [&[][..], &["--plain"]] {
        let machine = Machine::start();
        machine.compile_with_groups("groups");
        let said = run(&machine, options, "shm+udp", &["groups"]);
        let (_, place) = said.output.split_once("4 tasks met in a group in ").unwrap_or_else(|| panic!("{said:#?}"));
        let place = Path::new(place.trim_end());
        // The tasks of the first host have sent over the memory that would be left.
        assert!(said.is_good && said.received() >= 20 && said.errors.contains("over shm:"), "{said:#?}");
        assert_eq!(Machine::links(place), Vec::<String>::new(), "{options:?}");
        assert!(!place.exists() && !said.errors.contains("Terminated"), "{options:?}: {said:#?}");
    }
}

/// One task of each host has the interface for itself.
#[test]
fn two_tasks_use_the_interface_itself() {
    if !nix::unistd::geteuid().is_root() {
        println!("not run: AF_XDP needs root");
        return;
    }
    let said = check(&[], "xdp:am0", &["order", "2000"], "2000 messages in their order");
    assert!(said.received() >= 2000 && said.errors.contains("over xdp:am0"), "{said:#?}");
}

#[test]
fn where_namespaces_are_forbidden_the_script_says_what_grants_them() {
    let machine = Machine::start();
    machine.compile("all");
    fs::write(machine.path("unshare"), "#!/bin/sh\necho 'unshare failed' >&2\nexit 1\n").expect("a file");
    fs::set_permissions(machine.path("unshare"), fs::Permissions::from_mode(0o755)).expect("rights");
    let path = format!("{}:{}", machine.directory().display(), env::var("PATH").expect("a path"));
    let mut command = script(&machine, "shm+udp");
    let said = machine.run(command.env("PATH", path).arg(machine.path("all")), "");
    assert_eq!(said.status.and_then(|status| status.code()), Some(1), "{said:#?}");
    let (first, rest) = said.errors.split_once('\n').expect("lines");
    assert!(first == "unshare failed" && rest.starts_with("The kernel gives "), "{said:#?}");
    let grants = if nix::unistd::geteuid().is_root() { "docker run --privileged" } else { "sudo sysctl -w " };
    assert!(rest.contains(grants), "{said:#?}");
}
