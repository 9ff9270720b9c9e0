//! A peer that says anything: what it can reach, and what it cannot.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use am_transport::loopback;
use am_wire::bulk::{Notice, NoticeKind, Segment};
use am_wire::long::{Head, MESSAGE};
use am_wire::{Class, Framing, HEAD_WORDS, Kind};

use super::dropped::DroppedEarly;
use super::{ANSWER, PAYLOAD_AT, Rights, TransferError, TransferKind, buffer_length};
use crate::{Builder, Connection, Endpoint, HandlerId, Node, TransferId};

type News = Vec<(TransferKind, TransferId, Result<(), TransferError>)>;

struct Pair {
    alpha: Endpoint<News>,
    beta: Endpoint<News>,
    /// Another endpoint of alpha's node.
    aside: Endpoint<News>,
    to: Connection,
    news: (News, News),
}

impl Pair {
    fn new() -> Pair {
        Pair::with(|builder| builder)
    }

    fn with(set: fn(Builder) -> Builder) -> Pair {
        let open = |name: &str, plug: loopback::Plug| {
            let builder = set(Node::builder(name).framing(Framing::Plain));
            let node = builder.open_on(Box::new(plug.open().unwrap())).unwrap();
            let mut endpoint = node.endpoint::<News>("main").unwrap();
            endpoint.on_transfer(|news, completion| news.push((completion.kind, completion.id, completion.result)));
            (endpoint, node.endpoint::<News>("aside").unwrap())
        };
        let [left, right] = loopback::pair();
        let ((alpha, aside), (beta, _)) = (open("alpha", left), open("beta", right));
        let to = alpha.connect("beta", "main").unwrap();
        let mut pair = Pair { alpha, beta, aside, to, news: Default::default() };
        while !pair.alpha.is_open(to) {
            pair.poll();
        }
        pair
    }

    fn poll(&mut self) {
        self.alpha.poll(&mut self.news.0);
        self.beta.poll(&mut self.news.1);
    }

    /// Alpha sends these bytes as part of a transfer.
    fn forge(&mut self, kind: Kind, body: &[u8]) {
        self.forge_message(kind, 0, body);
    }

    /// The same with this number of words.
    fn forge_message(&mut self, kind: impl Into<Kind> + Into<Class> + Copy, words: u8, body: &[u8]) {
        while !self.try_forge(kind, words, body) {
            self.poll();
        }
    }

    /// Returns whether there is credit for it.
    fn try_forge(&mut self, kind: impl Into<Kind> + Into<Class> + Copy, words: u8, body: &[u8]) -> bool {
        let mut node = self.alpha.node.borrow_mut();
        let Some(frame) = node.engine.pool().take() else { return false };
        let write = |place: &mut [u8]| place.copy_from_slice(body);
        node.core().send(self.to.0, kind, 0, words, frame, body.len(), write).is_ok()
    }
}

/// Numbers near the edges, and any.
fn number(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let near = *random >> 40 & 7;
    match *random >> 60 {
        0..8 => near,
        8..10 => 990 + 2 * near,
        10 | 11 => near.wrapping_sub(4),
        12 => (1 << 32) - 4 + near,
        13 => *random,
        _ => *random >> 50,
    }
}

