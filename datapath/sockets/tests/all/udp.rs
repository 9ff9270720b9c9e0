//! What UDP sockets do: batches, who is learned, what strangers send, what is refused.

use std::net::UdpSocket;

use crate::ends::{
    acquaint, counter, is_quiet, number, numbered, numbered_as, options, place, receive, receive_so_many, udp,
    udp_pair, until,
};
use am_sockets::{Udp, udp};
use am_transport::{Command, PeerAddressError, Transport, TransportExt};
use am_wire::Address;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

const ANY: &str = "udp:127.0.0.1:0";

/// Send frames of these lengths with one flush.
fn burst(ends: &mut [Udp; 2], lens: &[usize]) {
    let to = ends[1].caps().address;
    for (number, len) in lens.iter().enumerate() {
        let frame = numbered(&ends[0], to, number as u32, *len);
        assert!(ends[0].send(to, &frame), "room");
    }
    ends[0].flush();
}

#[test]
fn a_run_is_one_message_of_one_call_in_both_directions() {
    let mut ends = udp_pair(ANY);
    assert_eq!(ends[0].caps().mode, "udp, mmsg, gso, gro");
    acquaint(&mut ends);
    let before = [counter(&ends[0], "udp_send_calls"), counter(&ends[1], "udp_receive_calls")];
    burst(&mut ends, &[1000; 40]);
    assert!(receive_so_many(&mut ends[1], 40).into_iter().eq(0..40));
    assert_eq!(counter(&ends[0], "udp_send_calls"), before[0] + 1);
    assert_eq!((counter(&ends[0], "udp_gso_messages"), counter(&ends[1], "udp_gro_messages")), (1, 1));
    assert_eq!(counter(&ends[0], "udp_gso_refused"), 0);
    assert!(counter(&ends[1], "udp_receive_calls") <= before[1] + 2);
}

#[test]
fn without_them_each_frame_is_a_message_of_its_own() {
    let mut ends = udp_pair("udp:127.0.0.1:0,gso=off,gro=off");
    assert_eq!(ends[0].caps().mode, "udp, mmsg");
    acquaint(&mut ends);
    let before = counter(&ends[0], "udp_send_calls");
    burst(&mut ends, &[1000; 40]);
    assert!(receive_so_many(&mut ends[1], 40).into_iter().eq(0..40));
    assert_eq!(counter(&ends[0], "udp_send_calls"), before + 1, "one call takes them all the same");
    assert_eq!((counter(&ends[0], "udp_gso_messages"), counter(&ends[1], "udp_gro_messages")), (0, 0));
}

#[test]
fn lengths_of_every_kind_stay_what_they_were() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    let mut lens = vec![];
    for number in 0..200usize {
        lens.push([1000, 1000, 1000, 60, 1400, 1400, 8000, 300][number * number % 8]);
    }
    for _ in 0..20 {
        burst(&mut ends, &lens);
        let to = ends[1].caps().address;
        let mut arrived = vec![];
        until("all arrive", || {
            ends[1].receive(7, &mut |frame| arrived.push((number(&frame), am_wire::Buffer::bytes(&frame).len())));
            arrived.len() == lens.len()
        });
        assert!(arrived.iter().map(|(_, len)| *len).eq(lens.iter().copied()), "for {to}");
        lens.rotate_left(3);
    }
}

/// The length at which the socket cuts stays set; what is longer must not be cut by it.
#[test]
fn a_run_leaves_nothing_behind_for_those_who_follow() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    // Growing lengths are no run: each is a message, alone or with others.
    for lens in [&[1100, 1200, 1300][..], &[1500]] {
        burst(&mut ends, &[1000; 3]);
        assert_eq!(receive_so_many(&mut ends[1], 3), [0, 1, 2]);
        burst(&mut ends, lens);
        let mut arrived = vec![];
        until("all arrive", || {
            ends[1].receive(64, &mut |frame| arrived.push(am_wire::Buffer::bytes(&frame).len()));
            arrived.len() >= lens.len()
        });
        assert_eq!(arrived, lens);
    }
}

