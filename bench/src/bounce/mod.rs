//! The round trip of a rejected request. A receiver without room rejects it: by its XDP program before the host sees
//! the request, or by the host.
//!
//! ```text
//!   near                                   far: full, takes no request out
//!    │ request ───────────────────────────▶│ program: turned round in the receive path   ┐ one
//!    │◀──────────────────────────── reject │ host: a frame received, looked at, answered ┘ of them
//!    ╎ a pause, then the same request again
//! ```
//!
//! The receiver is an ordinary node. To measure `host`, the seam keeps the reject templates from its XDP program; a
//! transport without an XDP program has `host` alone. The sender's node repeats a rejected request by itself, after a
//! growing pause. Each repetition is one round trip. The seam between node and transport times it, from before the
//! frame is handed over until the node has received the reject.
//!
//! Read first: `near.rs`.

mod near;
mod report;
mod seam;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};

use std::time::{Duration, Instant};

use am_api::{Framing, Node};

pub(crate) use report::Bounced;

use crate::cores::{Cores, pin};
use crate::deploy::sides::{self, Losses, Sides};
use crate::driver::Driver;
use crate::driver::am::facility;
use crate::error::Error;
use crate::measure::latency::RoundTrips;
use crate::plan::{Amount, DriverOptions, Side};
use crate::watch::Watch;
use seam::{Seam, Seen};

const ENDPOINT: &str = "full";
/// A receiver with so few frames is full at once.
const RECEIVE_FRAMES: usize = 16;
/// How long the near side waits for the far side to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Which part of the receiver rejects requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The receiver's XDP program.
    Program,
    /// Its host.
    Host,
}

impl By {
    /// Both, in the order in which they are reported.
    pub(crate) const ALL: [By; 2] = [By::Program, By::Host];

    /// Those available between two sides.
    fn between(sides: &Sides) -> &'static [By] {
        if sides.have_programs() { &By::ALL } else { &By::ALL[1..] }
    }

    /// The name in the table and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            By::Program => "program",
            By::Host => "host",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) how: DriverOptions,
    /// Bytes of a request.
    pub(crate) size: usize,
    pub(crate) cores: Cores,
}

/// The result of one turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) round: usize,
    pub(crate) by: By,
    pub(crate) mode: String,
    pub(crate) xdp: Option<&'static str>,
    pub(crate) round_trips: RoundTrips,
}

/// Measure both in turn, between the same sides.
///
/// # Errors
/// What is missing, or the reason for an early end.
pub(crate) fn measure(sides: &Sides, plan: Plan, amount: &Amount, watch: &Watch) -> Result<Bounced, Error> {
    let most = (sides.mtu as usize).saturating_sub(framing(&plan).cost());
    if plan.size > most {
        return Err(Error::TooLarge { driver: Driver::Am, size: plan.size, most });
    }
    let (all, mut turns) = (By::between(sides), Vec::new());
    for round in 0..amount.rounds {
        let first = round % all.len();
        for by in all[first..].iter().chain(&all[..first]).copied() {
            let on = [Side::Near, Side::Far].map(|side| sides.on(side, turns.len()));
            turns.push(turn(sides, &on, (round, by), plan, amount, watch)?);
        }
    }
    Ok(Bounced { turns, rounds: amount.rounds, plan })
}

/// How a turn ends: the near side asks the far side to close, and stays until it has. With some devices the side that
/// still moves frames must not close last.
#[derive(Debug, Default)]
struct Shutdown {
    requested: AtomicBool,
    is_closed: AtomicBool,
}

/// Asks the far side to close when it is dropped, and waits for it.
struct CloseOnDrop<'a>(&'a Shutdown);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.requested.store(true, Relaxed);
        let begin = Instant::now();
        while !self.0.is_closed.load(Relaxed) && begin.elapsed() < CLOSE_TIMEOUT {
            sleep(Duration::from_millis(1));
        }
    }
}

fn turn(
    sides: &Sides,
    [near_on, far_on]: &[String; 2],
    (round, by): (usize, By),
    plan: Plan,
    amount: &Amount,
    watch: &Watch,
) -> Result<Turn, Error> {
    let shutdown = Shutdown::default();
    let run_far = || {
        let end = serve(by, (far_on, plan), &shutdown.requested, watch);
        shutdown.is_closed.store(true, Relaxed);
        end
    };
    let turn = thread::scope(|scope| {
        let far = scope.spawn(|| sides.at(Side::Far, run_far));
        let near = sides.at(Side::Near, || near::measure((round, by), (near_on, plan), amount, &shutdown, watch));
        shutdown.requested.store(true, Relaxed);
        let far = far.join().unwrap_or_else(|_| Ok(Err(Error::PeerGone("its thread panicked".to_owned()))));
        (near, far)
    });
    match turn {
        (near, Ok(Ok(by_program))) => {
            let turn = near??;
            check(by, by_program).map(|()| turn)
        }
        // The far side's error explains why nothing came back.
        (_, Ok(Err(why)) | Err(why)) => Err(why),
    }
}

fn framing(plan: &Plan) -> Framing {
    plan.how.framing.fixed().unwrap_or(Framing::Bare)
}

/// Make sure that the expected part rejected the requests.
fn check(by: By, by_program: u64) -> Result<(), Error> {
    if (by == By::Program) == (by_program > 0) {
        return Ok(());
    }
    Err(Error::Facility(format!("the XDP program rejected {by_program} requests in a turn of the {}", by.name())))
}

/// Open a node with a seam between it and its transport.
fn open(
    name: &str,
    on: &str,
    (plan, room): (Plan, Option<usize>),
    without_program: bool,
    watch: &Watch,
) -> Result<Open, Error> {
    let (transport, xdp) = sides::open(on, plan.how, Losses::default(), watch)?;
    let mode = transport.caps().mode.clone();
    let seam = Seam::new(transport, without_program);
    let seen = seam.seen();
    let builder = Node::builder(name).framing(framing(&plan)).idle(am_api::Idle::spinning());
    let builder = if let Some(frames) = room { builder.receive_frames(frames) } else { builder };
    let node = builder.open_on(Box::new(seam)).map_err(facility)?;
    Ok(Open { node, seen, mode, xdp })
}

/// An open side.
struct Open {
    node: Node,
    seen: Rc<Seen>,
    mode: String,
    xdp: Option<&'static str>,
}

/// Run the node's loop and take no request out, until told to stop. Returns how many requests the XDP program rejected.
fn serve(by: By, (on, plan): (&str, Plan), stop: &AtomicBool, watch: &Watch) -> Result<u64, Error> {
    pin(plan.cores.far)?;
    let Open { node, .. } = open("beta", on, (plan, Some(RECEIVE_FRAMES)), by == By::Host, watch)?;
    // Requests stay in this endpoint. The loop polls another.
    let _full = node.endpoint::<()>(ENDPOINT).map_err(facility)?;
    let mut turns = node.endpoint::<()>("turns").map_err(facility)?;
    while !stop.load(Relaxed) {
        for _ in 0..1024 {
            turns.poll(&mut ());
        }
        watch.check()?;
    }
    Ok(node.counters().get("xdp_bounced"))
}
