//! A receiver that is killed and started again at once, while somebody sends to
//! it: a process of its own on a host of its own. What it had not acknowledged
//! comes back with the reason, not after the patience for the silent, and the
//! next run takes what is sent to it. Needs root.

use std::time::Duration;

use crate::doomed::Receiver;
use crate::wires::{SECONDS, payload};
use am_api::{Connection, Endpoint, HandlerId, Node, NotOpen, Request, RequestError, ReturnReason};
use am_netns::{Host, VethOptions, veth};

const WORK: HandlerId = HandlerId(2);
/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(100);

fn open(name: &str, lost_per_million: u32) -> Node {
    let options = am_afxdp::XdpOptions { lost_per_million, ..am_afxdp::XdpOptions::new("am0") };
    let transport = am_afxdp::open(&options).unwrap_or_else(|error| panic!("{error}"));
    Node::builder(name).patience(PATIENCE).beacon(PATIENCE).open_on(Box::new(transport)).unwrap()
}

#[test]
#[ignore = "started by who_sends_to_the_run_before_is_told"]
fn receives() {
    let node = open("beta", 0);
    let mut endpoint = node.endpoint::<()>("app").unwrap();
    endpoint.on_request(WORK, |(), Request { message: request, token }| {
        token.reply(WORK, request.words(), request.payload()).unwrap()
    });
    crate::doomed::is_open();
    loop {
        endpoint.wait(&mut (), Duration::from_millis(5));
    }
}

/// Messages by number: how often each was answered, and came back.
#[derive(Default)]
struct Seen {
    answered: Vec<u64>,
    back: Vec<(ReturnReason, u64)>,
    wrong: u64,
}

struct Sender {
    endpoint: Endpoint<Seen>,
    seen: Seen,
    next: u64,
}

impl Sender {
    /// The run that is found first may be over already.
    fn connect(&mut self) -> Connection {
        loop {
            let to = self.endpoint.connect("beta", "app").unwrap();
            match self.endpoint.wait_open(&mut self.seen, to, SECONDS).map_err(|error| error.why) {
                Ok(()) => return to,
                Err(NotOpen::Dead(ReturnReason::Restarted)) => self.endpoint.close(to),
                Err(error) => panic!("beta: {error}"),
            }
        }
    }

    /// Send as much as goes, until it is so or the connection is dead.
    fn send(&mut self, to: Connection, until: impl Fn(&Seen) -> bool) {
        while !until(&self.seen) {
            match self.endpoint.try_request(to, WORK, &[self.next], &payload(self.next, 100)) {
                Ok(()) => self.next += 1,
                Err(RequestError::NoCredit | RequestError::NoFrame | RequestError::QueueFull) => {}
                Err(RequestError::Dead(ReturnReason::Restarted)) => return,
                Err(error) => panic!("{error}"),
            }
            self.endpoint.poll(&mut self.seen);
        }
    }
}

fn alpha(lost_per_million: u32, there: &Host) {
    let node = open("alpha", lost_per_million);
    let mut endpoint = node.endpoint::<Seen>("app").unwrap();
    endpoint.on_reply(WORK, |seen, reply| {
        seen.answered.push(reply.word(0));
        seen.wrong += u64::from(reply.payload() != payload(reply.word(0), 100));
    });
    endpoint.on_returned(|seen, back| {
        seen.back.push((back.reason, back.message.word(0)));
        seen.wrong += u64::from(back.message.payload() != payload(back.message.word(0), 100));
    });
    let mut sender = Sender { endpoint, seen: Seen::default(), next: 0 };
    for _ in 0..5 {
        let receiver = there.enter(|| Receiver::start("restarted::receives", "")).unwrap();
        let to = sender.connect();
        let enough = sender.seen.answered.len() + 200;
        sender.send(to, |seen| seen.answered.len() >= enough);
        drop(receiver);
        let next = there.enter(|| Receiver::start("restarted::receives", "")).unwrap();
        let (before, start) = (sender.seen.back.len(), std::time::Instant::now());
        sender.send(to, |_| start.elapsed() > SECONDS);
        assert_eq!(sender.endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Restarted)), "{}", node.counters());
        sender.endpoint.wait_until(&mut sender.seen, SECONDS, |seen| seen.back.len() > before);
        drop(next);
    }
    let Seen { answered, back, wrong } = &sender.seen;
    assert!(back.len() >= 5 && back.iter().all(|(reason, _)| *reason == ReturnReason::Restarted), "{back:?}");
    assert_eq!(*wrong, 0);
    let once = |mut numbers: Vec<u64>| {
        numbers.sort_unstable();
        numbers.windows(2).all(|pair| pair[0] != pair[1])
    };
    assert!(once(answered.clone()) && once(back.iter().map(|(_, number)| *number).collect()), "each once");
}

/// On two hosts with a cable.
fn run(lost_per_million: u32) {
    let (here, there) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    veth(&here, "am0", &there, "am0", &VethOptions::default()).unwrap();
    here.enter(|| alpha(lost_per_million, &there)).unwrap();
}

#[test]
fn who_sends_to_the_run_before_is_told() {
    run(0);
}

/// The new run's introduction is lost as often as not, and its next one is far
/// away: what it says to frames that it cannot place has to do.
#[test]
fn and_again_where_the_news_is_lost() {
    run(500_000);
}
