//! What a switch sees.

use std::collections::HashSet;

use am_wire::frame::{parse, split_source};
use am_wire::{Address, Flow, Framing, Header};
use proptest::prelude::*;

use crate::any;

fn source(message: &any::Message) -> Address {
    Address(message.emit()[6..12].try_into().expect("6 bytes"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_forged_source_is_local_never_a_group_never_zero(message in any::message()) {
        if message.framing != Framing::Plain {
            let source = source(&message);
            prop_assert!(source.is_local() && !source.is_group());
            prop_assert_ne!(source, Address([0; 6]));
        }
    }

    /// Whatever is in the header: a switch learns one address a flow and sender.
    #[test]
    fn split_sources_depend_on_flow_and_sender_only(message in any::message(), other in any::message()) {
        let mut message = any::Message { framing: Framing::Split, ..message };
        let before = source(&message);
        prop_assert_eq!(before, split_source(message.header.flow, message.link.from));
        let (flow, from) = (message.header.flow, message.link.from);
        message.header = Header { flow, ..other.header };
        message.link = am_wire::frame::LinkAddresses { from, ..other.link };
        message.body = other.body;
        message.piggyback = other.piggyback;
        prop_assert_eq!(source(&message), before);
    }

    /// Senders that differ in the low 30 bits of their true addresses never
    /// share a source, whatever flows their receivers chose for them.
    #[test]
    fn two_senders_never_share_a_split_source(a in any::address(), bit in 0u32..48, f in any::flow(), g in any::flow()) {
        let b = Address::from_u64(a.to_u64() ^ 1 << bit);
        for g in [f, g] {
            prop_assert_eq!(split_source(f, a) == split_source(g, b), f == g && bit >= 30);
        }
    }

    /// The two framings that share an EtherType cannot be mistaken for one another.
    #[test]
    fn the_version_bits_tell_bare_from_split(message in any::message()) {
        let bytes = message.emit();
        prop_assert_eq!(parse(&bytes, message.link.ethertype).map(|parsed| parsed.framing), Ok(message.framing));
    }
}

/// A node with all of its flows open, sending anything: as many addresses as
/// flows, and the one it probes with.
#[test]
fn the_sources_of_a_node_are_as_many_as_its_flows() {
    let from = Address([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    let flows = (0..Flow::COUNT as u16).map(|id| Flow::new(id).expect("14 bits"));
    let sources: HashSet<Address> = flows.map(|flow| split_source(flow, from)).collect();
    assert_eq!(sources.len(), Flow::COUNT);
    assert!(sources.iter().all(|source| source.is_local() && !source.is_group()));
}
