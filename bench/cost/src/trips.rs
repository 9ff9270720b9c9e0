//! The measured program: round trips of two nodes on one thread, with a mark where each step begins.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use am_api::{Clock, Connection, Endpoint, Framing, HandlerId, Incarnation, Node, Request, Transport};
use am_daemon::{Daemon, DaemonOptions};
use am_ring::Frame;
use am_sockets::udp;
use am_transport::{Caps, Command, Notice, PeerAddressError, loopback};
use am_wire::Address;

use crate::Error;

/// Trips of one message that are counted; as many go before.
pub(crate) const TRIPS: usize = 100;

/// Trips of [`TOGETHER`] messages, likewise.
pub(crate) const SHARED: usize = 5;

/// As few as will do: their memory is cleared while valgrind tells of each access.
const FRAMES: usize = 1024;

/// Requests that wait for the same doorbell, and so share frames, and so do their replies.
pub(crate) const TOGETHER: u64 = 32;

const ECHO: HandlerId = HandlerId(0);

/// The transports of the two nodes.
type Ends = [Box<dyn Transport>; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    Loopback,
    /// Loopback, to a node with [`IDLE_ENDPOINTS`] idle endpoints besides.
    Endpoints,
    Shm,
    Udp,
    /// Two programs of one daemon.
    Amd,
    /// Two programs, each with a daemon, and a wire in memory between these.
    Amd2,
}

/// Endpoints that send and receive nothing.
pub(crate) const IDLE_ENDPOINTS: usize = 10_000;

impl Over {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The daemons, in the order in which a request passes them, and the two nodes' transports.
    fn open(self) -> Result<(Vec<Daemon>, Ends), Error> {
        let mut daemons = match self {
            Over::Amd => vec![Daemon::open(DaemonOptions::new(socket(0)))?],
            Over::Amd2 => {
                let options = loopback::LoopbackOptions { frames: FRAMES, ..loopback::LoopbackOptions::default() };
                let ends = loopback::wire_with(2, options).into_iter().enumerate();
                let serve = |(number, plug): (usize, loopback::Plug)| {
                    Ok(Daemon::open_on(DaemonOptions::new(socket(number)), marked(plug.open()?))?)
                };
                ends.map(serve).collect::<Result<_, Error>>()?
            }
            _ => vec![],
        };
        let ends = self.open_ends(&mut daemons)?;
        Ok((daemons, ends))
    }

    fn open_ends(self, daemons: &mut [Daemon]) -> Result<Ends, Error> {
        Ok(match self {
            Over::Amd | Over::Amd2 => {
                let last = daemons.len() - 1;
                [marked(attach(daemons, 0)?), marked(attach(daemons, last)?)]
            }
            Over::Loopback | Over::Endpoints => {
                let options = loopback::LoopbackOptions { frames: FRAMES, ..loopback::LoopbackOptions::default() };
                let mut ends = loopback::wire_with(2, options).into_iter().map(|plug| plug.open());
                let mut end = || ends.next().ok_or("a wire has two ends")?.map_err(Error::from);
                [marked(end()?), marked(end()?)]
            }
            Over::Shm => {
                let name = format!("shm:am-cost-{},frame=1514,frames={FRAMES}", std::process::id());
                let open = || am_shm::open(&am_shm::ShmOptions::from_name(&name.parse()?)?).map_err(Error::from);
                [marked(open()?), marked(open()?)]
            }
            Over::Udp => {
                let open = || {
                    udp::open(&am_sockets::SocketOptions::from_name(
                        &format!("udp:127.0.0.1:0,frame=1514,frames={FRAMES}").parse()?,
                    )?)
                    .map_err(Error::from)
                };
                let (mut left, right) = (open()?, open()?);
                left.control(Command::AddPeer(&right.caps().name))?;
                [marked(left), marked(right)]
            }
        })
    }
}

/// The socket of a daemon.
fn socket(number: usize) -> PathBuf {
    std::env::temp_dir().join(format!("am-cost-{}-{number}.sock", std::process::id()))
}

/// Attach to a daemon that this thread turns.
fn attach(daemons: &mut [Daemon], number: usize) -> Result<am_vnic::Vnic, Error> {
    let options =
        am_vnic::VnicOptions { max_frame: Some(1514), frames: FRAMES, ..am_vnic::VnicOptions::new(socket(number)) };
    let attaching = am_vnic::begin(&options)?;
    // It accepts the connection, and then reads from it.
    (0..2).for_each(|_| daemons[number].attend());
    Ok(attaching.finish()?)
}

/// Where a step begins. What is counted until the next mark belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// Between two trips.
    Outside,
    /// The call: admission, slot, header.
    Request,
    /// The doorbell, and what could wait.
    Leave,
    /// Beta's turn: dispatch, handler, reply.
    Serve,
    /// Alpha's turn: dispatch, handler.
    Answer,
    /// A turn of each that finds nothing.
    Idle,
    Send,
    Publish,
    Take,
    /// A frame that arrived, in the core.
    Accept,
    /// The daemons' turns.
    Daemon,
}

/// All steps in their order, and their names in the table.
pub(crate) const STEPS: [(Step, &str); 11] = [
    (Step::Outside, "outside"),
    (Step::Request, "request: call, slot, header"),
    (Step::Leave, "requester's second half"),
    (Step::Serve, "server's turn: dispatch, handler, reply"),
    (Step::Answer, "requester's turn: dispatch, handler"),
    (Step::Idle, "two turns that find nothing"),
    (Step::Send, "transport: send, both"),
    (Step::Publish, "transport: flush, all turns"),
    (Step::Take, "transport: receive, all turns"),
    (Step::Accept, "frame into the core, both"),
    (Step::Daemon, "daemons: a turn of each, both ways"),
];

