//! Servers that are processes of their own, over any transport: stopped beyond a deadline, killed between a method and its
//! answer, killed and started again, ended in order. Each method notes its calls in a file, which outlives it: a method ran
//! at most once for each call, and never for an outcome that says that it did not.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{exit, id};
use std::time::{Duration, Instant};

use am_api::{Builder, Node, ReturnReason};
use am_rpc::{Call, CallError, Context, Rpc, service};
use am_testing::doomed::{self, PLACE, Receiver};
use nix::sys::signal::{Signal, raise};

const LONG: Duration = Duration::from_secs(30);
/// Longer than a signal takes, and shorter than the patience.
const A_WHILE: Duration = Duration::from_millis(300);
/// The variable with the file for the calls.
const NOTES: &str = "AM_TEST_NOTES";

/// Each method notes the number of its call first.
#[service]
trait Work {
    fn note(&self, call: u64) -> u64;
    /// Kills its process, before the answer has left.
    fn die(&self, call: u64);
    /// The same once it is a task.
    async fn die_later(&self, call: u64);
    /// Until it is cancelled, which it notes.
    async fn hang(&self, context: &Context, call: u64);
    /// The server ends, with all calls that run.
    fn leave(&self, call: u64);
}

struct Noting {
    notes: PathBuf,
    leaves: std::rc::Rc<std::cell::Cell<bool>>,
}

impl Noting {
    fn note(&self, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(&self.notes);
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("a file");
    }
}

impl Work for Noting {
    fn note(&self, call: u64) -> u64 {
        Noting::note(self, &call.to_string());
        call
    }

    fn die(&self, call: u64) {
        Noting::note(self, &call.to_string());
        raise(Signal::SIGKILL).expect("a signal");
    }

