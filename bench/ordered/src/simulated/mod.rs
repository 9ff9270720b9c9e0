//! Groups of simulated hosts, in virtual time: whether the sequencer's rate falls with the members. Every member has a processor and a port of its
//! own, which no machine of ours has for 64 of them.
//!
//! ```text
//!   sizes ─▶ a World of members (member.rs): one founds, the others join ─▶ each Work in it ─▶ report.rs
//! ```

mod member;
mod report;

use std::time::Duration;

use am_measure::hosts::world::{Nanos, World};
use am_measure::{Amount, DriverOptions, Error, Progress, RoundTrips, Watch, changed, round_trips};
use am_ordered::{Level, Settings};

use crate::work::{Load, Senders, Stack, Work};
use member::{Member, Sends, nanos};

/// How often the leader looks at the members.
const LOOK: Nanos = 1_000_000;
/// Before the measurements, for each member: the circle of the sequencer's token consists of pairs that connect one after the other.
const SET_UP: Duration = Duration::from_millis(5);
const BURST: Duration = Duration::from_millis(2);
/// A group forms, or delivers all that was sent, within this virtual time.
const LIMIT: Nanos = 10_000_000_000;

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    work: Work,
    /// Messages that may be in flight in the group.
    capacity: usize,
    /// From sending to the sender's own delivery, and to that at the last member. In turn alone.
    own: RoundTrips,
    last: RoundTrips,
    /// Messages a second at the slowest member.
    rate: f64,
    /// The part of the time in which the sequencer's processor works.
    busy: f64,
    /// Frames that the sequencer receives and sends for each message.
    frames: [f64; 2],
    /// At all members: messages that came again, those that got no number, and those that found no room.
    troubles: [u64; 3],
}

