//! A network that stamps: the table of each process is read by its host's program, which runs whether or not the process does.

use std::collections::BTreeMap;
use std::sync::Arc;

use am_ordered_core::{Content, MemberId, Message, StampTable, Stamped, Time};
use am_wire::Address;
use am_wire::group::GroupHeader;
use am_wire::stamp::{Refusal, SENDERS, Stamp, Stamps, stamp};

use crate::world::World;

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Arrived {
    Message(Message),
    /// A frame of the group; and whether the sequencer's process has it.
    Frame(Stamped, bool),
}

/// What a host's program does with a message for its process.
pub(crate) enum Verdict {
    ForTheProcess,
    Dropped,
    Stamped(Stamped),
}

pub(crate) fn table() -> StampTable {
    StampTable { stamps: Arc::new(Box::new(Stamps::new())), key: [0; 2], clock: 0, copy: None }
}

/// The link address of a process.
pub(crate) fn link(id: MemberId) -> u64 {
    id.0 + 0x100
}

fn nanoseconds(time: Time) -> u64 {
    u64::try_from(time.as_nanos()).expect("a run is short")
}

/// The program of a host, when a message for its process arrives.
pub(crate) fn program(table: &StampTable, group: u64, now: Time, from: MemberId, message: &Message) -> Verdict {
    let Message::Submit { epoch, seq, level, content: content @ Content::Here(_) } = message else {
        return Verdict::ForTheProcess;
    };
    let (stamps, from) = (&table.stamps, Address::from_u64(link(from)));
    if stamps.epoch() == 0 {
        return Verdict::ForTheProcess;
    }
    let is_its = |slot: &usize| stamps.sender(*slot).is_some_and(|sender| sender.address == from);
    let Some(sender) = (0..SENDERS).find(is_its) else { return Verdict::Dropped };
    let header = GroupHeader::to_stamp(group, epoch.0, sender as u16, *seq);
    match stamp(stamps, &header, from, nanoseconds(now)) {
        Ok(Stamp { number, limit, .. }) => {
            let (epoch, seq, level, content) = (*epoch, *seq, *level, content.clone());
            Verdict::Stamped(Stamped { epoch, number, sender: sender as u16, seq, limit, level, content })
        }
        Err(_) => Verdict::Dropped,
    }
}

/// The processes whose programs give numbers now. It asks with a message of no sender.
pub(crate) fn stamping(world: &World) -> Vec<MemberId> {
    let gives = |table: &StampTable, group| {
        let header = GroupHeader::to_stamp(group, table.stamps.epoch(), SENDERS as u16, 0);
        let answer = stamp(&table.stamps, &header, Address::default(), nanoseconds(world.now()));
        answer == Err(Refusal::Sender)
    };
    let live: BTreeMap<_, _> = world.processes.iter().filter(|(_, process)| process.is_alive).collect();
    live.into_iter()
        .filter(|(_, process)| gives(&process.table, process.core.view().group))
        .map(|(id, _)| *id)
        .collect()
}

/// What the sequencer's process sends as a frame.
pub(crate) fn as_frame(message: &Message) -> Option<Arrived> {
    match message {
        Message::Stamped(stamped) => Some(Arrived::Frame(stamped.clone(), true)),
        _ => None,
    }
}
