//! The daemon is killed and started again while programs talk: connections go on, and nothing is delivered twice.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node, Problem, Request};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::common::{Place, list, port, until};
use crate::intruder::Intruder;
use crate::pings::amd;

/// The program, as an administrator starts it; killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(arguments: &[&str], socket: &Path) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_amd"));
        command.arg("run").args(arguments).arg("--socket").arg(socket).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serves"), "{line}");
        Process(child)
    }

    /// As `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// As `systemctl stop`.
    pub(crate) fn terminate(mut self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const NOTE: HandlerId = HandlerId(0);
const MESSAGES: u64 = 60_000;
const KILLS: u64 = 4;

/// The payload of a message: some are longer than a frame.
fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; if number.is_multiple_of(500) { 100_000 } else { 8 }]
}

/// A server that notes what it gets, on a thread. Ends when it has all, and returns how often each message came.
fn server(transport: String) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let node = Node::builder("beta").patience(Duration::from_secs(30)).open(&transport).unwrap();
        let mut endpoint = node.endpoint("main").unwrap();
        endpoint.on_request(NOTE, |seen: &mut Vec<u8>, Request { message, token }| {
            let number = message.word(0);
            assert!(message.payload() == payload(number));
            seen[number as usize] += 1;
            _ = token.reply(NOTE, &[], &[]);
        });
        let mut seen = vec![0; MESSAGES as usize];
        until("all messages arrive", || {
            endpoint.poll(&mut seen);
            seen.iter().all(|count| *count > 0)
        });
        // The last replies are still under way, and so would be duplicates.
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            endpoint.poll(&mut seen);
            std::thread::yield_now();
        }
        seen
    })
}

#[test]
fn connections_survive_kills_and_nothing_comes_twice() {
    let place = Place::new();
    let socket = place.socket();
    let mut daemon = Some(Process::start(&["local"], &socket));
    let server = server(amd(&socket));
    let node = Node::builder("alpha").patience(Duration::from_secs(30)).open(&amd(&socket)).unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    endpoint.on_reply(NOTE, |count: &mut u64, _| *count += 1);
    let to = endpoint.connect("beta", "main").unwrap();
    let (mut count, mut asked, mut kills) = (0, 0, 0);
    let places = |socket: &Path| ["alpha", "beta"].map(|name| port(socket, name).map(|port| port.address));
    let mut before = [None, None];
    until("all replies arrive", || {
        // Some messages are always under way when the daemon is killed.
        if kills < KILLS && asked > (kills + 1) * MESSAGES / (KILLS + 1) {
            before = if kills == 0 { places(&socket) } else { before.clone() };
            daemon.take().unwrap().kill();
            daemon = Some(Process::start(&["local"], &socket));
            kills += 1;
        }
        while asked < MESSAGES && endpoint.try_request(to, NOTE, &[asked], &payload(asked)).is_ok() {
            asked += 1;
        }
        endpoint.poll(&mut count);
        std::thread::yield_now();
        count == MESSAGES
    });
    assert!(endpoint.is_open(to), "it is still the same connection");
    assert_eq!(server.join().unwrap(), vec![1; MESSAGES as usize]);
    let alpha = port(&socket, "alpha").unwrap();
    assert_eq!(Some(alpha.address), before[0], "the address is still the same");
    drop((endpoint, node));
    daemon.take().unwrap().terminate();
    assert_eq!(place.files(), [""; 0], "files are left");
}

#[test]
fn a_daemon_that_is_restarted_in_order_is_the_same_for_its_programs() {
    let place = Place::new();
    let socket = place.socket();
    let daemon = Process::start(&["local"], &socket);
    let beta = Node::builder("beta").open(&amd(&socket)).unwrap();
    let mut server = beta.endpoint::<()>("main").unwrap();
    let alpha = Node::builder("alpha").open(&amd(&socket)).unwrap();
    let mut client = alpha.endpoint::<()>("main").unwrap();
    let to = client.connect("beta", "main").unwrap();
    until("it is open", || {
        server.poll(&mut ());
        client.poll(&mut ());
        client.is_open(to)
    });
    daemon.terminate();
    assert_eq!(place.files(), ["amd.sock.state"], "for the next daemon");
    let daemon = Process::start(&["local"], &socket);
    until("both are back", || {
        server.poll(&mut ());
        client.poll(&mut ());
        ["alpha", "beta"].iter().all(|name| port(&socket, name).is_some_and(|port| port.pid > 0))
    });
    // A busy machine may keep the thread from polling.
    let is_well = matches!(alpha.health(), Ok(()) | Err(Problem::Late(_)));
    assert!(client.is_open(to) && is_well, "{:?}", alpha.health());
    drop((client, server, alpha, beta));
    daemon.terminate();
    assert_eq!(place.files(), [""; 0], "there is nobody to go on");
}

