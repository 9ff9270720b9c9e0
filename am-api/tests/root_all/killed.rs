//! The receiver is killed with 10,000 messages under way: a process of its own
//! on a host of its own, ended by `SIGKILL`. Each message comes back to the
//! sender's error handler, once, with its content, within two seconds; and all
//! the while the sender talks to somebody else. Needs root.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::doomed::Receiver;
use crate::wires::{ECHO, SECONDS, payload};
use am_api::{Connection, Endpoint, Framing, HandlerId, Node, NotOpen, RequestError, ReturnReason};
use am_netns::{Bridge, BridgeOptions, Host, VethOptions, veth};

const WORK: HandlerId = HandlerId(2);
const UNDER_WAY: u64 = 10_000;
/// What the sender is promised with the usual settings.
const WITHIN: Duration = Duration::from_secs(2);
/// Conversations with the receiver: one has 512 messages on their way at most.
const MOST_FLOWS: usize = 64;
const WINDOW: u16 = 512;

/// What the sender's handlers note.
struct Noted {
    /// How often each message came back.
    back: Vec<u8>,
    came_back: u64,
    wrong: Vec<String>,
    echoes: u64,
    echoes_before_the_last: u64,
}

fn content(number: u64) -> Vec<u8> {
    payload(number, (number % 1400) as usize)
}

fn note_returned(noted: &mut Noted, returned: am_api::Returned<'_, Noted>) {
    let number = returned.message.word(0);
    noted.came_back += 1;
    noted.echoes_before_the_last = noted.echoes;
    noted.back[number as usize] += 1;
    let what = (returned.reason, returned.message.handler(), returned.message.words());
    if what != (ReturnReason::Unreachable, WORK, &[number]) || returned.message.payload() != content(number) {
        noted.wrong.push(format!("{returned:?}"));
    }
}

fn open(name: &str, interface: &str, [receive, send]: [usize; 2]) -> Node {
    let options =
        am_afxdp::XdpOptions { frames: (receive + send + 6000) as u32, ..am_afxdp::XdpOptions::new(interface) };
    let transport = am_afxdp::open(&options).unwrap_or_else(|error| panic!("{error}"));
    let builder = Node::builder(name).framing(Framing::Split).window(WINDOW);
    builder.receive_frames(receive).send_frames(send).open_on(Box::new(transport)).unwrap()
}

#[test]
#[ignore = "started by all_come_back_from_one_whose_interface_stays"]
fn receives() {
    // Three quarters are for requests, and of those half for credits of replies.
    let node = open("beta", "am0", [usize::from(WINDOW) * 2 * 32, 64]);
    let mut endpoint = node.endpoint::<u64>("app").unwrap();
    endpoint.on_request(WORK, |handled, _| *handled += 1);
    crate::doomed::is_open();
    loop {
        endpoint.wait(&mut 0, Duration::from_millis(5));
    }
}

/// The one that talks to both.
struct Sender {
    endpoint: Endpoint<Noted>,
    node: Node,
    noted: Noted,
    /// Requests to the one that echoes.
    asked: u64,
}

impl Sender {
    fn new(interface: &str) -> Sender {
        let node = open("alpha", interface, [2048, 12_000]);
        let mut endpoint = node.endpoint::<Noted>("app").unwrap();
        endpoint.on_returned(note_returned);
        endpoint.on_reply(ECHO, |noted, message| {
            let number = message.word(0);
            noted.echoes += u64::from(message.payload() == payload(number, 100));
        });
        let back = vec![0; UNDER_WAY as usize];
        let noted = Noted { back, came_back: 0, wrong: Vec::new(), echoes: 0, echoes_before_the_last: 0 };
        Sender { endpoint, node, noted, asked: 0 }
    }

    fn connect(&mut self, peer: &str) -> Connection {
        let to = self.endpoint.connect(peer, "app").unwrap();
        self.endpoint.wait_open(&mut self.noted, to, SECONDS).unwrap_or_else(|error| panic!("{peer}: {error}"));
        to
    }

    /// So many conversations that all of it may be under way at once.
    fn connect_widely(&mut self, peer: &str) -> Vec<Connection> {
        let mut flows = Vec::new();
        let mut credit = 0;
        while credit < UNDER_WAY as usize {
            assert!(flows.len() < MOST_FLOWS, "{credit} credits over {} conversations", flows.len());
            let to = self.connect(peer);
            credit += self.endpoint.credit(to);
            flows.push(to);
        }
        flows
    }

    /// Send them all.
    fn send(&mut self, flows: &[Connection]) {
        let mut number = 0;
        for &to in flows.iter().cycle() {
            match self.endpoint.try_request(to, WORK, &[number], &content(number)) {
                Ok(()) => number += 1,
                Err(RequestError::NoCredit) => {}
                Err(error) => panic!("message {number}: {error}"),
            }
            if number == UNDER_WAY {
                break;
            }
            if number % 32 == 0 {
                self.endpoint.poll(&mut self.noted);
            }
        }
        self.endpoint.poll(&mut self.noted);
    }

    /// A request to one that echoes, where there is room, and a turn.
    fn ask(&mut self, to: Connection) {
        match self.endpoint.try_request(to, ECHO, &[self.noted.echoes], &payload(self.noted.echoes, 100)) {
            Ok(()) => self.asked += 1,
            Err(RequestError::NoCredit | RequestError::NoFrame | RequestError::QueueFull) => {}
            Err(error) => panic!("to the other peer: {error}"),
        }
        self.endpoint.poll(&mut self.noted);
    }

