//! Each example does what it says. `ping` is in `anywhere`, `verify` in `verified`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Output, Stdio, id};
use std::time::Duration;

use am_api::{Connection, HandlerId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{LONG, Side, plain};
use crate::example::{Running, example, local};

/// What an example prints, which ends well.
fn printed(name: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = example(name).args(arguments).output().expect("started");
    let (printed, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && errors.is_empty(), "{name}: {errors}{printed}");
    printed.into_owned()
}

#[test]
fn call_squares_all_numbers_though_its_server_restarts() {
    for on in ["sim:1", &format!("shm:am-call-{}", id())] {
        let printed = printed("call", &[on]);
        assert!((1..=9).all(|n| printed.contains(&format!("{n} squared is {}\n", n * n))), "{printed}");
        assert!(printed.matches(" again: ").count() >= 2, "{printed}");
    }
}

#[test]
fn bulk_gets_back_what_it_put() {
    for on in ["sim:1", &format!("shm:am-bulk-{}", id())] {
        let printed = printed("bulk", &[on]);
        assert!(printed.contains("the same") && printed.contains("Deposited"), "{printed}");
    }
}

#[test]
fn clients_have_a_sum_each() {
    let printed = printed("clients", &[]);
    assert_eq!(printed.matches("has left with 500500").count(), 4, "{printed}");
}

#[test]
fn transports_are_chosen_by_peer() {
    let printed = printed("transports", &[]);
    assert!(printed.contains("alpha asks beta/main by shm:"), "{printed}");
    assert!(printed.contains("gamma asks beta/main by udp:"), "{printed}");
}

/// Onto a full disk, and with an argument that is no transport.
#[test]
fn none_panics_and_each_says_what_failed() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let shm = format!("am-full-{}", id());
    let shared = format!("shm:{shm}");
    for name in ["bulk", "call", "clients", "own_loop", "tokio_echo", "transports", "shutdown", "ping"] {
        let on = match name {
            "transports" => &[][..],
            "shutdown" => &["udp:127.0.0.1:0"],
            _ => &[&*shared],
        };
        let Output { status, stderr, .. } = example(name).args(on).stdout(full()).output().expect("started");
        let errors = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(1), "{name}: {errors}");
        assert!(errors.contains(&format!("{name}: No space left")), "{name}: {errors}");
        assert!(printed(name, &["-h"]).starts_with("usage:"), "{name}");
        if name == "transports" {
            continue;
        }
        let Output { status, stderr, .. } = example(name).arg("moon:7").output().expect("started");
        let errors = String::from_utf8_lossy(&stderr);
        assert!(status.code() == Some(1) && errors.contains("there is no transport `moon`"), "{name}: {errors}");
        let said = example(name).arg("moon:7").stderr(full()).output().expect("started");
        assert_eq!(said.status.code(), Some(1), "{name}");
    }
    let mut left = std::fs::read_dir("/dev/shm").expect("a directory").filter_map(Result::ok);
    assert!(left.all(|entry| !entry.file_name().to_string_lossy().contains(&shm)), "files in /dev/shm");
}

#[test]
fn store_keeps_values_of_any_length() {
    for on in ["shm:am-store", "udp:127.0.0.1"] {
        let (serving, asking) = match on {
            "udp:127.0.0.1" => (format!("udp:{}", local(5)), format!("udp:{},peer={}", local(6), local(5))),
            shm => (format!("{shm}-{}", id()), format!("{shm}-{}", id())),
        };
        let mut server =
            Running(example("store").args(["serve", &serving]).stdout(Stdio::piped()).spawn().expect("started"));
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("serving on "), "{line}");
        for length in [0, 1, 1500, 100_000, 1_000_000] {
            let value: Vec<u8> = (0..length).map(|at: usize| (at * 31 % 251) as u8).collect();
            let mut put =
                example("store").args(["put", "name", &asking]).stdin(Stdio::piped()).spawn().expect("started");
            put.stdin.take().expect("a pipe").write_all(&value).expect("written");
            assert!(put.wait().expect("it ends").success(), "{asking}");
            let got = example("store").args(["get", "name", &asking]).output().expect("started");
            assert!(got.status.success() && got.stdout == value, "{length} bytes over {asking}");
        }
        let missing = example("store").args(["get", "other", &asking]).output().expect("started");
        assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    }
}

