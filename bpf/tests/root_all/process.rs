//! What the fate and the rights of a process mean for its programs. Needs root.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::cable::{Cable, eventually};
use am_bpf::{AttachMode, Config, Kernel, LoadError, Probe, Raw, Steer};
use am_netns::VethOptions;
use am_wire::{Address, EtherType};

const CONFIG: Config = Config {
    ethertype: EtherType::DEFAULT,
    own: Address([2, 0, 0, 0, 0, 1]),
    node_socket: 0,
    counts_redirected: true,
    lost_per_million: 0,
};

/// One of the tests below that are processes of others, on the host of the
/// calling thread, with a bounding set of capabilities that it keeps as root.
fn start(name: &str, capabilities: &str) -> Child {
    Command::new("setpriv")
        .args(["--bounding-set", capabilities])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("setpriv, of util-linux: {error}"))
}

/// What it printed after `answer `, once it did.
fn answer(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut answers = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("answer ").map(str::to_owned));
    answers.next().expect("the child died without an answer")
}

fn give(answer: impl std::fmt::Display) {
    println!("\nanswer {answer}");
}

/// Attaches to its host's `am0`, and waits.
#[test]
#[ignore = "started by kill_9_leaves_no_program"]
fn attached() {
    let steer = Steer::load(&CONFIG);
    let attachment = steer.unwrap_or_else(|e| panic!("{e}")).attach("am0", AttachMode::Native).unwrap();
    give("attached");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(attachment);
}

#[test]
fn kill_9_leaves_no_program() {
    let cable = Cable::new(&VethOptions::default());
    for _ in 0..2 {
        let mut child = cable.near_host.enter(|| start("process::attached", "+all")).unwrap();
        assert_eq!(answer(&mut child), "attached");
        assert!(cable.near.has_xdp().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("the program is gone", || !cable.near.has_xdp().unwrap());
    }
}

/// Says how loading and attaching went.
#[test]
#[ignore = "started by rights_are_named_and_suffice"]
fn load_and_attach() {
    match Steer::load(&CONFIG) {
        Ok(mut steer) => match steer.attach("am0", AttachMode::Native) {
            Ok(_attachment) => give("attached"),
            Err(error) => give(error),
        },
        Err(error) => give(error),
    }
}

#[test]
fn rights_are_named_and_suffice() {
    let cable = Cable::new(&VethOptions::default());
    let ask = |capabilities: &str| {
        let mut child = cable.near_host.enter(|| start("process::load_and_attach", capabilities)).unwrap();
        let answer = answer(&mut child);
        child.wait().unwrap();
        answer
    };
    let named = if Kernel::running().needs_perfmon() {
        "`sudo setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock,cap_perfmon=ep "
    } else {
        "`sudo setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock=ep "
    };
    for too_few in ["-all", "-all,+net_admin,+net_raw", "-all,+bpf,+net_raw"] {
        let said = ask(too_few);
        assert!(said.starts_with("not permitted to load an XDP program") && said.contains(named), "{too_few}: {said}");
    }
    let enough = "-all,+bpf,+net_admin,+net_raw";
    if !Kernel::running().needs_perfmon() {
        return assert_eq!(ask(enough), "attached", "what the error names is enough");
    }
    let said = ask(enough);
    assert!(said.contains("cap_ipc_lock,cap_perfmon=ep "), "{said}");
    assert_eq!(ask(&format!("{enough},+perfmon")), "attached", "what the error names is enough");
}

#[test]
fn a_program_that_the_verifier_rejects_comes_with_its_log() {
    let object = crate::twins::compile(Path::new("tests/rejected.bpf.c"), &[]);
    let error = Probe::load_object(object.bytes(), &CONFIG).unwrap_err();
    let LoadError::Rejected { log, .. } = &error else { panic!("{error}") };
    assert!(log.contains("invalid access to packet"), "{log}");
}

#[test]
fn an_object_that_is_none_of_ours() {
    let raw = crate::twins::compile(Path::new("raw.bpf.c"), &[]);
    for bytes in [&raw.bytes()[..100], raw.bytes(), &[]] {
        let error = Probe::load_object(bytes, &CONFIG).unwrap_err();
        assert!(matches!(error, LoadError::Object(_)), "{error}");
    }
    drop(Raw::load(0x88b5).unwrap());
}
