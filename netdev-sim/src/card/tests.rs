use super::*;
use am_ring::Layout;
use rand::SeedableRng;
use rand::rngs::SmallRng;

const OWN: Address = Address([2, 0, 0, 0, 0, 1]);

/// A card, and the pool of its node.
fn card(options: NetOptions) -> (Card, Pool) {
    let layout = Layout { frames: options.frames, stride: 1536, headroom: 0 };
    let pool = Pool::heap(layout).unwrap();
    let mut card = Card::new(&options, OWN, FaultRng::new(SmallRng::seed_from_u64(1), 1000), 0);
    card.refill(&pool);
    (card, pool)
}

fn read(card: &mut Card) -> bool {
    card.read(&mut Buffers::default()).is_some()
}

fn small() -> NetOptions {
    NetOptions { fill: 4, rx: 3, tx: 2, completion: 2, frames: 16, ..NetOptions::calm(2) }
}

/// A control frame, as far as steering looks at it. Steering admits it.
fn control() -> WireFrame {
    let mut bytes = [0u8; 64];
    bytes[..6].copy_from_slice(&OWN.0);
    let header = am_wire::Header {
        kind: am_wire::Kind::Control,
        flow: am_wire::Flow::NODE,
        nonce: 0,
        handler: 0,
        words: 0,
        seq: 0,
    };
    let link =
        am_wire::frame::LinkAddresses { to: OWN, from: Address([2, 0, 0, 0, 0, 9]), ethertype: EtherType::DEFAULT };
    am_wire::frame::emit(&mut bytes, am_wire::Framing::Plain, &link, &header, 0, None).unwrap();
    Buffers::default().wire_frame(&bytes[..60])
}

#[test]
fn without_a_buffer_or_room_frames_are_lost_and_counted() {
    let (mut full, _pool) = card(small());
    let woken = (0..5).filter(|_| full.arrive(&control())).count();
    assert_eq!((woken, full.count.rx_full, full.count.starved), (3, 2, 0));
    let (mut starving, pool) = card(NetOptions { rx: 100, ..small() });
    let woken = (0..6).filter(|_| starving.arrive(&control())).count();
    assert_eq!((woken, starving.count.starved), (4, 2));
    assert_eq!(starving.receive(64, &pool, &mut drop), 4);
    assert!(starving.arrive(&control()), "the fill ring is full again");
}

#[test]
fn damage_is_dropped_where_it_is_looked_for() {
    let damaged = Buffers::default().damage(&control(), 40, 1);
    assert!(!card(small()).0.arrive(&damaged));
    assert!(card(NetOptions { check: false, ..small() }).0.arrive(&damaged));
}

#[test]
fn foreign_frames_use_no_buffer() {
    let (mut nic, _pool) = card(small());
    assert!(!nic.arrive(&Buffers::default().wire_frame(&[0; 60])));
    assert_eq!(nic.ring_lengths(), [4, 0, 0, 0]);
}

#[test]
fn a_full_completion_ring_stops_it_and_completions_come_late() {
    let (mut nic, pool) = card(NetOptions { tx: 4, completion_delay: 500, ..small() });
    for _ in 0..4 {
        let frame = pool.copy(&[1; 60]).unwrap();
        assert!(nic.send(&frame));
    }
    assert!(!nic.send(&pool.copy(&[1; 60]).unwrap()));
    nic.flush(&pool);
    assert!(nic.start_if_rung() && read(&mut nic) && read(&mut nic));
    assert!(!read(&mut nic));
    assert_eq!(nic.ring_lengths(), [4, 0, 2, 2]);
    nic.now = 1000;
    nic.flush(&pool);
    assert_eq!(nic.ring_lengths(), [4, 0, 2, 0]);
    assert!(nic.start_if_rung());
}

#[test]
fn a_lost_doorbell_leaves_the_frame_where_it_is_until_the_next() {
    let (mut nic, pool) = card(NetOptions { lost_wakeup: 1.0, ..small() });
    let frame = pool.copy(&[1; 60]).unwrap();
    assert!(nic.send(&frame));
    nic.flush(&pool);
    assert!(!nic.start_if_rung());
    nic.now = 1000;
    nic.flush(&pool);
    assert!(nic.start_if_rung() && read(&mut nic));
}

#[test]
fn a_write_to_a_sent_frame_is_detected() {
    let (mut nic, pool) = card(small());
    let frame = pool.copy(&[1; 60]).unwrap();
    assert!(nic.send(&frame));
    nic.flush(&pool);
    assert!(nic.start_if_rung() && read(&mut nic));
    assert_eq!(nic.count.overwritten, 0);
    // The ring's types forbid a write to the frame, so the test changes the sum instead.
    nic.sent[0].1.sum = nic.sent[0].1.sum.map(|sum| sum ^ 1);
    nic.flush(&pool);
    assert_eq!(nic.count.overwritten, 1);
}
