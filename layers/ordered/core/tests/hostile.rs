//! Messages that make no sense, from strangers and from members: none panics, and those of strangers change nothing.

use std::time::Duration;

use am_ordered_core::{
    Ack, Beat, Content, Core, Ended, Entry, Epoch, Level, Long, Member, MemberId, Message, NewView, Output, Piece,
    PieceContent, Place, Promise, Settings, Stamped, State, Time, View,
};
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Some number that is near a limit, near what is in use, or any.
fn number(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..4) {
        0 => rng.random_range(0..8),
        1 => u64::MAX - rng.random_range(0..3),
        2 => rng.random_range(0..3000),
        _ => rng.random(),
    }
}

fn epoch(rng: &mut SmallRng) -> Epoch {
    Epoch(number(rng) as u32)
}

fn bytes(rng: &mut SmallRng) -> Bytes {
    vec![7; rng.random_range(0..40)].into()
}

fn member(rng: &mut SmallRng) -> Member {
    Member { id: MemberId(rng.random_range(0..6)), name: "m".into(), link: 0 }
}

fn several<T>(rng: &mut SmallRng, mut one: impl FnMut(&mut SmallRng) -> T) -> Vec<T> {
    (0..rng.random_range(0..4)).map(|_| one(rng)).collect()
}

fn view(rng: &mut SmallRng) -> View {
    let (members, sequencer) = (several(rng, member), member(rng).id);
    View { group: 1, epoch: epoch(rng), members, sequencer, tie_break: None }
}

fn history(rng: &mut SmallRng) -> Vec<(Epoch, u64)> {
    several(rng, |rng| (epoch(rng), number(rng)))
}

fn level(rng: &mut SmallRng) -> Level {
    if rng.random() { Level::Agreed } else { Level::Safe }
}

fn content(rng: &mut SmallRng) -> Content {
    if rng.random() { Content::Here(bytes(rng)) } else { Content::Apart(long(rng)) }
}

fn long(rng: &mut SmallRng) -> Long {
    Long { id: number(rng), length: number(rng) }
}

fn entry(rng: &mut SmallRng) -> Entry {
    let (number, sender, seq) = (number(rng), member(rng).id, number(rng) as u32);
    let long = rng.random::<bool>().then(|| long(rng));
    Entry { epoch: epoch(rng), number, sender, seq, level: level(rng), long, payload: bytes(rng) }
}

fn stamped(rng: &mut SmallRng) -> Stamped {
    let (number, sender, seq, limit) = (number(rng), rng.random_range(0..5), number(rng) as u32, number(rng) as u32);
    Stamped { epoch: epoch(rng), number, sender, seq, limit, level: level(rng), content: content(rng) }
}

fn promise(rng: &mut SmallRng) -> Promise {
    let (chain, history, held) = (several(rng, view), history(rng), number(rng));
    Promise { chain, history, held, ranges: several(rng, |rng| (number(rng), number(rng))) }
}

fn beat(rng: &mut SmallRng) -> Beat {
    let (next, freed, safe) = (number(rng), number(rng), number(rng));
    Beat {
        epoch: epoch(rng),
        beat: number(rng) as u32,
        next,
        freed,
        safe,
        limits: several(rng, |rng| number(rng) as u32),
        is_settled: rng.random_bool(0.5),
    }
}

/// A number of a state or of a piece: often one that is in use.
fn near(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..4) {
        0 => u64::from(rng.random_range(0..4_u32)) << 32 | rng.random_range(0..4),
        _ => number(rng),
    }
}

fn state_with(rng: &mut SmallRng, state: Option<Bytes>) -> State {
    State { view: view(rng), history: history(rng), number: number(rng), state }
}

fn piece(rng: &mut SmallRng) -> Piece {
    let content = match rng.random_range(0..3) {
        0 => PieceContent::Part { bytes: bytes(rng), is_last: rng.random() },
        1 => PieceContent::Messages(several(rng, entry)),
        _ => {
            let state = rng.random_bool(0.1).then(|| bytes(rng));
            PieceContent::End(state_with(rng, state))
        }
    };
    Piece { id: near(rng), nth: near(rng), content }
}

