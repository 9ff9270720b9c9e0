//! Live networks: nodes that join and leave, events that are due while no node looks, and faults that follow the seed.

mod ends;
mod sleep;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use am_netdev_sim::MS;
use am_netdev_sim::live::{self, Live, OpenError, Settings};
use am_transport::{Name, Transport, TransportExt};
use am_wire::Address;
use ends::{arrived, open, seed, send, taken};

#[test]
fn who_comes_later_may_leave_settings_out_and_not_say_others() {
    let first = Settings { seed: seed(), loss: Some(0.5), nodes: Some(3), ..Settings::default() };
    let _near = open(&first);
    let far = open(&Settings { seed: first.seed, ..Settings::default() });
    assert!(far.caps().mode.contains("loss=0.5"), "{}", far.caps().mode);
    let _same = open(&Settings { seed: first.seed, loss: Some(0.5), ..Settings::default() });
    let error = live::open(&Settings { loss: Some(0.1), ..first.clone() }).unwrap_err();
    assert!(matches!(error, OpenError::Conflict { setting: "loss", .. }), "{error}");
    assert!(error.to_string().contains("loss=0.5, not 0.1"), "{error}");
    let error = live::open(&first).unwrap_err();
    assert!(matches!(error, OpenError::Full { nodes: 3, .. }), "{error}");
}

#[test]
fn the_last_takes_the_network_along() {
    let settings = Settings { seed: seed(), loss: Some(0.5), ..Settings::default() };
    let (near, far) = (open(&settings), open(&settings));
    drop(near);
    assert!(live::open(&Settings { loss: Some(0.0), ..settings.clone() }).is_err(), "one node is left");
    drop(far);
    open(&Settings { loss: Some(0.0), ..settings });
}

#[test]
fn nobody_else_is_trouble() {
    let settings = Settings { seed: seed(), ..Settings::default() };
    let mut near = open(&settings);
    assert!(near.link_error().is_some_and(|why| why.contains("another process")));
    let far = open(&settings);
    assert_eq!(near.link_error(), None);
    assert_eq!(near.others(), [far.caps().address]);
    drop(far);
    assert_eq!(near.others(), []);
    assert!(near.link_error().is_some());
}

#[test]
fn a_place_is_taken_again_and_counts_anew() {
    let settings = Settings { seed: seed(), ..Settings::default() };
    let (mut near, far) = (open(&settings), open(&settings));
    let address = far.caps().address;
    send(&mut near, address, 0..10);
    drop(far);
    let mut again = open(&settings);
    assert_eq!(again.caps().address, address);
    send(&mut near, address, 10..20);
    assert!(arrived(&mut again, 1).contains(&19), "it is at the cable of its predecessor");
}

#[test]
fn many_come_and_go_and_take_what_is_theirs_along() {
    let settings = Settings { seed: seed(), nodes: Some(3), loss: Some(0.1), ..Settings::default() };
    let (mut near, far) = (open(&settings), open(&settings));
    for visit in 0..300 {
        let mut guest = open(&settings);
        let pool = guest.caps().pool.clone();
        send(&mut near, guest.caps().address, 0..8);
        send(&mut guest, far.caps().address, 0..8);
        let kept = taken(&mut guest).len();
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
fn the_switch_knows_who_is_where_and_floods_the_rest() {
    let settings = Settings { seed: seed(), ..Settings::default() };
    let [mut one, mut two, mut three] = [(); 3].map(|()| open(&settings));
    let passed_by = |end: &Live| {
        let mut count = 0;
        end.counters(&mut |name, value| count += if name == "steer_pass_other_host" { value } else { 0 });
        count
    };
    send(&mut one, two.caps().address, 0..10);
    assert_eq!(arrived(&mut two, 10).len(), 10);
    assert_eq!((arrived(&mut three, 0).len(), passed_by(&three)), (0, 0));
    send(&mut one, Address([2, 9, 9, 9, 9, 9]), 0..10);
    assert_eq!((arrived(&mut two, 0).len(), arrived(&mut three, 0).len()), (0, 0));
    assert_eq!([&one, &two, &three].map(passed_by), [0, 10, 10]);
}

#[test]
fn what_is_told_to_be_sent_is_sent_by_who_leaves_then() {
    // A frame takes a millisecond, so nearly all are still in the NIC when the node leaves.
    let settings = Settings { seed: seed(), rate: Some(1_000_000), ..Settings::default() };
    let (mut near, mut far) = (open(&settings), open(&settings));
    send(&mut near, far.caps().address, 0..20);
    let pool = near.caps().pool.clone();
    drop(near);
    assert_eq!(pool.available(), pool.layout().frames);
    assert_eq!(arrived(&mut far, 20), (0..20).collect());
}

#[test]
fn nothing_comes_before_its_time() {
    let settings = Settings { seed: seed(), delay: Some(30 * MS), ..Settings::default() };
    let (mut near, mut far) = (open(&settings), open(&settings));
    let start = Instant::now();
    send(&mut near, far.caps().address, 0..1);
    assert_eq!(arrived(&mut far, 1), BTreeSet::from([0]));
    assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
}

#[test]
fn the_same_frames_in_the_same_order_have_the_same_fate() {
    let fates = |seed| {
        let settings = Settings { seed, loss: Some(0.3), ..Settings::default() };
        let (mut near, mut far) = (open(&settings), open(&settings));
        let to = far.caps().address;
        let mut all = BTreeSet::new();
        for burst in 0..10 {
            send(&mut near, to, burst * 30..burst * 30 + 30);
            // The faults do not depend on the time of sending.
            thread::sleep(Duration::from_micros(100 * burst));
            all.extend(arrived(&mut far, 0));
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
    let read = |name: &str| Settings::from_name(&name.parse::<Name>().expect("a name"));
    let settings = read("sim:9,loss=1%,duplicate=0.02,reorder=0.5,corrupt=1,delay=1.5ms,rate=100M,nodes=2,frame=9014");
    let all = Settings {
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
