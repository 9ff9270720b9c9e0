//! A state takes nothing back: neither what a process has promised, nor what it holds and has acknowledged.

use std::time::Duration;

use am_ordered_core::{
    Ack, Beat, Content, Core, Epoch, Level, Long, Member, MemberId, Message, NewView, Output, Promise, Settings,
    Stamped, State, Time, View,
};
use bytes::Bytes;

fn view(epoch: u32, ids: &[u64], sequencer: u64) -> View {
    let members = ids.iter().map(|id| Member { id: MemberId(*id), name: format!("m{id}"), link: 0 });
    View { group: 1, epoch: Epoch(epoch), members: members.collect(), sequencer: MemberId(sequencer), tie_break: None }
}

/// Member 2, with the state of a view that is current.
fn with_state(view: &View) -> Core {
    let me = Member { id: MemberId(2), name: "m2".into(), link: 0 };
    let mut core = Core::join(me, Settings::default(), Duration::ZERO);
    arrives(&mut core, 0, state(view, 0));
    core
}

fn state(view: &View, number: u64) -> Message {
    Message::State(State { view: view.clone(), history: vec![(Epoch(1), 0)], number, state: Some(Bytes::new()) })
}

/// A message arrives. Returns the promises that follow.
fn arrives(core: &mut Core, from: u64, message: Message) -> Vec<Promise> {
    arrives_at(core, Duration::from_secs(1), from, message)
}

fn arrives_at(core: &mut Core, now: Time, from: u64, message: Message) -> Vec<Promise> {
    core.on_message(now, MemberId(from), message);
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
    arrives(&mut core, 0, state(&view, 1));
    assert_eq!(arrives(&mut core, 0, Message::Propose { epoch }), [], "an epoch is promised to one candidate");
}

#[test]
fn a_promise_is_repeated_to_its_candidate_only() {
    let mut core = with_state(&view(1, &[0, 1, 2], 0));
    // The sequencer is silent.
    let mut promises = |from| arrives_at(&mut core, Duration::from_secs(3), from, Message::Propose { epoch: Epoch(3) });
    let first = promises(1);
    assert_eq!((first.len(), promises(1)), (1, first), "it may be lost");
    assert_eq!(promises(0), [], "an epoch is promised to one candidate");
}

#[test]
fn a_member_that_diverged_keeps_what_it_has_acknowledged() {
    let first = view(1, &[0, 1, 2], 0);
    let mut core = with_state(&first);
    let beat = Beat { epoch: Epoch(1), beat: 1, next: 0, freed: 0, safe: 0, limits: vec![9; 3], is_settled: false };
    arrives(&mut core, 0, Message::Beat(beat));
    let own = core.send(Duration::from_secs(1), Level::Agreed, Bytes::new()).expect("room");
    for (number, level) in [(0, Level::Safe), (1, Level::Agreed)] {
        let (epoch, payload) = (first.epoch, Bytes::new());
        let stamped =
            Stamped { epoch, number, sender: 0, seq: number as u32, limit: 9, level, content: Content::Here(payload) };
        arrives(&mut core, 0, Message::Stamped(stamped));
    }
    arrives(&mut core, 0, Message::Ack(Ack { epoch: first.epoch, beat: 0, held: 2, consumed: 0 }));
    assert_eq!(core.delivered(), 2, "the first one as safe");

    let new_view = NewView {
        view: view(2, &[0, 1, 2], 1),
        chain: vec![first.clone()],
        history: vec![(Epoch(1), 0), (Epoch(2), 1)],
    };
    arrives(&mut core, 1, Message::NewView(new_view));
    core.on_message(Duration::from_secs(1), MemberId(0), state(&first, 2));
    assert_eq!(core.poll(), None, "its sender has delivered what is not part of the new log, too");
    core.on_message(Duration::from_secs(1), MemberId(0), state(&first, 0));
    let outputs: Vec<Output> = std::iter::from_fn(|| core.poll()).collect();
    let returned = Output::Returned { id: own, may_be_delivered: true };
    assert!(outputs.contains(&returned), "it may be in the state: {outputs:?}");
    // The sequencer that it follows is silent.
    let promises = arrives_at(&mut core, Duration::from_secs(3), 0, Message::Propose { epoch: Epoch(3) });
    assert_eq!(promises[0].held, 1, "of a message that it has delivered as safe");
}

#[test]
fn a_member_that_joins_again_with_a_state_does_not_send_what_may_be_in_it() {
    let first = view(1, &[0, 1, 2], 0);
    let mut core = with_state(&first);
    let beat = |epoch, limits| {
        Message::Beat(Beat {
            epoch: Epoch(epoch),
            beat: 1,
            next: 1,
            freed: 0,
            safe: 0,
            limits: vec![9; limits],
            is_settled: false,
        })
    };
    arrives(&mut core, 0, beat(1, 3));
    let own = core.send(Duration::from_secs(1), Level::Agreed, Bytes::new()).expect("room");
    // The others deliver it, and put this member out, which misses it.
    let second = view(2, &[0, 1], 0);
    let history = vec![(Epoch(1), 0), (Epoch(2), 0)];
    arrives(&mut core, 0, Message::NewView(NewView { view: second.clone(), chain: vec![first], history }));
    arrives(&mut core, 0, beat(2, 2));
    core.on_message(Duration::from_secs(1), MemberId(0), state(&second, 1));
    let outputs: Vec<Output> = std::iter::from_fn(|| core.poll()).collect();
    let returned = Output::Returned { id: own, may_be_delivered: true };
    assert!(outputs.contains(&returned), "it may be in the state: {outputs:?}");
}