    async fn die_later(&self, call: u64) {
        // Polled again in the next turn, when the caller knows that it runs.
        let mut turns = 3;
        std::future::poll_fn(|context| {
            turns -= 1;
            context.waker().wake_by_ref();
            if turns == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        self.die(call);
    }

    async fn hang(&self, context: &Context, call: u64) {
        Noting::note(self, &call.to_string());
        context.cancelled().await;
        Noting::note(self, &format!("cancelled {call}"));
    }

    fn leave(&self, call: u64) {
        Noting::note(self, &call.to_string());
        self.leaves.set(true);
    }
}

/// The server at this place, in a process of its own.
pub(crate) fn start(place: &str, notes: &Path) -> Receiver {
    Receiver::open("cases::serves", &[(PLACE, place), (NOTES, notes.to_str().expect("text"))])
}

fn builder(name: &str) -> Builder {
    // Nothing is in flight while a task runs: the end of its process is noticed by the keepalive.
    Node::builder(name).patience(Duration::from_secs(1)).keepalive(Duration::from_secs(2))
}

#[test]
#[ignore = "started by the other tests"]
fn serves() {
    let node = builder("beta").open(&env::var(PLACE).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let mut rpc = Rpc::open(&node).unwrap();
    let leaves = std::rc::Rc::default();
    let noting = Noting { notes: env::var(NOTES).unwrap().into(), leaves: std::rc::Rc::clone(&leaves) };
    rpc.serve(WorkServer::new(noting)).unwrap();
    doomed::is_open();
    while !leaves.get() {
        rpc.wait(LONG);
    }
    drop((rpc, node));
    exit(0);
}

/// Starts the server, given the address of the caller's node and the file for the calls.
type Start = Box<dyn Fn(&str, &Path) -> Receiver>;

/// A caller, and its server in another process.
pub(crate) struct Pair {
    rpc: Rpc,
    node: Node,
    beta: Receiver,
    start: Start,
    notes: PathBuf,
    calls: u64,
}

impl Pair {
    /// `here` is the caller's transport.
    pub(crate) fn over(here: &str, start: Start, what: &str) -> Pair {
        let node = builder("alpha").open(here).unwrap_or_else(|error| panic!("{error}"));
        let rpc = Rpc::open(&node).unwrap();
        let notes = env::temp_dir().join(format!("am-rpc-{what}-{}-{}", here.split(':').next().unwrap(), id()));
        _ = fs::remove_file(&notes);
        let beta = start(&node.local_address(), &notes);
        let mut pair = Pair { rpc, node, beta, start, notes, calls: 0 };
        pair.goes_on();
        pair
    }

    fn starts_again(&mut self) {
        self.beta.kill();
        self.beta = (self.start)(&self.node.local_address(), &self.notes);
    }

    fn client(&self, within: Duration) -> WorkClient {
        WorkClient::new(&self.rpc.peer("beta").expect("a name").within(within))
    }

    fn next(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    fn noted(&self, line: &str) -> usize {
        let text = fs::read_to_string(&self.notes).unwrap_or_default();
        text.lines().filter(|noted| *noted == line).count()
    }

    /// The outcome of a call, which agrees with what was noted.
    fn outcome<V, E>(&mut self, number: u64, call: Call<V, E>) -> Result<V, CallError<E>> {
        let outcome = self.rpc.block_on(call);
        let noted = self.noted(&number.to_string());
        let may_have_run = outcome.as_ref().err().is_none_or(CallError::may_have_run);
        assert!(noted <= usize::from(may_have_run), "call {number} ran {noted} times");
        assert!(outcome.is_err() || noted == 1, "call {number} did not run");
        outcome
    }

    fn until(&mut self, what: &str, so: impl Fn(&Pair) -> bool) {
        let start = Instant::now();
        while !so(self) {
            self.rpc.wait(Duration::from_millis(5));
            assert!(start.elapsed() < LONG, "still not: {what}\n{:?}\n{}", self.rpc, self.node.counters());
        }
    }

    /// A call has its value, perhaps after some that a server did not get which is gone.
    fn goes_on(&mut self) {
        let start = Instant::now();
        loop {
            let number = self.next();
            let call = self.client(Duration::from_secs(2)).note(number);
            match self.outcome(number, call) {
                Ok(value) => break assert_eq!(value, number),
                Err(error) => {
                    let (peers, counters) = (self.node.peers(), self.node.counters());
                    assert!(start.elapsed() < LONG, "{error}\n{peers:?}\n{counters}");
                }
            }
        }
    }

    /// A call that runs at the server.
    fn running(&mut self) -> (u64, Call<()>) {
        let number = self.next();
        let call = self.client(LONG).hang(number);
        self.until("it runs", |pair| pair.noted(&number.to_string()) == 1);
        (number, call)
    }

    fn end(mut self) {
        self.until("nothing is left", |pair| pair.rpc.under_way() == 0);
        let text = fs::read_to_string(&self.notes).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        assert!(lines.windows(2).all(|two| two[0] != two[1]), "a call ran twice: {lines:?}");
        fs::remove_file(&self.notes).unwrap();
    }
}

/// The server is stopped, and goes on after the deadlines of its calls.
pub(crate) fn stopped(mut pair: Pair) {
    let (number, runs) = pair.running();
    pair.beta.stop();
    let begin = Instant::now();
    let late = pair.next();
    let client = pair.client(A_WHILE);
    let (inline, waits) = (client.note(late), pair.next());
    let hangs = client.hang(waits);
    assert_eq!(pair.outcome(late, inline), Err(CallError::Deadline));
    assert_eq!(pair.outcome(waits, hangs), Err(CallError::Deadline));
    assert!(begin.elapsed() >= A_WHILE && begin.elapsed() < LONG, "{:?}", begin.elapsed());
    pair.beta.signal(Signal::SIGCONT);
    pair.goes_on();
    // What waited in its frames has run by now, or does not run at all; and it heard that nobody waits.
    pair.until("it is cancelled", |pair| pair.noted(&waits.to_string()) == pair.noted(&format!("cancelled {waits}")));
    drop(runs);
    pair.until("the call that ran before is cancelled", |pair| pair.noted(&format!("cancelled {number}")) == 1);
    pair.end();
}

/// The server is killed by the method itself, before its answer leaves: inline, and as a task.
pub(crate) fn killed_in_a_method(mut pair: Pair) {
    for is_task in [false, true] {
        let (_, runs) = pair.running();
        let (number, client) = (pair.next(), pair.client(LONG));
        let dies = if is_task { client.die_later(number) } else { client.die(number) };
        let outcome = pair.outcome(number, dies);
        assert_eq!(outcome, Err(CallError::Unknown(ReturnReason::Unreachable)));
        assert_eq!(pair.noted(&number.to_string()), 1);
        assert_eq!(pair.rpc.block_on(runs), Err(CallError::Unknown(ReturnReason::Unreachable)));
        pair.starts_again();
        pair.goes_on();
    }
    pair.end();
}

/// The server is killed and started again, while calls run and while calls are sent.
pub(crate) fn started_again(mut pair: Pair) {
    for _ in 0..2 {
        let (_, runs) = pair.running();
        pair.beta.kill();
        let client = pair.client(LONG);
        let sent: Vec<_> = (0..20).map(|_| pair.next()).map(|number| (number, client.note(number))).collect();
        pair.starts_again();
        let outcome = pair.rpc.block_on(runs);
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
        for (number, call) in sent {
            let outcome = pair.outcome(number, call);
            assert!(matches!(outcome, Ok(_) | Err(CallError::Unknown(_) | CallError::Dead(_))), "{outcome:?}");
        }
        pair.goes_on();
    }
    pair.end();
}

/// The server ends in order: what it had is known.
pub(crate) fn leaves(mut pair: Pair) {
    let (_, runs) = pair.running();
    let (number, client) = (pair.next(), pair.client(LONG));
    let left = client.leave(number);
    let outcome = pair.outcome(number, left);
    assert!(matches!(outcome, Ok(()) | Err(CallError::Unknown(ReturnReason::Closed))), "{outcome:?}");
    assert_eq!(pair.rpc.block_on(runs), Err(CallError::Unknown(ReturnReason::Closed)));
    let number = pair.next();
    let after = client.note(number);
    assert!(!pair.outcome(number, after).expect_err("nobody serves").may_have_run());
    pair.starts_again();
    pair.goes_on();
    pair.end();
}
