//! Groups: frames to all members and to one, stamped by a host.

use std::time::Duration;

use am_api::group_frames::{GroupFrame, GroupHeader};
use am_api::stamp::{Destination, Opening, SenderState, Stamps, stamp, stamped};
use am_api::{Endpoint, Events, Multicast, MulticastError, MulticastSendError, Node, OwnedGroupMessage};

const GROUP: u64 = 0xabcd_0000_1111_2222;

struct Member {
    node: Node,
    endpoint: Endpoint<Vec<OwnedGroupMessage>>,
    multicast: Multicast,
    received: Vec<OwnedGroupMessage>,
}

impl Member {
    fn new(name: &str, transport: &str) -> Member {
        let node = Node::open(name, transport).unwrap();
        let mut endpoint = node.endpoint("main").unwrap();
        let multicast =
            endpoint.join_group(GROUP, |received: &mut Vec<_>, message| received.push(message.keep())).unwrap();
        Member { node, endpoint, multicast, received: Vec::new() }
    }
}

fn members<const N: usize>(transport: &str) -> [Member; N] {
    std::array::from_fn(|number| Member::new(&format!("m{number}"), transport))
}

fn turn(members: &mut [Member]) -> usize {
    members.iter_mut().map(|member| member.endpoint.poll(&mut member.received)).sum()
}

/// Poll until each member has received this many messages.
fn receive<const N: usize>(members: &mut [Member; N], counts: [usize; N]) {
    for _ in 0..10_000 {
        turn(members);
    }
    assert_eq!(members.each_ref().map(|member| member.received.len()), counts);
}

fn datagram(seq: u32) -> GroupHeader {
    GroupHeader { what: GroupFrame::Datagram, ..GroupHeader::to_stamp(GROUP, 1, 0, seq) }
}

#[test]
fn a_frame_to_the_group_reaches_all_others_and_one_to_a_member_that_member() {
    for transport in ["sim:71", "loopback:multicast"] {
        let Ok(_) = Node::open("probe", transport) else { continue };
        let mut all: [Member; 3] = members(transport);
        all[0].multicast.send(&datagram(7), b"to all").unwrap();
        receive(&mut all, [0, 1, 1]);
        assert_eq!((all[2].received[0].header, &*all[2].received[0]), (datagram(7), &b"to all"[..]));
        let to = all[0].node.link_address();
        all[1].multicast.send_to(to, &datagram(8), b"").unwrap();
        receive(&mut all, [1, 1, 1]);
        assert_eq!(all[1].node.counters().get("group_frames"), 1);
    }
}

#[test]
fn a_host_stamps_where_the_transport_does_not() {
    let mut all: [Member; 3] = members("sim:72");
    assert!(all[0].multicast.stamps().err().is_some_and(|why| why.contains("xdp:")));
    let stamps = Stamps::new();
    let sender = |member: &Member| Some(SenderState { address: member.node.link_address(), next: 0, limit: 50 });
    let (now, senders) = (Multicast::lease_clock(), [sender(&all[1]), sender(&all[2])]);
    let opening = Opening {
        group: GROUP,
        key: [0; 2],
        epoch: 1,
        lease_until: now + 60_000_000_000,
        next: 0,
        recycled: 0,
        capacity: 100,
        share: 50,
        senders: &senders,
        to: Destination::Group,
        copies: &[],
    };
    stamps.open(&opening).unwrap();
    let to = all[0].node.link_address();
    for seq in 0..10 {
        for place in [0, 1] {
            let header = GroupHeader::to_stamp(GROUP, 1, place, seq);
            all[usize::from(place) + 1].multicast.send_to(to, &header, &seq.to_be_bytes()).unwrap();
        }
    }
    receive(&mut all, [20, 0, 0]);
    for message in std::mem::take(&mut all[0].received) {
        let from = all[usize::from(message.header.sender) + 1].node.link_address();
        let stamp = stamp(&stamps, &message.header, from, Multicast::lease_clock()).unwrap();
        all[0].multicast.send(&stamped(&stamps, &message.header, &stamp), &message).unwrap();
    }
    receive(&mut all, [0, 20, 20]);
    let order = |member: &Member| {
        member.received.iter().map(|m| (m.header.number, m.header.sender, m.header.seq)).collect::<Vec<_>>()
    };
    assert_eq!(order(&all[1]), order(&all[2]));
    assert!(order(&all[1]).iter().map(|(number, ..)| *number).eq(0..20));
}

