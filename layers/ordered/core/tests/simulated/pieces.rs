//! A state in pieces: those of another state are refused, and a taker that is too slow stops no other member.

use std::time::Duration;

use am_ordered_core::{
    Core, Epoch, Level, Member, MemberId, Message, Output, Piece, PieceContent, Place, Settings, State, Time, View,
};
use bytes::Bytes;

fn member(id: u64) -> Member {
    Member { id: MemberId(id), name: format!("m{id}"), link: 0 }
}

fn piece(id: u64, nth: u64, byte: u8) -> Message {
    let content = PieceContent::Part { bytes: Bytes::copy_from_slice(&[byte]), is_last: true };
    Message::Piece(Piece { id, nth, content })
}

/// What a process that joins does with these: the parts that it takes, the acknowledgements, and whether it begins.
fn taken(core: &mut Core, now: Time, from: u64, message: Message) -> (Vec<u8>, Vec<u64>, bool) {
    core.on_message(now, MemberId(from), message);
    let (mut parts, mut acknowledged, mut begins) = (vec![], vec![], false);
    while let Some(output) = core.poll() {
        match output {
            Output::StatePart { bytes, .. } => parts.extend_from_slice(&bytes),
            Output::Send { message: Message::PieceAck { next, .. }, .. } => acknowledged.push(next),
            Output::RestoreState { state: None, .. } => begins = true,
            _ => (),
        }
    }
    (parts, acknowledged, begins)
}

fn last(id: u64, nth: u64) -> Message {
    let view = View { group: 1, epoch: Epoch(1), members: vec![member(0)], sequencer: MemberId(0), tie_break: None };
    let history = vec![(Epoch(1), 0)];
    let content = PieceContent::End(State { view, history, number: 9, state: None });
    Message::Piece(Piece { id, nth, content })
}

#[test]
fn a_piece_of_another_state_is_refused_and_a_missing_one_is_waited_for() {
    let (mut core, now) = (Core::join(member(2), Settings::default(), Time::ZERO), Duration::from_secs(1));
    let mut takes = |from, message| taken(&mut core, now, from, message);
    assert_eq!(takes(0, piece(7, 1, 1)), (vec![], vec![], false), "none has begun");
    assert_eq!(takes(0, piece(7, 0, 0)), (vec![0], vec![1], false));
    assert_eq!(takes(0, piece(7, 2, 2)), (vec![], vec![1], false), "the second one is missing");
    for (from, id) in [(0, 6), (1, 7), (1, 8)] {
        for nth in [0, 1] {
            assert_eq!(takes(from, piece(id, nth, 9)), (vec![], vec![], false), "{id} of {from}");
        }
    }
    assert_eq!(takes(0, piece(7, u64::MAX, 9)).0, [], "far away");
    assert_eq!(takes(0, last(7, 3)), (vec![], vec![1], false), "not all are here");
    assert_eq!(takes(0, last(8, 1)), (vec![], vec![], false), "another state's");
    assert_eq!(takes(0, piece(7, 1, 1)), (vec![1, 2], vec![4], true), "the end was here before");
}

#[test]
fn a_state_begins_anew_by_another_member_once_its_giver_is_silent() {
    let (mut core, now) = (Core::join(member(2), Settings::default(), Time::ZERO), Duration::from_secs(1));
    assert_eq!(taken(&mut core, now, 0, piece(7, 0, 1)).0, [1]);
    assert_eq!(taken(&mut core, now + Duration::from_millis(900), 1, piece(3, 0, 2)).0, []);
    assert_eq!(taken(&mut core, now + Duration::from_millis(1100), 1, piece(3, 0, 2)).0, [2]);
    assert_eq!(taken(&mut core, now + Duration::from_millis(1100), 0, piece(7, 1, 1)).0, [], "it is over");
}

#[test]
fn the_next_sequencer_gives_its_state_though_the_last_giver_was_heard() {
    let (mut core, now) = (Core::join(member(2), Settings::default(), Time::ZERO), Duration::from_secs(1));
    let of = |epoch: u64| epoch << 32 | 1;
    assert_eq!(taken(&mut core, now, 0, piece(of(4), 0, 1)).0, [1]);
    assert_eq!(taken(&mut core, now, 1, piece(of(3), 0, 2)).0, [], "an earlier epoch's");
    assert_eq!(taken(&mut core, now, 1, piece(of(5), 0, 3)).0, [3]);
    assert_eq!(taken(&mut core, now, 0, piece(of(4), 1, 1)).0, [], "it is over");
}

