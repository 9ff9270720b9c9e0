//! How soon a thread that sleeps runs again: by a datagram on a kernel socket in which it is blocked, by our messages, by another
//! thread. All ways are taken in turn in one run, each with a thread that sleeps.
//!
//! ```text
//!   this thread: clock ─▶ send ─────▶ a sleeping thread: wakes ─▶ handler: clock
//! ```

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::channel;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use am_api::{Endpoint, Framing, HandlerId, Idle, Node};
use clap::Args;

use am_measure::drivers::facility;
use am_measure::options::{Origin, Print, RoundsOption};
use am_measure::report::{Cell, Column, Report, rounds};
use am_measure::{Cores, Error, Watch, quantile};

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
        self.print.publish(wakeups.report(), &Origin::new("udp, shm", None))
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
    let (socket, shm) = (udp()?, format!("shm:am-bench-wakeup-{}", std::process::id()));
    let to = sleeper(run, scope, |run| {
        let far = udp()?;
        far.set_read_timeout(Some(LOOK)).map_err(Error::system(UDP))?;
        let own = far.local_addr().map_err(Error::system(UDP))?;
        let wait = move || {
            if far.recv(&mut [0; 64]).is_ok() {
                run.mark(0);
            }
        };
        Ok((own, wait))
    })?;
    let parked = sleeper(run, scope, |run| {
        let wait = move || {
            thread::park_timeout(LOOK);
            run.mark_if_signalled(3);
        };
        Ok((thread::current(), wait))
    })?;
    let waker = sleeper(run, scope, |run| {
        let node = node("sleeps", "udp:127.0.0.1:0")?;
        let (waker, mut endpoint) = (node.waker().map_err(Error::system("a waker"))?, endpoint::<()>(&node)?);
        let wait = move || {
            _ = (endpoint.wait(&mut (), LOOK), &node);
            run.mark_if_signalled(4);
        };
        Ok((waker, wait))
    })?;
    Ok([
        // If it is lost, the sample says so.
        Box::new(move || _ = socket.send_to(&[0; 16], to)),
        messages(1, ["udp:127.0.0.1:0", "udp:127.0.0.1:0"], run, scope)?,
        messages(2, [&shm, &shm], run, scope)?,
        Box::new(move || parked.unpark()),
        Box::new(move || waker.wake()),
    ])
}

/// A thread that opens what it waits for, tells what wakes it, and waits again and again until the run is over.
fn sleeper<'scope, T: Send + 'scope, W: FnMut()>(
    run: &Arc<Run>,
    scope: &'scope Scope<'scope, '_>,
    open: impl FnOnce(Arc<Run>) -> Result<(T, W), Error> + Send + 'scope,
) -> Result<T, Error> {
    let ((tells, told), run) = (channel(), run.clone());
    scope.spawn(move || match open(run.clone()) {
        Ok((wakes, mut wait)) => {
            // Without a listener the run is over.
            _ = tells.send(Ok(wakes));
            while !run.is_over.load(SeqCst) {
                wait();
            }
        }
        Err(error) => _ = tells.send(Err(error)),
    });
    told.recv().unwrap_or(Err(Error::GivenUp))
}

const UDP: &str = "a UDP socket";

fn udp() -> Result<UdpSocket, Error> {
    UdpSocket::bind("127.0.0.1:0").map_err(Error::system(UDP))
}

fn node(name: &str, on: &str) -> Result<Node, Error> {
    Node::builder(name).framing(Framing::Plain).idle(Idle::sleeping()).open(on).map_err(facility)
}

fn endpoint<S>(node: &Node) -> Result<Endpoint<S>, Error> {
    node.endpoint("main").map_err(facility)
}

/// A thread in `Endpoint::wait` that a message wakes.
fn messages<'scope>(
    way: usize,
    [near, far]: [&str; 2],
    run: &Arc<Run>,
    scope: &'scope Scope<'scope, '_>,
) -> Result<Wake, Error> {
    let far = far.to_owned();
    let address = sleeper(run, scope, move |run| {
        let node = node("sleeps", &far)?;
        let (address, mut endpoint) = (node.local_address(), endpoint::<()>(&node)?);
        endpoint.on_request(WAKE, move |(), _| run.mark(way));
        Ok((address, move || _ = (endpoint.wait(&mut (), LOOK), &node)))
    })?;
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

const LEGEND: &str = concat!(
    "  From the call that wakes to the first instruction of the program on the other thread, which slept.\n",
    "  Ratios are those of the figures in the table.\n",
);

/// The shares of the samples below the quantiles that are reported.
const QUANTILES: [f64; 2] = [0.5, 0.99];

struct Row {
    way: &'static str,
    /// The way that it is compared with.
    to: Option<&'static str>,
    all: Vec<u64>,
    rounds: usize,
    /// Of each quantile.
    ratios: [Option<f64>; 2],
}

const COLUMNS: &[Column<Row>] = &[
    ("way", "way", |row| Cell::text(row.way)),
    ("", "n", |row| Cell::Count(row.all.len() as u64)),
    ("", "rounds", |row| Cell::Count(row.rounds as u64)),
    (">p50", "wakeup_ns.p50", |row| Cell::of(quantile(&row.all, QUANTILES[0]), Cell::Nanos)),
    (">p99", "wakeup_ns.p99", |row| Cell::of(quantile(&row.all, QUANTILES[1]), Cell::Nanos)),
    (">p50", "ratio.p50", |row| Cell::of(row.ratios[0], Cell::Times)),
    (">p99", "ratio.p99", |row| Cell::of(row.ratios[1], Cell::Times)),
    ("compared", "", |row| Cell::of(row.to, |to| Cell::text(format!("times {to}")))),
    ("", "to", |row| Cell::of(row.to, Cell::text)),
];

impl Wakeups {
    fn all(&self, way: usize) -> Vec<u64> {
        self.samples[way].concat()
    }

    /// The ratio of a way to the one that it is compared with.
    fn ratio(&self, way: usize, share: f64) -> Option<f64> {
        let figure = |way: usize| quantile(&self.all(way), share).map(|nanos| nanos as f64);
        Some(figure(way)? / figure(WAYS[way].1?)?)
    }

    fn rows(&self) -> Vec<Row> {
        let row = |way: usize| Row {
            way: WAYS[way].0,
            to: WAYS[way].1.map(|to| WAYS[to].0),
            all: self.all(way),
            rounds: self.samples[way].len(),
            ratios: QUANTILES.map(|share| self.ratio(way, share)),
        };
        (0..WAYS.len()).map(row).collect()
    }

    fn report(&self) -> Report {
        let mut report = Report::new("wakeup", "wakeup: how soon a thread that sleeps runs again");
        report.rows(COLUMNS, &self.rows());
        report.say(LEGEND);
        let rounds = rounds(self.samples[0].len());
        report.say(format_args!(
            "{rounds} of {SAMPLES} samples each, ways taken in turn; {}",
            Cores { near: None, far: None }.words()
        ));
        report
    }
}