#[test]
fn a_wait_ends_with_a_group_frame() {
    let [mut one, mut two] = members("sim:73");
    assert!(two.endpoint.pending_events().is_empty());
    one.multicast.send(&datagram(1), b"x").unwrap();
    for _ in 0..1000 {
        one.endpoint.poll(&mut one.received);
        if two.endpoint.wait_events(Duration::ZERO).contains(Events::MESSAGES) {
            break;
        }
    }
    assert!(two.received.is_empty() && two.endpoint.pending_events().contains(Events::MESSAGES));
    assert_eq!(two.endpoint.wait(&mut two.received, Duration::from_secs(10)), 1);
    assert_eq!(&*two.received[0], b"x");
}

#[test]
fn frames_that_nobody_takes_are_dropped_and_counted() {
    let [mut one, mut two] = members("sim:74");
    let mut sent = 0;
    for seq in 0..2_000 {
        sent += u64::from(one.multicast.send(&datagram(seq), b"x").is_ok());
        one.endpoint.poll(&mut one.received);
        _ = two.endpoint.wait_events(Duration::ZERO);
    }
    (0..2_000).for_each(|_| _ = two.endpoint.poll(&mut two.received));
    let counters = two.node.counters();
    let dropped = counters.get("group_frames_dropped");
    assert!(dropped > 0 && two.received.len() as u64 + dropped <= sent, "{sent} sent: {counters}");
    assert!(two.received.len() >= 256);
}

/// They would keep a node awake.
#[test]
fn frames_for_an_endpoint_that_is_gone_do_not_wait() {
    let [mut one, two] = members("sim:76");
    let Member { node, endpoint, multicast: _multicast, .. } = two;
    let mut other = node.endpoint::<()>("other").unwrap();
    one.multicast.send(&datagram(1), b"x").unwrap();
    for _ in 0..1_000 {
        one.endpoint.poll(&mut one.received);
        other.wait_events(Duration::ZERO);
    }
    assert!(node.has_work());
    drop(endpoint);
    one.multicast.send(&datagram(2), b"x").unwrap();
    for _ in 0..1_000 {
        one.endpoint.poll(&mut one.received);
        other.poll(&mut ());
    }
    assert!(!node.has_work(), "{}", node.counters());
    let counters = node.counters();
    assert_eq!((counters.get("group_frames"), counters.get("unknown_group")), (1, 1), "{counters}");
}

#[test]
fn what_cannot_be_joined_or_sent() {
    let [mut one, mut two] = members("sim:75");
    let join = |member: &mut Member, group| member.endpoint.join_group(group, |_, _| ()).map(|_| ());
    assert_eq!(join(&mut one, 0), Err(MulticastError::Zero));
    assert_eq!(join(&mut one, GROUP), Err(MulticastError::Taken(GROUP)));
    let most = one.multicast.max_payload();
    let too_large = MulticastSendError::TooLarge { needs: most + 1, most };
    assert_eq!(one.multicast.send(&datagram(0), &vec![0; most + 1]), Err(too_large));
    let _others: Vec<_> = (1..8).map(|group| one.endpoint.join_group(group, |_, _| ()).unwrap()).collect();
    assert!(matches!(join(&mut one, 8), Err(MulticastError::Unsupported(_))));

    // The longest message fits. A member that has left gets none.
    one.multicast.send(&datagram(1), &vec![5; most]).unwrap();
    for _ in 0..1000 {
        one.endpoint.poll(&mut one.received);
        two.endpoint.poll(&mut two.received);
    }
    assert_eq!(two.received.pop().unwrap().len(), most);
    let Member { node, mut endpoint, multicast, .. } = two;
    drop(multicast);
    one.multicast.send(&datagram(2), b"").unwrap();
    for _ in 0..1000 {
        one.endpoint.poll(&mut one.received);
        endpoint.poll(&mut Vec::new());
    }
    assert_eq!(node.counters().get("steer_drop_unknown_group"), 1);
}
