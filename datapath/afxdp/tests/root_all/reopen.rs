//! A transport that opens itself anew while it is in use: in copy mode, or on an interface that was gone. Needs root.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::pair::{Cable, Pair, counter, eventually, flow, message, number, plain};
use am_afxdp::XdpOptions;
use am_netns::{Host, VethOptions, veth};
use am_transport::{Command, Transport, TransportExt};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};

const NOTE: &str = "no zero-copy any more: a test";

fn reopen(pair: &mut Pair) {
    pair.far.reopen_in_copy_mode(NOTE.to_owned()).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn flows_counters_and_credit_survive_a_reopen() {
    let (_cable, mut pair) = plain();
    pair.far.control(Command::RxCredit(1000)).unwrap();
    let before = pair.deliver(500, 50).len() as u64;
    reopen(&mut pair);
    assert!(pair.receive().is_empty());
    assert_eq!((counter(&pair.far, "rx_frames"), counter(&pair.far, "rx_blanks")), (before, 1000));
    pair.assert_alive(7);
    assert_eq!(counter(&pair.far, "rx_frames"), before + 1, "the flow is open as before");
    pair.far.steer(flow(), false);
    pair.send(0..10);
    eventually("the program is the same", || counter(&pair.far, "xdp_drop_unknown_flow") == 10);
    assert!(pair.far.mode().notes.iter().any(|note| note == NOTE));
    assert_eq!(pair.far.caps().mode, "veth copy");
    assert_eq!(pair.far.link_error(), None);
}

#[test]
fn the_wake_descriptor_works_after_a_reopen() {
    let (_cable, mut pair) = plain();
    let wake = pair.far.caps().wake.clone().unwrap();
    let wait = |milliseconds: u16| {
        let mut on = [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)];
        poll(&mut on, PollTimeout::from(milliseconds)).unwrap()
    };
    for round in 0..3 {
        reopen(&mut pair);
        assert_eq!(wait(20), 0, "nothing has come");
        pair.send(std::iter::once(round));
        assert_eq!(wait(10_000), 1);
        assert_eq!(pair.receive(), [round]);
        assert_eq!(wait(0), 0, "and it is quiet again");
    }
}

#[test]
fn frames_of_the_old_pool_stay_valid_and_can_be_sent() {
    let (_cable, mut pair) = plain();
    let old = pair.far.caps().pool.clone();
    let mut held = Vec::new();
    pair.send(std::iter::once(5));
    eventually("one arrives", || pair.far.receive(1, &mut |frame| held.push(frame)) > 0);
    let outgoing = message(&pair.far, pair.near.caps().address, 6).unwrap();
    reopen(&mut pair);
    assert_eq!(old.available(), XdpOptions::new("am0").frames as usize - 2, "all but those that are held came home");
    assert!(!old.is_same_pool(&pair.far.caps().pool));
    assert_eq!(number(&held[0]), 5);
    assert!(pair.far.send(pair.near.caps().address, &outgoing), "room");
    pair.far.flush();
    let mut received = None;
    eventually("it arrives", || {
        pair.near.receive(1, &mut |frame| received = Some(number(&frame))) > 0 && received == Some(6)
    });
    assert_eq!(counter(&pair.far, "tx_copied"), 1);
}

#[test]
fn a_failed_reopen_says_why_and_carries_nothing() {
    let (cable, mut pair) = plain();
    // On the other host the interface of this name is in use.
    setns(&cable.hosts[0], CloneFlags::CLONE_NEWNET).unwrap();
    let error = pair.far.reopen_in_copy_mode(NOTE.to_owned()).unwrap_err().to_string();
    let why = pair.far.link_error().unwrap();
    assert!(why.contains("am0 does not open in copy mode") && why.contains(&error), "{why}");
    let frame = message(&pair.far, pair.near.caps().address, 1).unwrap();
    assert!(!pair.far.send(pair.near.caps().address, &frame));
    assert_eq!(pair.far.receive(64, &mut |_| ()), 0);
    pair.far.flush();
    setns(&cable.hosts[1], CloneFlags::CLONE_NEWNET).unwrap();
    reopen(&mut pair);
    assert_eq!(pair.far.link_error(), None);
    pair.assert_alive(2);
}

