//! A switch that learns, three hosts, `split` framing: how many addresses it
//! learns, and what a host sees that has nothing to do with the conversation.

use std::collections::HashSet;
use std::time::Duration;

use crate::wires::{Seen, against, connect, exchange, node};
use am_api::{Framing, FramingWhy};
use am_netns::{Bridge, BridgeOptions, Host, Tap};

/// Frames of ours that reached a host that they were not for.
fn overheard(tap: &Tap, own: [u8; 6]) -> usize {
    let mut buffer = [0; 2048];
    let mut count = 0;
    while let Some(frame) = tap.receive(&mut buffer, Duration::from_millis(20)).unwrap() {
        let ours = frame[12] == 0x88 && matches!(frame[13], 0xb5 | 0xb6);
        let for_others = frame[0] & 1 == 0 && frame[..6] != own;
        count += usize::from(ours && for_others);
    }
    count
}

#[test]
fn a_switch_learns_few_addresses_and_floods_nothing() {
    let names = ["alpha", "beta", "gamma"].map(|name| Host::new(name).unwrap());
    let [alpha, beta, gamma] = &names;
    let switch = Bridge::new(&[alpha, beta, gamma], "am0", &BridgeOptions::default()).unwrap();
    let tap = Tap::new(&switch.ends()[2]).unwrap();
    let own = switch.ends()[2].address();
    let (flooded, served) = against(alpha, beta, None, || {
        let (_node, mut endpoint) = node("alpha", None);
        let mut seen = Seen::default();
        let flows: Vec<_> = (0..5).map(|_| connect(&mut endpoint, &mut seen)).collect();
        let how = endpoint.describe(flows[0]).unwrap();
        assert_eq!((how.framing, how.why), (Framing::Split, FramingWhy::SwitchLearns));
        // Start-up is over.
        overheard(&tap, own);
        for &to in &flows {
            exchange(&mut endpoint, &mut seen, to, 10_000, 100);
        }
        overheard(&tap, own)
    });
    assert_eq!(served.requests, 50_000);
    assert_eq!(flooded, 0, "frames between alpha and beta reached gamma");
    let learned: HashSet<_> = switch.learned().unwrap().into_iter().map(|entry| entry.address).collect();
    // Two true addresses; one for each direction of each of five flows; one
    // for each node's probes.
    assert!(learned.len() <= 2 + 2 * 5 + 2, "{} addresses for 5 flows: {learned:02x?}", learned.len());
    assert!(learned.len() >= 2 + 2 * 5, "{learned:02x?}");
}
