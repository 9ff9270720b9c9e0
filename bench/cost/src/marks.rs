//! Where a step of a trip begins: a byte that is stored there, and so seen in the trace.

use std::io::{Write, stdout};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8};

use am_api::Transport;
use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError};
use am_wire::Address;

use crate::Error;

/// Trips of one message that are counted by step; as many go before.
pub(crate) const TRIPS: usize = 100;
/// Trips of [`TOGETHER`] messages, likewise.
pub(crate) const SHARED: usize = 5;

/// Trips that are counted as a whole, and turns that find nothing.
pub(crate) const CLOSED_TRIPS: usize = 500;
pub(crate) const CLOSED_SHARED: usize = 20;
pub(crate) const IDLE_TRIPS: usize = 250;

/// Requests that wait for the same doorbell, and so share frames, and so do their replies.
pub(crate) const TOGETHER: u64 = 32;

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
    /// Within a trip, but no part of it: not counted.
    Aside,
}

/// All steps in their order, and their names in the table.
pub(crate) const STEPS: [(Step, &str); 12] = [
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
    (Step::Aside, "aside"),
];

/// A byte for each step, and the step that is on: one cache line, which is not counted.
#[repr(align(64))]
struct Marks([AtomicU8; 64]);

const NOW: usize = 63;
static MARKS: Marks = Marks([const { AtomicU8::new(0) }; 64]);

/// The step that was on before.
#[inline(always)]
pub(crate) fn enter(step: u8) -> u8 {
    let before = MARKS.0[NOW].load(Relaxed);
    MARKS.0[NOW].store(step, Relaxed);
    MARKS.0[step as usize % (NOW + 1)].store(1, Relaxed);
    before
}

/// How the trips are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// By step, each trip with idle turns behind it, which do what could wait.
    Steps,
    /// Whole, one directly after the other: nothing of the transports is marked, and what could wait is in the next trip.
    Closed,
}

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

impl Mode {
    /// For all transports that are opened from now on.
    pub(crate) fn begin(self) {
        IS_CLOSED.store(self == Mode::Closed, Relaxed);
    }

    pub(crate) fn now() -> Mode {
        if IS_CLOSED.load(Relaxed) { Mode::Closed } else { Mode::Steps }
    }

    /// Whether each node does a turn at the end of this trip that finds nothing.
    pub(crate) fn has_idle_turns(self, messages: u64) -> bool {
        self == Mode::Steps || messages == 0
    }

    /// How many messages each trip has. The first half of those of a kind warms the caches and is not counted; none are idle turns.
    pub(crate) fn trips(self) -> Vec<u64> {
        match self {
            Mode::Steps => [vec![1; 2 * TRIPS], vec![TOGETHER; 2 * SHARED]].concat(),
            Mode::Closed => {
                [vec![1; 2 * CLOSED_TRIPS], vec![TOGETHER; 2 * CLOSED_SHARED], vec![0; 2 * IDLE_TRIPS]].concat()
            }
        }
    }
}

/// Around a transport: marks what is its own.
struct Marked<T>(T);

pub(crate) fn marked<T: Transport + 'static>(inner: T) -> Box<dyn Transport> {
    match Mode::now() {
        Mode::Steps => Box::new(Marked(inner)),
        Mode::Closed => Box::new(inner),
    }
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

/// Say where program, marks and stack are: the trips begin. The stack goes down from about here.
pub(crate) fn announce() -> Result<(), Error> {
    let here = 0u8;
    writeln!(stdout(), "{:x} {:x} {:x}", base()?, MARKS.0.as_ptr().addr(), (&raw const here).addr())?;
    Ok(stdout().flush()?)
}

/// Where this program was loaded.
fn base() -> Result<u64, Error> {
    let program = std::env::current_exe()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with(&*program.to_string_lossy()));
    let start = line.and_then(|line| line.split('-').next()).ok_or("this program is not mapped")?;
    Ok(u64::from_str_radix(start, 16)?)
}
