//! The side that sends, and times.

use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, NotOpen};

use super::seam::Seen;
use super::{Ask, By, ENDPOINT, Ending, Open, Plan, ROOM, Turn, open};
use crate::cores::pin;
use crate::error::Error;
use crate::measure::latency::round_trips;
use crate::plan::Amount;
use crate::via::am::facility;
use crate::watch::Watch;

const WORK: HandlerId = HandlerId(0);
/// Conversations: each sends what was rejected again at its own pace, ever more rarely, so that
/// many are needed for many round trips, and few enough that one at a time is on its way.
const FLOWS: usize = 64;
/// For whatever should happen at once.
const LONG: Duration = Duration::from_secs(5);

/// Fill the receiver, then time what comes back.
pub(super) fn measure(
    (round, by): (usize, By),
    (on, plan): (&str, Plan),
    amount: &Amount,
    ending: &Ending,
    watch: &Watch,
) -> Result<Turn, Error> {
    pin(plan.cores.near)?;
    let Open { node, seen, mode, xdp } = open("alpha", on, (plan, None), false, watch)?;
    let mut endpoint = node.endpoint::<()>("app").map_err(facility)?;
    // Before the node is closed.
    let _asked = Ask(ending);
    let flows = connect(&mut endpoint, watch)?;
    fill(&mut endpoint, &flows, plan.size, (&seen, watch))?;
    let mut turn = Turn { round, by, mode, xdp, round_trips: round_trips() };
    time(&mut endpoint, &seen, amount.warm_up, watch, &mut |_| {})?;
    time(&mut endpoint, &seen, amount.time, watch, &mut |time| {
        turn.round_trips.saturating_record(time.as_nanos() as u64);
    })?;
    Ok(turn)
}

/// All conversations, open.
fn connect(endpoint: &mut Endpoint<()>, watch: &Watch) -> Result<Vec<Connection>, Error> {
    let begin = Instant::now();
    let mut flows = Vec::with_capacity(FLOWS);
    while flows.len() < FLOWS {
        let to = endpoint.connect("beta", ENDPOINT).map_err(facility)?;
        loop {
            match endpoint.ready(to) {
                Ok(()) => break flows.push(to),
                Err(NotOpen::Connecting) => {}
                // It may not be there yet.
                Err(_) => {
                    endpoint.close(to);
                    break;
                }
            }
            endpoint.poll(&mut ());
            check(begin, watch)?;
        }
    }
    Ok(flows)
}

/// One request on each, and then more until one comes back.
fn fill(
    endpoint: &mut Endpoint<()>,
    flows: &[Connection],
    size: usize,
    (seen, watch): (&Seen, &Watch),
) -> Result<(), Error> {
    let (begin, payload) = (Instant::now(), vec![7; size]);
    let mut sent = 0;
    while sent < FLOWS.max(2 * ROOM) {
        let to = flows[sent % FLOWS];
        match endpoint.try_request(to, WORK, &[], &payload) {
            Ok(()) => sent += 1,
            Err(error) if error.is_temporary() => {}
            Err(error) => return Err(Error::Lost(error.to_string())),
        }
        endpoint.poll(&mut ());
        check(begin, watch)?;
    }
    while !seen.any.get() {
        endpoint.poll(&mut ());
        check(begin, watch)?;
    }
    Ok(())
}

/// For so long, every request that leaves alone and comes back; longer, where none has.
fn time(
    endpoint: &mut Endpoint<()>,
    seen: &Seen,
    length: Duration,
    watch: &Watch,
    each: &mut dyn FnMut(Duration),
) -> Result<(), Error> {
    let (begin, mut any) = (Instant::now(), false);
    seen.forget();
    loop {
        endpoint.poll(&mut ());
        if let Some(left) = seen.back.take() {
            each(left.elapsed());
            any = true;
        }
        if begin.elapsed() >= length {
            match any {
                true => return watch.check(),
                false => check(begin, watch)?,
            }
        }
    }
}

fn check(begin: Instant, watch: &Watch) -> Result<(), Error> {
    watch.check()?;
    let why = || Error::Lost("the receiver was not there, or not full, in time".to_owned());
    if begin.elapsed() > LONG { Err(why()) } else { Ok(()) }
}