#[test]
fn a_state_ends_the_wait_for_contents_of_another_epoch() {
    let mut core = with_state(&view(1, &[0, 1], 0));
    let stamped = |epoch, number, content| {
        let (epoch, level) = (Epoch(epoch), Level::Agreed);
        Message::Stamped(Stamped { epoch, number, sender: 1, seq: number as u32, limit: 9, level, content })
    };
    arrives(&mut core, 0, stamped(1, 3, Content::Apart(Long { id: 5, length: 5000 })));
    // In the next epoch another message has this number, and is lost.
    let (view, history) = (view(2, &[0, 1], 0), vec![(Epoch(1), 0), (Epoch(2), 2)]);
    arrives(&mut core, 0, Message::State(State { view, history, number: 2, state: Some(Bytes::new()) }));
    arrives(&mut core, 0, stamped(2, 2, Content::Here(Bytes::new())));
    arrives(&mut core, 0, stamped(2, 4, Content::Here(Bytes::new())));
    core.on_time(Duration::from_secs(10));
    let sent = |output| if let Output::Send { message, .. } = output { Some(message) } else { None };
    let sent: Vec<Message> = std::iter::from_fn(|| core.poll()).filter_map(sent).collect();
    let asks = |message: &Message| matches!(message, Message::Repair { epoch: Epoch(2), from: 3, to: 4 });
    assert!(
        sent.iter().any(asks) && !sent.iter().any(|message| matches!(message, Message::NeedData { .. })),
        "{sent:?}"
    );
}

#[test]
fn a_process_that_joins_is_not_in_the_part_that_goes_on() {
    assert!(!with_state(&view(1, &[0, 1], 0)).is_primary() && with_state(&view(1, &[0, 1, 2], 0)).is_primary());
}

#[test]
fn a_process_that_asks_for_the_state_again_waits_while_it_is_on_its_way() {
    let view = view(1, &[0, 1, 2], 0);
    let (mut core, begin) = (with_state(&view), Duration::from_secs(1));
    let asked = |core: &mut Core, after| {
        let now = begin + Duration::from_millis(after);
        core.on_message(now, MemberId(1), Message::NeedState { epoch: Epoch(1) });
        let outputs = std::iter::from_fn(|| core.poll()).collect::<Vec<_>>();
        outputs.iter().filter(|output| matches!(output, Output::TakeState { .. })).count()
    };
    assert_eq!([asked(&mut core, 0), asked(&mut core, 1)], [1, 0], "the program has not given it");
    core.state_taken(MemberId(1), Bytes::from(vec![0; 1_000_000]));
    assert_eq!([asked(&mut core, 90), asked(&mut core, 200)], [0, 1], "a megabyte may need a tenth of a second");
}

#[test]
fn what_follows_a_state_is_kept_while_it_is_on_its_way() {
    let member = |id| Member { id: MemberId(id), name: format!("m{id}"), link: 0 };
    let mut core = Core::found(member(0), Settings::default(), Duration::ZERO);
    core.on_message(Duration::from_millis(1), MemberId(1), Message::Join { member: member(1), held: None });
    let outputs = |core: &mut Core| std::iter::from_fn(|| core.poll()).collect::<Vec<_>>();
    core.on_time(Duration::from_millis(20));
    assert!(outputs(&mut core).iter().any(|output| matches!(output, Output::TakeState { .. })));
    core.state_taken(MemberId(1), Bytes::from(vec![0; 1_000_000]));
    for nth in 0..10 {
        let now = Duration::from_millis(40 + nth * 20);
        core.send(now, Level::Agreed, Bytes::new()).expect("room");
        core.on_time(now);
        outputs(&mut core);
    }
    let (epoch, now) = (core.view().epoch, Duration::from_millis(500));
    core.on_message(now, MemberId(1), Message::Join { member: member(1), held: Some(0) });
    core.on_message(now, MemberId(1), Message::Repair { epoch, from: 0, to: 10 });
    let repaired = outputs(&mut core).into_iter().find_map(|output| match output {
        Output::Send { message: Message::Repaired { entries, .. }, .. } => Some(entries.len()),
        _ => None,
    });
    assert_eq!(repaired, Some(10));
}

/// The sequencer that gave the state was alone, and another one, which it let in since, leads now.
#[test]
fn one_that_joins_answers_a_sequencer_that_it_does_not_know() {
    let mut core = with_state(&view(1, &[0], 0));
    while core.poll().is_some() {}
    let beat = Beat { epoch: Epoch(4), beat: 1, next: 0, freed: 0, safe: 0, limits: vec![8, 8], is_settled: true };
    core.on_message(Duration::from_secs(1), MemberId(1), Message::Beat(beat));
    let mut outputs = std::iter::from_fn(|| core.poll());
    // The answer to its answer is the new view.
    assert!(outputs.any(|output| matches!(output, Output::Send { to: MemberId(1), message: Message::Ack(_) })));
}