#[test]
fn a_program_that_does_not_come_back_is_gone() {
    let place = Place::new();
    let socket = place.socket();
    let daemon = Process::start(&["local"], &socket);
    let mut alpha = Intruder::attach(&socket);
    alpha.introduce("alpha");
    until("it has its name", || port(&socket, "alpha").is_some());
    daemon.kill();
    drop(alpha);
    let daemon = Process::start(&["local"], &socket);
    let kept = port(&socket, "alpha").expect("its place is kept for a while");
    assert_eq!(kept.pid, 0);
    until("its place is free", || list(&socket).ports.is_empty());
    daemon.terminate();
}

/// Set in a process that a test starts: where its node is.
const SOCKET: &str = "AMD_TEST_SOCKET";

/// A node in a process of its own; in the tests' own process nothing.
#[test]
fn a_program_of_its_own() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let node = Node::open("alpha", &format!("amd:{socket}")).unwrap();
    let mut endpoint = node.endpoint::<()>("main").unwrap();
    loop {
        endpoint.wait(&mut (), Duration::from_millis(50));
    }
}

/// Daemon and programs are killed together and start again: what has ended keeps neither port nor name, even if its parent has not asked for its
/// status.
#[test]
fn a_program_that_was_killed_with_the_daemon_keeps_nothing() {
    let place = Place::new();
    let socket = place.socket();
    let program = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["restart::a_program_of_its_own", "--exact"]).env(SOCKET, &socket).stdout(Stdio::null());
        Process(command.spawn().unwrap())
    };
    let daemon = Process::start(&["local"], &socket);
    let mut alpha = program();
    until("it has its name", || port(&socket, "alpha").is_some());
    daemon.kill();
    alpha.0.kill().unwrap();
    // Its status stays unread. Its first thread alone may have ended before: "Z" in /proc is not enough.
    let has_ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(Pid::from_raw(alpha.0.id() as i32)), has_ended).unwrap();
    let _daemon = Process::start(&["local"], &socket);
    assert_eq!(list(&socket).ports, []);
    let next = program();
    until("the next one has the name", || port(&socket, "alpha").is_some_and(|port| port.pid == next.0.id() as i32));
}

/// One that is expected ends before it has attached again.
#[test]
fn a_program_that_is_killed_while_it_is_expected_keeps_nothing() {
    let place = Place::new();
    let socket = place.socket();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["restart::a_program_of_its_own", "--exact"]).env(SOCKET, &socket).stdout(Stdio::null());
    let daemon = Process::start(&["local"], &socket);
    let alpha = Process(command.spawn().unwrap());
    until("it has its name", || port(&socket, "alpha").is_some());
    kill(Pid::from_raw(alpha.0.id() as i32), Signal::SIGSTOP).unwrap();
    daemon.kill();
    let _daemon = Process::start(&["local"], &socket);
    assert!(port(&socket, "alpha").is_some_and(|port| port.is_expected), "it runs");
    alpha.kill();
    until("its place is free", || list(&socket).ports.is_empty());
}

#[test]
fn a_second_daemon_is_refused_and_a_stale_socket_is_not() {
    let place = Place::new();
    let socket = place.socket();
    let daemon = Process::start(&["local"], &socket);
    let second =
        Command::new(env!("CARGO_BIN_EXE_amd")).args(["run", "local", "--socket"]).arg(&socket).output().unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("serves") && said.contains("already"), "{said}");
    daemon.kill();
    assert!(socket.exists(), "a killed daemon leaves its socket");
    Process::start(&["local"], &socket).terminate();
    std::fs::write(&socket, "something else").unwrap();
    let other =
        Command::new(env!("CARGO_BIN_EXE_amd")).args(["run", "local", "--socket"]).arg(&socket).output().unwrap();
    assert!(String::from_utf8(other.stderr).unwrap().contains("is no socket"));
}