#[test]
fn a_forged_segment_reaches_what_it_may_and_nothing_else() {
    let mut pair = Pair::new();
    let open = pair.beta.register(vec![0; 1000], Rights::WRITE);
    let closed = pair.beta.register(vec![0; 1000], Rights::READ);
    let ids = [open.id().0, closed.id().0, 3, u32::MAX];
    let mut random = 1;
    for _ in 0..30_000 {
        let mut next = || number(&mut random);
        let (region, transfer) = (ids[next() as usize % 4], next() as u32 | (next() as u32 & 1) << 31);
        let said = Segment { region, transfer, start: next(), total: next(), at: next() };
        let data = vec![0xff; next() as usize % 1200];
        // As it stands in a frame, which has no room for numbers that make no sense.
        let segment = Segment::parse(&said.to_bytes()).map_or(said, |(segment, _)| segment);
        pair.forge(Kind::Put, &[&segment.to_bytes()[..], &data].concat());
        let may = Segment::parse(&[&segment.to_bytes()[..], &data].concat()).is_some()
            && region == open.id().0
            && transfer & ANSWER == 0
            && segment.start.checked_add(segment.total).is_some_and(|end| end <= 1000);
        while pair.alpha.credit(pair.to) < 20 || pair.beta.node.borrow().engine.core().has_bulk() {
            pair.poll();
        }
        (0..3).for_each(|_| pair.poll());
        let from = if may { (segment.start + segment.at) as usize } else { 0 };
        let written = if may { from..from + data.len() } else { 0..0 };
        for (at, byte) in open.bytes_mut().iter_mut().enumerate() {
            assert_eq!(*byte == 0xff, written.contains(&at), "{segment:?}, {} bytes, byte {at}", data.len());
            *byte = 0;
        }
    }
    assert!(closed.bytes().iter().all(|&byte| byte == 0));
    assert!(pair.beta.node.borrow().bulk.arriving.len() <= super::MAX_TRANSFERS);
    // Whoever is honest still gets through.
    pair.news.0.clear();
    let id = pair.alpha.put(pair.to, open.id(), 0, b"honest").unwrap();
    while !pair.news.0.contains(&(TransferKind::Put, id, Ok(()))) {
        pair.poll();
    }
}

/// Who begins and never ends keeps nobody else out.
#[test]
fn unfinished_puts_leave_room_to_others() {
    let mut pair = Pair::new();
    let region = pair.beta.register(vec![0; 5000], Rights::WRITE);
    let begin = |pair: &mut Pair, transfer| {
        let segment = Segment { region: region.id().0, transfer, start: 0, total: 5000, at: 0 };
        let mut body = segment.to_bytes().to_vec();
        body.push(1);
        pair.forge(Kind::Put, &body);
    };
    (0..2 * super::MAX_TRANSFERS as u32).for_each(|transfer| begin(&mut pair, 1000 + transfer));
    (0..100).for_each(|_| pair.poll());
    assert_eq!(pair.beta.node.borrow().bulk.arriving.len(), super::MAX_TRANSFERS / 2);
    // What has no room comes back with the reason.
    pair.alpha.put(pair.to, region.id(), 0, vec![7; 5000]).unwrap();
    while pair.news.0.is_empty() {
        pair.poll();
    }
    assert!(matches!(pair.news.0[..], [(TransferKind::Put, _, Err(TransferError::Busy))]), "{:?}", pair.news.0);
    // The same peer over another connection, as any other.
    let first = std::mem::replace(&mut pair.to, pair.alpha.connect("beta", "main").unwrap());
    while !pair.alpha.is_open(pair.to) {
        pair.poll();
    }
    pair.alpha.put(pair.to, region.id(), 0, vec![7; 5000]).unwrap();
    begin(&mut pair, 9);
    (0..1000).for_each(|_| pair.poll());
    assert!(pair.news.0.iter().any(|(kind, _, result)| *kind == TransferKind::Put && result.is_ok()));
    assert_eq!(pair.beta.node.borrow().bulk.arriving.len(), super::MAX_TRANSFERS / 2 + 1);
    assert!(pair.alpha.is_open(first));
}

#[test]
fn senseless_bodies_are_counted() {
    let mut pair = Pair::new();
    pair.forge(Kind::Put, &[0; Segment::BYTES - 1]);
    pair.forge(Kind::Get, &[0; Notice::BYTES]);
    pair.forge(Kind::Get, &[1; Notice::BYTES + 1]);
    pair.forge(Kind::Get, &Notice::of(NoticeKind::Done, 77).to_bytes());
    pair.forge(Kind::Put, &Segment { region: 0, transfer: ANSWER, start: 0, total: 0, at: 0 }.to_bytes());
    let counted = |pair: &Pair| pair.beta.node.borrow().bulk.counters.malformed;
    while counted(&pair) < 5 {
        pair.poll();
    }
    assert_eq!((pair.news.0.len(), pair.news.1.len()), (0, 0));
}

