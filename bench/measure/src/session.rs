//! A session: the near side measures everything that was ordered, with each driver in turn, in rounds. The far side
//! follows its plan.

use std::time::{Duration, Instant};

use am_wire::Framing;

use crate::channel::{Channel, ChannelInfo, Step, Timeouts};
use crate::cores::Cores;
use crate::driver::Driver;
use crate::error::Error;
use crate::loops::OpenDriver;
use crate::loss::Loss;
use crate::out::Progress;
use crate::plan::Batching;
use crate::plan::{Amount, Bench, DriverOptions, Plan, SideInfo, VERSION};
use crate::size::{FrameLayout, Size};
use crate::stats::{Measured, Outcome};
use crate::watch::Watch;

/// Carries plans to the far side before a driver is open.
pub(crate) trait PlanChannel {
    /// Ask the far side to carry out this plan. Returns the far side's description.
    fn ask(&mut self, plan: &Plan, watch: &Watch) -> Result<SideInfo, Error>;

    /// The processor time of both sides' processes so far, if it is known.
    fn cpu_time(&self) -> Option<Duration> {
        None
    }
}

pub(crate) type Opened = Result<Box<dyn Channel>, Error>;

/// Opens drivers on one side.
pub(crate) trait Link {
    /// The present description of this side: IP addresses and MTUs change.
    fn here(&self) -> Result<SideInfo, Error>;

    /// Open this driver. The one before is closed by then, so that each has the wire to itself.
    fn open(&mut self, driver: Driver, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Opened;

    /// How long the far side waits for the near side.
    fn timeouts(&self) -> Timeouts {
        Timeouts::default()
    }

    /// The most payload that a frame of this driver carries between these sides; `None` if it is unknown before
    /// the driver is open.
    fn max_payload(&self, driver: Driver, how: DriverOptions, near: &SideInfo, far: &SideInfo) -> Option<usize> {
        max_payload(driver, how, near, far)
    }

    /// Close the near side of a driver. With some transports the order of the sides matters.
    fn close(&mut self, channel: Box<dyn Channel>) {
        drop(channel);
    }
}

/// Everything that a session measures.
#[derive(Clone, Debug)]
pub struct Order {
    /// They take turns.
    pub drivers: Vec<Driver>,
    /// Whether kernel UDP may be left out, because the user did not name it.
    pub may_skip_udp: bool,
    /// Each with its sizes.
    pub benches: Vec<(Bench, Vec<Size>)>,
    /// The shares of frames that are lost on purpose.
    pub losses: Vec<Loss>,
    /// The drivers that hand over one message with each call, and never a batch.
    pub singly: Vec<Driver>,
    /// How drivers are opened.
    pub how: DriverOptions,
    /// How much of each is measured.
    pub amount: Amount,
}

impl Order {
    /// Check that every size fits this driver, as far as that is known before the driver is open.
    fn fits(&self, link: &dyn Link, near: &SideInfo, far: &SideInfo, driver: Driver) -> Result<(), Error> {
        let Some(most) = link.max_payload(driver, self.how, near, far) else { return Ok(()) };
        let sizes = self.benches.iter().flat_map(|(_, sizes)| sizes);
        let too_large = sizes.filter_map(|size| match size {
            Size::Bytes(size) if *size > most => Some(*size),
            _ => None,
        });
        too_large.max().map_or(Ok(()), |size| Err(Error::TooLarge { driver: driver.name(), size, most }))
    }

    /// The payload that one frame of every driver carries, as far as it is known in advance. With it, the full frames of
    /// all drivers carry equal messages.
    fn common(&self, link: &dyn Link, near: &SideInfo, far: &SideInfo) -> Option<usize> {
        // An unknown framing may cost as much as the largest.
        let unknown = if self.how.framing.fixed().is_none() { Framing::Plain.cost() } else { 0 };
        let carries = |driver: &Driver| {
            let most = link.max_payload(*driver, self.how, near, far)?;
            Some(most.saturating_sub(if *driver == Driver::Am { unknown } else { 0 }))
        };
        // One driver needs no equal size.
        let drivers = if self.drivers.len() > 1 { &self.drivers[..] } else { &[] };
        drivers.iter().filter_map(carries).min()
    }

