//! A process that is stopped in the middle of traffic and goes on, and one that is stopped or killed and does not: over
//! UDP, TCP and shared memory. Over the last two a stopped one is not given up, because the kernel answers for it. Each message is answered once at most, and comes back once at most and says why; nothing hangs.

use std::env;
use std::process::id;
use std::time::{Duration, Instant};

use crate::common::{LONG, Side, plain};
use crate::doomed::{PLACE, Receiver};
use am_api::{Connection, HandlerId, NotOpen, Request, RequestError, ReturnReason};
use nix::sys::signal::Signal;

const ECHO: HandlerId = HandlerId(1);
/// Of one who waits for the end.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Long enough that all queues on the way are full.
const A_WHILE: Duration = Duration::from_millis(400);

/// What has become of each request, by its number.
#[derive(Default)]
struct Fates {
    answered: Vec<u8>,
    returned: Vec<u8>,
    wrong: Vec<String>,
}

impl Fates {
    fn count(times: &[u8]) -> usize {
        times.iter().filter(|times| **times > 0).count()
    }
}

#[test]
#[ignore = "started by over_udp"]
fn receives() {
    let transport = am_api::transports::open(&env::var(PLACE).unwrap()).unwrap();
    let mut side: Side<()> = Side::open(plain("beta").patience(LONG), transport);
    side.endpoint.on_request(ECHO, |(), Request { message: asked, token }| {
        token.reply(ECHO, asked.words(), asked.payload()).unwrap()
    });
    crate::doomed::is_open();
    loop {
        side.endpoint.wait(&mut (), LONG);
    }
}

fn content(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 1000]
}

struct Talk {
    alpha: Side<Fates>,
    beta: Receiver,
    to: Connection,
}

impl Talk {
    /// `here` is alpha's transport, and from where that is follows beta's.
    fn over(here: &str, there: &dyn Fn(&str) -> String, patience: Duration) -> Talk {
        let mut alpha: Side<Fates> =
            Side::open(plain("alpha").patience(patience), am_api::transports::open(here).unwrap());
        alpha.endpoint.on_reply(ECHO, |fates, reply| {
            let number = reply.word(0);
            fates.answered[number as usize] += 1;
            if reply.payload() != content(number) {
                fates.wrong.push(format!("{number} is not as it was"));
            }
        });
        alpha.endpoint.on_returned(|fates, back| {
            fates.returned[back.message.word(0) as usize] += 1;
            if back.reason != ReturnReason::Unreachable {
                fates.wrong.push(format!("{back:?}"));
            }
        });
        let beta = Receiver::start("signals::receives", &there(&alpha.node.local_address()));
        let to = alpha.endpoint.connect("beta", "main").unwrap();
        let mut talk = Talk { alpha, beta, to };
        talk.until("connected", |talk| talk.alpha.endpoint.is_open(to));
        talk
    }

    fn until(&mut self, what: &str, so: impl Fn(&Talk) -> bool) {
        let start = Instant::now();
        while !so(self) {
            self.alpha.poll();
            assert!(start.elapsed() < LONG, "still not: {what}\n{}", self.alpha.node.counters());
        }
    }

    /// As many as go, for a while.
    fn flood(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            let number = self.alpha.state.answered.len() as u64;
            match self.alpha.endpoint.try_request(self.to, ECHO, &[number], &content(number)) {
                Ok(()) => {
                    self.alpha.state.answered.push(0);
                    self.alpha.state.returned.push(0);
                }
                Err(RequestError::NoCredit | RequestError::NoFrame | RequestError::QueueFull) => (),
                Err(error) => panic!("{error}"),
            }
            self.alpha.poll();
        }
    }

    fn check(&self) {
        let Fates { answered, returned, wrong } = &self.alpha.state;
        assert_eq!(wrong[..], [""; 0]);
        // What was answered may come back as well, where only its acknowledgement was lost.
        assert!(answered.iter().chain(returned).all(|times| *times <= 1), "some twice");
    }

    /// With beta answering.
    fn begin(&mut self) {
        self.flood(A_WHILE / 4);
        self.until("some are answered", |talk| Fates::count(&talk.alpha.state.answered) > 0);
    }

    fn goes_on(&mut self) {
        self.begin();
        self.beta.stop();
        self.flood(A_WHILE);
        self.beta.signal(Signal::SIGCONT);
        self.flood(A_WHILE / 4);
        self.until("all are answered", |talk| talk.alpha.state.answered.iter().all(|times| *times == 1));
        self.check();
        assert_eq!(
            Fates::count(&self.alpha.state.returned),
            0,
            "it was away for less than our patience, or spoken for"
        );
    }

    /// Before it was known to be gone, something was under way.
    fn is_over(&mut self) {
        let to = self.to;
        self.until("it is given up", |talk| {
            talk.alpha.endpoint.ready(to) == Err(NotOpen::Dead(ReturnReason::Unreachable))
        });
        self.alpha.poll();
        self.check();
        assert!(Fates::count(&self.alpha.state.answered) > 0 && Fates::count(&self.alpha.state.returned) > 0);
        let all = self.alpha.state.answered.len() as u64;
        assert_eq!(self.alpha.counter("returned"), Fates::count(&self.alpha.state.returned) as u64, "of {all}");
    }
}

/// `is_spoken_for`: something outside of a stopped process says that it lives.
fn over(here: &str, there: &dyn Fn(&str) -> String, is_spoken_for: bool) {
    Talk::over(here, there, if is_spoken_for { A_WHILE / 2 } else { LONG }).goes_on();
    for is_killed in if is_spoken_for { &[true][..] } else { &[false, true] } {
        let mut talk = Talk::over(here, there, PATIENCE);
        talk.begin();
        talk.beta.stop();
        talk.flood(A_WHILE / 8);
        if *is_killed {
            talk.beta.signal(Signal::SIGKILL);
        }
        talk.is_over();
    }
}

fn introduced(place: &str) -> String {
    let (kind, at) = place.split_once(':').unwrap();
    format!("{kind}:127.0.0.1:0,peer={at}")
}

#[test]
fn over_udp() {
    over("udp:127.0.0.1:0", &introduced, false);
}

#[test]
fn over_tcp() {
    over("tcp:127.0.0.1:0", &introduced, true);
}

#[test]
fn over_shared_memory() {
    over(&format!("shm:am-signals-{}", id()), &str::to_owned, true);
}
