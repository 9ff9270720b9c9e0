//! One stack's turn: it is opened on both sides, measured, and closed, so that each has the wire alone.

use std::net::{IpAddr, Ipv4Addr};
use std::thread::ScopedJoinHandle;

use am_api::{Builder, Idle, Node};
use am_measure::deploy::{self, ADDRESSES, Sides};
use am_measure::drivers::facility;
use am_measure::{Amount, Cores, DriverOptions, Error, Progress, Side, Watch, pin};
use futures_channel::oneshot;

use crate::near::{Given, NAMES, Near};
use crate::work::{LONG, Stack, Work};
use crate::{am, ours, rivals};

/// What is measured, and where.
pub(crate) struct Order<'a> {
    pub(crate) sides: &'a Sides,
    pub(crate) how: DriverOptions,
    pub(crate) amount: Amount,
    pub(crate) sizes: &'a [usize],
    pub(crate) cores: Cores,
    pub(crate) progress: &'a Progress,
    pub(crate) watch: &'a Watch,
}

/// Measure a stack once. Each turn of a run has another number.
pub(crate) fn take(stack: Stack, nth: usize, order: &Order<'_>) -> Result<Given, Error> {
    let Order { sides, how, amount, sizes, cores, progress, .. } = order;
    let watch = &order.watch.of_another_peer();
    let ((tells, done), (gives, port)) = (oneshot::channel(), oneshot::channel());
    let open = |side: Side| open(sides, side, nth, *how, watch);
    let near = |_: &ScopedJoinHandle<'_, _>| {
        pin(cores.near)?;
        let near = Near { work: Work::all_of(stack, sizes), amount: *amount, progress, watch };
        match stack {
            Stack::Am => am::measure(&open(Side::Near)?, near, tells),
            Stack::Rpc => ours::measure(&open(Side::Near)?, near, tells),
            Stack::Tonic | Stack::Tarpc => rivals::measure(stack, near, port).inspect(|_| drop(tells)),
        }
    };
    let far = || {
        let served = pin(cores.far).and_then(|_| match stack {
            Stack::Am => am::serve(&open(Side::Far)?, done),
            Stack::Rpc => ours::serve(&open(Side::Far)?, done),
            Stack::Tonic | Stack::Tarpc => rivals::serve(stack, ip(sides), gives, done),
        });
        watch.peer_is_gone();
        served
    };
    let (given, served) = sides.both(near, far)?;
    served.map(|()| given)
}

/// A side's node. It takes the longest argument in one message.
fn open(sides: &Sides, side: Side, nth: usize, how: DriverOptions, watch: &Watch) -> Result<Node, Error> {
    let (transport, _) = deploy::open(&sides.on(side, nth), how, watch)?;
    let builder = Node::builder(NAMES[side as usize]).idle(Idle::spinning()).max_message(2 * LONG);
    how.framing.fixed().into_iter().fold(builder, Builder::framing).open_on(transport).map_err(facility)
}

/// Where the servers of tonic and tarpc listen: on the cable, or on the loopback interface.
fn ip(sides: &Sides) -> IpAddr {
    let address = ADDRESSES.1.split('/').next().and_then(|address| address.parse().ok());
    address.filter(|_| sides.have_xdp_programs()).unwrap_or(Ipv4Addr::LOCALHOST.into())
}