/// A giver that never ends a part does not fill the taker's memory.
#[test]
fn a_part_without_an_end_is_refused() {
    let (mut core, now) = (Core::join(member(2), Settings::default(), Time::ZERO), Duration::from_secs(1));
    let bytes = Bytes::from(vec![7; 1 << 20]);
    let mut takes = |id, nth, is_last| {
        let content = PieceContent::Part { bytes: bytes.clone(), is_last };
        core.on_message(now, MemberId(0), Message::Piece(Piece { id, nth, content }));
        let outputs: Vec<Output> = std::iter::from_fn(|| core.poll()).collect();
        (outputs.contains(&Output::ForgetState), core.counters().too_long, core.refused_part_of())
    };
    // Two parts that are as long as they may be.
    assert!((0..2048).all(|nth| takes(7, nth, nth % 1024 == 1023) == (false, 0, None)));
    assert!((2048..3072).all(|nth| takes(7, nth, false) == (false, 0, None)));
    assert_eq!(takes(7, 3072, false), (true, 1, Some(MemberId(0))));
    assert_eq!(takes(7, 3073, true), (false, 1, Some(MemberId(0))), "the rest is not taken");
    assert_eq!(takes(8, 0, true), (false, 1, Some(MemberId(0))), "another state is");
    assert_eq!(core.pieces_taken(), Some(1));
}

/// The first member of a group, which is asked for its state by a process that never acknowledges.
fn gives() -> Core {
    let mut core = Core::found(member(0), Settings::default(), Duration::ZERO);
    core.on_message(Duration::from_millis(1), MemberId(1), Message::Join { member: member(1), held: None });
    core.on_time(Duration::from_millis(20));
    let outputs: Vec<Output> = std::iter::from_fn(|| core.poll()).collect();
    let place = Place::default();
    assert!(outputs.contains(&Output::TakeState { joiner: MemberId(1), place }), "{outputs:?}");
    core
}

#[test]
fn a_taker_that_is_too_slow_is_named_and_stops_no_message() {
    let mut core = gives();
    core.part_taken(MemberId(1), &Bytes::from_static(b"part"), Some(Place { next: 1, end: 1 }));
    let (payload, mut delivered) = (Bytes::from(vec![7; 1 << 20]), 0);
    for nth in 0..300 {
        let now = Duration::from_millis(21 + nth);
        core.send(now, Level::Agreed, payload.clone()).expect("room");
        core.on_time(now);
        delivered += std::iter::from_fn(|| core.poll()).filter(|output| matches!(output, Output::Deliver(_))).count();
    }
    assert_eq!((delivered, core.late_joiners().collect::<Vec<_>>()), (300, vec![MemberId(1)]));
}

#[test]
fn pieces_wait_for_those_before_and_are_sent_again() {
    let mut core = gives();
    core.part_taken(MemberId(1), &Bytes::from(vec![7; 20 << 20]), None);
    // One at a time: a beat waits for no more.
    let sent_at = |core: &mut Core, now| {
        core.on_time(now);
        let pieces = std::iter::from_fn(|| core.poll()).filter_map(|output| match output {
            Output::Send { message: Message::Piece(piece), .. } => Some(piece),
            _ => None,
        });
        pieces.collect::<Vec<_>>()
    };
    let sent = |core: &mut Core, from: u64| {
        (from..from + 10).flat_map(|at| sent_at(core, Duration::from_millis(at))).collect::<Vec<_>>()
    };
    assert_eq!(sent_at(&mut core, Duration::from_millis(20)).len(), 1);
    let first = sent(&mut core, 21);
    let nths = |pieces: &[Piece]| pieces.iter().map(|piece| piece.nth).collect::<Vec<_>>();
    assert_eq!(nths(&first), [1, 2, 3, 4, 5, 6, 7], "a window");
    let id = first[0].id;
    let acknowledged = |core: &mut Core, id, next| {
        core.on_message(Duration::from_millis(35), MemberId(1), Message::PieceAck { id, next });
        nths(&sent(core, 40))
    };
    assert_eq!(acknowledged(&mut core, id, 2), [8, 9]);
    for (id, next) in [(id, 1), (id, 11), (id, u64::MAX), (id + 1, 3)] {
        assert_eq!(acknowledged(&mut core, id, next), [], "{next} of {id}");
    }
    assert_eq!(nths(&sent(&mut core, 2000)), [2, 3, 4, 5, 6, 7, 8, 9], "none was acknowledged");
}

