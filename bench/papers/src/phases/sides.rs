//! One turn over one transport: both sides are opened, and measure.

use std::thread;

use am_api::Idle;
use am_dp::Nid;

use am_measure::cores::pin;
use am_measure::deploy::open;
use am_measure::deploy::sides::Sides;
use am_measure::drivers::am;
use am_measure::drivers::dp::Vertex;
use am_measure::error::Error;
use am_measure::plan::Side;
use am_measure::progress::Progress;
use am_measure::watch::Watch;

use super::caches::{Caches, Evictor};
use super::exchange::{Near, Shared, serve};
use super::{Order, Part, calls};

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
    let (near, far) = thread::scope(|scope| {
        let open = |side| open(sides, side, (round, order), shared, watch);
        let far = scope.spawn(move || {
            let served = sides.at(Side::Far, || {
                pin(order.cores.far)?;
                open(Side::Far).and_then(|mut vertex| serve(&mut vertex, shared, evictor))
            });
            shared.end();
            served
        });
        let near = sides.at(Side::Near, || {
            // This is the thread of the command if the sides have no hosts of their own.
            pin(order.cores.near)?;
            let mut vertex = open(Side::Near)?;
            let near = Near { vertex: &mut vertex, shared, evictor };
            let measured = measure(part, near, progress);
            shared.end();
            measured
        });
        shared.end();
        (near, far.join().unwrap_or_else(|_| Ok(Err(Error::PeerGone("its thread panicked".to_owned())))))
    });
    match (near.and_then(|near| near), far.and_then(|far| far)) {
        // The far side's error is the cause.
        (Err(Error::PeerGone(_) | Error::Lost(_)), Err(why)) => Err(why),
        (near, _) => near,
    }
}

/// A side's vertex, connected to the other.
fn open(
    sides: &Sides,
    side: Side,
    (round, order): (usize, &Order),
    shared: &Shared,
    watch: &Watch,
) -> Result<Vertex, Error> {
    let (transport, _) = open::open(&sides.on(side, round), order.how, watch)?;
    let node = am::node(Idle::spinning(), NAMES[side as usize], order.how, transport)?;
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
