//! Daemons that cannot start, and programs that find one short of descriptors or of places.

use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use am_daemon::address::MAX_PORTS;
use am_daemon::{Daemon, DaemonOptions};
use am_vnic::VnicOptions;
use am_vnic::protocol::{FromDaemon, Hello, MAX_PACKET, VERSION};
use am_wire::EtherType;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect, listen, recv,
    send, socket_with,
};

use crate::common::{Ends, Place, Running, is_served, until};

/// What a daemon says that does not start.
fn fails(arguments: &[&str], socket: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amd"));
    let output = command.arg("run").args(arguments).arg("--socket").arg(socket).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_daemon_that_cannot_start_leaves_nothing_behind() {
    let place = Place::new();
    for wire in ["nonsense", "xdp:nosuch", "udp:203.0.113.7:0"] {
        fails(&[wire], &place.socket());
        assert_eq!(place.files(), [""; 0], "{wire}");
    }
    let why = fails(&["udp:127.0.0.1:0", "--peer", "nonsense"], &place.socket());
    assert!(why.contains("--peer nonsense"), "{why}");
    for length in [120 - place.socket().as_os_str().len() + 8, 150, 300] {
        let why = fails(&["local"], &place.socket().with_file_name("a".repeat(length)));
        assert!(why.contains("too long") && why.contains("at most 107 bytes"), "{why}");
    }
    assert_eq!(place.files(), [""; 0]);
    let why = fails(&["local", "--peer", "10.0.0.1:7000"], &place.socket());
    assert!(why.contains("leave it out"), "{why}");
    let why = fails(&["udp:127.0.0.1:0+shm:amd-start"], &place.socket());
    assert!(why.contains("names several transports") && why.contains("choose one"), "{why}");
    assert_eq!(place.files(), [""; 0]);
    let why = fails(&["local"], &place.socket().join("below"));
    assert!(why.contains("there is no directory") && why.contains("install -d"), "{why}");
    let why = fails(&["local", "--config", "/no/such/rules"], &place.socket());
    assert!(why.contains("/no/such/rules") && why.contains("in `--config`"), "{why}");
}

/// What an earlier daemon has left is for the next that starts.
#[test]
fn a_daemon_that_cannot_start_leaves_the_state_of_another_alone() {
    let place = Place::new();
    let state = place.socket().with_extension("sock.state");
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(&state).unwrap();
    std::io::Write::write_all(&mut &file, b"of another").unwrap();
    fails(&["xdp:nosuch"], &place.socket());
    assert_eq!(std::fs::read(&state).unwrap(), b"of another");
}

/// The owner of the folder may have put any file of the daemon's user in the place of the state file.
#[test]
fn a_state_file_of_another_program_is_left_alone() {
    let place = Place::new();
    let [state, other] = ["amd.sock.state", "other"].map(|name| place.socket().with_file_name(name));
    let make = |path: &Path, text: &str| {
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).mode(0o600).open(path).unwrap();
        std::io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
    };
    make(&state, "a key of another program");
    let why = fails(&["local"], &place.socket());
    assert!(why.contains("amd.sock.state") && why.contains("left alone"), "{why}");
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "a key of another program");
    std::fs::remove_file(&state).unwrap();
    for text in ["", "amd-st is its start"] {
        make(&other, text);
        std::fs::hard_link(&other, &state).unwrap();
        assert!(fails(&["local"], &place.socket()).contains("left alone"));
        std::fs::remove_file(&state).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), text);
    }
    std::os::unix::fs::symlink(&other, &state).unwrap();
    fails(&["local"], &place.socket());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "amd-st is its start");
}

/// A value that looks like something that it is not is an error, and says what to write.
#[test]
fn what_says_nothing_is_refused() {
    let place = Place::new();
    let rules = place.socket().with_file_name("rules");
    for (text, word) in [("", "there is no rule"), ("[[allow]]\nnames = [\"a*b\"]", "only a `*` at the end")] {
        std::fs::write(&rules, text).unwrap();
        let why = fails(&["local", "--config", rules.to_str().unwrap()], &place.socket());
        assert!(why.contains("rules") && why.contains(word), "{why}");
    }
    for (arguments, words) in [
        (["--group", "no-such-group"], "no group `no-such-group`"),
        (["--group", "4294967295"], "no user and no group"),
    ] {
        let why = fails(&[&["local"], &arguments[..]].concat(), &place.socket());
        assert!(why.contains(words), "{why}");
    }
    let why = fails(&["local", "--group", "0", "--mode", "600"], &place.socket());
    assert!(why.contains("allows nothing with --mode 600"), "{why}");
    for mode in ["640", "644", "755", "4660", "9", "0"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_amd"));
        let output = command.args(["run", "local", "--mode", mode, "--socket"]).arg(place.socket()).output().unwrap();
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && why.contains("660"), "{mode}: {why}");
    }
    assert_eq!(place.files(), ["rules"]);
}