    pub(crate) fn count(&self) -> usize {
        self.amount.rounds * self.drivers.len() * self.steps().count()
    }

    /// The measurements, each with its number within its bench.
    fn steps(&self) -> impl Iterator<Item = (Bench, usize, Size, Loss)> {
        self.benches.iter().flat_map(|(bench, sizes)| {
            let each = sizes.iter().flat_map(|size| self.losses.iter().map(move |loss| (*size, *loss)));
            each.enumerate().map(|(nth, (size, loss))| (*bench, nth, size, loss))
        })
    }
}

/// An order, and the surroundings in which it is carried out.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// What is measured.
    pub order: &'a Order,
    /// The cores of both sides if both are on this machine.
    pub cores: Cores,
    /// Shows how far it is.
    pub progress: &'a Progress,
    /// Says when to stop.
    pub watch: &'a Watch,
}

/// What a session has measured.
#[derive(Debug)]
pub struct Session {
    /// In the order of measurement.
    pub all: Vec<Measured>,
    /// The cores on which both sides ran.
    pub cores: Cores,
    /// The payload of a frame between them, if it is known.
    pub mtu: Option<u32>,
    /// Why it ended early, if it did.
    pub end: Result<(), Error>,
}

/// Measure everything.
///
/// # Errors
/// The reason for an end before the first measurement. A later one is the session's `end`.
pub(crate) fn run(setup: Setup<'_>, control: &mut dyn PlanChannel, link: &mut dyn Link) -> Result<Session, Error> {
    let Setup { order, progress, watch, .. } = setup;
    let near = &link.here()?;
    // Check what needs no far side. Kernel UDP may still be left out.
    let required = order.drivers.iter().filter(|driver| !(driver.is_kernel() && order.may_skip_udp));
    required.into_iter().try_for_each(|driver| order.fits(link, near, near, *driver))?;
    let (drivers, rounds) = (order.drivers.clone(), order.amount.rounds);
    let plan = Plan { version: VERSION, near: near.clone(), how: order.how, drivers, rounds };
    let far = control.ask(&plan, watch)?;
    let mut fits = Some(order.drivers.iter().try_for_each(|driver| order.fits(link, near, &far, *driver)));
    let mut mtu = near.mtu.map(|mtu| far.carries(mtu)).and_then(|mtu| u32::try_from(mtu).ok());
    let common = order.common(link, near, &far);
    let (mut all, mut trace_error) = (Vec::with_capacity(order.count()), None);
    let end = plan.stages().try_for_each(|(round, driver)| {
        let mut channel = link.open(driver, &far, order.how, watch)?;
        mtu = mtu.or(u32::try_from(channel.info().layout.largest).ok());
        let stage = Stage { round, order, common, cpu_time: &|| control.cpu_time(), progress };
        let mut near = OpenDriver { channel: channel.as_mut(), driver, timeouts: Timeouts::default(), watch };
        // Only an open driver can tell the far side that something does not fit.
        let result = fits.take().unwrap_or(Ok(())).and_then(|()| stage.run(&mut near, &mut all));
        let result = result.and_then(|()| near.end()).inspect_err(|why| near.give_up(why));
        let result = result.map_err(|why| why.after(problem(channel.as_ref(), link)));
        trace_error = trace_error.take().or_else(|| channel.trace_error());
        link.close(channel);
        result
    });
    match end {
        Err(error) if all.is_empty() => Err(error),
        end => {
            let end = end.and(trace_error.map_or(Ok(()), Err));
            Ok(Session { all, cores: Cores { near: near.core, far: far.core }, mtu, end })
        }
    }
}

