//! The second process, which calls the computing program now and then.
//!
//! ```text
//!   am-bench busy                   am-bench caller
//!     │ how to open ───────────────▶│ connects, calls once
//!     │◀────────────────────── ready│
//!     │ call for so long ──────────▶│ sleeps, calls, sleeps, calls
//!     │◀──── how long each call took│
//! ```

use std::env::current_exe;
use std::io::stdout;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use am_api::Idle;
use am_measure::deploy::{self, Group, Lines, write_line};
use am_measure::drivers::{facility, node};
use am_measure::{DriverOptions, Error, Watch, pin};
use am_rpc::{Rpc, service};
use serde::{Deserialize, Serialize};

/// The node of the computing program, and that of the caller.
pub(super) const NAMES: [&str; 2] = ["alpha", "beta"];

/// What is called.
#[service]
pub(super) trait Called {
    fn call(&self, number: u64) -> u64;
}

/// Its only implementation.
pub(super) struct Answers;

impl Called for Answers {
    fn call(&self, number: u64) -> u64 {
        number
    }
}

/// How the caller opens its node, and how often it calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) on: String,
    pub(super) how: DriverOptions,
    pub(super) core: Option<usize>,
    pub(super) every: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Open(Opening),
    Call(Duration),
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Ready,
    /// Nanoseconds of each call.
    Called(Vec<u64>),
}

/// Longer than anything here takes when nothing is wrong.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// What acknowledges the first call.
const REST: Duration = Duration::from_millis(2);

/// The process, as long as this lives.
pub(super) struct Caller {
    orders: std::process::ChildStdin,
    answers: Lines<Answer>,
    _process: Group,
}

impl Caller {
    /// Start it on the host of the calling thread. It is ready once the program has answered a call.
    pub(super) fn start(opening: Opening, watch: &Watch) -> Result<Caller, Error> {
        let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
        command.arg("caller").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Group::start(&mut command, "starting this program again")?;
        let pipes = process.0.stdin.take().zip(process.0.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))?;
        let mut caller = Caller { orders, answers: Lines::read(answers, || {}), _process: process };
        match caller.ask(&Order::Open(opening), 2 * LIMIT, watch)? {
            Answer::Ready => Ok(caller),
            Answer::Called(_) => Err(Error::Refused("it called too early".to_owned())),
        }
    }

    /// Let it call for this time. Returns how long each call took, in nanoseconds.
    pub(super) fn call(&mut self, time: Duration, watch: &Watch) -> Result<Vec<u64>, Error> {
        match self.ask(&Order::Call(time), time + LIMIT, watch)? {
            Answer::Called(samples) => Ok(samples),
            Answer::Ready => Err(Error::Refused("it did not call".to_owned())),
        }
    }

    fn ask(&mut self, order: &Order, patience: Duration, watch: &Watch) -> Result<Answer, Error> {
        write_line(&mut self.orders, order)?;
        let gone = || Error::PeerGone("the caller was killed, or printed its error above".to_owned());
        self.answers.next(patience, watch)?.ok_or_else(gone)
    }
}

/// Be that process, until standard input ends.
pub(crate) fn call(watch: &Watch) -> Result<(), Error> {
    let orders: Lines<Order> = Lines::from_parent(watch);
    let Some(Order::Open(Opening { on, how, core, every })) = orders.next(Duration::MAX, watch)? else { return Ok(()) };
    pin(core)?;
    let (transport, _) = deploy::open(&on, how, watch)?;
    let node = node(yielding(), NAMES[1], how, transport)?;
    let mut rpc = Rpc::open(&node).map_err(facility)?;
    let client = CalledClient::new(&rpc.peer(NAMES[0]).map_err(facility)?.within(LIMIT));
    let start = Instant::now();
    // The program may not be there yet.
    while let Err(why) = rpc.block_on(client.call(0)) {
        watch.check()?;
        if start.elapsed() > LIMIT {
            return Err(Error::Lost(format!("the program answered no call: {why}")));
        }
        rpc.wait(REST);
    }
    rest(&mut rpc, REST);
    write_line(&mut stdout(), &Answer::Ready)?;
    loop {
        match orders.next(Duration::MAX, watch) {
            Ok(Some(Order::Call(time))) => {
                let samples = samples(&mut rpc, &client, (time, every), watch)?;
                write_line(&mut stdout(), &Answer::Called(samples))?;
            }
            // The program has ended, and reports its own reason.
            Ok(_) | Err(Error::PeerGone(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// While it waits for an answer, the caller has its core, unless the helper needs it.
fn yielding() -> Idle {
    Idle::new(Duration::ZERO, Duration::MAX)
}

/// Sleep, and receive what arrives meanwhile.
fn rest(rpc: &mut Rpc, time: Duration) {
    let until = Instant::now() + time;
    rpc.endpoint().set_idle(Idle::sleeping());
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        rpc.wait(left);
    }
    rpc.endpoint().set_idle(yielding());
}

fn samples(
    rpc: &mut Rpc,
    client: &CalledClient,
    (time, every): (Duration, Duration),
    watch: &Watch,
) -> Result<Vec<u64>, Error> {
    let (begin, mut samples, mut next) = (Instant::now(), vec![], Instant::now());
    while begin.elapsed() < time {
        watch.check()?;
        next = (next + every).max(Instant::now());
        rest(rpc, next.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let number = samples.len() as u64;
        match rpc.block_on(client.call(number)) {
            Ok(same) if same == number => samples.push(sent.elapsed().as_nanos() as u64),
            Ok(other) => return Err(Error::Changed(format!("the answer to {number} is {other}"))),
            Err(why) => return Err(Error::Lost(format!("a call had no answer: {why}"))),
        }
    }
    Ok(samples)
}
