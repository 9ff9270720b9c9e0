//! One turn over one transport: both sides are opened, and measure.

use std::thread::ScopedJoinHandle;

use am_api::Idle;
use am_dp::Nid;

use super::caches::{Caches, Evictor};
use super::exchange::{Near, Shared, serve};
use super::{Order, Part, calls};
use am_measure::deploy::{self, Sides};
use am_measure::drivers::{self, Vertex};
use am_measure::{Error, Progress, Side, Watch, pin};

/// The names of the nodes.
const NAMES: [&str; 2] = ["alpha", "beta"];

pub(super) fn turn(
    part: &mut Part,
    sides: &Sides,
    (round, order, caches): (usize, &Order, Caches),
    progress: &Progress,
    watch: &Watch,
) -> Result<(), Error> {
    let (shared, evictor) = (&Shared::new(watch), &Evictor::new(caches));
    let open = |side, core| pin(core).and_then(|_| open(sides, side, (round, order), shared, watch));
    let near = |_: &ScopedJoinHandle<'_, _>| {
        // This is the thread of the command if the sides have no hosts of their own.
        let measured = open(Side::Near, order.cores.near).and_then(|mut vertex| {
            let measured = measure(part, Near { vertex: &mut vertex, shared, evictor }, progress);
            // While our side is still open.
            shared.end();
            measured
        });
        shared.end();
        measured
    };
    let far = || {
        let served = open(Side::Far, order.cores.far).and_then(|mut vertex| serve(&mut vertex, shared, evictor));
        shared.end();
        served
    };
    sides.both(near, far).map(drop)
}

/// A side's vertex, connected to the other.
fn open(
    sides: &Sides,
    side: Side,
    (round, order): (usize, &Order),
    shared: &Shared,
    watch: &Watch,
) -> Result<Vertex, Error> {
    let (transport, _) = deploy::open(&sides.on(side, round), order.how, watch)?;
    let node = drivers::node(Idle::spinning(), NAMES[side as usize], order.how, transport)?;
    let mut vertex = Vertex::open(node, side, NAMES)?;
    shared.meet(&mut vertex)?;
    Ok(vertex)
}

fn measure(part: &mut Part, mut near: Near<'_>, progress: &Progress) -> Result<(), Error> {
    if let Some(how) = near.vertex.dp.describe(&near.vertex.point) {
        part.mode = how.mode;
    }
    for messages in &mut part.messages {
        progress.say(&format!("{} B over {}", messages.size, part.transport));
        messages.rounds.push(near.sample(messages.size)?);
        progress.done();
    }
    progress.say(&format!("calls over {}", part.transport));
    calls::round(&mut part.calls, near.vertex, Nid(Side::Near as u32))?;
    progress.done();
    Ok(())
}