#[test]
fn a_flood_reaches_the_introduced_and_the_learned() {
    let (mut middle, mut introduced, mut stranger) = (udp(ANY), udp(ANY), udp(ANY));
    middle.add_peer(&place(&introduced)).unwrap();
    stranger.add_peer(&place(&middle)).unwrap();
    let hello = numbered(&stranger, Address::BROADCAST, 1, 100);
    assert!(stranger.send(Address::BROADCAST, &hello), "room");
    stranger.flush();
    assert_eq!(receive_so_many(&mut middle, 1), [1]);
    let all = numbered(&middle, Address::BROADCAST, 2, 100);
    assert!(middle.send(Address::BROADCAST, &all), "room");
    middle.flush();
    assert_eq!(receive_so_many(&mut introduced, 1), [2]);
    assert_eq!(receive_so_many(&mut stranger, 1), [2]);
    // What is for the stranger goes to nobody else.
    let one = numbered(&middle, stranger.caps().address, 3, 100);
    assert!(middle.send(stranger.caps().address, &one), "room");
    middle.flush();
    assert_eq!(receive_so_many(&mut stranger, 1), [3]);
    assert!(is_quiet(&mut introduced));
    assert_eq!(counter(&introduced, "steer_pass_other_host"), 0);
}

/// Whose address it is may be made up by who wants us to answer.
#[test]
fn floods_to_unknown_addresses_are_limited() {
    let (mut end, made_up) = (udp(ANY), Address([2, 0, 0, 0, 0, 9]));
    let mut lost = |places: usize| {
        (1..places).for_each(|port| end.add_peer(&format!("127.0.0.2:{port}")).unwrap());
        // Nothing is flushed: it goes nowhere.
        for number in 0..100 {
            assert!(end.send(made_up, &numbered(&end, made_up, number, 100)), "room");
        }
        assert!(end.send(Address::BROADCAST, &numbered(&end, Address::BROADCAST, 100, 100)), "room");
        counter(&end, "udp_lost_unheard")
    };
    assert_eq!(lost(2), 0, "there is but one place where he can be");
    assert!((20..50).contains(&lost(1000)), "some go: that is how a peer of a static table is found");
}

#[test]
fn only_control_frames_teach_addresses() {
    let (mut near, mut far) = (udp(ANY), udp(ANY));
    far.add_peer(&place(&near)).unwrap();
    let to = near.caps().address;
    let request = numbered(&far, to, 1, 100);
    assert!(far.send(to, &request), "room");
    far.flush();
    assert_eq!(receive_so_many(&mut near, 1), [1]);
    assert_eq!(counter(&near, "udp_places"), 0);
    let answer = numbered(&near, far.caps().address, 2, 100);
    assert!(near.send(far.caps().address, &answer), "room");
    assert_eq!(counter(&near, "udp_lost_nobody"), 1);
}

#[test]
fn a_stranger_does_not_take_over_another_who_is_there() {
    let mut ends = [udp(ANY), udp(ANY)];
    let there = place(&ends[0]);
    let mut forger = udp(ANY);
    for stranger in [&mut ends[1], &mut forger] {
        stranger.add_peer(&there).unwrap();
    }
    let hello = numbered(&ends[1], Address::BROADCAST, 4, 100);
    let lie = numbered_as(&forger, ends[1].caps().address, Address::BROADCAST, 5, 100);
    assert!(ends[1].send(Address::BROADCAST, &hello), "room");
    ends[1].flush();
    assert_eq!(receive_so_many(&mut ends[0], 1), [4]);
    assert!(forger.send(Address::BROADCAST, &lie), "room");
    forger.flush();
    assert_eq!(receive_so_many(&mut ends[0], 1), [5]);
    assert_eq!(counter(&ends[0], "udp_not_learned_elsewhere"), 1);
    burst(&mut ends, &[100]);
    assert_eq!(receive_so_many(&mut ends[1], 1), [0]);
    assert!(is_quiet(&mut forger));
}

#[test]
fn a_stranger_does_not_take_over_an_introduced_peer() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    let mut forger = udp(ANY);
    forger.add_peer(&place(&ends[0])).unwrap();
    let lie = numbered_as(&forger, ends[1].caps().address, Address::BROADCAST, 5, 100);
    assert!(forger.send(Address::BROADCAST, &lie), "room");
    forger.flush();
    assert_eq!(receive_so_many(&mut ends[0], 1), [5]);
    assert_eq!(counter(&ends[0], "udp_not_learned_introduced"), 1);
    burst(&mut ends, &[100]);
    assert_eq!(receive_so_many(&mut ends[1], 1), [0]);
    assert!(is_quiet(&mut forger));
}

#[test]
fn garbage_is_counted_and_teaches_nothing() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut seed = 1u64;
    for len in (0..300).chain([1472, 9014, 9015, 20_000, 65_507]) {
        let noise: Vec<u8> = (0..len)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) as u8
            })
            .collect();
        stranger.send_to(&noise, place(&ends[1])).unwrap();
        assert!(receive(&mut ends[1]).is_empty());
    }
    until("all of it is turned away", || {
        assert!(receive(&mut ends[1]).is_empty());
        counter(&ends[1], "udp_lost_received_too_long") == 3
    });
    assert_eq!(counter(&ends[1], "udp_places"), 1);
    assert!(counter(&ends[1], "steer_pass_foreign") >= 300);
    burst(&mut ends, &[100; 3]);
    assert_eq!(receive_so_many(&mut ends[1], 3), [0, 1, 2]);
}

