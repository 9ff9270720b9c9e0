//! What holds at each moment, and what has to happen at some.

use std::collections::BTreeSet;

use am_ordered_core::{Accepted, Changes, Epoch, MemberId, NewView, Number, View};

use crate::bug::{self, Bug};
use crate::log::{Entry, Log};
use crate::process::{Process, Role, base};
use crate::world::World;

/// No two members get different messages as `Safe` at one number.
pub fn safe_is_one(world: &World) -> bool {
    let safe = &world.past.safe;
    safe.iter().all(|(_, number, entry)| safe.iter().all(|(_, other, another)| number != other || entry == another))
}

/// A message that somebody got as `Safe` is in the log of each later view that is current.
pub fn safe_stays(world: &World) -> bool {
    let current = &world.past.current;
    world.past.safe.iter().all(|(epoch, number, entry)| {
        current
            .iter()
            .filter(|current| current.view.epoch > *epoch)
            .all(|current| current.log.get(*number as usize) == Some(entry))
    })
}

/// An epoch has one view.
pub fn epochs_are_one(world: &World) -> bool {
    let installed = world.members().flat_map(|(_, process)| process.ballot.chain());
    let fixed = world.sent.new_views.values().map(|new_view| &new_view.view);
    let views: Vec<&View> =
        installed.chain(fixed).chain(world.past.current.iter().map(|current| &current.view)).collect();
    views.iter().all(|view| views.iter().all(|other| view.epoch != other.epoch || view == other))
}

/// A view that is current follows from each one that was current before.
pub fn primary_is_one(world: &World) -> bool {
    let current = &world.past.current;
    let follows = |history: &[(Epoch, Number)], epoch: Epoch| history.iter().any(|(other, _)| *other == epoch);
    current.iter().all(|later| {
        let earlier = current.iter().filter(|earlier| earlier.view.epoch < later.view.epoch);
        earlier.into_iter().all(|earlier| follows(&later.history, earlier.view.epoch))
    })
}

/// The beginnings of epochs never decrease.
pub fn bases_grow(world: &World) -> bool {
    let histories = world.members().map(|(_, process)| process.ballot.history());
    let mut histories = histories.chain(world.past.current.iter().map(|current| &current.history[..]));
    histories.all(|history| history.is_sorted_by(|(epoch, base), (next, then)| epoch < next && base <= then))
}

/// Members with the same open view agree about each message, those before the view too.
pub fn order_is_one(world: &World) -> bool {
    let open: Vec<(&View, &Process)> = world
        .members()
        .filter(|(_, process)| process.role == Role::Member && process.ballot.is_open())
        .map(|(_, process)| (process.ballot.view(), process))
        .collect();
    let ends = open.iter().map(|(_, process)| process.log.end().max(process.delivered()));
    (0..ends.max().unwrap_or(0)).all(|number| {
        open.iter().all(|(view, process)| {
            let begun = world.past.current.iter().filter(|current| current.view == **view);
            let mut begun = begun.filter_map(|current| current.log.get(number as usize).copied());
            let mut others =
                open.iter().filter(|(other, _)| other == view).flat_map(|(_, other)| contents(other, number));
            contents(process, number).all(|own| others.all(|other| own == other) && begun.all(|other| own == other))
        })
    })
}

/// A message in the program's state, and in the log.
fn contents(process: &Process, number: Number) -> impl Iterator<Item = Entry> {
    process.handled.get(number as usize).copied().into_iter().chain(process.log.get(number))
}

/// While a majority has not crashed of each view that may be current, some member can begin an epoch with those that run.
pub fn goes_on(bug: Option<Bug>, world: &World) -> bool {
    let epoch = |view: Option<&View>| view.map(|view| view.epoch);
    let voters = world.members().filter(|(id, process)| process.ballot.voters().contains(id));
    let chains = voters.map(|(_, process)| process.ballot.chain());
    let Some(chain) = chains.max_by_key(|chain| (epoch(chain.last()), epoch(chain.first()))) else { return true };
    let has_crashed = |id| world.past.crashed.contains(&id);
    let may = chain.iter().all(|view| view.is_majority(|id| !has_crashed(id)));
    let mut candidates = world.members().filter(|(id, process)| process.may_propose(*id, bug));
    !may || candidates.any(|(id, _)| can_begin(bug, world, id))
}