fn message(rng: &mut SmallRng) -> Message {
    let epoch = epoch(rng);
    match rng.random_range(0..23) {
        0 => Message::Submit { epoch, seq: number(rng) as u32, level: level(rng), content: content(rng) },
        1 => Message::Stamped(stamped(rng)),
        2 => Message::Data { sender: member(rng).id, id: number(rng), payload: bytes(rng) },
        3 => Message::Beat(beat(rng)),
        4 => Message::Ack(Ack { epoch, beat: number(rng) as u32, held: number(rng), consumed: number(rng) }),
        5 => Message::Token { epoch, round: number(rng) as u32, consumed: number(rng) },
        6 => Message::Repair { epoch, from: number(rng), to: number(rng) },
        7 => Message::Repaired { epoch, entries: several(rng, entry), first: number(rng) },
        8 => Message::Propose { epoch },
        9 => Message::Promise { epoch, promise: promise(rng) },
        10 => Message::Refuse { promised: epoch },
        11 => Message::NewView(NewView { view: view(rng), chain: several(rng, view), history: history(rng) }),
        12 => Message::Installed { epoch },
        13 => Message::Resign { epoch },
        14 => Message::Join { member: member(rng), held: rng.random::<bool>().then(|| number(rng)) },
        15 => Message::NeedState { epoch },
        16 => {
            let state = rng.random_bool(0.9).then(|| bytes(rng));
            Message::State(state_with(rng, state))
        }
        17 => Message::Leave,
        18 => Message::NeedData { sender: member(rng).id, id: number(rng), number: number(rng) },
        19 | 20 => Message::Piece(piece(rng)),
        21 => Message::PieceAck { id: near(rng), next: near(rng) },
        _ => Message::PutOut { epoch, why: Ended::Silent },
    }
}

/// Three members, whose messages arrive at once.
struct Group {
    now: Time,
    members: Vec<Core>,
    delivered: Vec<Vec<u64>>,
    ended: Vec<Option<Ended>>,
}

impl Group {
    fn new() -> Group {
        let me = |id: u64| Member { id: MemberId(id), name: format!("m{id}"), link: 0 };
        let now = Duration::from_secs(1);
        let joins = |id| Core::join(me(id), Settings::default(), now);
        let members = vec![Core::found(me(0), Settings::default(), now), joins(1), joins(2)];
        let mut group = Group { now, members, delivered: vec![vec![]; 3], ended: vec![None; 3] };
        while group.members.iter().any(|member| member.view().members.len() < 3) {
            group.turn();
        }
        group
    }

    fn turn(&mut self) {
        self.now += Duration::from_millis(1);
        for index in 0..3 {
            self.members[index].on_time(self.now);
            while let Some(output) = self.members[index].poll() {
                self.carry_out(index, output);
            }
        }
    }

    fn carry_out(&mut self, index: usize, output: Output) {
        let (from, now) = (MemberId(index as u64), self.now);
        let audience = self.members[index].audience();
        let mut send = |to: MemberId, message| {
            if let Some(member) = self.members.get_mut(to.0 as usize) {
                member.on_message(now, from, message);
            }
        };
        match output {
            Output::Send { to, message } => send(to, message),
            Output::Contact(message) => send(MemberId(0), message),
            Output::Multicast(message) => {
                audience.into_iter().for_each(|to| send(to, message.clone()));
            }
            // Of every other number the state is given in pieces.
            Output::TakeState { joiner, place } => {
                let next = (place.next < 3).then_some(Place { next: place.next + 1, end: 3 });
                self.members[index].part_taken(joiner, &Bytes::new(), next.filter(|_| joiner.0 % 2 == 1));
            }
            Output::Deliver(delivery) => self.delivered[index].push(delivery.number),
            Output::Ended(why) => self.ended[index] = Some(why),
            _ => (),
        }
    }
}

#[test]
fn what_strangers_send_changes_nothing() {
    let (mut group, mut rng) = (Group::new(), SmallRng::seed_from_u64(1));
    let before: Vec<View> = group.members.iter().map(|member| member.view().clone()).collect();
    for round in 0..300_000 {
        let (victim, message) = (rng.random_range(0..3), message(&mut rng));
        // A process that wants to join is heard, and so is a candidate that a member was stopped too long to know.
        if !matches!(message, Message::Join { .. }) {
            group.members[victim].on_message(group.now, MemberId(77), message);
        }
        if round % 1000 == 0 {
            group.members[victim].send(group.now, Level::Safe, Bytes::new()).expect("room");
            group.turn();
        }
    }
    (0..100).for_each(|_| group.turn());
    assert!(group.members.iter().map(Core::view).eq(&before));
    assert!(group.delivered.iter().all(|delivered| delivered.iter().copied().eq(0..300)));
    let refused = |member: &Core| member.counters().strangers + member.counters().impossible;
    assert!(group.members.iter().all(|member| refused(member) > 60_000));
}

#[test]
fn nothing_that_a_member_sends_makes_another_panic() {
    for seed in 0..300 {
        let (mut group, mut rng) = (Group::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..500 {
            let (victim, from, message) = (rng.random_range(0..3), rng.random_range(0..3), message(&mut rng));
            group.members[victim].on_message(group.now, MemberId(from), message);
            if rng.random_range(0..10) == 0 {
                _ = group.members[victim].send(group.now, Level::Safe, Bytes::new());
                group.turn();
            }
        }
    }
}

#[test]
fn all_may_leave_at_once() {
    let mut group = Group::new();
    let now = group.now;
    group.members.iter_mut().for_each(|member| member.leave(now));
    for _ in 0..2000 {
        group.turn();
    }
    assert_eq!(group.ended, [Some(Ended::Left); 3]);
}