/// The command `ip`, on this thread's host.
fn ip(arguments: &[&str]) -> bool {
    std::process::Command::new("ip").args(arguments).status().unwrap().success()
}

/// What an end says is wrong, asked on its own host.
fn trouble(cable: &Cable, pair: &mut Pair, end: usize) -> Option<String> {
    setns(&cable.hosts[end], CloneFlags::CLONE_NEWNET).unwrap();
    let of = if end == 0 { &mut pair.near } else { &mut pair.far };
    of.link_error()
}

#[test]
fn a_replaced_interface_is_used_again() {
    let (mut cable, mut pair) = plain();
    let before = pair.deliver(100, 10).len() as u64;
    let addresses = [pair.near.caps().address, pair.far.caps().address];
    cable.ip(0, &["link", "delete", "dev", "am0"]);
    for end in [0, 1] {
        let said = trouble(&cable, &mut pair, end).unwrap();
        let address = addresses[end];
        assert!(
            said.starts_with("interface am0 is gone") && said.contains(&format!("ip link set am0 address {address}")),
            "{said}"
        );
    }
    let [near, far] = &cable.hosts;
    let (near, far) = veth(near, "am0", far, "am0", &VethOptions::default()).unwrap();
    cable.ends = [near, far];
    thread::sleep(Duration::from_millis(600));
    assert!(trouble(&cable, &mut pair, 0).unwrap().contains("is gone"), "another one of that name is not it");

    cable.ip(0, &["link", "set", "dev", "am0", "mtu", "1400"]);
    for (end, address) in cable.ends.iter_mut().zip(addresses) {
        end.set_address(address.0).unwrap();
    }
    let mut said = None;
    eventually("it sees that frames became shorter", || {
        said = trouble(&cable, &mut pair, 0);
        said.as_ref().is_some_and(|said| said.ends_with("ip link set am0 mtu 1500"))
    });
    cable.ip(0, &["link", "set", "dev", "am0", "mtu", "1500"]);
    for end in [0, 1] {
        eventually("it goes on", || trouble(&cable, &mut pair, end).is_none());
    }
    pair.assert_alive(100);
    assert!(counter(&pair.far, "rx_frames") > before, "flows and counters are as they were");
    assert_eq!(pair.far.caps().mode, "veth copy");
}

#[test]
fn an_interface_that_is_renamed_is_followed() {
    let (cable, mut pair) = plain();
    for (from, to) in [("am0", "lan0"), ("lan0", "am0"), ("am0", "lan1")] {
        cable.ip(1, &["link", "set", "dev", from, "down"]);
        cable.ip(1, &["link", "set", "dev", from, "name", to]);
        assert!(trouble(&cable, &mut pair, 1).unwrap().ends_with(&format!("ip link set {to} up")));
        cable.ip(1, &["link", "set", "dev", to, "up"]);
        eventually("nothing is wrong", || trouble(&cable, &mut pair, 1).is_none());
        pair.assert_alive(1);
    }
    reopen(&mut pair);
    pair.assert_alive(2);
}

/// Between the two steps of a rename the kernel finds the interface by neither name.
#[test]
fn an_interface_that_is_renamed_while_it_is_up_is_never_gone() {
    let (cable, mut pair) = plain();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..40 {
                let (from, to) = (format!("am{number}"), format!("am{}", number + 1));
                cable.ip(1, &["link", "set", "dev", &from, "name", &to]);
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            assert_eq!(pair.far.link_error(), None);
        }
    });
    pair.assert_alive(1);
}

