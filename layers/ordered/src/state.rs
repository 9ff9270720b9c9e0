//! The state of a replica, as its group gives it to a process that joins, and takes it from another member.

use am_ordered_core::{Core, Entry, MemberId, Number, Output, Place};
use bytes::Bytes;

use crate::replica::{Delivered, Replica, Saved, Step};

/// The states that leave this member, and the one that arrives.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// A part that the replica still makes.
    due: Option<(MemberId, Place)>,
    arriving: Option<Arriving>,
}

impl States {
    /// Carry out what the core says of them.
    pub(crate) fn carry_out<R: Replica>(&mut self, core: &mut Core, replica: &mut R, output: Output) {
        match (output, &mut self.arriving) {
            (Output::TakeState { joiner, place }, _) => self.give(core, replica, joiner, place),
            (Output::BeginState { is_first }, arriving) => *arriving = Some(Arriving::begin(replica, is_first)),
            (Output::StatePart { bytes, is_last }, Some(arriving)) => arriving.on_part(replica, &bytes, is_last),
            (Output::StateMessages(messages), Some(arriving)) => arriving.on_messages(core, replica, messages),
            (Output::ForgetState, arriving) => {
                arriving.take().into_iter().for_each(|arriving| arriving.forget(replica));
            }
            _ => (),
        }
    }

    /// The part that begins there is asked for.
    fn give<R: Replica>(&mut self, core: &mut Core, replica: &mut R, joiner: MemberId, place: Place) {
        match replica.save_part(place) {
            Saved::Part { bytes, next } => core.part_taken(joiner, &bytes.into(), next),
            Saved::NotYet => self.due = Some((joiner, place)),
        }
    }

    /// Whether the replica makes a part: it may be there at the next turn.
    pub(crate) fn are_due(&self) -> bool {
        self.due.is_some()
    }

    /// Ask again for the part that was not there yet.
    pub(crate) fn go_on<R: Replica>(&mut self, core: &mut Core, replica: &mut R) {
        if let Some((joiner, place)) = self.due.take() {
            self.give(core, replica, joiner, place);
        }
    }

    /// The replica goes on with a state: all of it, or the parts that have arrived.
    pub(crate) fn restore<R: Replica>(&mut self, core: &Core, replica: &mut R, state: Option<Bytes>) {
        match (state, self.arriving.take()) {
            (Some(state), _) if replica.restore_part(Step::Begins) => {
                replica.restore_part(Step::Part(&state));
                replica.restore_part(Step::Ends);
            }
            (Some(state), _) => replica.restore(&state),
            (None, Some(arriving)) => arriving.end(core, replica),
            (None, None) => (),
        }
    }
}

/// The state of another member, as far as it is here.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// The replica takes parts itself.
    takes_parts: bool,
    /// It has no state yet: it begins with what has arrived at once.
    is_first: bool,
    part: Vec<u8>,
    /// For a replica that takes no parts: what it goes on with once all is here.
    whole: Vec<u8>,
    messages: Vec<Entry>,
}

impl Arriving {
    pub(crate) fn begin<R: Replica>(replica: &mut R, is_first: bool) -> Arriving {
        Arriving { takes_parts: replica.restore_part(Step::Begins), is_first, ..Arriving::default() }
    }

    pub(crate) fn on_part<R: Replica>(&mut self, replica: &mut R, bytes: &[u8], is_last: bool) {
        self.part.extend_from_slice(bytes);
        if !is_last {
            return;
        }
        let part = std::mem::take(&mut self.part);
        if self.takes_parts {
            replica.restore_part(Step::Part(&part));
        } else if self.is_first {
            replica.restore(&part);
        } else {
            self.whole = part;
        }
    }

    pub(crate) fn on_messages<R: Replica>(&mut self, core: &Core, replica: &mut R, messages: Vec<Entry>) {
        if !self.takes_parts && !self.is_first {
            return self.messages.extend(messages);
        }
        messages.iter().for_each(|entry| deliver(core, replica, entry, self.takes_parts));
    }

    /// All is here.
    pub(crate) fn end<R: Replica>(self, core: &Core, replica: &mut R) {
        if self.takes_parts {
            replica.restore_part(Step::Ends);
        } else if !self.is_first {
            replica.restore(&self.whole);
            self.messages.iter().for_each(|entry| deliver(core, replica, entry, false));
        }
    }

    /// It is of no use.
    pub(crate) fn forget<R: Replica>(self, replica: &mut R) {
        if self.takes_parts {
            replica.restore_part(Step::IsVoid);
        }
    }
}

fn deliver<R: Replica>(core: &Core, replica: &mut R, entry: &Entry, is_step: bool) {
    let number: Number = entry.number;
    let from = core.member(entry.sender).map_or("", |member| &member.name);
    let (sender, level, payload) = (entry.sender, entry.level, &entry.payload[..]);
    let message = Delivered { number, sender, from, level, own: None, payload };
    match is_step {
        true => _ = replica.restore_part(Step::Message(&message)),
        false => replica.deliver(&message),
    }
}
