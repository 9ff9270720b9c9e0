//! A turn: a space is opened, measured, and ended, or a bare group, so that each has the wire and the cores alone.

use std::time::Duration;

use am_bench_ordered::Setup;
use am_measure::deploy::Group;
use am_measure::members::{Process, Seat, end, member};
use am_measure::{Error, RoundTrips, round_trips};
use am_objects::Level;

use crate::protocol::{Answer, Call, Connecting, Job, Opening, Order};
use crate::redis;
use crate::repeat::Done;
use crate::work::{Row, Turn};

/// The command that makes this program a member.
const MEMBER: &str = "object-member";

/// What one measurement has found, in nanoseconds. Of reads, [`READS`](crate::protocol::READS) together.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Until the caller has the result, or its own message.
    pub(crate) own: RoundTrips,
    /// Of a bare message, until the last member has it.
    pub(crate) last: Option<RoundTrips>,
}

/// What a turn has measured, and why it ended before the rest.
pub(crate) type Given = (Vec<(Row, Sample)>, Result<(), Error>);

/// Take a turn with this number of members.
pub(crate) fn take(setup: &Setup<'_>, turn: Turn, members: usize) -> Given {
    match turn {
        Turn::Bare(stack) => {
            let rows: Vec<Row> = turn.rows().collect();
            let works = rows.iter().filter_map(|row| row.work(members)).collect();
            let (given, end) = setup.take_rows(stack, members, works);
            let samples = given.into_iter().map(|(_, sample)| Sample { own: sample.own, last: Some(sample.last) });
            (rows.into_iter().zip(samples).collect(), end)
        }
        _ => {
            let mut given = vec![];
            let opened = match turn {
                Turn::Space(level) => {
                    Members::open(setup, members, |seat| Order::Open(Opening { seat, level, home: None }))
                }
                // The last one calls the one before it.
                Turn::Kept => Members::open(setup, members, |seat| {
                    Order::Open(Opening { seat, level: Level::Safe, home: Some(members - 2) })
                }),
                Turn::Rpc => Members::open(setup, members, |seat| {
                    let to = (seat.index == members - 1).then_some(members - 2);
                    Order::Call(seat, to)
                }),
                Turn::Redis | Turn::Bare(_) => Members::open_redis(setup, members),
            };
            let result = opened.and_then(|mut space| {
                let result = turn.rows().try_for_each(|row| {
                    setup.progress.say(&format!("{} by {}", row.name(), turn.name()));
                    given.push((row, space.measure(row)?));
                    setup.progress.done();
                    Ok(())
                });
                end(space.all);
                drop(space.servers);
                result
            });
            (given, result)
        }
    }
}

/// The processes of a space, or the client of Redis.
struct Members<'a> {
    setup: &'a Setup<'a>,
    all: Vec<Process<Answer>>,
    servers: Vec<Group>,
    /// The writes of the object so far.
    writes: u64,
}

