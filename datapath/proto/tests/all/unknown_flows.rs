//! Frames on flows that have ended. Their senders are notified soon, even if the first notice was lost, and no other
//! node receives anything.

use std::time::Duration;

use crate::harness::{Buf, MAX_FRAME, Net};
use am_proto::{Event, FlowId, FlowState, ReturnReason};
use am_wire::control::{Closed, Control};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Class, EtherType, Flow, Framing, Header, Kind};

const SECOND: Duration = Duration::from_secs(1);
/// Far shorter than the patience.
const WELL_BELOW_PATIENCE: Duration = Duration::from_millis(50);

/// The flow that this node accepted.
fn accepted(net: &mut Net, at: usize) -> FlowId {
    let mut flows = net.events(at).into_iter().filter_map(|event| match event {
        Event::Accepted(_, flow, _) => Some(flow),
        _ => None,
    });
    flows.next_back().expect("a flow was accepted")
}

/// Frames that the nodes send now are lost.
fn with_outputs_lost(net: &mut Net, what: impl FnOnce(&mut Net)) {
    net.faults.drop = 1.0;
    what(net);
    net.drain();
    net.faults.drop = 0.0;
}

fn answers(net: &mut Net, at: usize) -> u64 {
    net.core(at).counters().unknown_flows_answered
}

#[test]
fn a_lost_closed_notice_is_repeated() {
    for framing in Framing::ALL {
        let mut net = Net::new(1);
        let mut node = |name| {
            let mut config = net.config(net.nodes.len(), name);
            config.framing = am_proto::FramingChoice::Fixed(framing);
            net.start(config)
        };
        let ((alpha, here), (beta, _)) = (node("alpha"), node("beta"));
        let flow = net.connect(alpha, here, "beta");
        net.idle(SECOND);
        let theirs = accepted(&mut net, beta);
        with_outputs_lost(&mut net, |net| net.core(beta).close(theirs));
        net.send(alpha, flow, Class::Request, 1, b"for nobody").unwrap();
        net.run(WELL_BELOW_PATIENCE, |net| net.core(alpha).state(flow) == FlowState::Ended(ReturnReason::Closed));
        let back = net.core(alpha).poll_returned(here).expect("it came back");
        assert_eq!((back.reason, back.message.payload()), (ReturnReason::Closed, &b"for nobody"[..]));
        net.idle(SECOND);
        assert_eq!(answers(&mut net, beta), 1, "one answer is enough");
        assert_eq!(answers(&mut net, alpha), 0, "a notice gets no answer");
    }
}

#[test]
fn a_lost_beacon_is_repeated() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        let (alpha, here) = net.node("alpha");
        let (beta, _) = net.node("beta");
        let flow = net.connect(alpha, here, "beta");
        net.idle(SECOND);
        with_outputs_lost(&mut net, |net| _ = net.restart(beta, "beta"));
        net.send(alpha, flow, Class::Request, 1, b"for the first beta").unwrap();
        net.run(WELL_BELOW_PATIENCE, |net| net.core(alpha).state(flow) == FlowState::Ended(ReturnReason::Restarted));
        assert!(net.core(alpha).poll_returned(here).is_some(), "seed {seed}");
        net.connect(alpha, here, "beta");
    }
}

/// A forged request on a flow.
fn forged(to: Address, flow: Flow, framing: Framing) -> Buf {
    let mut bytes = [0; 100];
    let link = LinkAddresses { to, from: Address([0x02, 0, 0, 0, 1, 0]), ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Request, flow, nonce: 0x5555, handler: 3, words: 0, seq: 7 };
    let length = frame::emit(&mut bytes, framing, &link, &header, 16, None).unwrap();
    Buf::of(&bytes[..length])
}

fn flow(id: u16) -> Flow {
    Flow::new(id).expect("a flow id")
}

/// The number of frames that this node sends now.
fn count_sent(net: &mut Net, at: usize) -> usize {
    let mut fresh = || Some(Buf::fresh(MAX_FRAME));
    std::iter::from_fn(|| net.core(at).poll_transmit(&mut fresh)).count()
}

#[test]
fn a_flood_on_unknown_flows_gets_few_answers() {
    let mut net = Net::new(3);
    let (beta, _) = net.node("beta");
    net.idle(SECOND);
    let address = net.core(beta).config().address;
    let mut frames = 0;
    for round in 0..1000 {
        let now = net.now + Duration::from_millis(round);
        for id in 1..100 {
            net.core(beta).on_frame(forged(address, flow(id), Framing::Split));
            net.core(beta).on_unknown_flow(flow(id));
        }
        frames += count_sent(&mut net, beta);
        net.core(beta).run_deferred(now);
    }
    assert!((190..=201).contains(&frames), "{frames} answers in a second");
    assert_eq!(answers(&mut net, beta), frames as u64);
}

#[test]
fn forged_frames_on_unknown_flows_end_nothing() {
    let mut net = Net::new(4);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flows = [(); 3].map(|()| net.connect(alpha, here, "beta"));
    net.idle(SECOND);
    for at in [alpha, beta] {
        let address = net.core(at).config().address;
        for id in 1..Flow::COUNT as u16 {
            // In `bare` there is no nonce: the frame would be a message.
            net.core(at).on_frame(forged(address, flow(id), Framing::Plain));
            net.core(at).on_unknown_flow(flow(id));
            net.idle(Duration::from_micros(100));
        }
    }
    assert!(answers(&mut net, alpha) > 100 && answers(&mut net, beta) > 100);
    for flow in flows {
        assert!(net.is_open(alpha, flow));
        net.send(alpha, flow, Class::Request, 1, b"still").unwrap();
        net.run(SECOND, |net| net.extract(beta, there).is_some());
    }
}

/// Without the nonce of the half that it names, or from another address.
#[test]
fn forged_closed_notices_end_nothing() {
    let mut net = Net::new(6);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    net.connect(alpha, here, "beta");
    net.idle(SECOND);
    let theirs = accepted(&mut net, beta);
    let (to, peer) = [beta, alpha].map(|at| net.core(at).config().address).into();
    let farewell = |from: Address, nonce: u16| {
        Buf::of_control(&Control::Closed(Closed { flow: theirs.flow(), nonce, own: None, acks: None }), to, from)
    };
    let mut is_open_after = |from, nonce| {
        net.core(beta).on_frame(farewell(from, nonce));
        net.is_open(beta, theirs)
    };
    let stranger = Address([0x02, 9, 9, 9, 9, 9]);
    assert!((0..=u16::MAX).all(|nonce| is_open_after(stranger, nonce)));
    let ends_it = (0..=u16::MAX).position(|nonce| !is_open_after(peer, nonce));
    assert!(ends_it > Some(0), "one of them all does: {ends_it:?}");
}

#[test]
fn a_frame_on_an_open_flow_gets_no_notice() {
    let mut net = Net::new(5);
    let (alpha, here) = net.node("alpha");
    net.node("beta");
    let open = net.connect(alpha, here, "beta");
    net.idle(SECOND);
    net.core(alpha).on_unknown_flow(open.flow());
    assert_eq!((count_sent(&mut net, alpha), answers(&mut net, alpha)), (0, 0));
}
