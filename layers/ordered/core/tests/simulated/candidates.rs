//! A candidate gets its view to the end, whatever the others answer it meanwhile.

use std::time::Duration;

use am_ordered_core::{
    Ack, Beat, Core, Epoch, Level, Member, MemberId, Message, NewView, NotSent, Output, Promise, Settings, State, Time,
    View,
};
use bytes::Bytes;

fn view(epoch: u32, ids: &[u64]) -> View {
    let members = ids.iter().map(|id| Member { id: MemberId(*id), name: format!("m{id}"), link: 0 });
    View { group: 1, epoch: Epoch(epoch), members: members.collect(), sequencer: MemberId(ids[0]), tie_break: None }
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

/// This sequencer lets these members go, and has fixed the view without them; member 1 has promised. Returns the view's epoch.
fn lets_go(core: &mut Core, ids: &[u64], now: Time) -> Epoch {
    ids.iter().for_each(|id| core.on_message(now, MemberId(*id), Message::Leave));
    let ack = Ack { epoch: core.view().epoch, beat: 1, held: 0, consumed: 0 };
    core.on_message(now, MemberId(1), Message::Ack(ack));
    let proposed = passes(core, now + Duration::from_millis(25));
    let (_, epoch) = proposed.iter().find_map(proposal).expect("without them");
    let chain = [core.view().clone()];
    let promise = promise(&chain);
    core.on_message(now, MemberId(1), Message::Promise { epoch, promise });
    passes(core, now + Duration::from_millis(100));
    epoch
}

fn proposal((to, message): &(MemberId, Message)) -> Option<(MemberId, Epoch)> {
    match message {
        Message::Propose { epoch } => Some((*to, *epoch)),
        _ => None,
    }
}

/// Member 2, the sequencer of members 0, 1 and 2.
fn sequencer() -> (Core, Time) {
    let view = view(1, &[0, 1, 2]);
    let (mut core, epoch, now) = candidate(&view);
    core.on_message(now, MemberId(1), Message::Promise { epoch, promise: promise(&[view]) });
    let now = now + Duration::from_millis(60);
    passes(&mut core, now);
    core.on_message(now, MemberId(1), Message::Installed { epoch });
    assert!(core.gives_numbers(now));
    (core, now)
}

fn is_put_out(message: &(MemberId, Message)) -> bool {
    matches!(message, (MemberId(0), Message::PutOut { .. }))
}

/// Member 2 of a view.
fn member(view: &View) -> Core {
    let mut core =
        Core::join(Member { id: MemberId(2), name: "m2".into(), link: 0 }, Settings::default(), Duration::ZERO);
    let history = vec![(view.epoch, 0)];
    let state = State { view: view.clone(), history, number: 0, state: Some(Bytes::new()) };
    core.on_message(Duration::ZERO, view.sequencer, Message::State(state));
    core
}

/// Member 2 of a view whose sequencer is silent, its epoch, and the time.
fn candidate(view: &View) -> (Core, Epoch, Time) {
    let mut core = member(view);
    let now = Duration::from_millis(115);
    let sent = passes(&mut core, now);
    let (_, epoch) = sent.iter().find_map(proposal).expect("after the silence and the step of its rank");
    (core, epoch, now)
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
    core.on_message(now, MemberId(1), Message::Promise { epoch, promise: promise.clone() });
    let sent = passes(&mut core, now + Duration::from_millis(25));
    let asked: Vec<u64> =
        sent.iter().filter(|(_, message)| *message == Message::Propose { epoch }).map(|(to, _)| to.0).collect();
    assert_eq!(asked, [0, 3, 4, 5, 6], "without them the second view has no majority");
    // They are in no view that this member had heard of.
    for id in [3, 4, 5] {
        core.on_message(now, MemberId(id), Message::Promise { epoch, promise: promise.clone() });
    }
    let fixed = passes(&mut core, now + Duration::from_millis(60));
    assert!(fixed.iter().any(|(_, message)| matches!(message, Message::NewView(_))));
}

#[test]
fn a_candidate_that_leaves_gets_its_view_to_the_end() {
    let (mut core, now) = sequencer();
    let epoch = lets_go(&mut core, &[0, 1], now);
    let now = now + Duration::from_millis(100);
    core.leave(now);
    assert_eq!(core.view().members.len(), 1, "its own view, which no other member has installed");
    core.on_message(now, MemberId(1), Message::Installed { epoch });
    let sent = passes(&mut core, now + Duration::from_millis(200));
    assert!(sent.iter().any(is_put_out), "without it member 0 waits for ever: {sent:?}");
    assert_eq!(core.send(now, Level::Agreed, Bytes::new()), Err(NotSent::Ended));
}

#[test]
fn a_member_that_was_put_out_stays_until_a_majority_knows_it() {
    let (mut core, now) = sequencer();
    let old = core.view().epoch;
    let epoch = lets_go(&mut core, &[0], now);
    let now = now + Duration::from_millis(100);
    core.on_message(now, MemberId(1), Message::Installed { epoch });
    assert!(core.gives_numbers(now));
    for message in [
        Message::Ack(Ack { epoch: old, beat: 1, held: 0, consumed: 0 }),
        Message::Propose { epoch: Epoch(9) },
        Message::NeedState { epoch },
        Message::Leave,
    ] {
        core.on_message(now, MemberId(0), message.clone());
        let sent = passes(&mut core, now + Duration::from_millis(1));
        assert!(!sent.iter().any(is_put_out), "member 1 may need its promise: {message:?}");
    }
    core.on_message(now, MemberId(1), Message::Ack(Ack { epoch, beat: 1, held: 0, consumed: 0 }));
    core.on_message(now, MemberId(0), Message::NeedState { epoch });
    assert!(sent(&mut core).iter().any(is_put_out));
}

#[test]
fn a_member_sends_away_only_what_a_majority_knows() {
    let (mut core, now) = (member(&view(2, &[1, 2])), Duration::from_millis(10));
    for is_settled in [false, true] {
        let beat = Beat { epoch: Epoch(2), beat: 1, next: 0, freed: 0, safe: 0, limits: vec![9; 2], is_settled };
        core.on_message(now, MemberId(1), Message::Beat(beat));
        core.on_message(now, MemberId(0), Message::Propose { epoch: Epoch(9) });
        let sent = sent(&mut core);
        assert_eq!(sent.iter().any(is_put_out), is_settled, "{sent:?}");
    }
}

#[test]
fn a_candidate_waits_for_members_that_it_has_not_asked_before() {
    let ids = [0, 1, 2, 3, 4];
    let (first, second) = (view(1, &ids), view(2, &ids));
    let mut core = member(&first);
    let history = vec![(Epoch(1), 0), (Epoch(2), 0)];
    let new_view = NewView { view: second.clone(), chain: vec![first], history: history.clone() };
    core.on_message(Duration::ZERO, MemberId(0), Message::NewView(new_view));
    let beat = Beat { epoch: second.epoch, beat: 1, next: 0, freed: 0, safe: 0, limits: vec![], is_settled: true };
    core.on_message(Duration::ZERO, MemberId(0), Message::Beat(beat));
    let now = Duration::from_millis(115);
    let (_, epoch) = passes(&mut core, now).iter().find_map(proposal).expect("after the silence");
    let promise = Promise { chain: vec![second], history, held: 0, ranges: vec![] };
    let mut promises = |id| {
        core.on_message(now, MemberId(id), Message::Promise { epoch, promise: promise.clone() });
        sent(&mut core).iter().any(|(_, message)| matches!(message, Message::NewView(_)))
    };
    // The last one may hold messages that no other has.
    assert_eq!([1, 3, 4].map(&mut promises), [false, false, true]);
}

#[test]
fn a_member_that_fetches_the_log_of_a_view_whose_sequencer_beats_is_no_candidate() {
    let (first, next) = (view(1, &[0, 1, 2]), view(2, &[1, 0, 2]));
    let mut core = member(&first);
    let history = vec![(first.epoch, 0), (next.epoch, 1)];
    let new_view = NewView { view: next.clone(), chain: vec![first], history };
    core.on_message(Duration::from_millis(10), MemberId(1), Message::NewView(new_view));
    for beat in 1..20 {
        let now = Duration::from_millis(10 + u64::from(beat) * 20);
        let proposed = passes(&mut core, now).iter().find_map(proposal);
        assert_eq!(proposed, None, "beat {beat} has arrived");
        let beat = Beat { epoch: next.epoch, beat, next: 1, freed: 0, safe: 0, limits: vec![9; 3], is_settled: false };
        core.on_message(now, MemberId(1), Message::Beat(beat));
    }
    let silent = passes(&mut core, Duration::from_secs(1));
    assert!(silent.iter().find_map(proposal).is_some(), "nothing arrives any more");
}
