//! How soon a thread that sleeps runs again: by a datagram on a kernel socket in which it is blocked, by our messages, by another
//! thread. All ways are taken in turn in one run, each with a thread that sleeps.
//!
//! ```text
//!   this thread: clock ─▶ send ─────▶ a sleeping thread: wakes ─▶ handler: clock
//! ```

mod report;

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use am_api::{Endpoint, Framing, HandlerId, Idle, Node, NodeWaker};
use clap::Args;

use am_measure::drivers::am::facility;
use am_measure::error::Error;
use am_measure::options::{Print, RoundsOption};
use am_measure::origin::Origin;
use am_measure::watch::Watch;

#[derive(Clone, Debug, Args)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("5").help("How many turns each way to wait takes")))]
pub(crate) struct WakeupArgs {
    #[command(flatten)]
    rounds: RoundsOption,
    #[command(flatten)]
    print: Print,
}

impl WakeupArgs {
    pub(crate) fn run(&self, watch: &Watch) -> Result<(), Error> {
        self.print.check()?;
        let wakeups = measure(self.rounds.rounds, watch)?;
        self.print.publish(wakeups.json(), || wakeups.table(), &Origin::new("udp, shm", None))
    }
}

/// Samples of each way in a round.
const SAMPLES: usize = 100;
/// Before each sample: long enough for the thread to sleep, and for what the last one left to be done.
const PAUSE: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(10);
/// How often a sleeping thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
const WAKE: HandlerId = HandlerId(0);

/// The ways, and the one that each is compared with.
const WAYS: [(&str, Option<usize>); 5] = [
    ("kernel udp, blocked in recv", None),
    ("am over udp, in Endpoint::wait", Some(0)),
    ("am over shm, in Endpoint::wait", Some(0)),
    ("thread::unpark", None),
    ("NodeWaker, in Endpoint::wait", Some(3)),
];

/// What was measured: by way and round, nanoseconds of each sample.
#[derive(Debug)]
struct Wakeups {
    samples: [Vec<Vec<u64>>; WAYS.len()],
}

/// What the two threads of a way share.
#[derive(Default)]
struct Shared {
    /// When the thread ran, in nanoseconds from the begin; 0 while it has not.
    ran: AtomicU64,
    /// Of ways without a message: it was woken on purpose.
    is_signalled: AtomicBool,
}

struct Run {
    begin: Instant,
    shared: [Shared; WAYS.len()],
    is_over: AtomicBool,
}

impl Run {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// The thread of this way runs.
    fn mark(&self, way: usize) {
        self.shared[way].ran.store(self.now(), SeqCst);
    }

    /// It runs, and maybe it was woken.
    fn mark_if_signalled(&self, way: usize) {
        if self.shared[way].is_signalled.swap(false, SeqCst) {
            self.mark(way);
        }
    }

    /// Wake the thread of this way, and wait until it has run. Returns how long that took.
    fn sample(&self, way: usize, wake: &mut dyn FnMut()) -> Result<u64, Error> {
        thread::sleep(PAUSE);
        let shared = &self.shared[way];
        shared.ran.store(0, SeqCst);
        shared.is_signalled.store(true, SeqCst);
        let (start, sent) = (Instant::now(), self.now());
        wake();
        while shared.ran.load(SeqCst) == 0 {
            if start.elapsed() > LIMIT {
                return Err(Error::Lost(format!("{} did not wake within {} s", WAYS[way].0, LIMIT.as_secs())));
            }
            thread::sleep(PAUSE / 10);
        }
        Ok(shared.ran.load(SeqCst).saturating_sub(sent))
    }
}

/// Measure all ways in turn, in so many rounds.
fn measure(rounds: usize, watch: &Watch) -> Result<Wakeups, Error> {
    let shared = Default::default();
    let run = &Arc::new(Run { begin: Instant::now(), shared, is_over: AtomicBool::new(false) });
    thread::scope(|scope| {
        let result = open(run, scope).and_then(|mut ways| {
            let mut samples: [Vec<Vec<u64>>; WAYS.len()] = Default::default();
            for _ in 0..rounds {
                let mut round: [Vec<u64>; WAYS.len()] = Default::default();
                for _ in 0..SAMPLES {
                    watch.check()?;
                    for (way, wake) in ways.iter_mut().enumerate() {
                        round[way].push(run.sample(way, wake)?);
                    }
                }
                samples.iter_mut().zip(round).for_each(|(all, round)| all.push(round));
            }
            Ok(Wakeups { samples })
        });
        run.is_over.store(true, SeqCst);
        result
    })
}

/// What wakes a thread.
type Wake = Box<dyn FnMut()>;

