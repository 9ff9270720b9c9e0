//! One program, unchanged, over every transport by its name: `examples/ping.rs`,
//! a process at each end, or both ends in one.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::{process, thread};

use crate::example::{Running, example, local};

/// The node "beta", until this is dropped.
fn serve(name: &str) -> Running {
    let mut child = example("ping").args(["serve", name]).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    // Whatever it says: it ends with this.
    let beta = Running(child);
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    assert!(first.starts_with("beta serves on") && !first.contains(":0;"), "{name}: {first}");
    thread::spawn(move || lines.for_each(drop));
    beta
}

fn ten_answers(serving: &str, asking: &str) -> String {
    let _beta = serve(serving);
    answered(&["beta", asking])
}

/// How the ten were answered.
fn answered(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = example("ping").args(arguments).output().expect("started");
    let (said, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{arguments:?}: {errors}{said}");
    assert!(said.lines().any(|line| line.starts_with("10: ")), "{said}");
    said.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn over_sockets() {
    for kind in ["udp", "tcp"] {
        let (serving, asking) = (format!("{kind}:{}", local(1)), format!("{kind}:{},peer={}", local(2), local(1)));
        let how = ten_answers(&serving, &asking);
        // The peer's address, not the own.
        assert!(how.starts_with(&format!("beta/ping by {kind}:{} (", local(1))), "{how}");
    }
}

#[test]
fn over_shared_memory() {
    let name = format!("shm:am-anywhere-{}", process::id());
    let how = ten_answers(&name, &name);
    assert!(how.starts_with(&format!("beta/ping by {name} ")), "{how}");
}

#[test]
fn over_a_simulated_network_within_one_process_and_no_further() {
    let how = answered(&["sim:7,loss=0.05,delay=100us"]);
    assert!(how.starts_with("beta/ping by sim:7 "), "{how}");
    let _beta = serve("sim:8");
    let output = example("ping").args(["beta", "sim:8"]).output().expect("started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("no other node of this process"), "{said}");
}

#[test]
fn over_two_at_once_and_over_what_both_have() {
    let shared = format!("shm:am-anywhere-two-{}", process::id());
    let (here, there) = (format!("udp:{}", local(3)), format!("udp:{},peer={}", local(4), local(3)));
    let beta = serve(&format!("{here}+{shared}"));
    // On a busy machine the first way that is heard may be the other.
    let mut how = (0..100).map(|_| answered(&["beta", &format!("{there}+{shared}")]));
    assert!(how.any(|how| how.contains(&format!("by {shared} (the best of 2"))), "never by shared memory");
    drop(beta);
    let how = ten_answers(&format!("{here}+{shared}"), &there);
    assert!(how.starts_with(&format!("beta/ping by {here} (")), "{how}");
    let how = ten_answers(&here, &format!("{there}+{shared}"));
    assert!(how.starts_with(&format!("beta/ping by {here} (the only one")), "{how}");
}

#[test]
fn what_is_no_transport_is_said() {
    for (name, hint) in [
        ("eth1", "there is no transport `eth1`"),
        ("pigeon:7", "there are: shm:lab, amd:/run/amd/amd.sock, dpdk:net_memif0"),
        ("udp:somewhere:7000", "an address and a port"),
        ("udp:127.0.0.1:0,colour=red", "frame=BYTES"),
        ("xdp:no-such-if0", "no-such-if0"),
        ("sim:lab", "sim:7"),
        ("udp:127.0.0.1:0+eth1", "there is no transport `eth1`"),
    ] {
        let output = example("ping").args(["serve", name]).output().expect("started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(hint), "{name}: {said}");
    }
}

#[test]
fn a_port_that_the_kernel_chose_is_said() {
    for name in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"] {
        drop(serve(name));
    }
}

#[test]
fn help_is_no_error() {
    for arguments in
        [&["--help"][..], &["-h"], &["help"], &["serve", "--help"], &["beta", "-h"], &["beta", "shm:lab", "--help"]]
    {
        let Output { status, stdout, .. } = example("ping").args(arguments).output().expect("started");
        let said = String::from_utf8_lossy(&stdout);
        assert!(status.success() && said.starts_with("usage:") && said.contains("ping serve TRANSPORT"), "{said}");
    }
    let Output { status, stdout, stderr } = example("ping").args(["one", "two", "three"]).output().expect("started");
    assert_eq!((status.code(), stdout.is_empty()), (Some(2), true));
    assert!(String::from_utf8_lossy(&stderr).starts_with("usage:"));
    // Without its transport.
    let Output { status, stderr, .. } = example("ping").arg("serve").output().expect("started");
    assert!(status.code() == Some(2) && stderr.starts_with(b"usage:"));
}

#[test]
fn both_sides_in_one_process_share_no_port() {
    let Output { status, stderr, .. } = example("ping").arg("udp:127.0.0.1:7100").output().expect("started");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(1) && said.contains("start two processes"), "{said}");
}