/// The giver of a state, whose program sends as much as it may, and a taker that acknowledges a piece in each of some turns of a millisecond.
struct Slow {
    core: Core,
    now: Time,
    acked: u64,
    sent: u64,
    id: u64,
    has_ended: bool,
    delivered: u64,
}

impl Slow {
    fn new() -> Slow {
        let mut core = gives();
        core.part_taken(MemberId(1), &Bytes::from(vec![7; 2 << 20]), None);
        Slow { core, now: Duration::from_millis(20), acked: 0, sent: 0, id: 0, has_ended: false, delivered: 0 }
    }

    /// A turn, in which it acknowledges one piece more, or none.
    fn turn(&mut self, acknowledges: bool) -> u64 {
        self.turn_with((acknowledges && self.acked < self.sent).then_some(self.acked + 1))
    }

    /// A turn, in which all pieces before this one are acknowledged. Returns how many messages were delivered.
    fn turn_with(&mut self, acked: Option<u64>) -> u64 {
        self.now += Duration::from_millis(1);
        if let Some(acked) = acked {
            self.acked = acked;
            let ack = Message::PieceAck { id: self.id, next: self.acked };
            self.core.on_message(self.now, MemberId(1), ack);
        }
        let before = self.delivered;
        // More than a slow taker takes, and less than the credits.
        (0..500).for_each(|_| _ = self.core.send(self.now, Level::Agreed, Bytes::new()));
        self.core.on_time(self.now);
        while let Some(output) = self.core.poll() {
            match output {
                Output::Send { message: Message::Piece(Piece { id, nth, content }), .. } => {
                    (self.id, self.sent) = (id, self.sent.max(nth + 1));
                    self.has_ended |= matches!(content, PieceContent::End(_));
                }
                Output::Deliver(_) => self.delivered += 1,
                _ => (),
            }
        }
        self.delivered - before
    }
}

#[test]
fn a_slow_taker_slows_the_group_until_it_has_the_state() {
    let mut slow = Slow::new();
    let turns = (0..3000).take_while(|turn| {
        slow.turn(turn % 10 == 0);
        !slow.has_ended
    });
    let turns = turns.count();
    let rate = slow.delivered / turns as u64;
    assert!(slow.has_ended && slow.core.late_joiners().count() == 0, "{turns} ms, {} messages", slow.delivered);
    // Of two messages that it takes one comes.
    assert!((20..400).contains(&rate), "{rate} messages/ms for {turns} ms");
}

/// It says again and again that it has what it has.
#[test]
fn a_taker_that_comes_no_further_is_waited_for_as_long_as_a_slow_member() {
    let mut slow = Slow::new();
    (0..100).for_each(|turn| _ = slow.turn(turn % 20 == 0));
    assert!(!slow.has_ended);
    let mut waits = (0..20_000).map(|_| slow.turn_with(Some(slow.acked)) == 0);
    let begins = waits.by_ref().take_while(|waits| !waits).count();
    let longest = waits.by_ref().take_while(|waits| *waits).count();
    assert!((4_900..5_100).contains(&longest), "{longest} ms, after {begins}");
    assert_eq!(waits.take(500).filter(|waits| *waits).count(), 0, "it is not waited for again");
    assert_eq!(slow.core.late_joiners().collect::<Vec<_>>(), [MemberId(1)]);
}

#[test]
fn a_taker_that_answers_no_more_is_not_waited_for() {
    let mut slow = Slow::new();
    // Its parts are there, and much waits.
    (0..100).for_each(|turn| _ = slow.turn(turn % 20 == 0));
    assert!(!slow.has_ended);
    let longest = (0..2000).fold((0, 0), |(longest, pause), _| {
        let pause = if slow.turn(false) == 0 { pause + 1 } else { 0 };
        (pause.max(longest), pause)
    });
    assert!((100..=200).contains(&longest.0), "a pause of {} ms", longest.0);
}
