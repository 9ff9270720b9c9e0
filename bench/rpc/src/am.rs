//! A bare request and its reply: what a call is made of, without a call.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, Node, NotOpen, Request};
use am_measure::drivers::facility;
use am_measure::{Amount, Check, Driver, Error, SpinWait, Watch, changed};
use futures_channel::oneshot;

use crate::load::{Clocked, Sample};
use crate::near::{Given, NAMES, Near};
use crate::work::Work;

const ENDPOINT: &str = "am-bench";
const DATA: HandlerId = HandlerId(0);

/// The longest wait without a look at reasons to stop.
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(1);
/// The limit until both sides are open. A NIC may take its link down for seconds.
pub(crate) const OPENING: Duration = Duration::from_secs(20);

/// One measurement.
struct Volley {
    clocked: Clocked,
    check: Check,
    /// When the requests began whose replies are not here, in their order.
    begun: VecDeque<Instant>,
    /// When those began that are not sent.
    next: Vec<Instant>,
    is_changed: bool,
}

type State = Option<Volley>;

/// Reply until the near side is done.
pub(crate) fn serve(node: &Node, mut done: oneshot::Receiver<()>) -> Result<(), Error> {
    let mut endpoint: Endpoint<()> = node.endpoint(ENDPOINT).map_err(facility)?;
    endpoint.on_request(DATA, |(), Request { message, token }| {
        // Fails only if the other side is gone, which knows it.
        _ = token.reply(DATA, &[], message.payload());
    });
    loop {
        if endpoint.wait(&mut (), MAX_WAIT) == 0 && done.try_recv() != Ok(None) {
            return Ok(());
        }
    }
}

/// Measure all of the work.
pub(crate) fn measure(node: &Node, near: Near<'_>, done: oneshot::Sender<()>) -> Result<Given, Error> {
    let mut endpoint: Endpoint<State> = node.endpoint(ENDPOINT).map_err(facility)?;
    endpoint.on_reply(DATA, |state, message| {
        let Some(volley) = state else { return };
        volley.is_changed |= !volley.check.is_sent(message.payload());
        let next = volley.begun.pop_front().and_then(|begun| volley.clocked.ended(begun));
        volley.next.extend(next);
    });
    let to = connect(&mut endpoint, near.watch)?;
    let mut given = vec![];
    for work in &near.work {
        near.announce(work);
        given.push((*work, volley(&mut endpoint, to, work, (near.amount, near.watch))?));
        near.progress.done();
    }
    // While this side is still open.
    drop(done);
    Ok(given)
}

/// Connect once the far side is there.
fn connect(endpoint: &mut Endpoint<State>, watch: &Watch) -> Result<Connection, Error> {
    let begin = Instant::now();
    let connect = |endpoint: &Endpoint<State>| endpoint.connect(NAMES[1], ENDPOINT).map_err(facility);
    let mut to = connect(endpoint)?;
    loop {
        match endpoint.ready(to) {
            Ok(()) => return Ok(to),
            Err(NotOpen::Connecting) => {}
            Err(why) if begin.elapsed() > OPENING => return Err(facility(why)),
            Err(_) => {
                endpoint.close(to);
                to = connect(endpoint)?;
            }
        }
        endpoint.wait(&mut None, MAX_WAIT);
        watch.check()?;
    }
}

/// Keep a number of requests under way, until the time is over.
fn volley(
    endpoint: &mut Endpoint<State>,
    to: Connection,
    work: &Work,
    (amount, watch): (Amount, &Watch),
) -> Result<Sample, Error> {
    let mut state = Some(Volley {
        clocked: Clocked::new(amount),
        check: Check::new(work.size),
        begun: VecDeque::new(),
        next: vec![Instant::now(); work.outstanding],
        is_changed: false,
    });
    let mut wait = SpinWait::new(watch, Driver::Am, "waiting for replies", OPENING);
    while let Some(volley) = &mut state
        && !(volley.next.is_empty() && volley.begun.is_empty())
    {
        while let Some(begun) = volley.next.last() {
            match endpoint.try_request(to, DATA, &[], &volley.check.bytes) {
                Ok(()) => volley.begun.push_back(*begun),
                Err(error) if error.is_temporary() => break,
                Err(error) => return Err(Error::Lost(error.to_string())),
            }
            volley.next.pop();
        }
        match endpoint.wait(&mut state, MAX_WAIT) {
            0 => _ = wait.idle()?,
            _ => wait.active()?,
        }
    }
    let Volley { clocked, is_changed, .. } = state.ok_or(Error::GivenUp)?;
    if is_changed { Err(changed()) } else { Ok(clocked.sample()) }
}