fn visit(socket: &Path) -> OwnedFd {
    let visitor = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&visitor, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    visitor
}

/// What the daemon has said.
fn said(visitor: &OwnedFd) -> FromDaemon {
    let mut bytes = [0; MAX_PACKET];
    let (length, _) = recv(visitor, &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
    FromDaemon::from_bytes(&bytes[..length]).unwrap()
}

/// Visitors that say nothing, more than there are places: others are served all the same, and at once.
#[test]
fn silent_visitors_keep_nobody_out() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let silent: Vec<_> = (0..100).map(|_| visit(&place.socket())).collect();
    daemon.attend();
    let attaching = am_vnic::begin(&VnicOptions::new(place.socket())).unwrap();
    // It accepts those that came before, then this one, and reads from it.
    (0..3).for_each(|_| daemon.attend());
    attaching.finish().unwrap();
    let FromDaemon::Refused(why) = said(&silent[0]) else { panic!("the oldest one has lost its place") };
    assert!(why.contains("too many connections that say nothing"), "{why}");
}

/// A busy machine may keep a program from its processor between two calls.
#[test]
fn a_visitor_that_speaks_late_is_served() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let late = visit(&place.socket());
    (0..3).for_each(|_| daemon.attend());
    std::thread::sleep(Duration::from_millis(1_500));
    (0..3).for_each(|_| daemon.attend());
    let hello = Hello {
        version: VERSION,
        max_frame: None,
        ethertype: EtherType::DEFAULT,
        secret: None,
        can_use_queue: false,
        name: None,
    };
    send(&late, &hello.to_bytes(), SendFlags::NOSIGNAL).unwrap();
    (0..3).for_each(|_| daemon.attend());
    assert!(matches!(said(&late), FromDaemon::Welcome(_)));
}

/// A daemon that is stopped while a program attaches: the next one is waited for.
#[test]
fn a_program_waits_for_the_next_daemon() {
    let place = Place::new();
    let ending = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&ending, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
    listen(&ending, 8).unwrap();
    let options = VnicOptions::new(place.socket());
    let program = std::thread::spawn(move || am_vnic::open(&options).map(drop));
    drop(accept(&ending).unwrap());
    drop(ending);
    std::thread::sleep(Duration::from_millis(100));
    let daemon = Running::local(&place.socket());
    program.join().unwrap().unwrap();
    drop(daemon);
}

#[test]
fn a_daemon_without_a_free_port_says_so() {
    let place = Place::new();
    let mut daemon = Daemon::open(DaemonOptions::new(place.socket())).unwrap();
    let mut attach = || {
        let attaching = am_vnic::begin(&VnicOptions { frames: 64, ..VnicOptions::new(place.socket()) }).unwrap();
        // It accepts, and reads.
        (0..3).for_each(|_| daemon.attend());
        attaching.finish()
    };
    let _attached: Vec<_> = (0..MAX_PORTS).map(|_| attach().unwrap()).collect();
    let why = attach().unwrap_err().to_string();
    assert!(why.contains("all 128 ports are in use: end a program") && !why.contains("raise"), "{why}");
}

/// Processor time of a process, in ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A daemon that cannot accept sleeps all the same, and goes on when it can.
#[test]
fn a_daemon_without_descriptors_sleeps() {
    let place = Place::new();
    let script =
        format!("ulimit -n 20; exec {} run local --socket {}", env!("CARGO_BIN_EXE_amd"), place.socket().display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = Ends(command.spawn().unwrap());
    until("it serves", || is_served(&place.socket()));
    // Programs that attached, as far as the daemon's descriptors go; others wait in the backlog.
    let options = VnicOptions::new(place.socket());
    let mut attached: Vec<_> = (0..14).map(|_| am_vnic::begin(&options).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let more: Vec<_> = (0..20).map(|_| visit(&place.socket())).collect();
    std::thread::sleep(Duration::from_millis(100));
    let before = ticks(daemon.0.id());
    std::thread::sleep(Duration::from_secs(1));
    let spent = ticks(daemon.0.id()) - before;
    assert!(spent < 10, "{spent} ticks in a second");
    attached.clear();
    drop(more);
    until("it serves again", || is_served(&place.socket()));
}
