//! Groups over `xdp:`, in network namespaces on one bridge. Needs root.

mod dissemination;
mod forged;
mod long;
mod sixteen;
mod snooping;
mod stamping;

use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use am_api::Node;
use am_netns::{Bridge, Host, Interface};
use am_ordered::{Counters, Delivered, Group, Replica};

const LONG: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Log(Vec<Vec<u8>>);

impl Replica for Log {
    fn deliver(&mut self, message: &Delivered<'_>) {
        self.0.push(message.payload.into());
    }

    fn save(&self) -> Vec<u8> {
        let with_length = |line: &Vec<u8>| [&(line.len() as u64).to_be_bytes()[..], line].concat();
        self.0.iter().flat_map(with_length).collect()
    }

    fn restore(&mut self, mut state: &[u8]) {
        self.0.clear();
        while let Some((length, rest)) = state.split_first_chunk() {
            let (line, rest) = rest.split_at(u64::from_be_bytes(*length) as usize);
            self.0.push(line.into());
            state = rest;
        }
    }
}

/// What a member of a test has seen.
struct Seen {
    log: Vec<Vec<u8>>,
    /// Whether its network would give the numbers.
    stamps: Result<(), String>,
    stamped: u64,
    counters: Counters,
}

impl Seen {
    fn of(node: &Node, group: &Group<Log>) -> Seen {
        Seen {
            log: group.replica().0.clone(),
            stamps: group.stamps_in_network(),
            stamped: node.counters().get("xdp_stamped"),
            counters: group.counters(),
        }
    }
}

/// Have the bridge forward no multicast to this port.
fn keep_multicasts_away(bridge: &Bridge, port: &Interface) {
    let keep = || Command::new("bridge").args(["link", "set", "dev", port.name(), "mcast_flood", "off"]).status();
    assert!(bridge.switch().enter(keep).expect("a namespace").expect("a program").success());
}

/// Run members on hosts of their own, on one bridge.
fn on_a_bridge<T: Send>(hosts: &[Host], member: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let member = &member;
        let members: Vec<_> = (0..hosts.len())
            .zip(hosts)
            .map(|(number, host)| scope.spawn(move || host.enter(|| member(number)).unwrap()))
            .collect();
        members.into_iter().map(|member| member.join().unwrap()).collect()
    })
}

/// Poll until all members have come here: the others fetch from this one what they lack.
fn poll_until_all(group: &mut Group<Log>, all: &Barrier) {
    thread::scope(|scope| {
        let waits = scope.spawn(|| all.wait());
        while !waits.is_finished() {
            group.wait(Duration::from_millis(5));
        }
    });
}