#[test]
fn a_peer_that_restarts_at_its_place_is_found_again() {
    let mut near = udp(ANY);
    let first = udp(ANY);
    let there = place(&first);
    near.add_peer(&there).unwrap();
    drop(first);
    for number in 0..50 {
        let frame = numbered(&near, Address::BROADCAST, number, 100);
        assert!(near.send(Address::BROADCAST, &frame), "room");
        assert!(receive(&mut near).is_empty());
    }
    assert_eq!(near.link_error(), None);
    let mut again = udp(&format!("udp:{there}"));
    let frame = numbered(&near, Address::BROADCAST, 77, 100);
    assert!(near.send(Address::BROADCAST, &frame), "room");
    near.flush();
    assert_eq!(receive_so_many(&mut again, 1), [77]);
}

#[test]
fn removed_peers_receive_nothing_more() {
    let mut ends = udp_pair(ANY);
    acquaint(&mut ends);
    let to = ends[1].caps().address;
    // One is on its way when the place is forgotten.
    let frame = numbered(&ends[0], to, 1, 100);
    assert!(ends[0].send(to, &frame), "room");
    let there = place(&ends[1]);
    ends[0].remove_peer(&there).unwrap();
    ends[0].remove_peer(&there).unwrap();
    ends[0].flush();
    assert_eq!((counter(&ends[0], "udp_lost_forgotten"), counter(&ends[0], "udp_places")), (1, 0));
    assert!(is_quiet(&mut ends[1]));
    // A stranger now, it is learned when it speaks.
    let hello = numbered(&ends[1], Address::BROADCAST, 2, 100);
    assert!(ends[1].send(Address::BROADCAST, &hello), "room");
    ends[1].flush();
    assert_eq!(receive_so_many(&mut ends[0], 1), [2]);
    burst(&mut ends, &[100]);
    assert_eq!(receive_so_many(&mut ends[1], 1), [0]);
}

#[test]
fn there_is_room_for_so_many_places_and_no_more() {
    let mut end = udp(ANY);
    let nth = |number: usize| format!("127.0.{}.{}:9", 1 + number / 250, 1 + number % 250);
    for number in 0..16_384 {
        end.add_peer(&nth(number)).unwrap();
        end.add_peer(&nth(number)).unwrap();
    }
    let error = end.add_peer(&nth(16_384)).unwrap_err();
    assert_eq!(error, PeerAddressError::TooMany { known: 16_384 });
    end.remove_peer(&nth(7)).unwrap();
    end.add_peer(&nth(16_384)).unwrap();
    assert!(matches!(end.add_peer("localhost:9"), Err(PeerAddressError::NoPlace { .. })));
}

#[test]
fn peers_in_the_name_are_added_except_the_node_itself() {
    let mut far = udp(ANY);
    let mut near = udp(&format!("{ANY},peer={}", place(&far)));
    let own = place(&near);
    near.add_peer(&own).unwrap();
    assert_eq!(counter(&near, "udp_places"), 1);
    let hello = numbered(&near, Address::BROADCAST, 1, 100);
    assert!(near.send(Address::BROADCAST, &hello), "room");
    near.flush();
    assert_eq!(receive_so_many(&mut far, 1), [1]);
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let taken = udp(ANY);
    let port = place(&taken).rsplit(':').next().unwrap().to_owned();
    let error = |name: &str| udp::open(&options(name)).err().expect("this cannot be opened").to_string();
    let in_use = error(&taken.caps().name);
    assert!(in_use.contains(&format!("`ss -lnpu sport = :{port}`")), "{in_use}");
    assert!(error("udp:192.0.2.1:0").contains("`ip -brief address`"));
    assert!(error("udp:127.0.0.1:0,frame=70000").contains("162 to 65507"));
    assert!(error("udp:127.0.0.1:0,frame=100").contains("162 to 65507"));
    assert!(error("udp:127.0.0.1:0,frames=0").contains("at least one frame"));
    assert!(error("udp:127.0.0.1:0,frames=4000000000").contains("lower `frames=`"));
    assert!(error("udp:127.0.0.1:0,peer=[::1]:7").contains("write 127.0.0.1:7000"));
    assert!(error("udp:127.0.0.1:0,peer=127.0.0.1:0").contains("port 0"));
    assert!(error("udp:[::1]:0,peer=[fe80::1]:7").contains("[fe80::1%eth0]:7000"));
    assert!(error("udp:224.0.0.1:0").contains("a multicast address"));
    assert!(error("udp:255.255.255.255:0").contains("the broadcast address"));
}

