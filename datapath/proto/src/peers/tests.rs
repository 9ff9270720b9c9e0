use super::*;

fn peer(node: u64, run: u64) -> Peer {
    let name = Name::new("peer").expect("a good name");
    Peer { node: NodeId(node), incarnation: Incarnation(run), name, address: Address::from_u64(node) }
}

#[test]
fn a_contradicting_beacon_is_a_conflict() {
    let mut peers = Peers::default();
    assert_eq!(peers.learn(peer(1, 5)), BeaconNews::New);
    assert_eq!(peers.learn(peer(1, 5)), BeaconNews::Same(0));
    let elsewhere = Peer { address: Address::from_u64(9), ..peer(1, 5) };
    for other in [peer(1, 4), peer(1, 6), elsewhere] {
        assert_eq!(peers.learn(other), BeaconNews::Conflict(0));
    }
    assert_eq!(peers.learn(peer(1, 5)), BeaconNews::Same(0), "nothing is believed yet");
}

#[test]
fn a_static_peer_takes_its_run_from_its_beacon() {
    let mut peers = Peers::default();
    peers.learn(peer(1, 0));
    assert_eq!((peers.learn(peer(1, 5)), peers.learn(peer(1, 5))), (BeaconNews::New, BeaconNews::Same(0)));
}

#[test]
fn of_several_with_one_name_the_latest_run_counts() {
    let mut peers = Peers::default();
    for (node, run) in [(1, 5), (2, 9), (3, 7)] {
        peers.learn(peer(node, run));
    }
    let name = Name::new("peer").expect("a good name");
    assert_eq!(peers.by_name(name), peers.by_node(NodeId(2)));
    peers.records[1].is_unresponsive = true;
    assert_eq!(peers.by_name(name), peers.by_node(NodeId(3)), "of those that answer");
}

#[test]
fn a_flood_of_names_is_bounded() {
    let mut peers = Peers::default();
    let news: Vec<BeaconNews> = (0..MAX_PEERS as u64 + 1).map(|node| peers.learn(peer(node, 1))).collect();
    assert_eq!(news.last(), Some(&BeaconNews::Replaced(None)));
    assert_eq!(peers.iter().count(), MAX_PEERS);
    assert_eq!(peers.by_node(NodeId(0)), None, "the oldest is forgotten");
    assert_eq!(peers.learn(peer(1, 1)), BeaconNews::Same(1), "those that are known still are");
}

#[test]
fn a_flood_does_not_evict_peers_with_flows() {
    let mut peers = Peers::default();
    for node in [1, 2] {
        peers.learn(peer(node, 1));
    }
    peers.make_static(NodeId(1));
    peers.records[1].flows += 1;
    for node in 3..3 * MAX_PEERS as u64 {
        peers.learn(peer(node, 1));
    }
    assert!(peers.by_node(NodeId(1)).is_some() && peers.by_node(NodeId(2)).is_some());
    peers.remove_flow(NodeId(2));
    (0..MAX_PEERS as u64).for_each(|node| _ = peers.learn(peer(3 * MAX_PEERS as u64 + node, 1)));
    assert!(peers.by_node(NodeId(1)).is_some() && peers.by_node(NodeId(2)).is_none());
}

/// All earlier peers had flows, and those have ended.
#[test]
fn new_peers_do_not_evict_each_other() {
    let mut peers = Peers::default();
    let known = KnownPath { framing: Framing::Bare, why: FramingWhy::NothingLearns, max_frame: 1514 };
    for node in 0..MAX_PEERS as u64 {
        peers.learn(peer(node, 1));
        peers.records[node as usize].path = Path::Known(known);
    }
    let newcomers = 1 << 20..(1 << 20) + 1000;
    newcomers.clone().for_each(|node| assert_eq!(peers.learn(peer(node, 1)), BeaconNews::Replaced(None)));
    assert!(newcomers.into_iter().all(|node| peers.by_node(NodeId(node)).is_some()));
}

#[test]
fn a_removed_peer_frees_its_place() {
    let mut peers = Peers::default();
    // All have one name: the latest run is found by it.
    for (node, run) in [(1, 1), (2, 9), (3, 2)] {
        peers.learn(peer(node, run));
    }
    peers.make_static(NodeId(2));
    assert_eq!(peers.by_name(peer(2, 1).name), peers.by_node(NodeId(2)));
    peers.remove(NodeId(2));
    peers.remove(NodeId(2));
    assert_eq!((peers.by_node(NodeId(2)), peers.by_name(peer(2, 1).name)), (None, peers.by_node(NodeId(3))));
    assert_eq!(peers.iter().count(), 2);
    assert_eq!((peers.learn(peer(4, 1)), peers.learn(peer(2, 1))), (BeaconNews::New, BeaconNews::New), "known anew");
    assert_eq!((peers.iter().count(), peers.records.len()), (4, 4));
}

#[test]
fn a_static_table_that_fills_all_room_stays() {
    let mut peers = Peers::default();
    for node in 0..MAX_PEERS as u64 {
        peers.learn(peer(node, 1));
        peers.make_static(NodeId(node));
    }
    assert_eq!(peers.learn(peer(1 << 20, 1)), BeaconNews::TooMany);
}