/// What was refused in the middle stays refused: the rest of it, which is on its way then, is no new
/// transfer that would be waited for as long as the connection lasts.
#[test]
fn a_transfer_refused_in_the_middle_leaves_nothing_behind() {
    let mut pair = Pair::new();
    let region = pair.beta.register(vec![0; 1 << 18], Rights::BOTH);
    for round in 1..=20 {
        pair.alpha.put(pair.to, region.id(), 0, vec![1; 1 << 18]).unwrap();
        // More than beta takes in at once.
        (0..8).for_each(|_| _ = pair.alpha.poll(&mut pair.news.0));
        let bytes = region.bytes();
        pair.beta.poll(&mut pair.news.1);
        drop(bytes);
        while pair.news.0.len() < round {
            pair.poll();
        }
        (0..1000).for_each(|_| pair.poll());
    }
    assert!(pair.news.0.iter().all(|(_, _, result)| *result == Err(TransferError::PeerBorrowed)), "{:?}", pair.news.0);
    assert_eq!(pair.beta.node.borrow().bulk.arriving.len(), 0, "nothing is waited for");
    pair.alpha.put(pair.to, region.id(), 0, vec![2; 1 << 18]).unwrap();
    while pair.news.0.len() < 21 {
        pair.poll();
    }
    assert_eq!((pair.news.0[20].2, region.bytes()[(1 << 18) - 1]), (Ok(()), 2));
}

/// A transfer that began before keeps the bytes, and lets nobody else in.
#[test]
fn a_dropped_region_is_closed_although_a_transfer_reads_it() {
    let mut pair = Pair::new();
    let region = pair.beta.register(vec![7; 1 << 20], Rights::BOTH);
    let (id, ours) = (region.id(), pair.alpha.register(vec![0; 1 << 20], Rights::NONE));
    pair.alpha.get(pair.to, id, 0, 1 << 20, &ours, 0).unwrap();
    while pair.beta.node.borrow().bulk.outgoing.is_empty() {
        pair.poll();
    }
    drop(region);
    pair.alpha.put(pair.to, id, 0, b"late").unwrap();
    while pair.news.0.len() < 2 {
        pair.poll();
    }
    let result = |kind| pair.news.0.iter().find(|news| news.0 == kind).map(|news| news.2);
    assert_eq!(result(TransferKind::Put), Some(Err(TransferError::NoRegion)));
    assert_eq!(result(TransferKind::Get), Some(Ok(())));
    assert!(ours.bytes().iter().all(|&byte| byte == 7));
}

/// While its owner holds the bytes, nothing is written, and nobody panics.
#[test]
fn a_region_may_be_borrowed_while_its_endpoint_polls() {
    let mut pair = Pair::new();
    let region = pair.beta.register(vec![0; 10], Rights::BOTH);
    let bytes = region.bytes();
    pair.alpha.put(pair.to, region.id(), 0, b"hello").unwrap();
    while pair.news.0.is_empty() {
        pair.poll();
    }
    drop(bytes);
    assert!(matches!(pair.news.0[..], [(TransferKind::Put, _, Err(TransferError::PeerBorrowed))]));
    // So may that of the side which asks: what arrives is refused, and both say why.
    let ours = pair.alpha.register(vec![0; 10], Rights::NONE);
    pair.alpha.get(pair.to, region.id(), 0, 10, &ours, 0).unwrap();
    let bytes = ours.bytes();
    while pair.news.0.len() < 2 || pair.news.1.is_empty() {
        pair.poll();
    }
    drop(bytes);
    assert_eq!(pair.news.0[1].2, Err(TransferError::Borrowed));
    assert_eq!(pair.news.1[0].2, Err(TransferError::PeerBorrowed));
    assert_eq!(region.bytes()[..], [0; 10]);
    pair.alpha.wait(&mut pair.news.0, Duration::ZERO);
}

/// The head of a long message, with this much of its payload.
fn head(id: u32, total: u32, words: u8, begun: usize) -> Vec<u8> {
    let mut body = Head { id, total, words }.to_bytes().to_vec();
    body.resize(HEAD_WORDS * 8 + begun, 1);
    body
}

fn segment(id: u32, total: u64, at: u64, length: usize) -> Vec<u8> {
    segment_of_attempt(0, id, total, at, length)
}

