//! Whole nodes in two processes, one of which is killed and comes back. Needs DPDK, but no rights.

mod ends;

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use crate::ends::{alone, fresh, memif_ends};
use am_api::{Connection, ConnectionChange, Endpoint, HandlerId, Node, Request, ReturnReason};
use am_testing::doomed::Receiver;
use nix::sys::signal::Signal;

const ECHO: HandlerId = HandlerId(1);
const SUM: HandlerId = HandlerId(2);
const DEVICE: &str = "AM_TEST_DEVICE";
const SECONDS: Duration = Duration::from_secs(20);
/// Who comes back under another address is a stranger.
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
const FLOOD: u64 = 20_000;
/// Less than the patience of a node.
const A_WHILE: Duration = Duration::from_millis(500);
/// Less than closing a memif waits, more than it takes.
const BUSY: Duration = Duration::from_millis(20);

fn node(name: &str, device: &str) -> Node {
    let transport = crate::ends::open(device).unwrap_or_else(|error| panic!("{error}"));
    Node::builder(name).patience(Duration::from_secs(2)).open_on(Box::new(transport)).unwrap()
}

/// Bytes that depend on the number, and their sum.
fn content(number: u64) -> (Vec<u8>, u64) {
    let bytes: Vec<u8> = (0..number % 1400).map(|at| (number.wrapping_mul(31) + at * 7) as u8).collect();
    let sum = sum(&bytes);
    (bytes, sum)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, &byte| sum.wrapping_mul(131).wrapping_add(byte.into()))
}

#[test]
#[ignore = "started by killed_and_back"]
fn answers() {
    let node = node("beta", &env::var(DEVICE).unwrap());
    let mut endpoint = node.endpoint::<()>("main").unwrap();
    endpoint.on_request(ECHO, |(), Request { message: request, token }| {
        token.reply(ECHO, request.words(), request.payload()).unwrap()
    });
    endpoint.on_request(SUM, |(), Request { message: request, token }| {
        token.reply(SUM, &[request.word(0), sum(request.payload())], b"").unwrap()
    });
    println!("\nopen");
    loop {
        endpoint.wait(&mut (), SECONDS);
    }
}

/// What the one who asks has seen.
#[derive(Default)]
struct Seen {
    echoes: u64,
    sums: u64,
    wrong: u64,
    back: u64,
}

struct Asker {
    node: Node,
    endpoint: Endpoint<Seen>,
    seen: Seen,
}

impl Asker {
    fn new(device: &str) -> Asker {
        let node = node("alpha", device);
        let mut endpoint = node.endpoint::<Seen>("main").unwrap();
        endpoint.on_reply(ECHO, |seen, reply| seen.echoes += u64::from(reply.payload() == content(reply.word(0)).0));
        endpoint.on_reply(SUM, |seen, reply| {
            let right = reply.word(1) == content(reply.word(0)).1;
            *(if right { &mut seen.sums } else { &mut seen.wrong }) += 1;
        });
        endpoint.on_returned(|seen, returned| seen.back += u64::from(returned.reason == ReturnReason::Unreachable));
        Asker { node, endpoint, seen: Seen::default() }
    }

    fn connect(&mut self) -> Connection {
        let to = self.endpoint.connect("beta", "main").unwrap();
        self.endpoint
            .wait_open(&mut self.seen, to, SECONDS)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.node.counters()));
        to
    }

    fn request(&mut self, to: Connection, handler: HandlerId, number: u64) {
        let since = Instant::now();
        while let Err(error) = self.endpoint.try_request(to, handler, &[number], &content(number).0) {
            assert!(error.is_temporary() && since.elapsed() < SECONDS, "{error}\n{}", self.node.counters());
            self.endpoint.poll(&mut self.seen);
        }
    }

    /// There and back, one after the other.
    fn ping(&mut self, to: Connection, count: u64) {
        self.seen.echoes = 0;
        for number in 0..count {
            self.request(to, ECHO, number);
            let heard = self.endpoint.wait_until(&mut self.seen, SECONDS, |seen| seen.echoes > number);
            assert!(heard, "echo {number}\n{}", self.node.counters());
        }
    }

    /// As many as there is credit for at once; each is to arrive as it was sent.
    fn flood(&mut self, to: Connection) {
        self.seen.sums = 0;
        (0..FLOOD).for_each(|number| self.request(to, SUM, number));
        let all = self.endpoint.wait_until(&mut self.seen, SECONDS, |seen| seen.sums + seen.wrong == FLOOD);
        assert!(
            all && self.seen.wrong == 0,
            "{} right, {} wrong\n{}",
            self.seen.sums,
            self.seen.wrong,
            self.node.counters()
        );
    }

    fn link(&mut self, up: bool) {
        let since = Instant::now();
        while (self.node.counters().get("dpdk_link_down") == 0) != up {
            self.endpoint.poll(&mut self.seen);
            assert!(since.elapsed() < SECONDS, "the link is not {}", if up { "up" } else { "down" });
        }
    }
}

/// The other end is killed with messages on their way, which come back; then it is started anew. The frames are lost and counted if the
/// driver takes none while the link is down.
fn killed_and_back(mut alpha: Asker, mut beta: Receiver, theirs: &str, takes_none: bool) {
    let to = alpha.connect();
    alpha.ping(to, 1000);
    alpha.flood(to);
    for _ in 0..2 {
        let to = alpha.connect();
        beta.0.kill().unwrap();
        beta.0.wait().unwrap();
        alpha.link(false);
        alpha.seen.back = 0;
        alpha.request(to, SUM, 1);
        assert!(
            alpha.endpoint.wait_until(&mut alpha.seen, SECONDS, |seen| seen.back == 1),
            "{}",
            alpha.node.counters()
        );
        assert!(!takes_none || alpha.node.counters().get("dpdk_lost_link_down") > 0);
        beta = Receiver::open("answers", &[(DEVICE, theirs)]);
        alpha.link(true);
        let to = alpha.connect();
        alpha.ping(to, 100);
        alpha.flood(to);
    }
}

