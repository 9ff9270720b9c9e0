//! A process of bare remote procedure calls: it serves them, or calls.

use std::time::Duration;

use am_measure::deploy::Lines;
use am_measure::drivers::facility;
use am_measure::members::{LIMIT, LOOK, Led, Seat, answer, clock, name};
use am_measure::{Check, Error, Watch, changed, pin};
use am_rpc::{Rpc, service};

use crate::protocol::{Answer, Call, Job, Order};
use crate::repeat::repeat;

/// What a write of a kept object is made of.
#[service]
trait Counter {
    fn touch(&self) -> u64;
    fn put(&self, bytes: &[u8]) -> u64;
}

struct Bare;

impl Counter for Bare {
    fn touch(&self) -> u64 {
        0
    }

    fn put(&self, bytes: &[u8]) -> u64 {
        bytes.len() as u64
    }
}

pub(crate) struct Caller<'a> {
    rpc: Rpc,
    counter: Option<CounterClient>,
    orders: Lines<Order>,
    watch: &'a Watch,
}

impl Led<Order> for Caller<'_> {
    fn orders(&self) -> &Lines<Order> {
        &self.orders
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.rpc.wait(LOOK);
        self.watch.check()
    }
}

impl<'a> Caller<'a> {
    /// Serve, or call this member.
    pub(crate) fn open(
        seat: &Seat,
        to: Option<usize>,
        orders: Lines<Order>,
        watch: &'a Watch,
    ) -> Result<Caller<'a>, Error> {
        pin(seat.core)?;
        let node = seat.node(watch)?;
        let rpc = Rpc::open(&node).map_err(facility)?;
        rpc.serve(CounterServer::new(Bare)).map_err(facility)?;
        let peer = to.map(|to| rpc.peer(&name(to)).map_err(facility)).transpose()?;
        let counter = peer.map(|peer| CounterClient::new(&peer.within(LIMIT)));
        Ok(Caller { rpc, counter, orders, watch })
    }

    pub(crate) fn run(mut self) -> Result<(), Error> {
        if self.counter.is_some() {
            // It is connected by its first call.
            self.call(0)?;
        }
        answer(&Answer::Ready)?;
        while let Some(order) = self.next()? {
            match order {
                Order::Begin(job) => self.measure(job)?,
                other => return Err(Error::Refused(format!("{other:?} out of turn"))),
            }
        }
        Ok(())
    }

    fn measure(&mut self, job: Job) -> Result<(), Error> {
        answer(&Answer::Begun)?;
        let Some(Order::Go) = self.next()? else { return Err(Error::GivenUp) };
        if let Job::Call { call, warm_up, time } = job {
            let (watch, size) = (self.watch, if let Call::Write(size) = call { size } else { 0 });
            let done = repeat(watch, Duration::from_nanos(warm_up), Duration::from_nanos(time), |_| self.call(size))?;
            answer(&Answer::Done(done))?;
        }
        let Some(Order::Finish { .. }) = self.next()? else { return Err(Error::GivenUp) };
        answer(&Answer::Finished { pushed: vec![] })
    }

    /// Returns how long it took, in nanoseconds.
    fn call(&mut self, size: usize) -> Result<u64, Error> {
        let Caller { rpc, counter: Some(counter), .. } = self else { return Err(Error::GivenUp) };
        let bytes = if size > 0 { Check::new(size).bytes } else { vec![] };
        let began = clock();
        let called = if size > 0 { rpc.block_on(counter.put(&bytes)) } else { rpc.block_on(counter.touch()) };
        let took = clock() - began;
        let found = called.map_err(|why| Error::Lost(why.to_string()))?;
        if found == size as u64 { Ok(took) } else { Err(changed()) }
    }
}
