//! A simulated host: a node, a space, and a worker of a program.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use am_api::{Incarnation, Node};
use am_measure::hosts::world::{Nanos, Seat, Simulated};
use am_measure::{Error, drivers::facility};
use am_objects::{Call, CallError, Shared, Space, Wire, object};

use super::Charges;
use crate::programs::{Processor, Program, here, patient};

/// Before the program, so that all connections are open: writes of each worker.
const WARM_UP: u64 = 32;
/// Then writes of the last worker, which are measured.
const PROBES: u64 = 32;

/// Where workers wait for each other.
#[derive(Default, Wire)]
struct Gate {
    arrived: u64,
}

#[object]
impl Gate {
    #[read]
    fn arrived(&self) -> u64 {
        self.arrived
    }

    #[write]
    fn arrive(&mut self) {
        self.arrived += 1;
    }
}

/// A worker's processor, and its time.
#[derive(Clone, Default)]
struct Virtual {
    now: Rc<Cell<Nanos>>,
    /// What a step takes.
    step: Nanos,
    /// What the processor has worked since the turn began.
    owed: Rc<Cell<Nanos>>,
    began: Rc<Cell<Nanos>>,
    /// The median of the probes.
    write: Rc<Cell<Option<Nanos>>>,
}

impl Processor for Virtual {
    /// It computes at once, and the next turn is after the time that it takes.
    async fn compute<R>(&self, what: impl FnOnce() -> R) -> R {
        let result = what();
        self.owed.set(self.owed.get() + self.step);
        let mut is_over = false;
        poll_fn(|_| if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        result
    }
}

type Work<S> = Pin<Box<dyn Future<Output = Result<S, CallError>>>>;

/// The program wants to be polled again at once.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// What a host does.
enum Stage<P: Program> {
    /// It waits for the other hosts, and for the objects.
    Joins,
    Works(Work<P::Solution>),
    Done(P::Solution, Nanos),
}

pub(super) struct Host<P: Program> {
    space: Space,
    program: Rc<P>,
    place: [usize; 2],
    processor: Virtual,
    operation: Nanos,
    /// To count the writes that run here.
    gate: Option<Shared<Gate>>,
    objects: Option<Rc<P::Objects>>,
    written: u64,
    stage: Stage<P>,
    again: Arc<Again>,
}

fn name(at: usize) -> String {
    format!("m{at}")
}

impl<P: Program + 'static> Host<P> {
    /// The first one founds the space, and creates the objects.
    pub(super) fn open(seat: Seat, program: &Rc<P>, hosts: usize, charges: &Charges) -> Result<Host<P>, Error> {
        let builder = Node::builder(&name(seat.at)).clock(seat.clock, Incarnation(seat.at as u64 + 1));
        let builder = builder.framing(am_api::Framing::Split);
        let known = seat.addresses.iter().enumerate().filter(|(at, _)| *at != seat.at);
        let builder = known.fold(builder, |builder, (at, address)| builder.peer(&name(at), *address));
        let node = builder.open_on(seat.transport).map_err(facility)?;
        let contact = name(0);
        let contact = Some(&*contact).filter(|_| seat.at > 0);
        let space = patient::<P>(Space::builder(&node).object::<Gate>());
        let mut space = space.simulated(P::NAME, seat.at as u64 + 1, contact).map_err(facility)?;
        if seat.at == 0 {
            space.create("gate", &Gate::default()).map_err(facility)?;
            program.create(&mut space, hosts).map_err(facility)?;
        }
        Ok(Host {
            space,
            program: program.clone(),
            place: [seat.at, hosts],
            processor: Virtual { step: charges.steps[seat.at], ..Virtual::default() },
            operation: charges.operation,
            gate: None,
            objects: None,
            written: 0,
            stage: Stage::Joins,
            again: Arc::default(),
        })
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(..))
    }

    /// Begin, if all hosts and the objects are there.
    fn begin(&mut self) -> Result<(), CallError> {
        let [number, hosts] = self.place;
        if self.space.view().members.len() < hosts || !self.space.is_primary() {
            return Ok(());
        }
        let (gate, objects) = (self.space.open("gate").transpose()?, self.program.open(&self.space, hosts)?);
        let Some((gate, objects)) = gate.zip(objects) else { return Ok(()) };
        let (objects, processor, program) = (Rc::new(objects), self.processor.clone(), self.program.clone());
        (self.gate, self.objects) = (Some(gate.clone()), Some(objects.clone()));
        self.stage = Stage::Works(Box::pin(async move {
            warm_up(&gate, number, hosts, &processor).await?;
            processor.began.set(processor.now.get());
            program.work(&objects, number, hosts, &processor).await
        }));
        Ok(())
    }

    /// Writes that have run here since the last call.
    fn new_writes(&mut self) -> Result<u64, CallError> {
        let (Some(gate), Some(objects)) = (&self.gate, &self.objects) else { return Ok(0) };
        let written = here(gate.read().arrived())? + P::written(objects)?;
        Ok(written - std::mem::replace(&mut self.written, written))
    }
}

