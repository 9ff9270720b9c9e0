//! What must hold for any bytes that a program sends. Shared by the tests and the fuzz target.

use am_daemon::grants::FlowGrant;
use am_daemon::judge::{Guard, Refusal, Ruling, destination};
use am_vnic::protocol::{FromDaemon, Hello};
use am_wire::control::{Control, Name};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind, Route};

/// The port that is judged.
pub const OWN: Address = Address([0x82, 0x10, 1, 2, 3, 4]);

/// What passes is what the port may say: with its own source, and messages on granted flows only.
pub fn judged(bytes: &[u8]) {
    let mut guard = Guard::new(OWN, EtherType::DEFAULT, 0x5eed_5eed_5eed_5eed);
    let name = Name::new("alpha").expect("a name");
    guard.set_name(name);
    let Ok(ruling) = guard.judge(bytes) else { return };
    let parsed = frame::parse(bytes, EtherType::DEFAULT).expect("what passes is well-formed");
    assert_ne!(destination(bytes), OWN, "a frame to itself");
    assert_eq!(parsed.header.kind, Kind::Control, "no flow was granted");
    let forged = frame::split_source(parsed.header.flow, OWN);
    assert!([OWN, forged].contains(&parsed.source), "another's source");
    let control = Control::parse(parsed.payload).expect("what passes is a control frame");
    match control {
        Control::Beacon(beacon) => assert_eq!((beacon.name, beacon.address), (name, OWN)),
        Control::Connect(connect) => assert_eq!(connect.node, am_wire::control::NodeId::of(&name)),
        Control::Probe(probe) => assert_eq!(probe.node, am_wire::control::NodeId::of(&name)),
        _ => assert!(matches!(ruling, Ruling::Control(_)), "only a beacon or a probe goes to everyone"),
    }
}

/// A peer that has granted the port a flow.
const PEER: Address = Address([0x82, 0x11, 1, 2, 3, 4]);
const FLOW: u16 = 77;

/// After an honest message, a message that differs from it as the bytes say is judged as if it were the first. It passes only to the same peer, on
/// the same flow, from the port.
pub fn judged_after_another(bytes: &[u8]) {
    let [choice, at, change @ ..] = bytes else { return };
    let framing = [Framing::Bare, Framing::Split, Framing::Plain][usize::from(choice % 3)];
    let flow = Flow::new(FLOW).expect("a flow");
    let header = Header { kind: Kind::Request, flow, nonce: 3, handler: 4, words: 0, seq: 5 };
    let link = LinkAddresses { to: PEER, from: OWN, ethertype: EtherType::DEFAULT };
    let mut honest = [0; 128];
    frame::body(&mut honest, framing, 20).expect("there is space").fill(6);
    let length = frame::emit(&mut honest, framing, &link, &header, 20, None).expect("there is space");
    let mut changed = honest;
    changed[usize::from(at % 32)..].iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
    let changed = &changed[..length + usize::from(choice / 3 % 4) - 1];

    let grant = FlowGrant { to: PEER, flow, nonce: 9 };
    let [mut fresh, mut warm] = [(); 2].map(|()| {
        let mut guard = Guard::new(OWN, EtherType::DEFAULT, 0x5eed_5eed_5eed_5eed);
        guard.grants.grant(grant, None, 0);
        guard
    });
    assert_eq!(warm.judge(&honest[..length]), Ok(Ruling::Granted));
    let ruling = warm.judge(changed);
    assert_eq!(ruling, fresh.judge(changed), "the frame before makes no difference");
    if ruling == Ok(Ruling::Granted) {
        let route = Route::of(changed, EtherType::DEFAULT).expect("what passes has a route");
        let own = [OWN, frame::split_source(flow, OWN)];
        assert!(destination(changed) == PEER && route.flow == flow);
        assert!(route.framing == Framing::Bare || own.contains(&route.source), "another's source");
    }
    warm.grants.revoke(grant);
    assert_eq!(warm.judge(&honest[..length]), Err(Refusal::NotGranted), "the flow has ended");
}

/// A first packet that is read is written again as the same bytes, but for the parts that another version may have.
pub fn greeted(bytes: &[u8]) {
    if let Some(hello) = Hello::from_bytes(bytes) {
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
    }
    if let Some(packet) = FromDaemon::from_bytes(bytes) {
        assert!(FromDaemon::from_bytes(&packet.to_bytes()).is_some());
    }
}
