//! A state takes nothing back.

use std::time::Duration;

use am_ordered_core::{Core, Epoch, Member, MemberId, Message, Output, Promise, Settings, State, View};
use bytes::Bytes;

fn view(epoch: u32, ids: &[u64], sequencer: u64) -> View {
    let members = ids.iter().map(|id| Member { id: MemberId(*id), name: format!("m{id}") });
    View { epoch: Epoch(epoch), members: members.collect(), sequencer: MemberId(sequencer), tie_break: None }
}

/// Member 2, with the state of a view that is current.
fn with_state(view: &View) -> Core {
    let me = Member { id: MemberId(2), name: "m2".into() };
    let mut core = Core::join(me, Settings::default(), Duration::ZERO);
    arrives(&mut core, 0, state(Epoch(1), view, 0));
    core
}

fn state(epoch: Epoch, view: &View, number: u64) -> Message {
    Message::State(State { epoch, view: view.clone(), history: vec![(Epoch(1), 0)], number, state: Bytes::new() })
}

/// A message arrives. Returns the promises that follow.
fn arrives(core: &mut Core, from: u64, message: Message) -> Vec<Promise> {
    core.on_message(Duration::from_secs(1), MemberId(from), message);
    let outputs = std::iter::from_fn(|| core.poll());
    let promise = |output| match output {
        Output::Send { message: Message::Promise { promise, .. }, .. } => Some(promise),
        _ => None,
    };
    outputs.filter_map(promise).collect()
}

#[test]
fn a_late_state_does_not_undo_a_promise() {
    let view = view(1, &[0, 1], 0);
    let mut core = with_state(&view);
    let epoch = Epoch(3);
    assert_eq!(arrives(&mut core, 1, Message::Propose { epoch }).len(), 1, "a process that joins promises too");
    arrives(&mut core, 0, state(Epoch(1), &view, 1));
    assert_eq!(arrives(&mut core, 0, Message::Propose { epoch }), [], "an epoch is promised to one candidate");
}