impl<'a> Members<'a> {
    /// Start all, and wait until they have the object.
    fn open(setup: &'a Setup<'a>, members: usize, order: impl Fn(Seat) -> Order) -> Result<Members<'a>, Error> {
        setup.place.connect(members)?;
        let mut space = Members { setup, all: vec![], servers: vec![], writes: 0 };
        for index in 0..members {
            let seat = setup.place.seat(index, members, members, setup.how);
            let mut command = member(MEMBER)?;
            let mut process = setup.place.at(index, || Process::start(&mut command, index))??;
            process.order(&order(seat))?;
            space.all.push(process);
        }
        space.each(|answer| matches!(answer, Answer::Ready).then_some(()))?;
        Ok(space)
    }

    /// Start a server on each host, and a client on the last one, and wait until the replicas follow.
    fn open_redis(setup: &'a Setup<'a>, members: usize) -> Result<Members<'a>, Error> {
        setup.place.connect(members)?;
        let mut redis = Members { setup, all: vec![], servers: vec![], writes: 0 };
        for index in 0..members {
            redis.servers.push(redis::start(setup, index)?);
        }
        let last = members - 1;
        let mut command = member(MEMBER)?;
        let mut client = setup.place.at(last, || Process::start(&mut command, last))??;
        client.order(&Order::Connect(Connecting { servers: redis::addresses(setup, members) }))?;
        redis.all.push(client);
        redis.each(|answer| matches!(answer, Answer::Ready).then_some(()))?;
        Ok(redis)
    }

    /// The answers of all members.
    fn each<T>(&self, what: fn(Answer) -> Option<T>) -> Result<Vec<T>, Error> {
        self.all.iter().map(|process| process.expect(what, self.setup.watch)).collect()
    }

    fn order(&mut self, order: &Order) -> Result<(), Error> {
        self.all.iter_mut().try_for_each(|process| process.order(order))
    }

    fn measure(&mut self, row: Row) -> Result<Sample, Error> {
        let call = match row {
            Row::Write(_, size) | Row::Call(size) | Row::Kept(size) => Call::Write(size),
            Row::Latest(_) => Call::Latest,
            Row::Pop(_) => Call::Pop,
            Row::Writes(_) => Call::Turns,
            Row::Redis => Call::Write(0),
            Row::KeptRead => Call::Ask,
            _ => Call::Read,
        };
        let nanos = |time: Duration| time.as_nanos() as u64;
        let (warm_up, time) = (nanos(self.setup.amount.warm_up), nanos(self.setup.amount.time));
        // The last member calls, and the one before it pushes or follows, so that they are no sequencer if they need not be.
        let caller = self.all.len() - 1;
        for (index, process) in self.all.iter_mut().enumerate() {
            let job = match caller - index {
                0 => Job::Call { call, warm_up, time },
                1 if call == Call::Pop => Job::Push,
                1 if call == Call::Turns => Job::Follow,
                _ => Job::Serve,
            };
            process.order(&Order::Begin(job))?;
        }
        self.each(|answer| matches!(answer, Answer::Begun).then_some(()))?;
        self.order(&Order::Go)?;
        let done = |answer| if let Answer::Done(done) = answer { Some(done) } else { None };
        let done = self.all[caller].expect(done, self.setup.watch)?;
        self.writes += done.writes;
        let put = if let Call::Write(size @ 1..) = call { Some(size) } else { None };
        self.order(&Order::Finish { writes: self.writes, put })?;
        let pushed = |answer| if let Answer::Finished { pushed } = answer { Some(pushed) } else { None };
        let pushed = self.each(pushed)?.into_iter().nth_back(1).unwrap_or_default();
        Ok(sample(call, &done, &pushed))
    }
}

/// The figures of a measurement: what the caller has measured, and when another member pushed.
fn sample(call: Call, done: &Done, pushed: &[u64]) -> Sample {
    let mut own = round_trips();
    let times = done.times.iter().enumerate().skip(done.counts_from());
    for (nth, time) in times {
        match call {
            Call::Pop => pushed.get(nth).into_iter().for_each(|at| own.saturating_record(time.saturating_sub(*at))),
            _ => own.saturating_record(*time),
        }
    }
    Sample { own, last: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_warm_up_do_not_count_and_a_pop_begins_with_its_push() {
        let done = Done { times: vec![900, 2500, 3700], early: 1, writes: 9, is_numbered: true };
        let of = |call, done: &Done| {
            let own = sample(call, done, &[800, 2000, 3000]).own;
            (own.min(), own.max(), own.len())
        };
        assert_eq!(of(Call::Pop, &done), (500, 700, 2));
        assert_eq!(of(Call::Latest, &done).2, 2);
        let early = Done { early: 3, ..done };
        assert_eq!(of(Call::Pop, &early), (700, 700, 1), "the last one, if all are early");
    }
}
