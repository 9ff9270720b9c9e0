//! What has to hold.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use am_ordered_core::{Level, MemberId, Number};
use bytes::Bytes;

use crate::world::{Process, World};

/// A message: its sender, and the sender's count.
pub type Key = (MemberId, u64);

pub fn payload((sender, count): Key) -> Bytes {
    [sender.0.to_be_bytes(), count.to_be_bytes()].concat().into()
}

pub fn key(payload: &[u8]) -> Key {
    let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
    (MemberId(number(0)), number(8))
}

pub fn digest(before: u64, key: Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    (before, key).hash(&mut hasher);
    hasher.finish()
}

/// After each event.
pub fn always(world: &World) -> Result<(), String> {
    let live = || world.processes.iter().filter(|(_, process)| process.is_alive && process.ended.is_none());
    let leads: Vec<_> = live().filter(|(_, process)| process.core.gives_numbers(world.now())).map(|(id, _)| *id).collect();
    if leads.len() > 1 {
        return Err(format!("{leads:?} give numbers at one time"));
    }
    match live().find(|(_, process)| !process.core.has_whole_credits()) {
        Some((id, _)) => Err(format!("the credits of {id} do not add up")),
        None => Ok(()),
    }
}

/// Whether all live members have one view, and nothing waits.
pub fn is_over(world: &World) -> bool {
    let live: Vec<&Process> = world.processes.values().filter(|process| process.is_alive && process.ended.is_none()).collect();
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
pub fn at_the_end(world: &World) -> Result<(), String> {
    let live = || world.processes.iter().filter(|(_, process)| process.is_alive && process.ended.is_none());
    if !is_over(world) {
        let states = live().map(|(id, process)| {
            let core = &process.core;
            let (view, delivered, waiting) = (core.view(), core.delivered(), core.waiting());
            let ids: Vec<String> = view.ids().map(|id| id.to_string()).collect();
            let primary = core.is_primary();
            format!("\n    {id}: view {} of {ids:?} by {}, delivered {delivered}, waiting {waiting}, primary {primary}", view.epoch.0, view.sequencer)
        });
        return Err(format!("it does not go on: {}", states.collect::<String>()));
    }
    let sequence = sequence(world)?;
    for (id, process) in &world.processes {
        let is_live = process.is_alive && process.ended.is_none();
        check_process(process, is_live, &sequence).map_err(|why| format!("{id}: {why}"))?;
    }
    let all: BTreeSet<Key> = world.processes.values().flat_map(|process| process.delivered.iter().map(|(_, key, _)| *key)).collect();
    let denied = world.processes.values().flat_map(|process| &process.not_delivered).find(|key| all.contains(key));
    denied.map_or(Ok(()), |key| Err(format!("{key:?} came back as not delivered, and was delivered")))
}

/// The group's sequence: of what its live members, and those before them, have delivered.
fn sequence(world: &World) -> Result<BTreeMap<Number, (Key, Level)>, String> {
    let mut sequence = BTreeMap::new();
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

fn check_process(process: &Process, is_live: bool, sequence: &BTreeMap<Number, (Key, Level)>) -> Result<(), String> {
    let mut counts: BTreeMap<MemberId, u64> = BTreeMap::new();
    for (index, (number, (sender, count), _)) in process.delivered.iter().enumerate() {
        let first = process.first.map_or(0, |(first, _)| first);
        if *number != first + index as u64 {
            return Err(format!("{number} follows {index} messages after {first}"));
        }
        if counts.insert(*sender, *count).is_some_and(|before| before >= *count) {
            return Err(format!("message {count} of {sender} comes late or twice"));
        }
    }
    let differs = |(number, key, level): &&(Number, Key, Level)| {
        sequence.get(number).is_some_and(|other| *other != (*key, *level))
    };
    let Some((from, ..)) = process.delivered.iter().find(differs) else { return Ok(()) };
    let safe = process.delivered.iter().find(|(number, _, level)| number >= from && *level == Level::Safe);
    match safe {
        _ if is_live => Err(format!("its message {from} is another one than the group's")),
        Some((number, ..)) => Err(format!("{number} was delivered as safe, and is lost")),
        None => Ok(()),
    }
}
