//! A process with a node has forked a child that lives on. The node ends with its process all the same: peers learn of its death from the
//! kernel, not from silence, and its name, number and address are free after an orderly end.
#![allow(unsafe_code, reason = "fork")]

use std::io::Read;
use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, HandlerId, Node};
use nix::unistd::{ForkResult, fork};

use crate::common::LONG;
use crate::common::daemon::Serving;
use crate::doomed::{PLACE, Receiver, is_open};
use crate::example::local;

const ASK: HandlerId = HandlerId(0);
const END: HandlerId = HandlerId(1);
/// A witness with this patience learns nothing from silence.
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Seen {
    answers: usize,
    is_ended: bool,
    is_to_end: bool,
}

fn open(name: &str, link: &str) -> (Node, Endpoint<Seen>) {
    let builder = Node::builder(name).patience(HOUR).keepalive(HOUR);
    let node = builder.open(link).unwrap_or_else(|error| panic!("{link}: {error}"));
    let mut endpoint = node.endpoint::<Seen>("main").expect("an endpoint");
    endpoint.on_request(ASK, |_, request| request.token.reply(ASK, &[], b"").expect("it is open"));
    endpoint.on_request(END, |seen, _| seen.is_to_end = true);
    endpoint.on_reply(ASK, |seen, _| seen.answers += 1);
    endpoint.on_connection(|seen, event| seen.is_ended |= matches!(event.change, ConnectionChange::Ended(_)));
    (node, endpoint)
}

#[test]
#[ignore = "started by the tests below"]
fn has_a_child() {
    let (node, mut endpoint) = open("victim", &std::env::var(PLACE).expect("a link"));
    // SAFETY: the child reads, and ends.
    if let ForkResult::Child = unsafe { fork() }.expect("a child") {
        // It ends with the test.
        _ = std::io::stdin().read_to_end(&mut Vec::new());
        // SAFETY: it ends the process.
        unsafe { nix::libc::_exit(0) }
    }
    is_open();
    let mut seen = Seen::default();
    while !seen.is_to_end {
        endpoint.wait(&mut seen, LONG);
    }
    drop((endpoint, node));
    // SAFETY: it ends the process, whose other thread reads.
    unsafe { nix::libc::_exit(0) }
}

struct Witness {
    endpoint: Endpoint<Seen>,
    seen: Seen,
    _node: Node,
}

impl Witness {
    fn open(link: &str) -> Witness {
        let (node, endpoint) = open("witness", link);
        Witness { endpoint, seen: Seen::default(), _node: node }
    }

    fn until(&mut self, what: &str, mut other: impl FnMut(), so: impl Fn(&Witness) -> bool) {
        let start = Instant::now();
        while !so(self) {
            self.endpoint.wait(&mut self.seen, Duration::from_millis(1));
            other();
            assert!(start.elapsed() < 2 * LONG, "still not: {what}");
        }
    }

    /// A connection with the victim, which answers. It may not be known yet.
    fn meet(&mut self, mut other: impl FnMut()) -> Connection {
        let to = self.endpoint.connect("victim", "main").expect("a connection");
        self.until("connected", &mut other, |witness| witness.endpoint.is_open(to));
        let before = self.seen.answers;
        self.endpoint.try_request(to, ASK, &[], b"").expect("it is open");
        self.until("an answer", &mut other, |witness| witness.seen.answers > before);
        to
    }
}

fn shm() -> String {
    format!("shm:orphans-{}-{:?},members=2", std::process::id(), std::thread::current().id()).replace(['(', ')'], "")
}

fn dies(link: &str) {
    let mut victim = Receiver::start("orphans::has_a_child", link);
    let mut witness = Witness::open(link);
    witness.meet(|| ());
    victim.0.kill().expect("it runs");
    witness.until("its death is known", || (), |witness| witness.seen.is_ended);
}

fn ends([link, witness]: [&str; 2]) {
    let mut victim = Receiver::start("orphans::has_a_child", link);
    let mut witness = Witness::open(witness);
    let to = witness.meet(|| ());
    witness.endpoint.try_request(to, END, &[], b"").expect("it is open");
    witness.until("it has ended", || (), |witness| witness.seen.is_ended);
    // Its child lives until the end of this.
    let _input = victim.0.stdin.take();
    victim.0.wait().expect("it ends");
    // Another takes its place.
    let (_node, mut next) = open("victim", link);
    let mut seen = Seen::default();
    witness.meet(|| _ = next.poll(&mut seen));
}

#[test]
fn a_death_is_known_at_once_over_shared_memory() {
    dies(&shm());
}

#[test]
fn a_death_is_known_at_once_under_the_daemon() {
    let daemon = Serving::start();
    dies(&daemon.transport());
}

#[test]
fn a_number_is_free_after_the_end() {
    ends([&shm(); 2].map(|link| &link[..]));
}

#[test]
fn a_name_is_free_after_the_end() {
    let daemon = Serving::start();
    ends([&daemon.transport(); 2].map(|link| &link[..]));
}

/// Of this test alone.
fn addresses(kind: &str) -> [String; 2] {
    let (victim, witness) = (local(81), local(82));
    [format!("{kind}:{victim}"), format!("{kind}:{witness},peer={victim}")]
}

#[test]
fn an_address_is_free_after_the_end() {
    for kind in ["udp", "tcp"] {
        let [victim, witness] = addresses(kind);
        ends([&victim, &witness]);
    }
}
