//! The examples as programs: each does what it says, and says what failed.

use std::env;
use std::process::{Command, Output};

/// An example, where cargo has put it beside this test.
fn example(name: &str, argument: &str) -> Output {
    let mut path = env::current_exe().expect("a path");
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    assert!(path.exists(), "{} is not there: cargo build -p am-threads --example {name}", path.display());
    Command::new(path).arg(argument).output().expect("started")
}

fn printed(name: &str, on: &str) -> String {
    let Output { status, stdout, stderr } = example(name, on);
    let (printed, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && errors.is_empty(), "{name}: {errors}{printed}");
    printed.into_owned()
}

#[test]
fn pool_answers_every_call() {
    for on in ["sim:1", &format!("shm:am-pool-{}", std::process::id())] {
        let printed = printed("pool", on);
        assert!(printed.contains("168 primes below 1000") && printed.contains(", 1000 in all"), "{printed}");
    }
}

#[test]
fn tokio_clients_have_a_thousand_connections_on_one_thread() {
    for on in ["sim:1", &format!("shm:am-tokio-clients-{}", std::process::id())] {
        let printed = printed("tokio_clients", on);
        assert!(printed.contains("1000 of 1000 connections") && printed.contains("beta has 1000 sums"), "{printed}");
    }
}

#[test]
fn awaits_answers_while_others_wait() {
    for on in ["sim:1", &format!("shm:am-awaits-{}", std::process::id())] {
        let printed = printed("awaits", on);
        assert!(printed.starts_with("200 answers after "), "{printed}");
    }
}

#[test]
fn what_is_no_transport_is_said() {
    for name in ["awaits", "pool", "tokio_clients"] {
        let Output { status, stderr, .. } = example(name, "moon:7");
        assert_eq!(status.code(), Some(1), "{name}");
        assert!(String::from_utf8_lossy(&stderr).contains("there is no transport `moon`"), "{name}");
        assert!(example(name, "--help").stdout.starts_with(b"usage:"), "{name}");
    }
}
