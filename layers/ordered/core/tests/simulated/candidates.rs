//! A candidate gets its view to the end, whatever the others answer it meanwhile.

use std::time::Duration;

use am_ordered_core::{Core, Epoch, Member, MemberId, Message, Output, Promise, Settings, State, Time, View};
use bytes::Bytes;

fn view(epoch: u32, ids: &[u64]) -> View {
    let members = ids.iter().map(|id| Member { id: MemberId(*id), name: format!("m{id}") });
    View { epoch: Epoch(epoch), members: members.collect(), sequencer: MemberId(ids[0]), tie_break: None }
}

fn promise(chain: &[View]) -> Promise {
    let history = chain.iter().map(|view| (view.epoch, 0)).collect();
    Promise { chain: chain.to_vec(), history, held: 0, ranges: vec![] }
}

/// The messages that wait to be sent.
fn sent(core: &mut Core) -> Vec<(MemberId, Message)> {
    let outputs = std::iter::from_fn(|| core.poll());
    let message = |output| match output {
        Output::Send { to, message } => Some((to, message)),
        _ => None,
    };
    outputs.filter_map(message).collect()
}

/// Time passes until then. Returns what was sent.
fn passes(core: &mut Core, until: Time) -> Vec<(MemberId, Message)> {
    let mut all = vec![];
    while core.next_time() <= until {
        core.on_time(core.next_time());
        all.extend(sent(core));
    }
    all
}

/// Member 2 of a view whose sequencer is silent, its epoch, and the time.
fn candidate(view: &View) -> (Core, Epoch, Time) {
    let mut core = Core::join(Member { id: MemberId(2), name: "m2".into() }, Settings::default(), Duration::ZERO);
    let history = vec![(view.epoch, 0)];
    let state = State { epoch: view.epoch, view: view.clone(), history, number: 0, state: Bytes::new() };
    core.on_message(Duration::ZERO, view.sequencer, Message::State(state));
    let now = Duration::from_millis(115);
    let sent = passes(&mut core, now);
    let epoch = sent.iter().find_map(|(_, message)| match message {
        Message::Propose { epoch } => Some(*epoch),
        _ => None,
    });
    (core, epoch.expect("after the silence and the step of its rank"), now)
}

#[test]
fn a_sequencer_that_has_promised_does_not_stop_the_candidate() {
    let view = view(1, &[0, 1, 2]);
    let (mut core, epoch, now) = candidate(&view);
    let promise = promise(&[view]);
    core.on_message(now, MemberId(0), Message::Promise { epoch, promise });
    // The candidacy has arrived twice.
    core.on_message(now, MemberId(0), Message::Refuse { promised: epoch });
    let sent = passes(&mut core, now + Duration::from_millis(60));
    assert!(sent.iter().any(|(_, message)| matches!(message, Message::NewView(_))), "{sent:?}");
}

#[test]
fn a_sequencer_that_leads_stops_the_candidate() {
    let (mut core, epoch, now) = candidate(&view(1, &[0, 1, 2]));
    core.on_message(now, MemberId(0), Message::Refuse { promised: Epoch(1) });
    let sent = passes(&mut core, now + Duration::from_millis(60));
    assert!(!sent.contains(&(MemberId(1), Message::Propose { epoch })), "{sent:?}");
}

#[test]
fn a_candidate_asks_the_members_of_a_view_that_a_promise_names() {
    let first = view(1, &[0, 1, 2]);
    let (mut core, epoch, now) = candidate(&first);
    let promise = promise(&[first, view(2, &[0, 1, 2, 3, 4, 5, 6])]);
    core.on_message(now, MemberId(1), Message::Promise { epoch, promise });
    let sent = passes(&mut core, now + Duration::from_millis(25));
    let asked: Vec<u64> =
        sent.iter().filter(|(_, message)| *message == Message::Propose { epoch }).map(|(to, _)| to.0).collect();
    assert_eq!(asked, [0, 3, 4, 5, 6], "without them the second view has no majority");
}