/// All write, and wait for each other. Then one writes alone, while the others wait.
async fn warm_up(gate: &Shared<Gate>, number: usize, hosts: usize, processor: &Virtual) -> Result<(), CallError> {
    let all = WARM_UP * hosts as u64;
    for _ in 0..WARM_UP {
        gate.write().arrive().await?;
    }
    passed(gate, all).await?;
    if number == hosts - 1 {
        let mut times = vec![];
        for _ in 0..PROBES {
            let began = processor.now.get();
            let write: Call<()> = gate.write().arrive();
            write.await?;
            times.push(processor.now.get() - began);
        }
        times.sort_unstable();
        processor.write.set(times.get(times.len() / 2).copied());
    }
    passed(gate, all + PROBES).await
}

async fn passed(gate: &Shared<Gate>, count: u64) -> Result<(), CallError> {
    poll_fn(|_| {
        let arrived = here(gate.read().arrived());
        match arrived {
            Ok(arrived) if arrived < count => Poll::Pending,
            result => Poll::Ready(result.map(drop)),
        }
    })
    .await
}

impl<P: Program + 'static> Simulated for Host<P> {
    fn turn(&mut self, now: Nanos) -> Result<bool, Error> {
        self.processor.now.set(now);
        match &mut self.stage {
            Stage::Joins => self.begin().map_err(facility)?,
            Stage::Works(work) => {
                let waker = Waker::from(self.again.clone());
                let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(done) = polled {
                    self.stage = Stage::Done(done.map_err(facility)?, now);
                }
            }
            Stage::Done(..) => {}
        }
        // A program that computes neither sends nor receives.
        if self.processor.owed.get() > 0 {
            return Ok(true);
        }
        let handled = self.space.poll();
        if let Some(why) = self.space.ended() {
            return Err(Error::Lost(format!("the space has put a host out: {why:?}")));
        }
        let writes = self.new_writes().map_err(facility)?;
        self.processor.owed.set(writes * self.operation);
        Ok(handled > 0 || self.again.0.swap(false, Relaxed))
    }

    fn computed(&mut self) -> Nanos {
        self.processor.owed.take()
    }
}

/// What all hosts have found, and when.
pub(super) struct Seen<S> {
    pub(super) solutions: Vec<S>,
    began: Nanos,
    ended: Nanos,
    /// A write of one worker while the others wait.
    pub(super) write: Option<Nanos>,
}

impl<S> Seen<S> {
    pub(super) fn of<'a, P: Program<Solution = S> + 'static>(hosts: impl Iterator<Item = &'a mut Host<P>>) -> Seen<S> {
        let mut seen = Seen { solutions: vec![], began: Nanos::MAX, ended: 0, write: None };
        for host in hosts {
            if let Stage::Done(solution, ended) = std::mem::replace(&mut host.stage, Stage::Joins) {
                seen.solutions.push(solution);
                seen.ended = seen.ended.max(ended);
            }
            seen.began = seen.began.min(host.processor.began.get());
            // Of one host alone it is no message.
            seen.write = seen.write.or(host.processor.write.get().filter(|_| host.place[1] > 1));
        }
        seen
    }

    /// From when the first one began until the last one was done.
    pub(super) fn time(&self) -> Nanos {
        (self.ended - self.began).max(1)
    }
}
