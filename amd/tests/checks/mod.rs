//! What must hold for any bytes that a program sends. Shared by the tests and the fuzz target.

use am_daemon::judge::{Guard, Ruling, destination};
use am_vnic::protocol::{FromDaemon, Hello};
use am_wire::control::{Control, Name};
use am_wire::{Address, EtherType, Kind, frame};

/// The port that is judged.
pub(crate) const OWN: Address = Address([0x82, 0x10, 1, 2, 3, 4]);

/// What passes is what the port may say: with its own source, and messages on granted flows only.
pub(crate) fn judged(bytes: &[u8]) {
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

/// A first packet that is read is written again as the same bytes, but for the parts that another version may have.
pub(crate) fn greeted(bytes: &[u8]) {
    if let Some(hello) = Hello::from_bytes(bytes) {
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
    }
    if let Some(packet) = FromDaemon::from_bytes(bytes) {
        assert!(FromDaemon::from_bytes(&packet.to_bytes()).is_some());
    }
}