/// Whether a candidate gets a new view to the end, if all that run answer.
fn can_begin(bug: Option<Bug>, world: &World, id: MemberId) -> bool {
    let highest = world.running().map(|(_, process)| process.ballot.promised()).max().unwrap_or_default();
    let Some(candidate) = world.process(id) else { return false };
    let mut ballot = candidate.ballot.clone();
    let asked = ballot.voters();
    let own = candidate.own_promise(bug);
    let epoch = ballot.propose(highest, own.clone(), Changes::default());
    let asked = world.members().filter(|(from, _)| asked.contains(from));
    let mut promises: Vec<_> = asked.map(|(from, process)| (from, process.own_promise(bug))).collect();
    bug::spoil(bug, &own, &mut promises);
    promises.into_iter().for_each(|(from, promise)| ballot.on_promise(from, epoch, promise));
    let Some(new_view) = ballot.fix() else { return false };
    let installs = installing(bug, world, &new_view);
    new_view.chain.iter().chain([&new_view.view]).all(|view| view.is_majority(|id| installs.contains(&id)))
}

/// The members that can install a new view: a process that runs holds the messages before its base, or a state with them.
fn installing(bug: Option<Bug>, world: &World, new_view: &NewView) -> BTreeSet<MemberId> {
    let base = base(&new_view.history);
    let cut = |process: &Process| match process.ballot.clone().on_new_view(new_view) {
        Accepted::Fetch { cut } => cut,
        _ => 0,
    };
    let known: Vec<(MemberId, &Process, Log, bool)> = world
        .members()
        .map(|(id, process)| {
            let (mut log, cut) = (process.log.clone(), cut(process));
            log.truncate(cut);
            (id, process, log, process.delivered() > cut)
        })
        .collect();
    let is_here = |number: Number| known.iter().any(|(_, _, log, _)| log.get(number).is_some());
    let can_fetch = |held: Number| (held..base).all(is_here);
    let states = || known.iter().filter(|(_, _, _, diverges)| !diverges).map(|(_, process, ..)| process.delivered());
    let installs = known.iter().filter(|(_, _, log, diverges)| {
        let from_state =
            || states().filter(|number| *number >= log.first()).any(|number| can_fetch(log.held().max(number)));
        (*diverges || bug != Some(Bug::GapForEver)) && from_state() || !diverges && can_fetch(log.held())
    });
    installs.map(|(id, ..)| *id).collect()
}

/// A view is current though a member had crashed before.
pub fn survives_crash(world: &World) -> bool {
    world.past.current.iter().any(|current| current.is_after_crash)
}

/// A member has handled messages that are not in the log.
pub fn diverges(world: &World) -> bool {
    world.members().any(|(_, process)| matches!(process.role, Role::Diverged { .. }))
}

/// A member of the first view that had handled a message in vain is in an open view again, with a state.
pub fn recovers(world: &World) -> bool {
    let first = &world.past.current[0].view;
    world.members().any(|(id, process)| first.has(id) && process.log.first() > 0 && process.ballot.is_open())
}

/// A process is in a current view that was not in the first one.
pub fn joins(world: &World) -> bool {
    let first = &world.past.current[0].view;
    world.past.current.iter().any(|current| current.view.ids().any(|id| !first.has(id)))
}

/// Two members want to begin one epoch.
pub fn competes(world: &World) -> bool {
    let candidates: Vec<Epoch> = world
        .members()
        .filter(|(_, process)| process.ballot.is_candidate())
        .map(|(_, process)| process.ballot.promised())
        .collect();
    candidates.iter().collect::<BTreeSet<_>>().len() < candidates.len()
}

/// Somebody got a message as `Safe` that was stamped in an epoch after the first.
pub fn delivers_later(world: &World) -> bool {
    world.past.safe.iter().any(|(_, _, entry)| entry.epoch > Epoch(1))
}
