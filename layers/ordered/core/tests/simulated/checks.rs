//! What has to hold.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use am_ordered_core::{Level, MemberId, Number};
use bytes::Bytes;

use crate::network;
use crate::world::{Process, World};

/// A message: its sender, and the sender's count.
pub(crate) type Key = (MemberId, u64);

/// A message at its number.
pub(crate) type Delivered = (Number, Key, Level);

type Sequence = BTreeMap<Number, (Key, Level)>;

pub(crate) fn payload((sender, count): Key) -> Bytes {
    // Some of them are long.
    let rest = vec![0; if count % 7 == 0 { 100 } else { 0 }];
    [&sender.0.to_be_bytes()[..], &count.to_be_bytes(), &rest].concat().into()
}

pub(crate) fn key(payload: &[u8]) -> Key {
    let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
    (MemberId(number(0)), number(8))
}

pub(crate) fn digest(before: u64, key: Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    (before, key).hash(&mut hasher);
    hasher.finish()
}

/// After each event.
pub(crate) fn always(world: &World) -> Result<(), String> {
    let live = || world.processes.iter().filter(|(_, process)| process.is_alive && process.ended.is_none());
    let leads: Vec<_> =
        live().filter(|(_, process)| process.core.gives_numbers(world.now())).map(|(id, _)| *id).collect();
    if leads.len() > 1 {
        return Err(format!("{leads:?} give numbers at one time"));
    }
    let stamping = network::stamping(world);
    if stamping.len() > 1 {
        return Err(format!("the programs of {stamping:?} give numbers at one time"));
    }
    match live().find(|(_, process)| !process.core.has_whole_credits()) {
        Some((id, _)) => Err(format!("the credits of {id} do not add up")),
        None => Ok(()),
    }
}

/// Whether all live members have one view, and nothing waits. A process that was put out, and that no other one is left to tell it,
/// does not count.
pub(crate) fn is_over(world: &World) -> bool {
    let is_live = |process: &Process| process.is_alive && process.ended.is_none();
    let knows = |id: &MemberId, other: &MemberId| world.processes[id].core.views().any(|view| view.has(*other));
    let is_alone = |id: &MemberId| {
        let mut others = world.processes.iter().filter(|(other, process)| *other != id && is_live(process));
        world.processes[id].core.view().members.len() > 1 && !others.any(|(other, _)| knows(id, other))
    };
    let live = world.processes.iter().filter(|(id, process)| is_live(process) && !is_alone(id));
    let live: Vec<&Process> = live.map(|(_, process)| process).collect();
    let Some(first) = live.first() else { return true };
    let view = first.core.view();
    live.iter().all(|process| {
        process.core.is_primary()
            && process.core.view() == view
            && process.core.delivered() == first.core.delivered()
            && process.core.waiting() == 0
    }) && view.members.len() == live.len()
}

/// After the last event: liveness, and all that was delivered.
pub(crate) fn at_the_end(world: &World) -> Result<(), String> {
    let live = || world.processes.iter().filter(|(_, process)| process.is_alive && process.ended.is_none());
    if !is_over(world) {
        let states = live().map(|(id, process)| {
            let core = &process.core;
            let (view, delivered, waiting) = (core.view(), core.delivered(), core.waiting());
            let ids: Vec<String> = view.ids().map(|id| id.to_string()).collect();
            let primary = core.is_primary();
            format!(
                "\n    {id}: view {} of {ids:?} by {}, delivered {delivered}, waiting {waiting}, primary {primary}",
                view.epoch.0, view.sequencer
            )
        });
        return Err(format!("it does not go on: {}", states.collect::<String>()));
    }
    let sequence = sequence(world)?;
    for (id, process) in &world.processes {
        let is_live = process.is_alive && process.ended.is_none();
        let first = process.first.unwrap_or(0);
        check(first, &process.delivered, is_live, &sequence).map_err(|why| format!("{id}: {why}"))?;
        for (first, delivered) in &process.past {
            check(*first, delivered, false, &sequence).map_err(|why| format!("{id}, before it diverged: {why}"))?;
        }
    }
    let mut states = live().map(|(_, process)| &process.columns);
    if let Some(first) = states.next()
        && states.any(|state| state != first)
    {
        return Err("two members have different states".into());
    }
    let all: BTreeSet<Key> =
        world.processes.values().flat_map(|process| process.delivered.iter().map(|(_, key, _)| *key)).collect();
    let denied = world.processes.values().flat_map(|process| &process.not_delivered).find(|key| all.contains(key));
    denied.map_or(Ok(()), |key| Err(format!("{key:?} came back as not delivered, and was delivered")))
}

/// The group's sequence: of what its live members, and those before them, have delivered.
fn sequence(world: &World) -> Result<Sequence, String> {
    let mut sequence = Sequence::new();
    let live = world.processes.values().filter(|process| process.is_alive && process.ended.is_none());
    for process in live {
        for (number, key, level) in &process.delivered {
            if *sequence.entry(*number).or_insert((*key, *level)) != (*key, *level) {
                return Err(format!("two members have different messages at {number}"));
            }
        }
    }
    Ok(sequence)
}

/// What a process has delivered from a number on. One that does not go on may have delivered more than the group has.
fn check(first: Number, delivered: &[Delivered], is_live: bool, sequence: &Sequence) -> Result<(), String> {
    let mut counts: BTreeMap<MemberId, u64> = BTreeMap::new();
    for (index, (number, (sender, count), _)) in delivered.iter().enumerate() {
        if *number != first + index as u64 {
            return Err(format!("{number} follows {index} messages after {first}"));
        }
        if counts.insert(*sender, *count).is_some_and(|before| before >= *count) {
            return Err(format!("message {count} of {sender} comes late or twice"));
        }
    }
    let differs =
        |(number, key, level): &&Delivered| sequence.get(number).is_some_and(|other| *other != (*key, *level));
    let Some((from, ..)) = delivered.iter().find(differs) else { return Ok(()) };
    let safe = delivered.iter().find(|(number, _, level)| number >= from && *level == Level::Safe);
    match safe {
        _ if is_live => Err(format!("its message {from} is another one than the group's")),
        Some((number, ..)) => Err(format!("{number} was delivered as safe, and is lost")),
        None => Ok(()),
    }
}
