//! Return to sender, timed: a request that finds no room comes back, bounced
//! by the XDP program before the host sees it, or by the host.
//!
//! ```text
//!   near                                   far: full, nobody takes anything out
//!    │ request ───────────────────────────▶│ program: turned round in the receive path   ┐ one
//!    │◀──────────────────────────── reject │ host: a frame received, looked at, answered ┘ of them
//!    ╎ a pause, then the same request again
//! ```
//!
//! The receiver is a node as any other; for `host` its transport is not told how
//! requests go back, as one without a program is not. The sender's node sends a
//! rejected request again by itself, each time after a longer pause: every one of
//! these is a round trip, timed at the seam between node and interface, from
//! before the frame is handed over until the node has taken its reject in.
//!
//! Read first: `near.rs`.

mod far;
mod near;
mod report;
mod seam;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use am_api::{Framing, Node};
use hosts::{Host, VethOptions, veth};
use transport::Transport;

pub(crate) use report::Bounced;

use crate::cores::Cores;
use crate::deploy::veth::check_mtu;
use crate::error::Error;
use crate::link::once_free;
use crate::measure::latency::RoundTrips;
use crate::plan::{Amount, How, Via};
use crate::via::am::facility;
use crate::watch::Watch;

const INTERFACE: &str = "am0";
const ENDPOINT: &str = "full";
/// Who has room for so few messages is full at once.
const ROOM: usize = 16;

/// Who returns requests.
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

    /// As in the table and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            By::Program => "program",
            By::Host => "host",
        }
    }
}

/// What is bounced, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) how: How,
    /// Bytes of a request.
    pub(crate) size: usize,
    pub(crate) mtu: u32,
    pub(crate) cores: Cores,
}

/// One turn of one of them.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) round: usize,
    pub(crate) by: By,
    pub(crate) mode: String,
    pub(crate) xdp: &'static str,
    pub(crate) round_trips: RoundTrips,
}

/// Measure both, taken in turn on one cable.
///
/// # Errors
/// What is missing, or what ended it.
pub(crate) fn measure(plan: Plan, amount: &Amount, watch: &Watch) -> Result<Bounced, Error> {
    check_mtu(plan.mtu, &[Via::Am])?;
    let most = (plan.mtu as usize).saturating_sub(framing(&plan).cost());
    if plan.size > most {
        return Err(Error::TooLarge { via: Via::Am, size: plan.size, most });
    }
    let (alpha, beta) = (Host::new("alpha")?, Host::new("beta")?);
    veth(&alpha, INTERFACE, &beta, INTERFACE, &VethOptions { mtu: plan.mtu, ..VethOptions::default() })?;
    let mut turns = Vec::new();
    for round in 0..amount.rounds {
        let first = round % By::ALL.len();
        for by in By::ALL[first..].iter().chain(&By::ALL[..first]).copied() {
            turns.push(turn((&alpha, &beta), (round, by), plan, amount, watch)?);
        }
    }
    Ok(Bounced { turns, rounds: amount.rounds, plan })
}

fn turn(
    (alpha, beta): (&Host, &Host),
    (round, by): (usize, By),
    plan: Plan,
    amount: &Amount,
    watch: &Watch,
) -> Result<Turn, Error> {
    let stop = AtomicBool::new(false);
    let turn = thread::scope(|scope| {
        let far = scope.spawn(|| beta.enter(|| far::serve(by, plan, &stop, watch)));
        let near = alpha.enter(|| near::measure((round, by), plan, amount, watch));
        stop.store(true, Relaxed);
        let far = far.join().unwrap_or_else(|_| Ok(Err(Error::PeerGone("its thread panicked".to_owned()))));
        (near, far)
    });
    match turn {
        (near, Ok(Ok(by_program))) => {
            let turn = near??;
            check(by, by_program).map(|()| turn)
        }
        // What went wrong over there is why nothing came back.
        (_, Ok(Err(why))) => Err(why),
        (_, Err(why)) => Err(why.into()),
    }
}

fn framing(plan: &Plan) -> Framing {
    plan.how.framing.fixed().unwrap_or(Framing::Bare)
}

/// A figure of the one must not be the other's.
fn check(by: By, by_program: u64) -> Result<(), Error> {
    if (by == By::Program) == (by_program > 0) {
        return Ok(());
    }
    Err(Error::Facility(format!("the XDP program returned {by_program} requests where the {} was to", by.name())))
}

/// A node on the interface, over what `over` makes of it; and its mode.
fn open<T: Transport + 'static>(
    name: &str,
    (plan, room): (Plan, Option<usize>),
    watch: &Watch,
    over: impl FnOnce(afxdp::Xdp) -> T,
) -> Result<(Node, String, &'static str), Error> {
    let options = afxdp::Options { attach: plan.how.xdp.attach(), ..afxdp::Options::new(INTERFACE) };
    let transport = once_free(watch, || Ok(afxdp::open(&options)?))?;
    let (mode, xdp) = (transport.mode().to_string(), transport.mode().attach.name());
    let builder = Node::builder(name).framing(framing(&plan)).idle(am_api::Idle::spinning());
    let builder = if let Some(frames) = room { builder.receive_frames(frames) } else { builder };
    Ok((builder.open(Box::new(over(transport))).map_err(facility)?, mode, xdp))
}
