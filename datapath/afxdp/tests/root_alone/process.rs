//! What the end of a process means for the queue it had. Needs root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::alone;
use crate::pair::{Cable, eventually};
use am_afxdp::XdpOptions;
use am_netns::VethOptions;

/// The test below that is another's process, on the host of the calling thread.
fn start() -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["process::holds_the_queue", "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"), "the child died before it had opened the queue");
    child
}

#[test]
#[ignore = "started by kill_9_leaves_no_program_and_no_socket"]
fn holds_the_queue() {
    let _open = am_afxdp::open(&XdpOptions::new("am0")).unwrap_or_else(|error| panic!("{error}"));
    println!("\nopen");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn kill_9_leaves_no_program_and_no_socket() {
    let _alone = alone();
    let cable = Cable::new(&VethOptions::default());
    for _ in 0..3 {
        let mut child = cable.hosts[0].enter(start).unwrap();
        assert!(cable.ends[0].has_xdp().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("the program is gone", || !cable.ends[0].has_xdp().unwrap());
        drop(cable.open(0, &XdpOptions::new("am0")).unwrap_or_else(|error| panic!("{error}")));
    }
}

#[test]
fn the_process_that_has_the_queue_is_named() {
    let _alone = alone();
    let cable = Cable::new(&VethOptions::default());
    let mut child = cable.hosts[0].enter(start).unwrap();
    let error = cable.open(0, &XdpOptions::new("am0")).map(|_| ()).unwrap_err().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(error.contains(&format!("{} (root_alone", child.id())), "{error}");
    assert!(error.contains("open this one there") && !error.contains("end that process"), "{error}");
}

#[test]
fn the_process_that_has_another_queue_is_named() {
    let _alone = alone();
    let cable = Cable::new(&VethOptions { queues: 2, ..VethOptions::default() });
    let mut child = cable.hosts[0].enter(start).unwrap();
    let second = XdpOptions { queue: 1, ..XdpOptions::new("am0") };
    let error = cable.open(0, &second).map(|_| ()).unwrap_err().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    let process = format!("process {} (root_alone", child.id());
    assert!(error.starts_with(&process) && error.contains("have to be in one process"), "{error}");
    assert!(!error.contains("end that process") && !error.contains("xdp off"), "{error}");
}

/// `/proc` shows the files of a process with capabilities of its own to root alone.
#[test]
fn a_sibling_is_told_from_another_program_without_its_descriptors() {
    let _alone = alone();
    let cable = Cable::new(&VethOptions { queues: 2, ..VethOptions::default() });
    let sibling = || am_bpf::sibling(am_afxdp::Interface::find("am0").unwrap().index);
    let mut child = cable.hosts[0].enter(start).unwrap();
    let found = cable.hosts[0].enter(sibling).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, Some(child.id()));
    eventually("the mark is gone", || cable.hosts[0].enter(sibling).unwrap().is_none());
}

#[test]
fn a_child_does_not_keep_the_queue() {
    let _alone = alone();
    let cable = Cable::new(&VethOptions::default());
    let open = cable.open(0, &XdpOptions::new("am0")).unwrap();
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    drop(open);
    let again = cable.open(0, &XdpOptions::new("am0"));
    child.kill().unwrap();
    child.wait().unwrap();
    again.unwrap_or_else(|error| panic!("{error}"));
}