fn segment_of_attempt(attempt: u64, id: u32, total: u64, at: u64, length: usize) -> Vec<u8> {
    let mut body = Segment { region: MESSAGE, transfer: id, start: attempt, total, at }.to_bytes().to_vec();
    body.resize(Segment::BYTES + length, 2);
    body
}

/// A peer lies about ids, lengths and places of long messages. What is complete in the end has only bytes of its own sender, and
/// nothing takes the node's memory, frames or rights to reply for ever.
#[test]
fn a_peer_that_lies_about_long_messages_gets_nowhere() {
    let mut pair = Pair::new();
    let beta = &mut pair.beta;
    beta.on_request(HandlerId(0), |news, request| {
        assert!(request.message.payload().iter().all(|&byte| byte == 1 || byte == 2), "bytes of another message");
        assert!(request.message.words().len() <= 4);
        news.push((TransferKind::Put, TransferId(request.message.payload().len() as u32), Ok(())));
    });
    let mut random = 7;
    for round in 0..3000 {
        let mut draw = |most: u64| {
            random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % most
        };
        let id = [draw(6) as u32, u32::MAX >> 3][usize::from(draw(20) == 0)];
        let total = [0, 1, 1000, 5000, 5001, 40_000, 1 << 20, (1 << 20) + 1, u64::from(u32::MAX), (1 << 40) - 1]
            [draw(10) as usize];
        let (at, length) = ([0, 1, 960, 1000, 2000, 4999, 40_000, 1 << 31][draw(8) as usize], draw(1300) as usize);
        match draw(4) {
            0 => pair.forge_message(Kind::Request, HEAD_WORDS as u8, &head(id, total as u32, draw(8) as u8, length)),
            1 => pair.forge_message(Kind::Request, HEAD_WORDS as u8, &head(id, 5000, 2, 1000)),
            2 => pair.forge(Kind::Put, &segment(id, total, at, length.min(total.saturating_sub(at) as usize))),
            _ => {
                let what = NoticeKind::ALL[draw(NoticeKind::ALL.len() as u64) as usize];
                let notice = Notice { into: draw(3) as u32, offset: at, length: total, ..Notice::of(what, id) };
                pair.forge(Kind::Get, &notice.to_bytes());
            }
        }
        if round % 7 == 0 {
            pair.poll();
        }
    }
    (0..200).for_each(|_| pair.poll());
    let node = pair.beta.node.borrow();
    let counters = node.bulk.long.counters;
    assert!(counters.malformed > 100, "{counters:?}");
    assert!(node.bulk.long.held_bytes() <= node.bulk.message_memory());
    drop(node);
    // An honest message still arrives, on the same connection behind what is incomplete for ever or on another one.
    pair.news.1.clear();
    let to = pair.alpha.connect("beta", "main").unwrap();
    while !pair.alpha.is_open(to) {
        pair.poll();
    }
    pair.alpha.try_request(to, HandlerId(0), &[1, 2], &vec![1; 300_000]).unwrap();
    while !pair.news.1.iter().any(|(_, length, _)| *length == TransferId(300_000)) {
        pair.poll();
    }
    pair.alpha.close(pair.to);
    (0..200).for_each(|_| pair.poll());
    let node = pair.beta.node.borrow();
    assert_eq!((node.bulk.long.is_idle(), node.engine.core().replies_owed()), (true, 0));
}

/// A segment that is longer than this side accepts, and one whose length is another one's, are counted.
#[test]
fn segments_that_no_node_sends_are_counted() {
    let mut pair = Pair::new();
    pair.forge(Kind::Put, &segment(1, 5000, 0, 100));
    pair.forge(Kind::Put, &segment(1, 5001, 100, 100));
    pair.forge(Kind::Put, &segment(2, (1 << 20) + 1, 0, 100));
    (0..100).for_each(|_| pair.poll());
    assert_eq!(pair.beta.node.borrow().bulk.long.counters.malformed, 2);
}