/// The far side: open each driver in turn, and serve it.
pub(crate) fn follow(plan: &Plan, link: &mut dyn Link, watch: &Watch) -> Result<(), Error> {
    for (_, driver) in plan.stages() {
        let mut channel = link.open(driver, &plan.near, plan.how, watch)?;
        let served = OpenDriver { channel: channel.as_mut(), driver, timeouts: link.timeouts(), watch }.serve();
        served.map_err(|why| why.after(problem(channel.as_ref(), link)))?;
    }
    Ok(())
}

/// What keeps this side from the other. The kernel's drivers know nothing of their interface.
fn problem(channel: &dyn Channel, link: &dyn Link) -> Option<String> {
    channel.problem().or_else(|| link.here().err().map(|why| why.to_string()))
}

/// One driver's turn.
struct Stage<'a> {
    round: usize,
    order: &'a Order,
    /// The payload of a full frame of every driver.
    common: Option<usize>,
    cpu_time: &'a dyn Fn() -> Option<Duration>,
    progress: &'a Progress,
}

impl Stage<'_> {
    fn run(&self, near: &mut OpenDriver<'_>, all: &mut Vec<Measured>) -> Result<(), Error> {
        let (round, driver) = (self.round, near.driver);
        let singly = self.order.singly.contains(&driver);
        for (number, (bench, nth_size, size, loss)) in self.order.steps().enumerate() {
            self.progress.say(&format!("{bench} by {driver}"));
            let Amount { time, warm_up, .. } = self.order.amount;
            let size = self.common.filter(|_| size == Size::Full).map_or(size, Size::Common);
            let &ChannelInfo { layout, segment, .. } = near.channel.info();
            if let Some(layout) = size.layout(driver, layout, segment)?.filter(|_| near.channel.lose(loss)) {
                let step = Step { number: number as u32 + 1, bench, size: layout.piece, loss, warm_up, time };
                let (begin, before) = (Instant::now(), (self.cpu_time)());
                let outcome = match bench {
                    Bench::Latency | Bench::Volley => Outcome::Latency(near.latency(step)?),
                    Bench::LogP => Outcome::LogP(near.logp(step)?),
                    _ => Outcome::Throughput(near.throughput(step, singly)?),
                };
                let (took, cpu_time) = (begin.elapsed(), (self.cpu_time)().zip(before));
                let cpu_time = cpu_time.and_then(|(after, before)| after.checked_sub(before));
                let busy =
                    cpu_time.filter(|_| !took.is_zero()).map(|cpu_time| cpu_time.as_secs_f64() / took.as_secs_f64());
                let ChannelInfo { mode, xdp, framing, batching, .. } = near.channel.info().clone();
                let batching = if singly { Batching::Single } else { batching.of(bench) };
                all.push(Measured {
                    round,
                    bench,
                    nth_size,
                    layout,
                    loss,
                    driver,
                    mode,
                    xdp,
                    framing,
                    batching,
                    traced: driver == Driver::Am && self.order.how.trace.is_some(),
                    busy,
                    outcome,
                });
            }
            self.progress.done();
        }
        Ok(())
    }
}

/// The most payload that a frame of this driver carries between these sides; `None` if it is unknown.
pub(crate) fn max_payload(driver: Driver, how: DriverOptions, near: &SideInfo, far: &SideInfo) -> Option<usize> {
    let mtu = far.carries(near.mtu?);
    match driver {
        // An upper limit. The network's own limit, and what `auto` costs, are known once the driver is open.
        Driver::Am => Some(mtu.saturating_sub(how.framing.fixed().map_or(0, Framing::cost))),
        Driver::Raw => Some(mtu),
        Driver::Udp => near.ip_towards(far).map(|(own, _)| FrameLayout::of_datagrams(mtu, own.is_ipv4()).largest),
        // These have their own limits.
        _ => None,
    }
}
