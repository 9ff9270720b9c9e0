//! The near side: every via has its turn, in rounds, at everything asked for.

use std::time::{Duration, Instant};

use am_wire::Framing;

use crate::batching::Batching;
use crate::cores::Cores;
use crate::error::Error;
use crate::limits::most;
use crate::loss::Loss;
use crate::measure::latency::latency;
use crate::measure::throughput::throughput;
use crate::measure::{Patience, Port, Step, end, give_up};
use crate::plan::{Amount, Bench, How, Place, Plan, VERSION};
use crate::progress::Progress;
use crate::size::Size;
use crate::stats::{Measured, Outcome};
use crate::via::Via;
use crate::watch::Watch;

/// The way to the far side, before a via is open.
pub(crate) trait Control {
    /// Ask the far side to follow this plan; returns where it is.
    ///
    /// # Errors
    /// It says no, or nothing.
    fn ask(&mut self, plan: &Plan, watch: &Watch) -> Result<Place, Error>;

    /// Processor time of both sides' processes so far, where that is known.
    fn worked(&self) -> Option<Duration> {
        None
    }
}

/// What opens vias on one side, once it is known where the other side is.
pub(crate) trait Link {
    /// Open this via. Before the next is opened, this one is dropped, so that
    /// each has the wire as it would be alone.
    ///
    /// # Errors
    /// What is missing for it.
    fn open(&mut self, via: Via, peer: &Place, how: How, watch: &Watch) -> Result<Box<dyn Port>, Error>;

    /// How long the far side waits for the near one here.
    fn patience(&self) -> Patience {
        Patience::default()
    }

    /// No frame of this via carries more payload between these places; `None` where that is not known before it is open.
    fn most(&self, via: Via, how: How, near: &Place, far: &Place) -> Option<usize> {
        most(via, how, near, far)
    }

    /// The near side is done with a via: for those whose sides cannot close in any order.
    fn close(&mut self, port: Box<dyn Port>) {
        drop(port);
    }
}

/// A link that knows where its side is.
pub(crate) trait Placed: Link {
    /// Where this side is now: IP addresses come and go, and MTUs change.
    ///
    /// # Errors
    /// The system does not tell, or the interface is gone.
    fn here(&self) -> Result<Place, Error>;
}

/// Everything that a session measures.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// By these.
    pub(crate) vias: Vec<Via>,
    /// Nobody asked for kernel UDP by name.
    pub(crate) without_udp_if_need_be: bool,
    /// These, at these sizes.
    pub(crate) benches: Vec<(Bench, Vec<Size>)>,
    /// With so many frames lost, one after the other.
    pub(crate) losses: Vec<Loss>,
    /// By vias that are opened so.
    pub(crate) how: How,
    /// So much.
    pub(crate) amount: Amount,
}

impl Order {
    fn plan(&self, near: &Place) -> Plan {
        let (vias, rounds) = (self.vias.clone(), self.amount.rounds);
        Plan { version: VERSION, near: near.clone(), how: self.how, vias, rounds }
    }

    /// Whether every size fits its via between these places, as far as that is known before anything is open.
    fn fits(&self, link: &dyn Link, near: &Place, far: &Place, via: Via) -> Result<(), Error> {
        let Some(most) = link.most(via, self.how, near, far) else { return Ok(()) };
        let sizes = self.benches.iter().flat_map(|(_, sizes)| sizes);
        let too_large = sizes.filter_map(|size| match size {
            Size::Bytes(size) if *size > most => Some(*size),
            _ => None,
        });
        too_large.max().map_or(Ok(()), |size| Err(Error::TooLarge { via, size, most }))
    }

    /// What the far side need not be asked for. Kernel UDP may yet be left out.
    fn fits_here(&self, link: &dyn Link, near: &Place) -> Result<(), Error> {
        let sure = self.vias.iter().filter(|via| !(via.is_kernel() && self.without_udp_if_need_be));
        sure.into_iter().try_for_each(|via| self.fits(link, near, near, *via))
    }

    /// What a frame of each via carries, as far as that is known before it is open, so that full ones are equal.
    fn common(&self, link: &dyn Link, near: &Place, far: &Place) -> Option<usize> {
        // A framing that is yet to be found out may cost as much as one does.
        let unknown = if self.how.framing.fixed().is_none() { Framing::Plain.cost() } else { 0 };
        let carries = |via: &Via| {
            let most = link.most(*via, self.how, near, far)?;
            Some(most.saturating_sub(if *via == Via::Am { unknown } else { 0 }))
        };
        // One alone has nothing to be equal to.
        let vias = if self.vias.len() > 1 { &self.vias[..] } else { &[] };
        vias.iter().filter_map(carries).min()
    }

    /// How many measurements that makes.
    pub(crate) fn count(&self) -> usize {
        self.amount.rounds * self.vias.len() * self.steps().count()
    }

