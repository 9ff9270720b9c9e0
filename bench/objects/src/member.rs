//! The process of a member, which does what it is ordered.

use std::hint::black_box;
use std::time::{Duration, Instant};

use am_measure::deploy::Lines;
use am_measure::drivers::facility;
use am_measure::members::{LIMIT, LOOK, Led, answer, clock, name, serve};
use am_measure::{Check, Error, Watch, changed, pin};
use am_objects::{CallError, Placement, Shared, Space};

use crate::caller::Caller;
use crate::protocol::{Answer, Call, Job, Opening, Order, READS};
use crate::redis::Client;
use crate::repeat::{Done, repeat};
use crate::subject::{Subject, SubjectReads, SubjectWrites};

const SPACE: &str = "am-bench";
const OBJECT: &str = "subject";
/// A pop waits for at least so long before its item is pushed, so that what announced it is over.
const PAUSE: Duration = Duration::from_micros(100);

/// Be a member until there are no more orders.
///
/// # Errors
/// An order cannot be read, or an answer cannot be written.
pub fn be(watch: &Watch) -> Result<(), Error> {
    serve(watch, |first, orders| match first {
        Order::Open(opening) => Member::open(&opening, orders, watch).and_then(Member::run),
        Order::Call(seat, to) => Caller::open(&seat, to, orders, watch).and_then(Caller::run),
        Order::Connect(to) => Client::open(&to, orders, watch).and_then(Client::run),
        _ => Err(Error::Refused("a member is not opened".to_owned())),
    })
}

struct Member<'a> {
    space: Space,
    object: Shared<Subject>,
    orders: Lines<Order>,
    watch: &'a Watch,
    job: Job,
    /// When each item was pushed.
    pushed: Vec<u64>,
    /// The items that were asked for before this measurement, and the writes.
    asked_before: u64,
    writes_before: u64,
}

fn lost(why: CallError) -> Error {
    Error::Lost(why.to_string())
}

impl Led<Order> for Member<'_> {
    fn orders(&self) -> &Lines<Order> {
        &self.orders
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.watch.check()?;
        self.space.wait(LOOK);
        if let Some(why) = self.space.ended() {
            return Err(Error::Lost(format!("the space has put this member out: {why:?}")));
        }
        if self.job == Job::Push && self.asked()? > self.pushed.len() as u64 {
            return self.push();
        }
        if self.job == Job::Follow && self.writes()? % 2 != self.writes_before % 2 {
            return self.touch();
        }
        Ok(())
    }
}

impl<'a> Member<'a> {
    fn open(opening: &Opening, orders: Lines<Order>, watch: &'a Watch) -> Result<Member<'a>, Error> {
        let seat = &opening.seat;
        pin(seat.core)?;
        let node = seat.node(watch)?;
        let builder = Space::builder(&node).object::<Subject>().level(opening.level);
        let space = if seat.index == 0 { builder.found(SPACE) } else { builder.join(SPACE, &[name(0)]) };
        let mut space = space.map_err(facility)?;
        let late = |what: &str| Error::Lost(format!("{what} did not come within {} s", LIMIT.as_secs()));
        let is_whole = |space: &Space| space.view().members.len() == seat.members && space.is_primary();
        if !space.wait_until(LIMIT, is_whole) {
            return Err(late("the other members"));
        }
        if seat.index == 0 {
            let home = opening.home.map(name);
            let placement = home.as_deref().map_or(Placement::Replicated, Placement::At);
            space.create_at(OBJECT, &Subject::default(), placement).map_err(lost)?;
        }
        space.wait_until(LIMIT, |space| space.open::<Subject>(OBJECT).is_some());
        let object = space.open(OBJECT).ok_or_else(|| late("the object"))?.map_err(lost)?;
        Ok(Member { space, object, orders, watch, job: Job::Serve, pushed: vec![], asked_before: 0, writes_before: 0 })
    }

    fn run(mut self) -> Result<(), Error> {
        answer(&Answer::Ready)?;
        while let Some(order) = self.next()? {
            match order {
                Order::Begin(job) => self.measure(job)?,
                other => return Err(Error::Refused(format!("{other:?} out of turn"))),
            }
        }
        Ok(())
    }

    /// The items that were asked for in this measurement.
    fn asked(&mut self) -> Result<u64, Error> {
        let object = self.object.clone();
        Ok(self.end_of(object.read().asked())? - self.asked_before)
    }

    /// The writes that have run here, or where the object is kept.
    fn writes(&mut self) -> Result<u64, Error> {
        let object = self.object.clone();
        self.end_of(object.read().writes())
    }

    fn touch(&mut self) -> Result<(), Error> {
        let object = self.object.clone();
        self.end_of(object.write().touch())
    }

    fn push(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        while let Some(left) = PAUSE.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            self.space.wait(left);
        }
        let item = self.pushed.len() as u64;
        self.pushed.push(clock());
        let call = self.object.write().push(item);
        self.end_of(call)
    }

