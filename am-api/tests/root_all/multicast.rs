//! A group over `xdp:`: the XDP program stamps while the sequencer's node does not poll.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use am_api::group_frames::GroupHeader;
use am_api::stamp::{Destination, Opening, SenderState};
use am_api::{Address, Multicast, Node, OwnedGroupMessage};
use am_netns::{Bridge, BridgeOptions, Host};

const GROUP: u64 = 0x77_1234_5678;
const MESSAGES: u32 = 20;
const SENDERS: usize = 2;

fn join(name: &str) -> (Node, am_api::Endpoint<Vec<OwnedGroupMessage>>, Multicast) {
    let node = Node::open(name, "xdp:am0").unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    let multicast = endpoint.join_group(GROUP, |received: &mut Vec<_>, message| received.push(message.keep())).unwrap();
    (node, endpoint, multicast)
}

/// Opens the table, and does nothing until all have received all.
fn sequencer(addresses: &[Address], ready: &Barrier, done: &Barrier) {
    let (node, mut endpoint, multicast) = join("sequencer");
    let is_stamped = match multicast.stamps() {
        Ok(stamps) => {
            let sender = |address: &Address| Some(SenderState { address: *address, next: 0, limit: MESSAGES });
            let senders: Vec<_> = addresses[1..].iter().map(sender).collect();
            let opening = Opening {
                group: GROUP,
                key: [0; 2],
                epoch: 1,
                lease_until: Multicast::lease_clock() + 60_000_000_000,
                next: 0,
                recycled: 0,
                capacity: MESSAGES * SENDERS as u32,
                share: 0,
                senders: &senders,
                to: Destination::Group,
                copies: &[],
            };
            stamps.open(&opening).unwrap();
            true
        }
        Err(why) => {
            assert!(why.contains("too old"), "{why}");
            false
        }
    };
    ready.wait();
    done.wait();
    let mut received = Vec::new();
    (0..100).for_each(|_| _ = endpoint.poll(&mut received));
    let messages = u64::from(MESSAGES) * SENDERS as u64;
    if is_stamped {
        assert!(received.is_empty() && node.counters().get("xdp_stamped") == messages, "{}", node.counters());
        assert_eq!(multicast.stamps().unwrap().next(), messages);
    }
}

/// Sends its messages until they are numbered. Returns the order that it saw.
fn member(place: u16, sequencer: Address, ready: &Barrier, done: &Barrier) -> Vec<(u64, u16, u32)> {
    let (_node, mut endpoint, multicast) = join(&format!("m{place}"));
    ready.wait();
    let (mut received, mut numbered, start) = (Vec::new(), Vec::new(), Instant::now());
    while numbered.len() < MESSAGES as usize * SENDERS && start.elapsed() < crate::wires::SECONDS {
        for seq in 0..MESSAGES {
            _ = multicast.send_to(sequencer, &GroupHeader::to_stamp(GROUP, 1, place, seq), b"message");
        }
        for _ in 0..1_000 {
            endpoint.poll(&mut received);
        }
        numbered.extend(
            received.drain(..).map(|message| (message.header.number, message.header.sender, message.header.seq)),
        );
        numbered.sort_unstable();
        numbered.dedup();
        if multicast.stamps().is_err() {
            break;
        }
    }
    done.wait();
    numbered
}

#[test]
fn the_program_stamps_while_its_node_does_not_poll() {
    let hosts: Vec<_> = (0..=SENDERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    let addresses: Vec<_> = bridge.ends().iter().map(|end| Address(end.address())).collect();
    let (ready, done) = (Barrier::new(SENDERS + 1), Barrier::new(SENDERS + 1));
    let orders: Vec<_> = thread::scope(|scope| {
        let (hosts, addresses, ready, done) = (&hosts, &addresses, &ready, &done);
        scope.spawn(move || hosts[0].enter(|| sequencer(addresses, ready, done)).unwrap());
        let members: Vec<_> = (0..SENDERS)
            .map(|place| {
                scope.spawn(move || hosts[place + 1].enter(|| member(place as u16, addresses[0], ready, done)).unwrap())
            })
            .collect();
        members.into_iter().map(|member| member.join().unwrap()).collect()
    });
    assert_eq!(orders[0], orders[1]);
    assert!(orders[0].is_empty() || orders[0].iter().map(|(number, ..)| *number).eq(0..40));
}