    /// With the number of each among those of its bench.
    fn steps(&self) -> impl Iterator<Item = (Bench, usize, Size, Loss)> {
        self.benches.iter().flat_map(|(bench, sizes)| {
            let each = sizes.iter().flat_map(|size| self.losses.iter().map(move |loss| (*size, *loss)));
            each.enumerate().map(|(nth, (size, loss))| (*bench, nth, size, loss))
        })
    }
}

/// What a session brings home.
#[derive(Debug)]
pub(crate) struct Session {
    /// Every measurement.
    pub(crate) all: Vec<Measured>,
    /// Where both sides ran.
    pub(crate) cores: Cores,
    /// Payload bytes of a frame between them, where that is known.
    pub(crate) mtu: Option<u32>,
    /// Whether that is all that was asked for, and if not, why.
    pub(crate) end: Result<(), Error>,
}

impl Session {
    /// What there is; an error that came before there was anything is all there is.
    fn new(all: Vec<Measured>, cores: Cores, mtu: Option<u32>, end: Result<(), Error>) -> Result<Session, Error> {
        match end {
            Err(error) if all.is_empty() => Err(error),
            end => Ok(Session { all, cores, mtu, end }),
        }
    }
}

/// Measure it all.
///
/// # Errors
/// Whatever ended it before anything was measured; afterwards it is the session's `end`.
pub(crate) fn run(
    order: &Order,
    near: &Place,
    control: &mut dyn Control,
    link: &mut dyn Link,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    order.fits_here(link, near)?;
    let plan = order.plan(near);
    let far = control.ask(&plan, watch)?;
    let fits = order.vias.iter().try_for_each(|via| order.fits(link, near, &far, *via));
    let mut fits = Some(fits);
    let mut mtu = near.mtu.map(|mtu| far.carries(mtu)).and_then(|mtu| u32::try_from(mtu).ok());
    let common = order.common(link, near, &far);
    let mut all = Vec::with_capacity(order.count());
    let end = plan.stages().try_for_each(|(round, via)| {
        let mut port = link.open(via, &far, order.how, watch)?;
        mtu = mtu.or(u32::try_from(port.largest()).ok());
        let stage = Stage { via, round, order, common, worked: &|| control.worked(), progress, watch };
        // Only now is there a way to tell the far side that something does not fit.
        let over = fits.take().unwrap_or(Ok(())).and_then(|()| stage.run(port.as_mut(), &mut all));
        let over = over.and_then(|()| end(port.as_mut(), via, Patience::default(), watch));
        let over = over.inspect_err(|why| give_up(port.as_mut(), via, why));
        link.close(port);
        over
    });
    Session::new(all, Cores { near: near.core, far: far.core }, mtu, end)
}

/// Cores that were busy between two looks at the processor time.
fn busy(before: Option<Duration>, after: Option<Duration>, time: Duration) -> Option<f64> {
    let worked = after?.checked_sub(before?)?;
    (!time.is_zero()).then(|| worked.as_secs_f64() / time.as_secs_f64())
}

/// One via's turn.
struct Stage<'a> {
    via: Via,
    round: usize,
    order: &'a Order,
    /// What a full frame carries by all of them.
    common: Option<usize>,
    worked: &'a dyn Fn() -> Option<Duration>,
    progress: &'a Progress,
    watch: &'a Watch,
}

impl Stage<'_> {
    fn run(&self, port: &mut dyn Port, all: &mut Vec<Measured>) -> Result<(), Error> {
        for (number, (bench, nth_size, size, loss)) in self.order.steps().enumerate() {
            self.progress.now(bench, self.via);
            let Amount { time, warm_up, .. } = self.order.amount;
            let size = self.common.filter(|_| size == Size::Full).map_or(size, Size::Common);
            if let Some(cut) = size.cut(self.via, port)?.filter(|_| port.lose(loss)) {
                let step = Step { number: number as u32 + 1, bench, size: cut.piece, loss, warm_up, time };
                let (begin, worked) = (Instant::now(), (self.worked)());
                let outcome = self.step(port, step)?;
                let busy = busy(worked, (self.worked)(), begin.elapsed());
                let (mode, xdp, framing) = (port.mode().to_owned(), port.xdp(), port.framing());
                let (round, via, batching) = (self.round, self.via, Batching::of(port, bench));
                all.push(Measured {
                    round,
                    bench,
                    nth_size,
                    cut,
                    loss,
                    via,
                    mode,
                    xdp,
                    framing,
                    batching,
                    busy,
                    outcome,
                });
            }
            self.progress.done();
        }
        Ok(())
    }

    fn step(&self, port: &mut dyn Port, step: Step) -> Result<Outcome, Error> {
        let patience = Patience::default();
        Ok(match step.bench {
            Bench::Latency | Bench::Volley => Outcome::Latency(latency(port, self.via, step, patience, self.watch)?),
            _ => Outcome::Throughput(throughput(port, self.via, step, patience, self.watch)?),
        })
    }
}
