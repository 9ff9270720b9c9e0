//! Steering looks at what parsing sees, and each frame goes where it belongs.

use am_wire::frame::parse;
use am_wire::steer::{Decision, PassReason, SteeringTable, steer};
use am_wire::{Address, EtherType, Flow, Kind, Reason};
use proptest::prelude::*;

use crate::any;

fn table(ethertype: EtherType, own: Address, flow: Flow, socket: u8) -> SteeringTable {
    let mut table = SteeringTable::new(ethertype, own);
    table.node_socket = 9;
    table.flows[flow.index()] = socket + 1;
    table
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_written_for_a_node_goes_to_its_socket(message in any::message(), socket in 0u8..255) {
        let header = message.header;
        let table = table(message.link.ethertype, message.link.to, header.flow, socket);
        let expected = if header.kind == Kind::Control { Decision::Control(9) } else { Decision::Socket(socket) };
        prop_assert_eq!(steer(&message.emit(), &table), expected);
    }

    #[test]
    fn an_unknown_flow_is_dropped(message in any::message()) {
        let table = SteeringTable::new(message.link.ethertype, message.link.to);
        let expected = match message.header.kind {
            Kind::Control => Decision::Control(0),
            _ => Decision::Drop(Reason::NoFlow),
        };
        prop_assert_eq!(steer(&message.emit(), &table), expected);
    }

    #[test]
    fn other_peoples_frames_are_left_alone(message in any::message(), own in any::address(), ethertype in any::ethertype()) {
        let bytes = message.emit();
        let table = table(ethertype, own, message.header.flow, 0);
        let foreign = [ethertype.hidden(), ethertype.plain()];
        if !foreign.contains(&u16::from_be_bytes([bytes[12], bytes[13]])) {
            prop_assert_eq!(steer(&bytes, &table), Decision::Pass(PassReason::Foreign));
        }
        // Destinations 82:00:0x.. to 82:00:3x.. are what discovery probes with.
        let probe = message.link.to.0[..2] == [0x82, 0] && message.link.to.0[2] < 0x40;
        if message.link.to != own && !message.link.to.is_group() && !probe {
            let table = SteeringTable { ethertype: message.link.ethertype, ..table };
            prop_assert_eq!(steer(&bytes, &table), Decision::Pass(PassReason::OtherHost));
        }
    }

    /// What follows the first 60 bytes does not change where a frame goes, only how much it is.
    #[test]
    fn only_the_first_60_bytes_and_the_length_steer(message in any::message(), other in any::<u8>(), more in 1usize..31) {
        let table = table(message.link.ethertype, message.link.to, message.header.flow, 1);
        let mut bytes = message.emit();
        prop_assert!(parse(&bytes, message.link.ethertype).is_ok());
        let decision = steer(&bytes, &table);
        bytes[60..].fill(other);
        prop_assert_eq!(steer(&bytes, &table), decision);
        bytes.resize(bytes.len() + more, other);
        prop_assert_eq!(steer(&bytes, &table), Decision::Drop(Reason::Length));
    }

    /// Discovery sends a frame to the address that its probe came from; some
    /// host's true address may look the same, and its messages are not ours.
    #[test]
    fn a_probes_address_is_ours_for_control_frames_only(mut message in any::message(), prober in any::address()) {
        message.link.to = am_wire::frame::split_source(Flow::NODE, prober);
        let own = Address([0x02, 0, 0, 0, 0, 2]);
        let table = table(message.link.ethertype, own, message.header.flow, 1);
        let expected = match message.header.kind {
            Kind::Control => Decision::Control(9),
            _ => Decision::Pass(PassReason::OtherHost),
        };
        prop_assert_eq!(steer(&message.emit(), &table), expected);
    }
}

/// Too short is said only of frames that are ours.
#[test]
fn frames_cut_short() {
    let own = Address([0x02, 0, 0, 0, 0, 2]);
    let table = SteeringTable::new(EtherType::DEFAULT, own);
    let mut frame = [0u8; 60];
    frame[..6].copy_from_slice(&own.0);
    frame[12..14].copy_from_slice(&0x88b6u16.to_be_bytes());
    for length in 0..60 {
        let expected = if length < 14 { Decision::Pass(PassReason::Foreign) } else { Decision::Drop(Reason::Short) };
        assert_eq!(steer(&frame[..length], &table), expected);
    }
    assert_eq!(steer(&frame, &table), Decision::Drop(Reason::Version));
}