/// The sleeping threads, and what wakes each.
fn open<'scope>(run: &Arc<Run>, scope: &'scope Scope<'scope, '_>) -> Result<[Wake; WAYS.len()], Error> {
    let shm = format!("shm:am-bench-wakeup-{}", std::process::id());
    let parks = run.clone();
    let parked = scope.spawn(move || {
        while !parks.is_over.load(SeqCst) {
            thread::park_timeout(LOOK);
            parks.mark_if_signalled(3);
        }
    });
    let (parked, waker) = (parked.thread().clone(), sleeper(4, run, scope)?);
    Ok([
        kernel_udp(run, scope).map_err(Error::system("a UDP socket"))?,
        messages(1, ["udp:127.0.0.1:0", "udp:127.0.0.1:0"], run, scope)?,
        messages(2, [&shm, &shm], run, scope)?,
        Box::new(move || parked.unpark()),
        Box::new(move || waker.wake()),
    ])
}

fn kernel_udp<'scope>(run: &Arc<Run>, scope: &'scope Scope<'scope, '_>) -> io::Result<Wake> {
    let [near, far] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    far.set_read_timeout(Some(LOOK))?;
    let (to, run) = (far.local_addr()?, run.clone());
    scope.spawn(move || {
        while !run.is_over.load(SeqCst) {
            if far.recv(&mut [0; 64]).is_ok() {
                run.mark(0);
            }
        }
    });
    // If it is lost, the sample says so.
    Ok(Box::new(move || _ = near.send_to(&[0; 16], to)))
}

fn node(name: &str, on: &str) -> Result<Node, Error> {
    Node::builder(name).framing(Framing::Plain).idle(Idle::sleeping()).open(on).map_err(facility)
}

fn endpoint<S>(node: &Node) -> Result<Endpoint<S>, Error> {
    node.endpoint("main").map_err(facility)
}

/// What was opened; an error goes to the thread that waits for it.
fn tell<T, U>(to: &Sender<Result<T, Error>>, opened: Result<U, Error>) -> Option<U> {
    opened.map_err(|error| _ = to.send(Err(error))).ok()
}

/// A thread in `Endpoint::wait` that another one wakes.
fn sleeper<'scope>(way: usize, run: &Arc<Run>, scope: &'scope Scope<'scope, '_>) -> Result<NodeWaker, Error> {
    let ((tells, told), run) = (channel(), run.clone());
    scope.spawn(move || {
        let open = || -> Result<_, Error> {
            let node = node("sleeps", "udp:127.0.0.1:0")?;
            let waker = node.waker().map_err(Error::system("a waker"))?;
            Ok((endpoint::<()>(&node)?, node, waker))
        };
        let Some((mut endpoint, _node, waker)) = tell(&tells, open()) else { return };
        // Where nobody listens any more, the run is over.
        _ = tells.send(Ok(waker));
        while !run.is_over.load(SeqCst) {
            endpoint.wait(&mut (), LOOK);
            run.mark_if_signalled(way);
        }
    });
    told.recv().unwrap_or(Err(Error::GivenUp))
}

/// A thread in `Endpoint::wait` that a message wakes.
fn messages<'scope>(
    way: usize,
    [near, far]: [&str; 2],
    run: &Arc<Run>,
    scope: &'scope Scope<'scope, '_>,
) -> Result<Wake, Error> {
    let ((tells, told), run, far) = (channel(), run.clone(), far.to_owned());
    scope.spawn(move || {
        let open = || -> Result<_, Error> {
            let node = node("sleeps", &far)?;
            Ok((endpoint::<()>(&node)?, node))
        };
        let Some((mut endpoint, node)) = tell(&tells, open()) else { return };
        _ = tells.send(Ok(node.local_address()));
        let marks = run.clone();
        endpoint.on_request(WAKE, move |(), _| marks.mark(way));
        while !run.is_over.load(SeqCst) {
            endpoint.wait(&mut (), LOOK);
        }
    });
    let address = told.recv().unwrap_or(Err(Error::GivenUp))?;
    let node = node("wakes", near)?;
    if address.starts_with("udp:") {
        node.add_peer_address(&address).map_err(facility)?;
    }
    let mut endpoint = endpoint::<()>(&node)?;
    let start = Instant::now();
    let to = loop {
        let to = endpoint.connect("sleeps", "main").map_err(facility)?;
        match endpoint.wait_open(&mut (), to, LIMIT) {
            Ok(()) => break to,
            Err(why) if start.elapsed() > LIMIT => return Err(Error::Facility(format!("{near}: {why}"))),
            Err(_) => endpoint.close(to),
        }
    };
    Ok(Box::new(move || {
        // What the last message left: acknowledgements, timers.
        _ = (endpoint.poll(&mut ()), &node);
        // If it is not sent, the sample says so.
        _ = endpoint.try_request(to, WAKE, &[0, 0], b"");
        endpoint.flush();
    }))
}
