//! Live networks: nodes that join and leave, events that are due while no node looks, and faults that follow the seed.

mod ends;
mod sleep;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use am_netdev_sim::MS;
use am_netdev_sim::live::{self, LiveNic, SimOpenError, SimSettings};
use am_transport::{Transport, TransportExt, TransportName};
use am_wire::Address;
use ends::{open, receive_numbers, receive_until_quiet, seed, send};

#[test]
fn a_later_node_takes_the_networks_settings_and_cannot_change_them() {
    let first = SimSettings { seed: seed(), loss: Some(0.5), nodes: Some(3), ..SimSettings::default() };
    let _near = open(&first);
    let far = open(&SimSettings { seed: first.seed, ..SimSettings::default() });
    assert!(far.caps().mode.contains("loss=0.5"), "{}", far.caps().mode);
    let _same = open(&SimSettings { seed: first.seed, loss: Some(0.5), ..SimSettings::default() });
    let error = live::open(&SimSettings { loss: Some(0.1), ..first.clone() }).unwrap_err();
    assert!(matches!(error, SimOpenError::Conflict { setting: "loss", .. }), "{error}");
    assert!(error.to_string().contains("loss=0.5, not 0.1"), "{error}");
    let error = live::open(&first).unwrap_err();
    assert!(matches!(error, SimOpenError::Full { nodes: 3, .. }), "{error}");
}

#[test]
fn the_network_ends_with_its_last_node() {
    let settings = SimSettings { seed: seed(), loss: Some(0.5), ..SimSettings::default() };
    let (near, far) = (open(&settings), open(&settings));
    drop(near);
    assert!(live::open(&SimSettings { loss: Some(0.0), ..settings.clone() }).is_err(), "one node is left");
    drop(far);
    open(&SimSettings { loss: Some(0.0), ..settings });
}

#[test]
fn a_node_alone_has_a_link_error() {
    let settings = SimSettings { seed: seed(), ..SimSettings::default() };
    let mut near = open(&settings);
    assert!(near.link_error().is_some_and(|why| why.contains("another process")));
    let far = open(&settings);
    assert_eq!(near.link_error(), None);
    assert_eq!(near.peer_addresses(), [far.caps().address]);
    drop(far);
    assert_eq!(near.peer_addresses(), []);
    assert!(near.link_error().is_some());
}

#[test]
fn a_freed_place_is_used_again() {
    let settings = SimSettings { seed: seed(), ..SimSettings::default() };
    let (mut near, far) = (open(&settings), open(&settings));
    let address = far.caps().address;
    send(&mut near, address, 0..10);
    drop(far);
    let mut again = open(&settings);
    assert_eq!(again.caps().address, address);
    send(&mut near, address, 10..20);
    assert!(receive_until_quiet(&mut again, 1).contains(&19), "it is at the cable of its predecessor");
}

#[test]
fn nodes_that_leave_leave_no_frames_behind() {
    let settings = SimSettings { seed: seed(), nodes: Some(3), loss: Some(0.1), ..SimSettings::default() };
    let (mut near, far) = (open(&settings), open(&settings));
    for visit in 0..300 {
        let mut guest = open(&settings);
        let pool = guest.caps().pool.clone();
        send(&mut near, guest.caps().address, 0..8);
        send(&mut guest, far.caps().address, 0..8);
        let kept = receive_numbers(&mut guest).len();
        assert!(kept <= 8, "visit {visit}");
        drop(guest);
        assert_eq!(pool.available(), pool.layout().frames, "visit {visit}");
    }
    near.flush();
    drop(far);
    let pool = near.caps().pool.clone();
    drop(near);
    assert_eq!(pool.available(), pool.layout().frames);
}