/// This one first: it is the one that the other finds.
fn the_other_is_killed(mine: &str, theirs: &str) {
    let _alone = alone();
    let alpha = Asker::new(mine);
    let beta = Receiver::open("answers", &[(DEVICE, theirs)]);
    killed_and_back(alpha, beta, theirs, true);
}

#[test]
fn over_memif_the_client_is_killed() {
    let socket = format!("@am-{}", fresh());
    let end = |role, mac| format!("net_memif0,role={role},mac={mac},socket={socket},am.pages=normal");
    the_other_is_killed(&end("server", MACS[0]), &end("client", MACS[1]));
}

#[test]
fn over_memif_the_server_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("m");
    let end = |role, mac| {
        let socket = socket.display();
        format!("net_memif0,role={role},mac={mac},socket-abstract=no,socket={socket},am.pages=normal")
    };
    let _alone = alone();
    // A client finds nobody before there is a server.
    let beta = Receiver::open("answers", &[(DEVICE, &end("server", MACS[1]))]);
    let alpha = Asker::new(&end("client", MACS[0]));
    killed_and_back(alpha, beta, &end("server", MACS[1]), true);
}

#[test]
fn over_vhost_the_guest_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("v");
    let vhost = format!("net_vhost0,iface={},am.pages=normal", path.display());
    let virtio = format!("net_virtio_user0,path={},mac={},am.pages=normal", path.display(), MACS[1]);
    the_other_is_killed(&vhost, &virtio);
}

/// The guest has the socket here, and a packed ring. When the host is back, a thread of DPDK's frees all buffers of its rings, and takes
/// others to receive into. The pool has so few frames that none of these may be lost.
#[test]
fn over_virtio_user_the_host_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let vhost = format!("net_vhost0,iface={},client=1,am.pages=normal", path.display());
    let virtio = format!("net_virtio_user0,path={},server=1,packed_vq=1,mac={}", path.display(), MACS[0]);
    let _alone = alone();
    // The guest's device is there when a host has connected.
    let beta = Receiver::open("answers", &[(DEVICE, &vhost)]);
    let alpha = Asker::new(&format!("{virtio},am.pages=normal,am.frames=1280"));
    killed_and_back(alpha, beta, &vhost, false);
    // The port is closed while its driver hears that the host has gone. Other ports need DPDK's thread as before.
    memif_ends("");
}

/// Its ring fills up meanwhile. For longer than our patience it is as good as dead.
#[test]
fn over_memif_the_other_is_stopped() {
    let _alone = alone();
    let socket = format!("@am-{}", fresh());
    let end = |role, mac| format!("net_memif0,role={role},mac={mac},socket={socket},am.pages=normal");
    let mut alpha = Asker::new(&end("server", MACS[0]));
    let beta = Receiver::open("answers", &[(DEVICE, &end("client", MACS[1]))]);
    let to = alpha.connect();
    thread::scope(|scope| {
        beta.stop();
        scope.spawn(|| {
            thread::sleep(A_WHILE);
            beta.signal(Signal::SIGCONT);
        });
        alpha.flood(to);
    });
    assert_eq!((alpha.seen.sums, alpha.seen.back), (FLOOD, 0));
    beta.stop();
    let mut sent = 0;
    while alpha.endpoint.try_request(to, SUM, &[sent], &content(sent).0).is_ok() {
        sent += 1;
    }
    let all = alpha.endpoint.wait_until(&mut alpha.seen, SECONDS, |seen| seen.back >= sent);
    assert!(all, "{} of {sent} came back\n{}", alpha.seen.back, alpha.node.counters());
    assert_eq!((alpha.seen.back, alpha.seen.sums), (sent, FLOOD), "each once");
}

#[test]
#[ignore = "started by what_is_said_last_is_heard"]
fn leaves() {
    let node = node("beta", &env::var(DEVICE).unwrap());
    let mut endpoint = node.endpoint::<()>("main").unwrap();
    let to = endpoint.connect("alpha", "main").unwrap();
    endpoint.wait_open(&mut (), to, SECONDS).unwrap_or_else(|error| panic!("{error}\n{}", node.counters()));
}

/// The frames of a memif are gone with its port: who says farewell and goes is heard all the same, by one who has
/// something else to do between two polls.
#[test]
fn what_is_said_last_is_heard() {
    let _alone = alone();
    let socket = format!("@am-{}", fresh());
    let end = |role, mac| format!("net_memif0,role={role},mac={mac},socket={socket},am.pages=normal");
    let node = node("alpha", &end("server", MACS[0]));
    let mut endpoint = node.endpoint::<Vec<ConnectionChange>>("main").unwrap();
    endpoint.on_connection(|seen, event| seen.push(event.change));
    let mut seen = vec![];
    // What is promised is that there is time: where the processors are others', one may come too late.
    for _ in 0..3 {
        let mut beta = Receiver::begin("leaves", &[(DEVICE, &end("client", MACS[1]))]);
        while beta.0.try_wait().unwrap().is_none() {
            endpoint.poll(&mut seen);
            if seen.contains(&ConnectionChange::Accepted) {
                thread::sleep(BUSY);
            }
        }
    }
    assert!(seen.contains(&ConnectionChange::Ended(ReturnReason::Closed)), "{seen:?}\n{}", node.counters());
}