#[test]
fn frames_of_other_pools_can_be_sent() {
    let mut ends = udp_pair(ANY);
    let to = ends[1].caps().address;
    let foreign = numbered_as(&ends[1], ends[0].caps().address, to, 3, 500);
    assert!(ends[0].send(to, &foreign), "room");
    ends[0].flush();
    assert_eq!(receive_so_many(&mut ends[1], 1), [3]);
}

#[test]
fn an_empty_pool_leaves_frames_with_the_kernel() {
    let mut near = udp(ANY);
    let mut far = udp("udp:127.0.0.1:0,frames=4");
    near.add_peer(&place(&far)).unwrap();
    let mut kept = vec![];
    let to = far.caps().address;
    for number in 0..10 {
        let frame = numbered(&near, to, number, 100);
        assert!(near.send(to, &frame), "room");
    }
    near.flush();
    until("the pool is empty", || {
        far.receive(64, &mut |frame| kept.push(frame));
        kept.len() == 4 && counter(&far, "udp_no_frame") > 0
    });
    let mut numbers: Vec<u32> = kept.drain(..).map(|frame| number(&frame)).collect();
    numbers.extend(receive_so_many(&mut far, 6).into_iter().take(6));
    assert!(numbers.into_iter().eq(0..10));
}

#[test]
fn what_the_kernel_has_no_room_for_is_counted() {
    let mut ends = [udp(ANY), udp("udp:127.0.0.1:0,buffer=20000")];
    let places = [place(&ends[0]), place(&ends[1])];
    ends[0].add_peer(&places[1]).unwrap();
    ends[1].add_peer(&places[0]).unwrap();
    acquaint(&mut ends);
    for _ in 0..20 {
        burst(&mut ends, &[1000; 60]);
    }
    assert!(counter(&ends[1], "udp_lost_kernel_full") > 0);
    assert!(!receive(&mut ends[1]).is_empty());
}

#[test]
fn a_sleeper_is_woken() {
    let mut ends = udp_pair(ANY);
    let wake = ends[1].caps().wake.clone().unwrap();
    let is_awake = |milliseconds: u8| {
        poll(&mut [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)], PollTimeout::from(milliseconds)).unwrap() == 1
    };
    assert!(!is_awake(0));
    burst(&mut ends, &[100]);
    assert!(is_awake(250));
    assert_eq!(receive_so_many(&mut ends[1], 1), [0]);
    assert!(!is_awake(0));
}

/// Many set-ups repeat the command, and each peer that answers at once is asked once.
#[test]
fn an_introduction_goes_to_added_peers_that_have_not_answered() {
    let mut ends = [udp(ANY), udp(ANY), udp(ANY)];
    let places = [1, 2].map(|at| place(&ends[at]));
    let introduce = |ends: &mut [Udp; 3]| {
        let frame = numbered(&ends[0], Address::BROADCAST, 6, 60);
        ends[0].control(Command::Introduce(am_wire::Buffer::bytes(&frame))).unwrap();
        ends[0].flush();
    };
    let sent = |ends: &[Udp; 3]| counter(&ends[0], "udp_sent");
    introduce(&mut ends);
    assert_eq!(sent(&ends), 0, "no peer was added");
    places.iter().for_each(|place| ends[0].add_peer(place).unwrap());
    let start = std::time::Instant::now();
    introduce(&mut ends);
    assert_eq!(sent(&ends), 2);
    // One answers.
    receive(&mut ends[1]);
    let (from, to) = (ends[1].caps().address, ends[0].caps().address);
    let answer = numbered_as(&ends[1], from, Address::BROADCAST, 6, 60);
    assert!(ends[1].send(to, &answer));
    ends[1].flush();
    until("it answers", || ends[0].receive(64, &mut drop) > 0);
    // The other one is asked again, and not each time.
    until("it is asked again", || {
        introduce(&mut ends);
        sent(&ends) >= 5
    });
    assert!(start.elapsed() >= std::time::Duration::from_millis(8 + 16 + 32), "{:?}", start.elapsed());
    receive(&mut ends[1]);
    assert!(is_quiet(&mut ends[1]), "it has answered");
    // An address that is added again may be another run's.
    let before = sent(&ends);
    ends[0].add_peer(&places[0]).unwrap();
    introduce(&mut ends);
    receive(&mut ends[1]);
    assert!(sent(&ends) > before);
}
