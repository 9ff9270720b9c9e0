//! What a user cannot get around: memory, wake-ups of others and lines of the log are given back, or have a rate.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Instant;

use am_daemon::budget::{LINES_A_SECOND, MAX_ATTACHES, MAX_BROADCASTS, MAX_LINES};
use am_daemon::{Daemon, DaemonOptions};
use am_transport::{Notice, Transport};
use am_vnic::VnicOptions;

use crate::by_hand::{Asking, ByHand};
use crate::common::{Ends, Place, Running, is_served, list, port, until};
use crate::intruder::Intruder;

/// A daemon that this thread turns.
fn daemon(place: &Place) -> Daemon {
    Daemon::open(DaemonOptions::new(place.socket())).unwrap()
}

/// A program attaches.
fn attach(daemon: &mut Daemon, place: &Place) -> ByHand {
    let asking = Asking::new(&place.socket());
    // It accepts the connection, and then reads from it.
    (0..2).for_each(|_| daemon.attend());
    asking.finish()
}

#[test]
fn the_memory_of_a_program_that_has_left_is_free_though_the_program_keeps_it() {
    let place = Place::new();
    let mut daemon = daemon(&place);
    let kept: Vec<_> = (0..100)
        .map(|_| {
            let program = attach(&mut daemon, &place);
            program.write(0, &vec![7; program.length as usize]);
            let memory = program.leave();
            daemon.attend();
            memory
        })
        .collect();
    let used = |memory| rustix::fs::fstat(memory).unwrap().st_blocks * 512;
    until("all have left", || {
        daemon.attend();
        daemon.list().ports.is_empty()
    });
    assert_eq!(kept.iter().map(used).sum::<i64>(), 0);
}

#[test]
fn a_program_that_comes_and_goes_wakes_no_other() {
    let place = Place::new();
    let mut daemon = daemon(&place);
    let idle = attach(&mut daemon, &place);
    for _ in 0..50 {
        let number = daemon.list().ports.len();
        drop(attach(&mut daemon, &place));
        until("it has left", || {
            daemon.attend();
            daemon.list().ports.len() == number
        });
    }
    assert_eq!(idle.packets(), 0);
}

#[test]
fn those_that_know_a_program_learn_of_its_end() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let [mut first, mut second] = [(); 2].map(|()| Intruder::attach(&place.socket()));
    // The second one has heard of the first one, and the first one of nothing.
    first.introduce("first");
    until("the name has arrived", || second.port.receive(64, &mut |_| ()) > 0);
    for (left, mut stays) in [(first, second), (Intruder::attach(&place.socket()), Intruder::attach(&place.socket()))] {
        let (address, knows) = (left.address(), port(&place.socket(), "first").is_some());
        drop(left);
        until("it has left", || list(&place.socket()).ports.iter().all(|port| port.address != address.to_string()));
        let mut learns = false;
        let mut look = || {
            stays.port.poll_notices(&mut |notice| learns |= matches!(notice, Notice::PeerGone(its) if its == address));
            learns
        };
        if knows { until("it learns it", look) } else { assert!(!look()) }
    }
}

#[test]
fn the_log_has_a_limit_for_each_user() {
    const PROGRAMS: u32 = 900;
    const _: () = assert!(PROGRAMS < MAX_ATTACHES && 2 * PROGRAMS > 2 * MAX_LINES);
    let place = Place::new();
    let log = place.socket().with_file_name("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_amd"));
    command.args(["run", "local", "--socket"]).arg(place.socket());
    let start = Instant::now();
    let _daemon = Ends(command.stdout(Stdio::null()).stderr(File::create(&log).unwrap()).spawn().unwrap());
    until("it serves", || is_served(&place.socket()));
    for _ in 0..PROGRAMS {
        let options = VnicOptions { frames: 64, ..VnicOptions::new(place.socket()) };
        // On a busy machine the daemon's answer may take longer than one waits.
        until("it attaches", || am_vnic::open(&options).is_ok());
    }
    let mut said = String::new();
    until("it says how many were left out", || {
        said = std::fs::read_to_string(&log).unwrap();
        said.contains("were left out")
    });
    let lines = said.matches("has attached").count() + said.matches("has ended").count();
    let most = u64::from(MAX_LINES) + (start.elapsed().as_secs() + 1) * u64::from(LINES_A_SECOND);
    assert!((lines as u64) <= most, "{lines} lines, and at most {most}");
}

#[test]
fn one_that_attaches_too_often_waits_and_is_served() {
    let place = Place::new();
    let mut daemon = daemon(&place);
    let waiting = (0..100 * MAX_ATTACHES).find_map(|_| {
        let asking = Asking::new(&place.socket());
        (0..3).for_each(|_| daemon.attend());
        if !asking.is_answered() {
            return Some(asking);
        }
        drop(asking);
        (0..3).for_each(|_| daemon.attend());
        None
    });
    let waiting = waiting.expect("no rate");
    until("it is its turn", || {
        daemon.attend();
        waiting.is_answered()
    });
    assert_eq!(waiting.finish().packets(), 0);
}

#[test]
fn one_that_calls_all_the_time_is_not_heard_all_the_time() {
    let place = Place::new();
    let _daemon = Running::local(&place.socket());
    let mut loud = Intruder::attach(&place.socket());
    loud.introduce("loud");
    let refused = || port(&place.socket(), "loud").and_then(|port| port.refused.get("too_often").copied());
    until("it is refused", || {
        loud.introduce("loud");
        refused().is_some()
    });
    assert!(port(&place.socket(), "loud").unwrap().sent >= u64::from(MAX_BROADCASTS));
}

/// A program that asks and leaves is no error, and nothing of it stays.
#[test]
fn one_that_leaves_before_it_is_attached_is_not_said_to_lack_memory() {
    let place = Place::new();
    let log = place.socket().with_file_name("log");
    let writer = std::sync::Mutex::new(File::create(&log).unwrap());
    let subscriber = tracing_subscriber::fmt().with_writer(writer).finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut daemon = daemon(&place);
        for _ in 0..10 {
            drop(Asking::new(&place.socket()));
            (0..4).for_each(|_| daemon.attend());
        }
        assert_eq!(daemon.list().ports, []);
    });
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(!said.contains("refused") && !said.contains("memory"), "{said}");
}