/// A segment comes after its message has begun to wait for memory, and when there is memory again.
#[test]
fn a_message_that_waits_for_memory_gets_it_once() {
    const TOTAL: usize = 50_000;
    let mut pair =
        Pair::with(|builder| builder.max_message(TOTAL).message_memory(2 * buffer_length(PAYLOAD_AT + TOTAL)));
    let kept = Rc::new(RefCell::new(vec![]));
    let keeping = Rc::clone(&kept);
    pair.beta.on_request(HandlerId(0), move |_, request| keeping.borrow_mut().push(request.message.keep()));
    for _ in 0..2 {
        while pair.alpha.try_request(pair.to, HandlerId(0), &[1, 2], &[3; TOTAL]).is_err() {
            pair.poll();
        }
    }
    while kept.borrow().len() < 2 {
        pair.poll();
    }
    pair.forge_message(Kind::Request, HEAD_WORDS as u8, &head(9, TOTAL as u32, 2, 1000));
    (0..200).for_each(|_| pair.poll());
    assert_eq!(pair.beta.node.borrow().bulk.long.counters.waited, 1);
    kept.borrow_mut().clear();
    for attempt in 0..2 {
        for at in (1000..TOTAL).step_by(1000) {
            pair.forge(Kind::Put, &segment_of_attempt(attempt, 9, TOTAL as u64, at as u64, 1000));
            pair.poll();
        }
        (0..10).for_each(|_| pair.poll());
    }
    let sent = [[1; 1000].as_slice(), &[2; TOTAL - 1000]].concat();
    assert_eq!(kept.borrow().iter().map(|kept| kept.to_vec()).collect::<Vec<_>>(), [sent]);
    // A segment of the first attempt arrives last. It begins no message.
    pair.forge(Kind::Put, &segment(9, TOTAL as u64, 1000, 1000));
    (0..10).for_each(|_| pair.poll());
    assert!(pair.beta.node.borrow().bulk.long.is_idle());
}

/// The sender gives a message up whose head never arrived. A segment that arrives afterwards begins no message.
#[test]
fn segments_behind_a_cancellation_begin_nothing() {
    let mut pair = Pair::new();
    pair.forge(Kind::Put, &segment(1, 5000, 0, 1000));
    (0..10).for_each(|_| pair.poll());
    assert!(!pair.beta.node.borrow().bulk.long.is_idle());
    pair.forge(Kind::Get, &Notice::of(NoticeKind::Cancel, 1).to_bytes());
    pair.forge(Kind::Put, &segment(1, 5000, 1000, 1000));
    (0..10).for_each(|_| pair.poll());
    assert!(pair.beta.node.borrow().bulk.long.is_idle());
}

/// A sender is asked for segments again, and does not know it yet: it uses all credit for further messages. It gets credit for the
/// segments.
#[test]
fn a_sender_without_credit_gets_some_for_the_segments_that_it_is_asked_for() {
    let mut pair = Pair::new();
    let count = Rc::new(RefCell::new(0));
    let counting = Rc::clone(&count);
    pair.beta.on_request(HandlerId(0), move |_, _| *counting.borrow_mut() += 1);
    // Some of its segments have arrived before its head, and were dropped.
    pair.forge(Kind::Get, &Notice::of(NoticeKind::Cancel, 1).to_bytes());
    pair.forge_message(Kind::Request, HEAD_WORDS as u8, &head(1, 2000, 0, 1000));
    let mut id = 1;
    for round in 0..10 {
        while pair.try_forge(Kind::Request, HEAD_WORDS as u8, &head(id + 1, 10, 0, 10)) {
            id += 1;
        }
        (0..200).for_each(|_| pair.poll());
        assert!(pair.alpha.credit(pair.to) > 0, "round {round}: {id} messages hold all credit");
    }
    pair.forge(Kind::Put, &segment_of_attempt(1, 1, 2000, 1000, 1000));
    (0..200).for_each(|_| pair.poll());
    assert_eq!(*count.borrow(), id);
    assert!(pair.beta.node.borrow().bulk.long.is_idle());
}

/// More messages than may wait for a peer, or at it for its send slots.
const MANY: u32 = 15_000;

