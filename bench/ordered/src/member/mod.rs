//! The process of a member, which does what it is ordered.

mod am;
mod ours;
mod raft;
mod seen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_measure::deploy::Lines;
use am_measure::members::{LIMIT, LOOK, Led, answer, clock, serve};
use am_measure::{Check, Error, Watch, pin};

use crate::protocol::{Answer, Job, KEPT, Opening, Order, Sent};
use crate::work::Stack;
use seen::Seen;

/// A member of a group of any kind.
trait Member {
    /// Send a message. Returns whether there was room.
    fn send(&mut self, bytes: &[u8]) -> Result<bool, Error>;

    /// Receive. Wait for so long if there is nothing.
    fn turn(&mut self, longest: Duration) -> Result<(), Error>;

    /// Whether all members are there.
    fn is_whole(&self) -> bool;

    /// Whether it is the sequencer of our group.
    fn leads(&self) -> bool {
        false
    }
}

/// What was delivered so far. Handlers write it, and the loop of a measurement reads it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Seen>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Be a member until there are no more orders.
///
/// # Errors
/// An order cannot be read, or an answer cannot be written.
pub fn be(watch: &Watch) -> Result<(), Error> {
    serve(watch, |first, orders| match first {
        Order::Open(opening) => open(&opening, orders, watch),
        _ => Err(Error::Refused("a member is not opened".to_owned())),
    })
}

fn open(opening: &Opening, orders: Lines<Order>, watch: &Watch) -> Result<(), Error> {
    pin(opening.seat.core)?;
    let seen = Shared::default();
    let member: Box<dyn Member> = match opening.stack {
        Stack::Am => Box::new(am::Pair::open(&opening.seat.node(watch)?, opening, seen.clone())?),
        Stack::Openraft | Stack::Store => Box::new(raft::Node::open(opening, seen.clone())?),
        _ => Box::new(ours::Ours::open(&opening.seat.node(watch)?, opening, seen.clone())?),
    };
    Loop { member, seen, orders, watch }.run()
}

struct Loop<'a> {
    member: Box<dyn Member>,
    seen: Shared,
    orders: Lines<Order>,
    watch: &'a Watch,
}

impl Led<Order> for Loop<'_> {
    fn orders(&self) -> &Lines<Order> {
        &self.orders
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.watch.check()?;
        self.member.turn(LOOK)
    }
}

impl Loop<'_> {
    fn run(mut self) -> Result<(), Error> {
        self.until("the other members", |this| this.member.is_whole())?;
        answer(&Answer::Ready)?;
        while let Some(order) = self.next()? {
            match order {
                Order::Begin(job) => self.measure(job)?,
                Order::Lead => answer(&Answer::Leads(self.member.leads()))?,
                Order::Survive { sends } => return self.survive(sends),
                other => return Err(Error::Refused(format!("{other:?} out of turn"))),
            }
        }
        Ok(())
    }

    /// Go on until it is so.
    fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let begin = Instant::now();
        while !so(self) {
            if begin.elapsed() > LIMIT {
                let count = self.seen.lock().count;
                let waited = LIMIT.as_secs();
                return Err(Error::Lost(format!("{what} did not come within {waited} s, after {count} messages")));
            }
            self.turn()?;
        }
        Ok(())
    }

    fn measure(&mut self, job: Job) -> Result<(), Error> {
        // Long contents take a while to make, so before the start.
        let bytes = Check::new(job.size).bytes;
        *self.seen.lock() = Seen::of(job.size);
        answer(&Answer::Begun)?;
        let Some(Order::Go) = self.next()? else { return Err(Error::GivenUp) };
        let begin = clock() + job.warm_up;
        self.seen.lock().starts(begin - job.warm_up, begin);
        if job.sends() {
            let sent = self.send(job, &bytes, begin)?;
            self.until("own messages", |this| this.seen.lock().own >= sent.sent)?;
            answer(&Answer::Done(sent))?;
        }
        let Some(Order::Finish { total }) = self.next()? else { return Err(Error::GivenUp) };
        self.until("all messages", |this| this.seen.lock().count >= total)?;
        let received = self.seen.lock().received()?;
        answer(&Answer::Finished(received))
    }

    /// Send until the time is over. It counts from `begin` on.
    fn send(&mut self, job: Job, bytes: &[u8], begin: u64) -> Result<Sent, Error> {
        let end = begin.saturating_add(job.time);
        let (mut sent, mut turn, mut early) = (Sent::default(), job.rank as u64, None);
        // On a busy machine the time may be over at once.
        let is_first = job.window > 0 || job.rank == 0;
        loop {
            let now = clock();
            if now >= end && (sent.sent > 0 || !is_first) {
                if sent.times.is_empty() {
                    sent.times.extend(early);
                }
                return Ok(sent);
            }
            let (count, own) = self.seen.lock().counts();
            if job.window > 0 {
                while sent.sent - own < job.window as u64 && self.member.send(bytes)? {
                    sent.sent += 1;
                }
            } else if count == turn && self.member.send(bytes)? {
                sent.sent += 1;
                match now >= begin {
                    true if turn < KEPT as u64 => sent.times.push((turn, now)),
                    _ => early = early.or(Some((turn, now))),
                }
                turn += job.senders as u64;
            }
            self.turn()?;
        }
    }

    /// Go on through the end of another member.
    fn survive(&mut self, sends: bool) -> Result<(), Error> {
        *self.seen.lock() = Seen::of(0);
        answer(&Answer::Begun)?;
        let (mut sent, mut resumes_at) = (0, None);
        loop {
            match self.orders.try_next()? {
                None | Some(Some(Order::Go)) => {}
                Some(Some(Order::Resume { count })) => resumes_at = Some(self.seen.lock().count + count),
                Some(_) => return Ok(()),
            }
            let (count, own) = self.seen.lock().counts();
            if resumes_at.take_if(|at| count >= *at).is_some() {
                let gap = self.seen.lock().gap;
                answer(&Answer::Resumed { gap })?;
            }
            if sends && own == sent && self.member.send(&[])? {
                sent += 1;
            }
            self.turn()?;
        }
    }
}
