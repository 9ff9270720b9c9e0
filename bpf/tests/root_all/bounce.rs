//! A full node's program returns requests as [`am_wire::bounce::RejectTemplate`] says, and
//! nothing else. Needs root.

use crate::twins::Twins;
use crate::twins::frames::Spec;
use am_bpf::Config;
use am_wire::bounce::RejectTemplate;
use am_wire::frame::{self, LinkAddresses, MIN_FRAME};
use am_wire::steer::Decision;
use am_wire::{Address, Class, EtherType, Flow, Framing, Kind};

const OWN: Address = Address([0x02, 0, 0, 0, 0, 1]);
const PEER: Address = Address([0x02, 1, 2, 3, 4, 5]);
const CONFIG: Config =
    Config { ethertype: EtherType::DEFAULT, own: OWN, node_socket: 9, counts_redirected: true, lost_per_million: 0 };
const FLOW: u16 = 17;
/// The peer's id for the flow, and its nonce.
const THEIRS: (u16, u16) = (0x2b5a, 0xc0de);

/// A node that is full, and knows one flow's way back.
fn full(framing: Framing) -> (Twins, RejectTemplate) {
    let mut twins = Twins::new(&CONFIG);
    let link = LinkAddresses { to: PEER, from: OWN, ethertype: EtherType::DEFAULT };
    let back = RejectTemplate::new(framing, &link, Flow::new(THEIRS.0).unwrap(), THEIRS.1);
    for flow in [FLOW, 18] {
        twins.set_flow(Flow::new(flow).unwrap(), Some(3));
    }
    twins.set_back(Flow::new(FLOW).unwrap(), Some(&back));
    twins.set_full(true);
    (twins, back)
}

#[test]
fn requests_bounce_and_nothing_else_does() {
    for framing in Framing::ALL {
        let (mut twins, back) = full(framing);
        let spec = Spec::request(framing, FLOW, &twins.rust);
        for kind in [Kind::Reply, Kind::Ack, Kind::Reject, Kind::Coalesced(Class::Reply)] {
            assert_eq!(twins.decide(&Spec { kind, ..spec }.bytes()).unwrap(), Decision::Socket(3), "{kind:?}");
        }
        for kind in [Kind::Coalesced(Class::Request), Kind::Put, Kind::Get] {
            assert_eq!(twins.decide(&Spec { kind, ..spec }.bytes()).unwrap(), Decision::Bounce(3), "{kind:?}");
        }
        let other = Spec { flow: Flow::new(18).unwrap(), ..spec };
        assert_eq!(twins.decide(&other.bytes()).unwrap(), Decision::Socket(3), "its way back is not known");
        assert_eq!(twins.decide(&spec.bytes()).unwrap(), Decision::Bounce(3));
        twins.set_full(false);
        assert_eq!(twins.decide(&spec.bytes()).unwrap(), Decision::Socket(3), "there is room");
        twins.set_full(true);
        twins.set_back(Flow::new(FLOW).unwrap(), None);
        assert_eq!(twins.decide(&spec.bytes()).unwrap(), Decision::Socket(3), "{back:?} is forgotten");
    }
}

#[test]
fn what_bounces_is_a_reject_of_its_number_for_its_sender() {
    for framing in Framing::ALL {
        let (mut twins, back) = full(framing);
        for body in [8, 9, 16, 30, 46, 47, 100, 1400] {
            let request = Spec { body, ..Spec::request(framing, FLOW, &twins.rust) }.bytes();
            let (start, length) = twins.c.bounce(&request).unwrap();
            assert_eq!(length, MIN_FRAME);
            let first = request.first_chunk().unwrap();
            assert_eq!(Some(start), back.reject(first, EtherType::DEFAULT), "as the twin says");
            let parsed = frame::parse(&start, EtherType::DEFAULT).unwrap();
            let sent = frame::parse(&request, EtherType::DEFAULT).unwrap();
            assert_eq!((parsed.framing, start[..6].try_into().unwrap()), (framing, PEER.0));
            let header = parsed.header;
            assert_eq!((header.kind, header.flow.id(), header.seq), (Kind::Reject, THEIRS.0, sent.header.seq));
            assert_eq!(header.nonce, if framing == Framing::Bare { 0 } else { THEIRS.1 });
            assert!(parsed.words.is_empty() && parsed.payload.is_empty() && parsed.piggyback.is_none());
        }
    }
}

#[test]
fn a_request_in_another_framing_stays_as_it_is_for_the_host() {
    for framing in Framing::ALL {
        let (mut twins, back) = full(framing);
        for other in Framing::ALL.into_iter().filter(|other| *other != framing) {
            let request = Spec::request(other, FLOW, &twins.rust).bytes();
            assert_eq!(back.reject(request.first_chunk().unwrap(), EtherType::DEFAULT), None);
            let (start, length) = twins.c.bounce(&request).unwrap();
            assert_eq!((&start[..], length), (&request[..MIN_FRAME], request.len()));
        }
    }
}