    /// Talk to this one until it is so.
    fn talk(&mut self, to: Connection, until: impl Fn(&Noted) -> bool) {
        let start = Instant::now();
        while !until(&self.noted) {
            self.ask(to);
            let Noted { came_back, echoes, .. } = self.noted;
            assert!(start.elapsed() < SECONDS, "{came_back} came back, {echoes} echoes\n{}", self.node.counters());
        }
    }
}

/// With all of it under way the receiver ends; then check what happens.
fn run(receiver: &mut Receiver) {
    let mut sender = Sender::new("am0");
    let flows = sender.connect_widely("beta");
    let gamma = sender.connect("gamma");
    receiver.stop();
    sender.send(&flows);
    assert_eq!(sender.noted.came_back, 0, "all of it is under way");
    receiver.kill();
    let killed = Instant::now();
    sender.talk(gamma, |noted| noted.came_back >= UNDER_WAY);
    let took = killed.elapsed();
    let after = sender.noted.echoes + 1000;
    sender.talk(gamma, |noted| noted.echoes >= after);

    let Sender { mut endpoint, node, mut noted, asked } = sender;
    assert!(endpoint.wait_until(&mut noted, SECONDS, |noted| noted.echoes == asked), "{} of {asked}", noted.echoes);
    assert_eq!(noted.wrong, [""; 0]);
    assert_eq!(noted.back.iter().filter(|&&times| times != 1).count(), 0, "each came back once");
    assert_eq!((noted.came_back, node.counters().get("returned")), (UNDER_WAY, UNDER_WAY));
    assert!(noted.echoes_before_the_last > 0, "nobody else was heard meanwhile");
    let dead = Err(NotOpen::Dead(ReturnReason::Unreachable));
    assert!(flows.iter().all(|to| endpoint.ready(*to) == dead));
    assert!(took <= WITHIN, "the last came back after {took:?}");
}

/// Run on `here`, while "gamma" echoes on `there`.
fn beside_gamma(here: &Host, there: &Host, work: impl FnOnce() + Send) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| crate::wires::serve(there, "gamma", Some(Framing::Split), &stop));
        let result = here.enter(|| catch_unwind(AssertUnwindSafe(work))).unwrap();
        stop.store(true, Relaxed);
        serving.join().unwrap();
        result.unwrap_or_else(|cause| resume_unwind(cause));
    });
}

/// One at a time: how long it takes is looked at.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Three hosts on a switch.
fn on_a_switch(beta_stays: bool) {
    let _alone = alone();
    let [alpha, beta, gamma] = ["alpha", "beta", "gamma"].map(|name| Host::new(name).unwrap());
    let bridge = Bridge::new(&[&alpha, &beta, &gamma], "am0", &BridgeOptions::default()).unwrap();
    let mut receiver = beta.enter(|| Receiver::start("killed::receives", "")).unwrap();
    let port = bridge.ports()[1].clone();
    // Only the process holds its host, unless we do.
    let _switch = bridge.switch().clone();
    drop(bridge);
    let _beta = beta_stays.then_some(beta);
    beside_gamma(&alpha, &gamma, || run(&mut receiver));
    assert_eq!(port.mtu().is_ok(), beta_stays, "whether the receiver's interface is there");
}

/// A cable, whose other end goes with the receiver, and with that its own; and one to somebody else.
fn on_cables(beta: Receiver) {
    let (mut receiver, mut sender, mut other) = (beta, Sender::new("am0"), Sender::new("am1"));
    let (flows, gamma) = (sender.connect_widely("beta"), other.connect("gamma"));
    receiver.stop();
    sender.send(&flows);
    receiver.kill();
    let killed = Instant::now();
    while sender.noted.came_back < UNDER_WAY {
        sender.endpoint.poll(&mut sender.noted);
        other.ask(gamma);
        let came_back = sender.noted.came_back;
        assert!(killed.elapsed() < SECONDS, "{came_back} came back\n{}", sender.node.counters());
    }
    let took = killed.elapsed();
    assert_eq!(sender.noted.wrong, [""; 0]);
    assert!(sender.noted.back.iter().all(|&times| times == 1), "each came back once");
    assert!(other.noted.echoes > 0, "nobody else was heard meanwhile");
    let Sender { mut endpoint, mut noted, asked, .. } = other;
    assert!(endpoint.wait_until(&mut noted, SECONDS, |noted| noted.echoes == asked), "{} of {asked}", noted.echoes);
    assert!(took <= WITHIN, "the last came back after {took:?}");
}

#[test]
fn all_come_back_from_one_whose_interface_stays() {
    on_a_switch(true);
}

#[test]
fn all_come_back_from_one_whose_interface_goes() {
    on_a_switch(false);
}

#[test]
fn all_come_back_when_the_senders_own_interface_goes() {
    let _alone = alone();
    let [alpha, beta, gamma] = ["alpha", "beta", "gamma"].map(|name| Host::new(name).unwrap());
    veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let (own, _) = veth(&alpha, "am1", &gamma, "am0", &VethOptions::default()).unwrap();
    let receiver = beta.enter(|| Receiver::start("killed::receives", "")).unwrap();
    drop(beta);
    beside_gamma(&alpha, &gamma, || on_cables(receiver));
    assert!(own.mtu().is_ok() && alpha.interface("am0").is_err(), "its interface has gone");
}
