//! Messages for a handler that does not exist come back, whatever the network does, and no other message is disturbed.

use std::time::Duration;

use crate::harness::{Buf, Faults, Loss, Net};
use am_proto::{EndpointId, Fate, FlowId, FramingChoice, ReturnReason};
use am_wire::{Class, Framing};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The handlers that the receiver has, and does not have.
const HAS: u8 = 3;
const LACKS: u8 = 200;

struct Pair {
    net: Net,
    /// Alpha's endpoint, and beta's, which has one handler.
    here: EndpointId,
    there: EndpointId,
    flow: FlowId,
    /// The words that beta's handlers got, and those that came back to alpha.
    handled: Vec<u64>,
    back: Vec<u64>,
}

fn pair(seed: u64, framing: Framing) -> Pair {
    let mut net = Net::new(seed);
    let [(_, here), (_, there)] = ["alpha", "beta"].map(|named| {
        let mut config = net.config(net.nodes.len(), named);
        config.framing = FramingChoice::Fixed(framing);
        net.start(config)
    });
    net.core(1).set_all_handlers(there, false);
    net.core(1).add_handler(there, Class::Request, HAS);
    let flow = net.connect(0, here, "beta");
    Pair { net, here, there, flow, handled: vec![], back: vec![] }
}

impl Pair {
    fn send(&mut self, handler: u8, word: u64) -> bool {
        self.net.send_to(0, self.flow, Class::Request, handler, word, b"content").is_ok()
    }

    /// Take what has arrived, and what came back.
    fn collect(&mut self) {
        while let Some(message) = self.net.extract(1, self.there) {
            self.handled.push(message.words().at(0));
        }
        while let Some(back) = self.net.core(0).poll_returned(self.here) {
            assert_eq!((back.reason, back.fate), (ReturnReason::NoHandler, Fate::NotDelivered));
            assert_eq!((back.message.payload(), back.message.flow), (&b"content"[..], self.flow));
            self.back.push(back.message.words().at(0));
        }
    }
}

#[test]
fn a_request_comes_back_as_it_was_and_the_flow_stays() {
    for framing in Framing::ALL {
        let mut pair = pair(1, framing);
        let credit = pair.net.core(0).credit(pair.flow, Class::Request);
        // Alone, and several in one frame.
        for burst in [1, 9] {
            for word in 0..burst {
                assert!(pair.send(if word % 3 == 0 { LACKS } else { HAS }, word));
            }
            pair.net.idle(MS);
            pair.collect();
            let expected: Vec<u64> = (0..burst).filter(|word| word % 3 > 0).collect();
            assert_eq!(pair.handled, expected, "in order, {framing}");
            assert_eq!(pair.back, (0..burst).filter(|word| word % 3 == 0).collect::<Vec<_>>());
            (pair.handled, pair.back) = (vec![], vec![]);
        }
        pair.net.idle(MS);
        assert!(!pair.net.core(0).has_unacknowledged(pair.flow));
        assert_eq!(pair.net.core(0).credit(pair.flow, Class::Request), credit, "each credit came back");
        assert_eq!((pair.net.core(1).counters().no_handler, pair.net.core(0).counters().returned), (4, 4));
        assert_eq!(pair.net.core(0).counters().timeouts, 0);
    }
}

#[test]
fn a_reply_comes_back_to_its_sender() {
    let mut pair = pair(2, Framing::Split);
    pair.net.core(0).set_all_handlers(pair.here, false);
    assert!(pair.send(HAS, 7));
    pair.net.run(SECOND, |net| net.echo(1, pair.there));
    pair.net.idle(MS);
    let back = pair.net.core(1).poll_returned(pair.there).expect("the reply");
    assert_eq!((back.reason, back.fate), (ReturnReason::NoHandler, Fate::NotDelivered));
    assert_eq!((back.message.class, back.message.words().at(0)), (Class::Reply, 7));
    assert_eq!(pair.net.core(0).poll_deliver(pair.here).map(|_| ()), None);
    assert!(!pair.net.core(1).has_unacknowledged(back.message.flow));
}

