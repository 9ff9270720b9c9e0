//! Daemons with a wire between them are killed while programs talk over it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use am_api::{Fate, HandlerId, Node, Request};

use crate::common::{Place, list, until};
use crate::pings::amd;
use crate::restart::Process;

const NOTE: HandlerId = HandlerId(0);
const MESSAGES: u64 = 60_000;
const KILLS: u64 = 6;

/// The limit on unacknowledged messages where a daemon stays away for longer.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);

/// And where it comes back at once.
const LONG_PATIENCE: Duration = Duration::from_secs(30);

/// Two daemons, joined by UDP.
struct Hosts {
    places: [Place; 2],
    wires: [String; 2],
    daemons: [Option<Process>; 2],
}

impl Hosts {
    fn new() -> Hosts {
        let wires = [(); 2].map(|()| format!("udp:127.0.0.1:{}", am_netns::free_port(Ipv4Addr::LOCALHOST)));
        let mut hosts = Hosts { places: [Place::new(), Place::new()], wires, daemons: [None, None] };
        (0..2).for_each(|host| hosts.start(host));
        hosts
    }

    fn start(&mut self, host: usize) {
        let arguments = [&*self.wires[host], "--peer", &*self.wires[1 - host]];
        self.daemons[host] = Some(Process::start(&arguments, &self.places[host].socket()));
    }

    fn kill(&mut self, host: usize) {
        self.daemons[host].take().unwrap().kill();
    }

    fn transport(&self, host: usize) -> String {
        amd(&self.places[host].socket())
    }

    /// All ports are free, and nothing is left.
    fn end(mut self) {
        for (place, daemon) in self.places.iter().zip(&mut self.daemons) {
            until("the ports are free", || list(&place.socket()).ports.is_empty());
            daemon.take().unwrap().terminate();
            assert_eq!(place.files(), [""; 0], "files are left");
        }
    }
}

/// A node on a thread that counts how often each message was handled. It replies to each.
struct Noting {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u8>>,
}

impl Noting {
    fn start(patience: Duration, transport: String) -> Noting {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let node = Node::builder("beta").patience(patience).open(&transport).unwrap();
            let mut endpoint = node.endpoint("main").unwrap();
            endpoint.on_request(NOTE, |seen: &mut Vec<u8>, Request { message, token }| {
                seen[message.word(0) as usize] += 1;
                _ = token.reply(NOTE, &[], &[]);
            });
            let mut seen = vec![0; MESSAGES as usize];
            while !stopped.load(Relaxed) {
                endpoint.poll(&mut seen);
                std::thread::yield_now();
            }
            seen
        });
        Noting { stop, thread }
    }

    /// How often each was handled. Duplicates may be under way for a while.
    fn end(self) -> Vec<u8> {
        std::thread::sleep(Duration::from_secs(1));
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

/// What the sender learns of its messages.
#[derive(Debug, Default)]
struct Outcomes {
    replies: u64,
    not_delivered: Vec<u64>,
    unknown: Vec<u64>,
}

#[test]
fn connections_over_a_wire_survive_kills_and_nothing_comes_twice() {
    let mut hosts = Hosts::new();
    let server = Noting::start(LONG_PATIENCE, hosts.transport(1));
    let node = Node::builder("alpha").patience(LONG_PATIENCE).open(&hosts.transport(0)).unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    endpoint.on_reply(NOTE, |count: &mut u64, _| *count += 1);
    let to = endpoint.connect("beta", "main").unwrap();
    let (mut count, mut asked, mut kills, mut under_way) = (0, 0, 0, 0);
    until("all replies arrive", || {
        // Sender's and receiver's daemon in turn.
        if kills < KILLS && asked > (kills + 1) * MESSAGES / (KILLS + 1) {
            let host = (kills % 2) as usize;
            under_way += asked - count;
            hosts.kill(host);
            hosts.start(host);
            kills += 1;
        }
        while asked < MESSAGES && endpoint.try_request(to, NOTE, &[asked], &[]).is_ok() {
            asked += 1;
        }
        endpoint.poll(&mut count);
        std::thread::yield_now();
        count == MESSAGES
    });
    assert!(endpoint.is_open(to), "it is still the same connection");
    assert!(under_way > KILLS, "the daemons were not under load");
    drop((endpoint, node));
    assert_eq!(server.end(), vec![1; MESSAGES as usize]);
    hosts.end();
}

#[test]
fn messages_come_back_from_a_daemon_that_stays_away() {
    for host in [0, 1] {
        stays_away(host);
    }
}

/// The daemon of this host is killed under load, and stays away for longer than the sender waits.
fn stays_away(host: usize) {
    const AWAY: Duration = Duration::from_secs(2);
    let mut hosts = Hosts::new();
    let server = Noting::start(SHORT_PATIENCE, hosts.transport(1));
    let node = Node::builder("alpha").patience(SHORT_PATIENCE).open(&hosts.transport(0)).unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    endpoint.on_reply(NOTE, |outcomes: &mut Outcomes, _| outcomes.replies += 1);
    endpoint.on_returned(|outcomes: &mut Outcomes, returned| {
        let number = returned.message.word(0);
        match returned.fate {
            Fate::NotDelivered => outcomes.not_delivered.push(number),
            Fate::Unknown => outcomes.unknown.push(number),
        }
    });
    let (mut outcomes, mut asked, mut killed_at) = (Outcomes::default(), 0, None);
    let mut to = endpoint.connect("beta", "main").unwrap();
    until("each message is handled or has come back", || {
        if killed_at.is_none() && outcomes.replies > MESSAGES / 4 && asked > outcomes.replies + 4 {
            hosts.kill(host);
            killed_at = Some(Instant::now());
        }
        if hosts.daemons[host].is_none() && killed_at.is_some_and(|at| at.elapsed() > AWAY) {
            hosts.start(host);
        }
        while asked < MESSAGES && endpoint.try_request(to, NOTE, &[asked], &[]).is_ok() {
            asked += 1;
        }
        endpoint.poll(&mut outcomes);
        if endpoint.ready(to).is_err_and(|why| why != am_api::NotOpen::Connecting) {
            to = endpoint.connect("beta", "main").unwrap();
        }
        std::thread::yield_now();
        asked == MESSAGES && endpoint.is_accepted(to)
    });
    assert!(killed_at.is_some() && hosts.daemons[host].is_some());
    drop((endpoint, node));
    check(host, &outcomes, &server.end());
    hosts.end();
}

/// Each message was handled once, or came back once.
fn check(host: usize, outcomes: &Outcomes, seen: &[u8]) {
    let Outcomes { replies, not_delivered, unknown } = outcomes;
    println!("host {host}: {replies} replies, {} not delivered, {} unknown", not_delivered.len(), unknown.len());
    let mut returned = [&not_delivered[..], unknown].concat();
    returned.sort_unstable();
    assert!(!returned.is_empty(), "the daemon was away for longer than the sender waits");
    assert!(returned.is_sorted_by(|one, next| one < next), "nothing comes back twice");
    assert!(seen.iter().all(|count| *count <= 1), "nothing is handled twice");
    assert!(not_delivered.iter().all(|number| seen[*number as usize] == 0), "what was not delivered was not handled");
    let mut lost =
        (0..MESSAGES).filter(|number| seen[*number as usize] == 0 && returned.binary_search(number).is_err());
    assert_eq!(lost.next(), None, "what did not come back was handled");
}
