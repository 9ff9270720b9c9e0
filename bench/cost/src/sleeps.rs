//! The measured program of the system calls: two nodes on a thread each, which sleep until the other one's message is there.
//!
//! ```text
//!   alpha   ┌request, sleeps ················· wakes┐ looks  ┌request, sleeps ··
//!   beta    ···sleeps ······· wakes┐ looks ┌reply, sleeps ·················
//! ```
//!
//! Each side sends only when the others sleep in the kernel (`looks`): a sender wakes only a receiver that sleeps. The calls from ┌ to ┐
//! count, and both are calls of `getppid`, which nothing else makes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::parent_id;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use am_api::{Clock, Endpoint, Framing, HandlerId, Idle, Incarnation, ManualClock, Node, Request};
use am_daemon::{Daemon, DaemonOptions};
use nix::libc;

use crate::Error;
use crate::over::{FRAMES, socket};
use crate::trips::PAYLOAD;

/// Round trips.
pub(crate) const TRIPS: usize = 200;

/// What the nodes are connected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Via {
    Shm,
    Udp,
    Tcp,
    /// Two programs of one daemon. Its own calls depend on when it looks at its clock, and do not count.
    Amd,
}

impl Via {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn transport(self) -> String {
        let process = std::process::id();
        match self {
            Via::Shm => format!("shm:am-cost-{process},frame=1514,frames={FRAMES}"),
            Via::Udp => format!("udp:127.0.0.1:0,frame=1514,frames={FRAMES}"),
            Via::Tcp => format!("tcp:127.0.0.1:0,frame=1514,frames={FRAMES}"),
            Via::Amd => format!("amd:{},frame=1514,frames={FRAMES}", socket(0).display()),
        }
    }
}

const ECHO: HandlerId = HandlerId(0);
const LAST: HandlerId = HandlerId(1);

/// While the connection is made, the clocks go on by as much as a thread rests. Later they stand still, so no timer ends a sleep.
const TICK: Duration = Duration::from_micros(100);
/// Longer than the longest sleep: acknowledgements leave with the next message, as between peers that answer at once.
const ACK_DELAY: Duration = Duration::from_secs(1);
/// Turns after the connection is open. Then nothing is left to do.
const SETTLING_TURNS: usize = 500;
/// The time between two looks at a thread, and how often it must be found asleep in a row.
const LOOK: Duration = Duration::from_micros(20);
const LOOKS: usize = 3;
/// Longer than all trips.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The calls in which a thread sleeps until it is woken.
const SLEEPS: [libc::c_long; 5] =
    [libc::SYS_poll, libc::SYS_ppoll, libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];

/// What is known of a thread from outside: the system call that it is in.
struct Thread(File);

impl Thread {
    fn this() -> io::Result<Thread> {
        File::open("/proc/thread-self/syscall").map(Thread)
    }

    fn is_asleep(&self) -> bool {
        let mut text = [0; 8];
        let length = self.0.read_at(&mut text, 0).unwrap_or(0);
        let number = text[..length].split(|byte| *byte == b' ').next();
        let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        number.is_some_and(|number| SLEEPS.contains(&number))
    }
}

fn wait_until_asleep(threads: &[Thread]) {
    let mut found = 0;
    while found < LOOKS {
        found = if threads.iter().all(Thread::is_asleep) { found + 1 } else { 0 };
        thread::sleep(LOOK);
    }
}

/// From now on this thread's calls count, or they do not any more.
fn mark() {
    _ = parent_id();
}

#[derive(Default)]
struct State {
    /// Messages that were handled.
    handled: usize,
    is_over: bool,
    others: Vec<Thread>,
}

struct Side {
    node: Node,
    endpoint: Endpoint<State>,
    state: State,
    hand: ManualClock,
}