/// A peer begins long messages without an end, or sends short ones behind one that does not end. It runs out of credit.
#[test]
fn a_peer_that_ends_no_message_runs_out_of_credit() {
    for class in Class::ALL {
        for (is_short, is_asked) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut pair = Pair::with(|builder| builder.send_frames(256).receive_frames(256));
            pair.beta.on_request(HandlerId(0), |_, _| ());
            pair.beta.on_reply(HandlerId(0), |_, _| ());
            if is_asked {
                // As if segments of all had been dropped, so that the peer is asked for them.
                pair.forge(Kind::Get, &Notice::of(NoticeKind::Cancel, MANY).to_bytes());
            }
            pair.forge_message(class, HEAD_WORDS as u8, &head(1, 1 << 20, 0, 0));
            let (mut sent, mut refused) = (0, 0);
            while sent < MANY && refused < 200 {
                let is_sent = match is_short {
                    false => pair.try_forge(class, HEAD_WORDS as u8, &head(2 + sent, 1 << 20, 0, 0)),
                    true => pair.try_forge(class, 0, &[]),
                };
                (sent, refused) = if is_sent { (sent + 1, 0) } else { (sent, refused + 1) };
                pair.poll();
            }
            assert!(sent < MANY, "{class:?}, short {is_short}, asked {is_asked}: {sent} messages wait");
        }
    }
}

/// A peer sends long messages, and takes none of the notices for them. It runs out of credit, and gets it back.
#[test]
fn a_peer_that_takes_no_notice_runs_out_of_credit() {
    for class in Class::ALL {
        let mut pair = Pair::new();
        pair.beta.on_request(HandlerId(0), |_, _| ());
        pair.beta.on_reply(HandlerId(0), |_, _| ());
        let (mut sent, mut refused) = (0, 0);
        while sent < MANY && refused < 200 {
            let is_sent = pair.try_forge(class, HEAD_WORDS as u8, &head(1 + sent, 10, 0, 10));
            (sent, refused) = if is_sent { (sent + 1, 0) } else { (sent, refused + 1) };
            pair.aside.poll(&mut pair.news.0);
            pair.beta.poll(&mut pair.news.1);
        }
        assert!(sent < MANY, "{class:?}: {sent} messages were taken");
        let all = sent + 1000;
        while sent < all {
            sent += u32::from(pair.try_forge(class, HEAD_WORDS as u8, &head(1 + sent, 10, 0, 10)));
            pair.poll();
        }
    }
}

/// More messages arrive in one turn than may have segments before their heads. No segment is dropped and sent again, because each finds
/// its head.
#[test]
fn segments_that_arrive_with_their_heads_are_sent_once() {
    const MESSAGES: usize = 6;
    let mut pair = Pair::new();
    let count = Rc::new(RefCell::new(0));
    let counting = Rc::clone(&count);
    pair.beta.on_request(HandlerId(0), move |_, _| *counting.borrow_mut() += 1);
    for _ in 0..MESSAGES {
        pair.alpha.try_request(pair.to, HandlerId(0), &[], &[3; 2000]).unwrap();
        pair.alpha.flush();
    }
    while *count.borrow() < MESSAGES {
        pair.poll();
    }
    (0..10).for_each(|_| pair.poll());
    assert_eq!(pair.alpha.node.borrow().bulk.counters.sent, MESSAGES as u64, "each has one segment");
}

/// A later head does not end the memory of dropped segments, and numbers that begin anew do.
#[test]
fn which_messages_may_lack_segments() {
    let pair = Pair::new();
    let (node, flow) = (pair.alpha.node.borrow(), pair.to.0);
    for last in [5, Head::MAX_ID, 1] {
        let mut dropped = DroppedEarly::default();
        let at = |id: u32| last.wrapping_add(id) & Head::MAX_ID;
        dropped.note(node.engine.core(), flow, last);
        dropped.note(node.engine.core(), flow, at(0u32.wrapping_sub(2)));
        let may_have = [0u32.wrapping_sub(3), 0, 1].map(|id| dropped.may_have(flow, at(id)));
        assert_eq!(may_have, [true, true, false]);
        assert!(!dropped.on_head(flow, at(1)) && dropped.on_head(flow, at(0u32.wrapping_sub(1))));
        let later = (1..).map(|step: u32| step << 26).take_while(|&id| id <= Head::MAX_ID);
        assert!(later.map(at).all(|id| !dropped.on_head(flow, id)), "after {last}");
    }
}