/// A byte for each step, and the step that is on: one cache line, which is not counted.
#[repr(align(64))]
struct Marks([AtomicU8; 64]);

const NOW: usize = 63;
static MARKS: Marks = Marks([const { AtomicU8::new(0) }; 64]);

/// The step that was on before.
#[inline(always)]
fn enter(step: u8) -> u8 {
    let before = MARKS.0[NOW].load(Relaxed);
    MARKS.0[NOW].store(step, Relaxed);
    MARKS.0[step as usize % NOW].store(1, Relaxed);
    before
}

/// Around a transport: marks what is its own.
struct Marked<T>(T);

fn marked<T: Transport + 'static>(inner: T) -> Box<dyn Transport> {
    Box::new(Marked(inner))
}

impl<T: Transport> Transport for Marked<T> {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let before = enter(Step::Take as u8);
        let count = self.0.receive(budget, &mut |frame| {
            enter(Step::Accept as u8);
            each(frame);
            enter(Step::Take as u8);
        });
        enter(before);
        count
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        let before = enter(Step::Send as u8);
        let sent = self.0.send(to, frame);
        enter(before);
        sent
    }

    fn flush(&mut self) {
        let before = enter(Step::Publish as u8);
        self.0.flush();
        enter(before);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.0.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.0.poll_notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(each);
    }
}

struct Side {
    endpoint: Endpoint<u64>,
    /// Messages that were handled.
    state: u64,
}

impl Side {
    fn open(node: &Node) -> Result<Side, Error> {
        let mut endpoint = node.endpoint("main")?;
        endpoint.on_request(ECHO, |count, Request { message, token }| {
            *count += 1;
            _ = token.reply(ECHO, &[], message.payload());
        });
        endpoint.on_reply(ECHO, |count, _| *count += 1);
        Ok(Side { endpoint, state: 0 })
    }

    fn poll(&mut self) {
        self.endpoint.poll(&mut self.state);
    }

    /// Until so many were handled in all: what came together may take some turns.
    fn poll_until(&mut self, handled: u64) {
        for _ in 0..TOGETHER {
            self.poll();
            if self.state >= handled {
                break;
            }
        }
    }
}

pub(crate) fn run(over: Over) -> Result<(), Error> {
    let (clock, hand) = Clock::manual();
    let (mut daemons, [left, right]) = over.open()?;
    let open = |name: &str, on| {
        let builder = Node::builder(name).framing(Framing::Split).clock(clock.clone(), Incarnation(1));
        builder.open_on(on)
    };
    let (alpha, beta) = (open("alpha", left)?, open("beta", right)?);
    let count = if over == Over::Endpoints { IDLE_ENDPOINTS } else { 0 };
    for number in 0..count {
        // To close them takes longer than all trips under valgrind.
        std::mem::forget(beta.endpoint::<()>(&format!("idle {number}"))?);
    }
    let [mut alpha, mut beta] = [Side::open(&alpha)?, Side::open(&beta)?];
    let tick = || hand.advance(std::time::Duration::from_micros(5));
    let to = alpha.endpoint.connect("beta", "main")?;
    while !alpha.endpoint.is_open(to) {
        tick();
        alpha.poll();
        daemons.iter_mut().for_each(|daemon| _ = daemon.turn());
        beta.poll();
        daemons.iter_mut().rev().for_each(|daemon| _ = daemon.turn());
    }
    // The stack goes down from about here.
    let here = 0u8;
    writeln!(stdout(), "{:x} {:x} {:x}", base()?, MARKS.0.as_ptr().addr(), (&raw const here).addr())?;
    stdout().flush()?;
    for messages in [vec![1; 2 * TRIPS], vec![TOGETHER; 2 * SHARED]].concat() {
        tick();
        trip([&mut alpha, &mut beta], &mut daemons, to, messages)?;
    }
    Ok(())
}

/// A turn of each daemon that a message passes.
fn turn<'a>(daemons: impl ExactSizeIterator<Item = &'a mut Daemon>) {
    if daemons.len() > 0 {
        enter(Step::Daemon as u8);
        daemons.for_each(|daemon| _ = daemon.turn());
    }
}

fn trip([alpha, beta]: [&mut Side; 2], daemons: &mut [Daemon], to: Connection, messages: u64) -> Result<(), Error> {
    let before = (alpha.state, beta.state);
    enter(Step::Request as u8);
    let asked = (0..messages).try_for_each(|_| alpha.endpoint.try_request(to, ECHO, &[], &[7; 16]));
    enter(Step::Leave as u8);
    alpha.endpoint.flush();
    turn(daemons.iter_mut());
    enter(Step::Serve as u8);
    beta.poll_until(before.1 + messages);
    turn(daemons.iter_mut().rev());
    enter(Step::Answer as u8);
    alpha.poll_until(before.0 + messages);
    enter(Step::Idle as u8);
    beta.poll();
    alpha.poll();
    enter(Step::Outside as u8);
    asked?;
    if (alpha.state, beta.state) != (before.0 + messages, before.1 + messages) {
        return Err("not all that was sent was handled".into());
    }
    Ok(())
}

/// Where this program was loaded.
fn base() -> Result<u64, Error> {
    let program = std::env::current_exe()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with(&*program.to_string_lossy()));
    let start = line.and_then(|line| line.split('-').next()).ok_or("this program is not mapped")?;
    Ok(u64::from_str_radix(start, 16)?)
}