impl Side {
    fn open(name: &str, via: Via) -> Result<Side, Error> {
        let (clock, hand) = Clock::manual();
        let builder = Node::builder(name).framing(Framing::Split).clock(clock, Incarnation(1));
        let node = builder.idle(Idle::sleeping()).ack_delay(ACK_DELAY).open(&via.transport())?;
        let mut endpoint = node.endpoint::<State>("main")?;
        endpoint.on_request(ECHO, |state, Request { message, token }| {
            mark();
            wait_until_asleep(&state.others);
            mark();
            _ = token.reply(ECHO, &[], message.payload());
        });
        endpoint.on_request(LAST, |state, _| state.is_over = true);
        endpoint.on_reply(ECHO, |state, _| state.handled += 1);
        Ok(Side { node, endpoint, state: State::default(), hand })
    }

    fn turn(&mut self) {
        self.hand.advance(TICK);
        self.endpoint.poll(&mut self.state);
        thread::sleep(TICK);
    }
}

/// What a thread says of itself when it is ready: where to look at it, and its node's address.
type Ready = (Thread, String);

fn serve(via: Via, others: Vec<Thread>, ready: Sender<Ready>, is_connected: &AtomicBool) -> Result<(), Error> {
    let mut beta = Side::open("beta", via)?;
    ready.send((Thread::this()?, beta.node.local_address()))?;
    while !is_connected.load(Relaxed) {
        beta.turn();
    }
    (0..SETTLING_TURNS).for_each(|_| beta.turn());
    beta.state.others = others;
    mark();
    while !beta.state.is_over {
        beta.endpoint.wait(&mut beta.state, FOR_EVER);
    }
    mark();
    Ok(())
}

fn ask(via: Via, others: &[Thread], beta: &str, is_connected: &AtomicBool) -> Result<(), Error> {
    let mut alpha = Side::open("alpha", via)?;
    if matches!(via, Via::Udp | Via::Tcp) {
        alpha.node.add_peer_address(beta)?;
    }
    let to = alpha.endpoint.connect("beta", "main")?;
    while !alpha.endpoint.is_open(to) {
        alpha.turn();
    }
    is_connected.store(true, Relaxed);
    (0..SETTLING_TURNS).for_each(|_| alpha.turn());
    for number in 1..=TRIPS {
        wait_until_asleep(others);
        mark();
        let asked = alpha.endpoint.try_request(to, ECHO, &[], &PAYLOAD);
        while alpha.state.handled < number && asked.is_ok() {
            alpha.endpoint.wait(&mut alpha.state, FOR_EVER);
        }
        mark();
        asked?;
    }
    wait_until_asleep(others);
    alpha.endpoint.try_request(to, LAST, &[], &[])?;
    alpha.endpoint.flush();
    Ok(())
}

fn forward(ready: Sender<Ready>, is_over: &AtomicBool) -> Result<(), Error> {
    let mut daemon = Daemon::open(DaemonOptions::new(socket(0)))?;
    ready.send((Thread::this()?, String::new()))?;
    drop(ready);
    daemon.run(is_over);
    Ok(())
}

/// Alpha is on the first thread of the process: its marks begin and end a trip.
pub(crate) fn run(via: Via) -> Result<(), Error> {
    let (is_connected, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (is_connected, is_over) = (&is_connected, &is_over);
    thread::scope(|scope| {
        let said = |result: Result<(), Error>| result.map_err(|error| error.to_string());
        let (ready, others) = channel();
        let (mut alphas, mut betas) = (vec![], vec![Thread::this()?]);
        if via == Via::Amd {
            let ready = ready.clone();
            scope.spawn(move || said(forward(ready, is_over)));
            let Thread(daemon) = others.recv()?.0;
            betas.push(Thread(daemon.try_clone()?));
            alphas.push(Thread(daemon));
        }
        let beta = scope.spawn(move || said(serve(via, betas, ready, is_connected)));
        let Ok((thread, address)) = others.recv() else {
            is_over.store(true, Relaxed);
            return beta.join().map_err(|_| "beta panicked")?.map_err(Error::from);
        };
        alphas.push(thread);
        if let Err(error) = ask(via, &alphas, &address, is_connected) {
            // Beta would wait for ever.
            eprintln!("cost: {error}");
            std::process::exit(2);
        }
        let served = beta.join().map_err(|_| "beta panicked")?;
        is_over.store(true, Relaxed);
        served.map_err(Error::from)
    })
}