#[test]
fn known_addresses_are_forwarded_and_others_flooded() {
    let settings = SimSettings { seed: seed(), ..SimSettings::default() };
    let [mut one, mut two, mut three] = [(); 3].map(|()| open(&settings));
    let passed_by = |end: &LiveNic| {
        let mut count = 0;
        end.counters(&mut |name, value| count += if name == "steer_pass_other_host" { value } else { 0 });
        count
    };
    send(&mut one, two.caps().address, 0..10);
    assert_eq!(receive_until_quiet(&mut two, 10).len(), 10);
    assert_eq!((receive_until_quiet(&mut three, 0).len(), passed_by(&three)), (0, 0));
    send(&mut one, Address([2, 9, 9, 9, 9, 9]), 0..10);
    assert_eq!((receive_until_quiet(&mut two, 0).len(), receive_until_quiet(&mut three, 0).len()), (0, 0));
    assert_eq!([&one, &two, &three].map(passed_by), [0, 10, 10]);
}

#[test]
fn queued_frames_are_sent_after_a_node_has_left() {
    // A frame takes a millisecond, so nearly all are still in the NIC when the node leaves.
    let settings = SimSettings { seed: seed(), rate: Some(1_000_000), ..SimSettings::default() };
    let (mut near, mut far) = (open(&settings), open(&settings));
    send(&mut near, far.caps().address, 0..20);
    let pool = near.caps().pool.clone();
    drop(near);
    assert_eq!(pool.available(), pool.layout().frames);
    assert_eq!(receive_until_quiet(&mut far, 20), (0..20).collect());
}

#[test]
fn a_frame_takes_the_delay() {
    let settings = SimSettings { seed: seed(), delay: Some(30 * MS), ..SimSettings::default() };
    let (mut near, mut far) = (open(&settings), open(&settings));
    let start = Instant::now();
    send(&mut near, far.caps().address, 0..1);
    assert_eq!(receive_until_quiet(&mut far, 1), BTreeSet::from([0]));
    assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
}

#[test]
fn the_same_frames_in_the_same_order_have_the_same_fate() {
    let fates = |seed| {
        let settings = SimSettings { seed, loss: Some(0.3), ..SimSettings::default() };
        let (mut near, mut far) = (open(&settings), open(&settings));
        let to = far.caps().address;
        let mut all = BTreeSet::new();
        for burst in 0..10 {
            send(&mut near, to, burst * 30..burst * 30 + 30);
            // The faults do not depend on the time of sending.
            thread::sleep(Duration::from_micros(100 * burst));
            all.extend(receive_until_quiet(&mut far, 0));
        }
        all
    };
    let (one, other) = (seed(), seed());
    let first = fates(one);
    assert!((100..290).contains(&first.len()), "{} of 300", first.len());
    assert_eq!(first, fates(one));
    assert_ne!(first, fates(other));
}

#[test]
fn names_are_read() {
    let read = |name: &str| SimSettings::from_name(&name.parse::<TransportName>().expect("a name"));
    let settings = read("sim:9,loss=1%,duplicate=0.02,reorder=0.5,corrupt=1,delay=1.5ms,rate=100M,nodes=2,frame=9014");
    let all = SimSettings {
        seed: 9,
        loss: Some(0.01),
        duplicate: Some(0.02),
        reorder: Some(0.5),
        corrupt: Some(1.0),
        delay: Some(1_500_000),
        rate: Some(100_000_000),
        nodes: Some(2),
        frame: Some(9014),
    };
    assert_eq!(settings, Ok(all));
    for (name, hint) in [
        ("sim", "sim:7"),
        ("sim:lab", "give a seed, a number"),
        ("sim:7,loss=2", "loss=0.01"),
        ("sim:7,loss", "loss=0.01"),
        ("sim:7,delay=10", "delay=10us"),
        ("sim:7,rate=0", "rate=10G"),
        ("sim:7,nodes=1", "2 to 64"),
        ("sim:7,frame=100", "1514 to 65536"),
        ("sim:7,colour=red", "the settings are loss="),
    ] {
        let error = read(name).unwrap_err().to_string();
        assert!(error.contains(hint), "{name}: {error}");
    }
}