/// Each message is handled once, in order, or comes back once; also one that was refused before its handler was added.
#[test]
fn each_is_handled_or_comes_back_whatever_the_network_does() {
    for seed in 0..20 {
        let mut pair = pair(seed, Framing::ALL[seed as usize % 3]);
        pair.net.faults = Faults { drop: 0.15, duplicate: 0.2, delay: 0.3 };
        let count = 400;
        let mut next = 0;
        let until = pair.net.now + 20 * SECOND;
        while ((pair.handled.len() + pair.back.len()) as u64) < count {
            while next < count && pair.send(if next % 5 == 0 { LACKS } else { HAS }, next) {
                next += 1;
            }
            if next >= count / 2 {
                pair.net.core(1).add_handler(pair.there, Class::Request, LACKS);
            }
            pair.collect();
            assert!(pair.net.step(until), "seed {seed}: {} and {}", pair.handled.len(), pair.back.len());
        }
        pair.net.faults = Faults::default();
        pair.net.idle(SECOND);
        pair.collect();
        assert!(pair.handled.is_sorted(), "seed {seed}: {:?}", pair.handled);
        let mut all = [&pair.handled[..], &pair.back].concat();
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>(), "seed {seed}: each once");
        assert!(!pair.back.is_empty() && pair.handled.iter().any(|word| word % 5 == 0), "seed {seed}: both");
        assert!(!pair.net.core(0).has_unacknowledged(pair.flow));
    }
}

/// A late copy of a message that came back finds the handler, which was added meanwhile.
#[test]
fn a_refused_message_stays_refused() {
    let mut pair = pair(3, Framing::Split);
    pair.net.log = Some(vec![]);
    assert!(pair.send(LACKS, 5));
    pair.net.run(SECOND, |net| net.core(1).counters().no_handler == 1);
    let (_, copy) = pair.net.log.as_mut().and_then(Vec::pop).expect("the message");
    // The refusal is on its way. The withdrawal is lost.
    pair.net.loss = Loss::All;
    pair.net.run(SECOND, |net| net.core(0).has_returned());
    pair.net.loss = Loss::None;
    let there = pair.there;
    pair.net.core(1).add_handler(there, Class::Request, LACKS);
    pair.net.core(1).on_frame(Buf::of(&copy));
    assert!(pair.send(LACKS, 6));
    pair.net.idle(SECOND);
    pair.collect();
    assert_eq!((&pair.back[..], &pair.handled[..]), (&[5][..], &[6][..]));
    pair.net.core(1).on_frame(Buf::of(&copy));
    pair.net.idle(MS);
    pair.collect();
    assert_eq!((pair.back.len(), pair.handled.len()), (1, 1), "nothing twice");
}

/// The flow ends before a refused message's sender has learned of it, or before the receiver has learned that it did.
#[test]
fn a_flow_that_ends_meanwhile_returns_each_once() {
    for steps in 0..12 {
        let mut pair = pair(steps, Framing::Split);
        for word in 0..6 {
            assert!(pair.send(if word % 2 == 0 { LACKS } else { HAS }, word));
        }
        for _ in 0..steps {
            let until = pair.net.now + MS;
            pair.net.step(until);
        }
        pair.net.loss = Loss::All;
        pair.net.idle(20 * MS);
        pair.net.loss = Loss::None;
        let there = pair.there;
        pair.net.core(1).close_endpoint(there, &[]);
        pair.net.idle(SECOND);
        let mut back = Vec::new();
        while let Some(returned) = pair.net.core(0).poll_returned(pair.here) {
            assert_eq!(returned.fate, Fate::NotDelivered);
            back.push(returned.message.words().at(0));
        }
        back.sort_unstable();
        let ended = pair.net.events(0).into_iter().find_map(|event| match event {
            am_proto::Event::Ended(_, _, end) => Some(end.unhandled[0]),
            _ => None,
        });
        let unhandled = ended.expect("the flow ended");
        assert_eq!(back.len() + unhandled as usize, 6, "{steps} steps: {back:?}");
        assert!([0, 2, 4].iter().all(|word| back.contains(word)), "{steps} steps: {back:?}");
        back.dedup();
        assert_eq!(back.len() + unhandled as usize, 6, "{steps} steps: each once: {back:?}");
    }
}