#[test]
fn own_loop_is_never_held_up() {
    assert!(printed("own_loop", &[]).contains("round 200 of 200"));
}

#[test]
fn tokio_echo_shares_a_thread_with_other_tasks() {
    for on in ["sim:1", &format!("shm:am-tokio-{}", id())] {
        let printed = printed("tokio_echo", &[on]);
        assert!(printed.contains("1000 echoes, and ") && !printed.contains(" 0 ticks"), "{printed}");
    }
}

const ECHO: HandlerId = HandlerId(0);

#[derive(Default)]
struct Seen {
    answers: u64,
    back: u64,
}

/// A client of the node "beta" at this address, connected.
fn client(address: &str) -> (Side<Seen>, Connection) {
    let transport = am_api::transports::open("udp:127.0.0.1:0").expect("a socket");
    let mut side = Side::<Seen>::open(plain("alpha"), transport);
    side.node.add_peer_address(address).unwrap();
    side.endpoint.on_reply(ECHO, |seen, _| seen.answers += 1);
    side.endpoint.on_returned(|seen, _| seen.back += 1);
    loop {
        let to = side.endpoint.connect("beta", "main").unwrap();
        if side.endpoint.wait_open(&mut side.state, to, LONG).is_ok() {
            return (side, to);
        }
        side.endpoint.close(to);
    }
}

/// Interrupted among requests: what was handled does not come back.
/// The server counts all of what a client has sent that only sends, however soon the client has ended.
#[test]
fn shutdown_send_ends_when_all_has_arrived() {
    let child = example("shutdown").arg("udp:127.0.0.1:0").stdout(Stdio::piped()).spawn().expect("started");
    let mut server = Running(child);
    let mut lines = BufReader::new(server.0.stdout.take().expect("a pipe"));
    let mut text = String::new();
    lines.read_line(&mut text).expect("a line");
    let address = text.strip_prefix("serving on udp:").and_then(|line| line.split_once(';')).expect("an address").0;
    assert_eq!(printed("shutdown", &["send", &format!("udp:127.0.0.1:0,peer={address}")]), "sent 3\n");
    // What was accepted waits for its handler. The signal is answered after it.
    kill(Pid::from_raw(server.0.id() as i32), Signal::SIGINT).expect("it is there");
    text.clear();
    lines.read_to_string(&mut text).expect("text");
    assert_eq!(text, "handled 3\n");
}

#[test]
fn shutdown_loses_nothing() {
    let mut child = example("shutdown").arg("udp:127.0.0.1:0").stdout(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut server = Running(child);
    let mut text = String::new();
    lines.read_line(&mut text).expect("a line");
    let address = text.strip_prefix("serving on ").and_then(|line| line.split_once(';')).expect("an address").0;

    let (Side { node: _node, mut endpoint, state: mut seen }, to) = client(address);
    let mut sent = 0;
    while endpoint.request(&mut seen, to, ECHO, &[sent], b"hello").is_ok() {
        sent += 1;
        if sent == 1000 {
            kill(Pid::from_raw(server.0.id() as i32), Signal::SIGINT).expect("it is there");
        }
    }
    while endpoint.wait(&mut seen, Duration::from_millis(200)) > 0 {}
    assert!(server.0.wait().expect("its end").success());
    text.clear();
    lines.read_to_string(&mut text).expect("text");
    let handled: u64 = text.trim().strip_prefix("handled ").and_then(|count| count.parse().ok()).expect("a count");
    let Seen { answers, back } = seen;
    assert!((answers..=sent - back).contains(&handled), "{answers} <= {handled} <= {sent} - {back}");
    assert!(handled >= 1000 - am_api::WINDOW as u64);
}