/// Messages in flight with which each of this many members can have its window full, and a default group's.
fn capacities(members: usize) -> impl Iterator<Item = usize> {
    let usual = Settings::default().capacity;
    // A sender has at most one and a half times its share, half of the capacity over the members.
    let wide = 2 * members * Work::stream(Stack::Agreed, members, 0).window();
    [usual, wide].into_iter().filter(move |capacity| *capacity >= usual).take(if wide > usual { 2 } else { 1 })
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Groups {
    rows: Vec<Row>,
    /// The sizes of groups, ascending.
    members: Vec<usize>,
    /// What gives the numbers, and why.
    stamps: String,
}

/// What is measured in a group of this size. With more messages in flight than by default, one sender's stream alone.
fn works(members: usize, capacity: usize) -> impl Iterator<Item = Work> {
    let is_usual = capacity == Settings::default().capacity;
    let of = move |stack, senders, load| Work { stack, members, senders, size: 0, load };
    [Stack::Agreed, Stack::Safe].into_iter().flat_map(move |stack| {
        let stream = |senders| of(stack, senders, Load::Stream);
        let all = [of(stack, Senders::One, Load::InTurn), stream(Senders::One), stream(Senders::All)];
        all.into_iter().filter(move |work| is_usual || *work == Work::stream(Stack::Agreed, members, 0))
    })
}

impl Groups {
    /// How many rows there are of groups of these sizes.
    pub(crate) fn steps(sizes: &[usize]) -> usize {
        let groups = sizes.iter().flat_map(|members| capacities(*members).map(|capacity| (*members, capacity)));
        groups.map(|(members, capacity)| works(members, capacity).count()).sum()
    }

    /// Measure a group of each size.
    ///
    /// # Errors
    /// A group does not form, changes while it is measured, or loses a message; an interrupt.
    pub(crate) fn measure(
        sizes: &[usize],
        how: DriverOptions,
        mtu: u32,
        amount: Amount,
        (progress, watch): (&Progress, &Watch),
    ) -> Result<Groups, Error> {
        let mut groups = Groups { rows: vec![], members: sizes.to_vec(), stamps: String::new() };
        for (members, capacity) in sizes.iter().flat_map(|size| capacities(*size).map(|capacity| (*size, capacity))) {
            progress.say(&format!("{members} members"));
            let settings = Settings { capacity, ..Settings::default() };
            let mut world = World::new(members, mtu, None, watch, |seat| Member::open(seat, how, settings.clone()))?;
            until(&mut world, "the members", |member| member.is_whole(members))?;
            set_up(&mut world, members)?;
            for work in works(members, capacity) {
                groups.rows.push(Row { capacity, ..measure(&mut world, work, amount)? });
                progress.done();
            }
            groups.stamps = world.hosts().next().map(Member::stamps).unwrap_or_default();
        }
        Ok(groups)
    }
}

/// Let members connect that measurements let speak to each other.
fn set_up(world: &mut World<'_, Member>, members: usize) -> Result<(), Error> {
    // A burst sends the token on its way.
    let burst = Amount { rounds: 1, warm_up: Duration::ZERO, time: BURST };
    measure(world, Work::stream(Stack::Agreed, members, 0), burst)?;
    world.run_until(world.now() + nanos(SET_UP * members as u32))
}

/// Go on until it is so at all members.
fn until(world: &mut World<'_, Member>, what: &str, so: impl Fn(&Member) -> bool) -> Result<(), Error> {
    let begin = world.now();
    while !world.hosts().all(&so) {
        let now = world.now();
        if now - begin > LIMIT {
            return Err(Error::Lost(format!("{what} did not come in virtual time")));
        }
        world.run_until(now + LOOK)?;
    }
    Ok(())
}

/// What a member does. The last one sends, so that a sender is no sequencer if it need not be.
fn sends(work: &Work, at: usize) -> Sends {
    let level = if work.stack == Stack::Safe { Level::Safe } else { Level::Agreed };
    match work.load {
        _ if at < work.members - work.senders.count(work.members) => Sends::Nothing,
        Load::InTurn => Sends::InTurn(level),
        Load::Stream => Sends::Stream(level, work.window() as u64),
    }
}

fn measure(world: &mut World<'_, Member>, work: Work, amount: Amount) -> Result<Row, Error> {
    let epoch = |world: &World<'_, Member>| world.hosts().map(Member::epoch).max();
    let (epoch_before, troubles) = (epoch(world), troubles(world));
    for (at, member) in world.hosts_mut().enumerate() {
        member.begin(sends(&work, at), work.load == Load::InTurn);
    }
    world.run_until(world.now() + nanos(amount.warm_up))?;
    let (begin, counts, [worked, received, sent]) = (world.now(), counts(world), sequencers_work(world));
    world.run_until(begin + nanos(amount.time))?;
    let time = (world.now() - begin).max(1) as f64;
    let delivered = counts.iter().zip(self::counts(world)).map(|(before, after)| after - before).min();
    let now = sequencers_work(world);
    world.hosts_mut().for_each(Member::stop);
    let total: u64 = world.hosts().map(|member| member.sent).sum();
    until(world, "all messages", |member| member.count() >= total)?;
    if world.hosts().any(|member| member.has_wrong() || member.count() != total) {
        return Err(changed());
    }
    if epoch(world) != epoch_before {
        return Err(Error::Lost("the group changed while it was measured".to_owned()));
    }
    let delivered = delivered.unwrap_or_default() as f64;
    let (own, last) = times(world, begin);
    Ok(Row {
        work,
        capacity: 0,
        own,
        last,
        rate: delivered * 1e9 / time,
        busy: (now[0] - worked) as f64 / time,
        frames: [now[1] - received, now[2] - sent].map(|frames| frames as f64 / delivered.max(1.0)),
        troubles: std::array::from_fn(|nth| self::troubles(world)[nth] - troubles[nth]),
    })
}

fn counts(world: &World<'_, Member>) -> Vec<u64> {
    world.hosts().map(Member::count).collect()
}

fn troubles(world: &World<'_, Member>) -> [u64; 3] {
    let add = |sum: [u64; 3], one: [u64; 3]| std::array::from_fn(|nth| sum[nth] + one[nth]);
    world.hosts().map(Member::troubles).fold([0; 3], add)
}

/// How long the first member's processor has worked, and the frames that it has received and sent.
fn sequencers_work(world: &World<'_, Member>) -> [u64; 3] {
    let (worked, [received, sent]) = world.work(0);
    [worked, received, sent]
}

/// Of each message in turn that was sent since then: from sending to the own delivery, and to the last one.
fn times(world: &World<'_, Member>, since: Nanos) -> (RoundTrips, RoundTrips) {
    let (mut own, mut last) = (round_trips(), round_trips());
    let delivered: Vec<&[Nanos]> = world.hosts().filter_map(|member| member.delivered_at.as_deref()).collect();
    for sender in world.hosts().filter(|member| member.sent > 0) {
        let Some(owns) = &sender.delivered_at else { continue };
        for (nth, at) in sender.sent_at.iter().enumerate().filter(|(_, at)| **at >= since) {
            let all = delivered.iter().filter_map(|times| times.get(nth)).max();
            if let (Some(mine), Some(all)) = (owns.get(nth), all) {
                own.saturating_record(mine - at);
                last.saturating_record(all - at);
            }
        }
    }
    (own, last)
}

#[cfg(test)]
mod tests {
    use am_measure::FramingArg;

    use super::*;

    fn small(sizes: &[usize]) -> Groups {
        let how = DriverOptions { framing: FramingArg::Split, ..DriverOptions::default() };
        let amount = Amount { rounds: 1, warm_up: Duration::from_millis(1), time: Duration::from_millis(2) };
        Groups::measure(sizes, how, 1500, amount, (&Progress::new(1, true), &Watch::default())).expect("groups")
    }

    #[test]
    fn a_group_has_the_same_figures_each_time_and_its_rate_does_not_fall_with_the_members() {
        let groups = small(&[2, 8]);
        assert_eq!(groups.rows.len(), Groups::steps(&[2, 8]));
        let figures = |groups: &Groups| groups.rows.iter().map(|row| (row.rate as u64, row.busy)).collect::<Vec<_>>();
        assert_eq!(figures(&groups), figures(&small(&[2, 8])));
        for row in &groups.rows {
            let is_in_turn = row.work.load == Load::InTurn;
            assert!(row.rate > 1e5 && is_in_turn != row.own.is_empty(), "{row:?}");
            assert!(row.own.is_empty() || row.own.min() > 4000, "there and back on links of 1 µs each: {row:?}");
        }
        for row in groups.rows.iter().filter(|row| row.work.load == Load::Stream) {
            assert!(row.rate > 1e6, "credits come back faster than beats: {row:?}");
        }
        let ratio = groups.rate_ratio(Senders::One, true).expect("both sizes");
        assert!(ratio > 0.9, "{ratio}");
        assert!(groups.stamps.starts_with("the sequencer's process stamps: "), "{}", groups.stamps);
    }
}
