//! Ten thousand peers of one node. Each exchanges messages with it and then is quiet. FM 1.0 claims that buffers do not
//! grow with the number of hosts (§4.5). This measures what does grow, and by how much.

use std::time::Duration;

use crate::harness::{Buf, name};
use am_proto::{Config, Core, EndpointId, Event, FlowId, FramingChoice, Time};
use am_wire::control::{
    Beacon, Connect, ConnectFlags, Control, FlowParameters, Incarnation, NodeId, Probe, ProbeSeen, Purpose, Step,
};
use am_wire::frame::{self, LinkAddresses, ParsedFrame};
use am_wire::{Ack, Acks, Address, Buffer, Class, EtherType, Flow, Framing, Framings, Header, Kind, Seq};

const PEERS: u64 = 10_000;
const OWN_ADDRESS: Address = Address([2, 0, 0, 0, 0, 1]);

fn address(peer: u64) -> Address {
    Address::from_u64(0x0200_0100_0000 + peer)
}

fn node() -> (Core<Buf>, EndpointId) {
    let mut config = Config::new(NodeId(u64::MAX), Incarnation(1), name("hub"), OWN_ADDRESS);
    config.framing = FramingChoice::Fixed(Framing::Plain);
    config.keepalive = Duration::from_secs(40);
    let mut core = Core::new(config, Time(0));
    let endpoint = core.add_endpoint(name("app"), 7).unwrap();
    (core, endpoint)
}

fn receive(core: &mut Core<Buf>, peer: u64, header: &Header, body: &[u8]) {
    let link = LinkAddresses { to: OWN_ADDRESS, from: address(peer), ethertype: EtherType::DEFAULT };
    let mut bytes = [0; 256];
    frame::body(&mut bytes, Framing::Plain, body.len()).unwrap().copy_from_slice(body);
    let length = frame::emit(&mut bytes, Framing::Plain, &link, header, body.len(), None).unwrap();
    core.on_frame(Buf::of(&bytes[..length]));
}

fn receive_control(core: &mut Core<Buf>, peer: u64, control: Control) {
    core.on_frame(Buf::of_control(&control, OWN_ADDRESS, address(peer)));
}

/// Hand each frame that the node sends to `each`.
fn drain(core: &mut Core<Buf>, mut each: impl FnMut(&ParsedFrame<'_>)) {
    while let Some(transmit) = core.poll_transmit(&mut || Some(Buf::fresh(2048))) {
        each(&frame::parse(transmit.frame.bytes(), EtherType::DEFAULT).unwrap());
    }
    core.run_deferred(core.now());
}

fn control_of(control: &ParsedFrame<'_>) -> Option<Control> {
    Control::parse(control.payload).ok()
}

fn introduce(core: &mut Core<Buf>, peer: u64) {
    let beacon = Beacon {
        node: NodeId(peer),
        incarnation: Incarnation(1),
        name: name(&format!("peer{peer}")),
        address: address(peer),
        framings: Framings::ALL,
        max_frame: 1514,
        purpose: Purpose::Announce,
    };
    receive_control(core, peer, Control::Beacon(beacon));
}

/// A peer introduces itself and asks for a flow. Returns the node's offer.
fn connect(core: &mut Core<Buf>, peer: u64) -> (FlowId, FlowParameters) {
    let (node, incarnation, from) = (NodeId(peer), Incarnation(1), name(&format!("peer{peer}")));
    introduce(core, peer);
    let flow = Flow::new(1).unwrap();
    let offer =
        FlowParameters { flow, nonce: 5, first: [Seq(0), Seq(0)], credits: [4, 4], max_frame: 1514, max_message: 0 };
    let question = Control::Connect(Connect {
        id: 1,
        node,
        incarnation,
        from,
        to: name("app"),
        tag: 7,
        flags: ConnectFlags::ORDERED,
        offer,
    });
    receive_control(core, peer, question);
    let mut long = None;
    drain(core, |parsed| match control_of(parsed) {
        Some(Control::Probe(probe)) if probe.step == Step::Long => long = Some(probe),
        _ => (),
    });
    let Probe { id, step, .. } = long.expect("the length of the path is asked for");
    receive_control(core, peer, Control::ProbeSeen(ProbeSeen { id, step }));
    receive_control(core, peer, question);
    let mut accepted = None;
    drain(core, |parsed| {
        if let Some(Control::Accept(accept)) = control_of(parsed) {
            accepted = Some(accept.offer);
        }
    });
    while core.poll_command().is_some() {}
    let mut opened = None;
    while let Some(event) = core.poll_event() {
        if let Event::Accepted(_, flow, _) = event {
            opened = Some(flow);
        }
    }
    (opened.expect("a flow"), accepted.expect("an answer"))
}

/// A peer sends a request, gets a reply and acknowledges it.
fn talk(core: &mut Core<Buf>, endpoint: EndpointId, peer: u64, (flow, offer): &(FlowId, FlowParameters)) {
    let header = |kind, seq| Header { kind, flow: offer.flow, nonce: offer.nonce, handler: 0, words: 0, seq };
    receive(core, peer, &header(Kind::Request, 0), b"question");
    let asked = core.poll_deliver(endpoint).expect("the question");
    assert_eq!(asked.payload(), b"question");
    let answer = |place: &mut [u8]| place.copy_from_slice(b"answer");
    core.send(*flow, Class::Reply, 0, 0, Buf::fresh(512), 6, answer).unwrap();
    core.release(*flow, Class::Request, 1);
    let mut answered = false;
    drain(core, |parsed| answered |= parsed.payload == b"answer");
    assert!(answered);
    let [requests, replies] = offer.first;
    let heard = |accepted: Seq| Ack { accepted, limit: accepted.plus(4), sack: 0 };
    let acks = Acks { classes: [heard(requests), heard(replies.plus(1))] };
    receive(core, peer, &header(Kind::Ack, 0), &acks.to_bytes());
    core.run_deferred(core.now());
}

#[test]
fn an_idle_peer_costs_at_most_512_bytes() {
    let (mut core, endpoint) = node();
    let all = |core: &mut Core<Buf>, peers: std::ops::Range<u64>| {
        for peer in peers {
            let flow = connect(core, peer);
            talk(core, endpoint, peer, &flow);
            // The next probe, no longer needed, was due now.
            core.on_timeout(core.now() + Duration::from_millis(2));
        }
    };
    // Memory that the peers use in turn is allocated by now.
    all(&mut core, 0..100);
    let used = allocation_counter::measure(|| {
        all(&mut core, 100..PEERS + 100);
        // Until the last flow is idle. Nobody answers the keepalives.
        for _ in 0..6_000 {
            core.on_timeout(core.now() + Duration::from_millis(2));
            drain(&mut core, |_| ());
        }
    });
    let each = used.bytes_current / PEERS as i64;
    println!("{each} bytes a peer");
    assert!((100..=512).contains(&each), "{each} bytes a peer");
    assert_eq!(core.peers().count() as u64, PEERS + 100);
    assert_eq!(core.counters().requests_received, PEERS + 100);
    assert_eq!(core.counters().timeouts, 0);
    assert_eq!(core.counters().replies_sent, PEERS + 100);
}