#[test]
fn an_mtu_that_became_too_small_is_named_with_one_that_works() {
    let (cable, mut pair) = plain();
    cable.ip(1, &["link", "set", "dev", "am0", "mtu", "700"]);
    let said = trouble(&cable, &mut pair, 1).unwrap();
    let wanted = "the MTU of am0 is 700 now, too small for this node's frames: ip link set am0 mtu 1500";
    assert_eq!(said, wanted);
    for mtu in ["1500", "1600"] {
        cable.ip(1, &["link", "set", "dev", "am0", "mtu", mtu]);
        assert_eq!(trouble(&cable, &mut pair, 1), None, "{mtu}");
    }
    pair.assert_alive(1);
}

/// The interface is in another namespace, and comes back with its index, which the kernel had kept for it. It unbinds the
/// socket, whether or not the node looks meanwhile.
#[test]
fn an_interface_that_was_in_another_namespace_is_used_again() {
    for looks in [true, false] {
        let (cable, mut pair) = plain();
        let elsewhere = Host::new("elsewhere").unwrap();
        let index = || cable.hosts[1].interface("am0").unwrap().index();
        let before = index();
        cable.ip(1, &["link", "set", "dev", "am0", "netns", &elsewhere.path()]);
        if looks {
            eventually("it is gone", || trouble(&cable, &mut pair, 1).is_some_and(|said| said.contains("am0 is gone")));
        }
        let home = cable.hosts[1].path();
        elsewhere.enter(|| assert!(ip(&["link", "set", "dev", "am0", "netns", &home]))).unwrap();
        assert_eq!(index(), before, "the index is the same");
        cable.ip(1, &["link", "set", "dev", "am0", "up"]);
        eventually("it goes on", || {
            pair.send(std::iter::once(7));
            trouble(&cable, &mut pair, 1).is_none() && pair.receive().contains(&7)
        });
        pair.assert_alive(8);
    }
}

/// Another interface with the name, the address and the index of the one that was deleted.
#[test]
fn an_interface_that_is_replaced_by_one_with_its_index_is_used_again() {
    let (cable, mut pair) = plain();
    let address = pair.far.caps().address.to_string();
    let index = cable.ends[1].index().to_string();
    cable.ip(1, &["link", "delete", "dev", "am0"]);
    let near = cable.hosts[0].path();
    cable.ip(
        1,
        &[
            "link", "add", "am0", "address", &address, "index", &index, "type", "veth", "peer", "name", "am0", "netns",
            &near,
        ],
    );
    let far_end = pair.near.caps().address.to_string();
    cable.ip(0, &["link", "set", "dev", "am0", "address", &far_end]);
    for end in [0, 1] {
        cable.ip(end, &["link", "set", "dev", "am0", "up"]);
    }
    eventually("it goes on", || {
        let are_well = [0, 1].map(|end| trouble(&cable, &mut pair, end).is_none()) == [true; 2];
        pair.send(std::iter::once(7));
        are_well && pair.receive().contains(&7)
    });
    pair.assert_alive(8);
}

/// It takes the address of its interface, as often as that changes.
#[test]
fn a_new_address_of_the_interface_is_taken() {
    let (mut cable, mut pair) = plain();
    let first = pair.far.caps().address;
    let others = [[2, 0x11, 0x22, 0x33, 0x44, 0x55], [2, 0x11, 0x22, 0x33, 0x44, 0x66]].map(am_wire::Address);
    for address in [others[0], others[1], first, others[0]] {
        cable.ends[1].set_address(address.0).unwrap();
        eventually("it is taken", || {
            assert_eq!(trouble(&cable, &mut pair, 1), None);
            pair.far.caps().address == address
        });
        pair.assert_alive(1);
    }
    // A node beside it finds another address.
    let old = pair.near.caps().address;
    cable.ends[0].set_address(others[1].0).unwrap();
    eventually("it is taken", || trouble(&cable, &mut pair, 0).is_none() && pair.near.caps().address != old);
    cable.ip(1, &["link", "delete", "dev", "am0"]);
    let said = trouble(&cable, &mut pair, 0).unwrap();
    assert!(said.contains(&format!("ip link set am0 address {}", others[1])), "it looks for the new one: {said}");
}