    /// The result of what does not take long when nothing is wrong.
    fn end_of<R>(&mut self, call: impl Future<Output = Result<R, CallError>>) -> Result<R, Error> {
        let late = || Error::Lost(format!("a call had no result within {} s", LIMIT.as_secs()));
        self.space.block_on_for(call, LIMIT).ok_or_else(late)?.map_err(lost)
    }

    fn measure(&mut self, job: Job) -> Result<(), Error> {
        self.asked_before = 0;
        self.asked_before = self.asked()?;
        self.writes_before = self.writes()?;
        self.pushed.clear();
        answer(&Answer::Begun)?;
        let Some(Order::Go) = self.next()? else { return Err(Error::GivenUp) };
        self.job = job;
        if let Job::Call { call, warm_up, time } = job {
            let done = self.call(call, warm_up, time)?;
            answer(&Answer::Done(done))?;
        }
        let Some(Order::Finish { writes, put }) = self.next()? else { return Err(Error::GivenUp) };
        self.job = Job::Serve;
        self.wait_for(writes)?;
        let (found, object) = (self.writes()?, self.object.clone());
        let bytes = self.end_of(object.read().bytes())?;
        if found < writes {
            return Err(Error::Lost(format!("of {writes} writes {found} have run within {} s", LIMIT.as_secs())));
        }
        if found > writes || put.is_some_and(|size| bytes != Check::new(size).bytes) {
            return Err(changed());
        }
        answer(&Answer::Finished { pushed: std::mem::take(&mut self.pushed) })
    }

    /// Until this number of writes has run here.
    fn wait_for(&mut self, writes: u64) -> Result<(), Error> {
        let end = Instant::now() + LIMIT;
        while self.writes()? < writes && Instant::now() < end {
            self.space.wait(LOOK);
        }
        Ok(())
    }

    /// Call until the time is over, once at least.
    fn call(&mut self, call: Call, warm_up: u64, time: u64) -> Result<Done, Error> {
        let bytes = match call {
            Call::Write(size) => Check::new(size).bytes,
            _ => vec![],
        };
        let (watch, writes) = (self.watch, self.writes()?);
        repeat(watch, Duration::from_nanos(warm_up), Duration::from_nanos(time), |done| match call {
            Call::Read => Ok(self.time_reads()),
            Call::Write(_) => self.time_write(&bytes, done),
            Call::Latest => self.time_latest(writes),
            Call::Ask => {
                let began = clock();
                if self.writes()? == writes { Ok(clock() - began) } else { Err(changed()) }
            }
            Call::Pop => self.time_pop(done),
            Call::Turns => self.time_turns(done),
        })
    }

    fn time_reads(&mut self) -> u64 {
        let object = &self.object;
        let began = clock();
        for _ in 0..READS {
            // What is read does not depend on the one before.
            _ = black_box(black_box(object).read().writes().now());
        }
        let took = clock() - began;
        self.space.poll();
        took
    }

    fn time_write(&mut self, bytes: &[u8], done: &mut Done) -> Result<u64, Error> {
        let arguments = bytes.to_vec();
        let object = self.object.clone();
        let began = clock();
        if arguments.is_empty() {
            self.end_of(object.write().touch())?;
        } else {
            self.end_of(object.write().put(arguments))?;
        }
        done.writes += 1;
        Ok(clock() - began)
    }

    fn time_latest(&mut self, writes: u64) -> Result<u64, Error> {
        let object = self.object.clone();
        let began = clock();
        let found = self.end_of(async { object.read_latest().await?.writes().await })?;
        let took = clock() - began;
        if found == writes { Ok(took) } else { Err(changed()) }
    }

    /// Half of the time until the write of another has followed an own one.
    fn time_turns(&mut self, done: &mut Done) -> Result<u64, Error> {
        let began = clock();
        self.touch()?;
        done.writes += 2;
        let both = self.writes_before + done.writes;
        self.wait_for(both)?;
        let took = (clock() - began) / 2;
        if self.writes()? == both { Ok(took) } else { Err(changed()) }
    }

    /// Returns when the item was there.
    fn time_pop(&mut self, done: &mut Done) -> Result<u64, Error> {
        done.is_numbered = true;
        let object = self.object.clone();
        // They run in this order at each member: where the question has run, the pop waits.
        let (pop, ask) = (object.write().pop(), object.write().ask());
        let item = self.end_of(async {
            ask.await?;
            pop.await
        })?;
        let popped = clock();
        // The pop, what asked for it, and the push.
        if item != done.writes / 3 {
            return Err(changed());
        }
        done.writes += 3;
        Ok(popped)
    }
}
