//! Members come and go.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::link::{counters, join, options, reaches, read, receive, send, until};
use am_shm::Shm;
use am_transport::{Command, PeerAddressError, Transport, TransportExt};
use am_wire::{Address, Buffer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tempfile::tempdir;

#[test]
fn frames_go_to_whom_they_are_for() {
    let dir = tempdir().unwrap();
    let mut ends: Vec<Shm> = (0..8).map(|_| join(&options(dir.path()))).collect();
    let addresses: Vec<Address> = ends.iter().map(|end| end.caps().address).collect();
    for (from, own) in addresses.iter().enumerate() {
        assert!(own.is_local() && !own.is_group());
        for (to, there) in addresses.iter().enumerate().filter(|(to, _)| *to != from) {
            assert!(send(&mut ends[from], *there, (from * 8 + to) as u64, 200));
        }
        assert!(send(&mut ends[from], Address::BROADCAST, 1000 + from as u64, 200));
        ends[from].flush();
    }
    for (to, end) in ends.iter_mut().enumerate() {
        let mut got: Vec<u64> = receive(end).into_iter().map(|(_, number)| number).collect();
        got.sort_unstable();
        let others = || (0..8).filter(|from| *from != to);
        let wanted: Vec<u64> =
            others().map(|from| (from * 8 + to) as u64).chain(others().map(|from| 1000 + from as u64)).collect();
        assert_eq!(got, wanted);
    }
    // Who is at no address is looked for everywhere, and found nowhere.
    send(&mut ends[0], Address([2, 9, 9, 9, 9, 3]), 1, 100);
    ends[0].flush();
    for end in &mut ends[1..] {
        assert_eq!(receive(end), []);
        assert_eq!(counters(end)["steer_pass_other_host"], 1);
    }
    assert!(matches!(ends[0].add_peer("x"), Err(PeerAddressError::Needless { .. })));
}

#[test]
fn a_small_budget_starves_no_sender() {
    let dir = tempdir().unwrap();
    let mut receiver = join(&options(dir.path()));
    let there = receiver.caps().address;
    let mut senders: Vec<Shm> = (0..3).map(|_| join(&options(dir.path()))).collect();
    for sender in &mut senders {
        (0..4).for_each(|number| assert!(send(sender, there, number, 60)));
        sender.flush();
    }
    for number in 0..4 {
        let mut got = vec![];
        for _ in &senders {
            assert_eq!(receiver.receive(1, &mut |frame| got.push(read(frame.bytes()))), 1);
        }
        got.sort_unstable_by_key(|(from, _)| from.0);
        let mut wanted: Vec<_> = senders.iter().map(|sender| (sender.caps().address, number)).collect();
        wanted.sort_unstable_by_key(|(from, _)| from.0);
        assert_eq!(got, wanted);
    }
}

#[test]
fn a_place_that_is_taken_again_is_another_address() {
    let dir = tempdir().unwrap();
    let mut stays = join(&options(dir.path()));
    let first = join(&options(dir.path()));
    let gone = first.caps().address;
    assert!(send(&mut stays, gone, 1, 100));
    stays.flush();
    drop(first);
    let mut second = join(&options(dir.path()));
    assert_ne!(second.caps().address, gone);
    reaches(&mut stays, &mut second);
    // What was for the first is not the second's.
    send(&mut stays, gone, 2, 100);
    stays.flush();
    assert_eq!(receive(&mut second), []);
}

#[test]
fn a_lone_member_loses_what_it_sends() {
    let dir = tempdir().unwrap();
    let mut alone = join(&options(dir.path()));
    assert!(send(&mut alone, Address::BROADCAST, 1, 100));
    assert_eq!(counters(&alone)["shm_lost_alone"], 1);
}

fn is_readable(end: &Shm, longest: Duration) -> bool {
    let wake = end.caps().wake.clone().unwrap();
    let mut on = [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)];
    poll(&mut on, PollTimeout::try_from(longest).unwrap()).unwrap() == 1
}

#[test]
fn a_sleeper_is_woken_and_one_that_spins_costs_nobody_anything() {
    let dir = tempdir().unwrap();
    let [mut near, mut far] = [0, 1].map(|_| join(&options(dir.path())));
    reaches(&mut near, &mut far);
    for round in 0..5 {
        far.control(Command::BeforeSleep).unwrap();
        assert!(receive(&mut far).is_empty() && !is_readable(&far, Duration::ZERO), "it may sleep");
        let rings = counters(&near)["shm_rings"];
        for number in 0..10 {
            assert!(send(&mut near, far.caps().address, number, 100));
            near.flush();
        }
        assert_eq!(counters(&near)["shm_rings"], rings + 1, "ten frames, one bell, in round {round}");
        assert!(is_readable(&far, crate::link::PATIENCE));
        // The first alone, as it may have come alone; then all there are.
        assert_eq!([receive(&mut far).len(), receive(&mut far).len()], [1, 9]);
    }
    // One that looks all the time is not rung for.
    let rings = counters(&near)["shm_rings"];
    for number in 0..1000 {
        assert!(send(&mut near, far.caps().address, number, 100));
        near.flush();
        (0..20).for_each(|_| drop(receive(&mut far)));
    }
    assert_eq!(counters(&near)["shm_rings"], rings);
}

#[test]
fn a_sleeper_is_woken_when_its_full_lane_has_room() {
    let dir = tempdir().unwrap();
    let [mut near, mut far] = [0, 1].map(|_| join(&options(dir.path())));
    reaches(&mut near, &mut far);
    let to = far.caps().address;
    for length in [60, 100, 4000] {
        let fill = |near: &mut Shm| {
            while send(near, to, 0, length) {}
            near.flush();
        };
        fill(&mut near);
        near.control(Command::BeforeSleep).unwrap();
        assert!(receive(&mut near).is_empty() && !is_readable(&near, Duration::ZERO), "it may sleep");
        while !receive(&mut far).is_empty() {}
        assert!(is_readable(&near, near.room_within()), "{length}: it has room");
        assert!(send(&mut near, to, 0, length));

        // Room that was made before it sleeps ends the sleep, too.
        fill(&mut near);
        while !receive(&mut far).is_empty() {}
        near.control(Command::BeforeSleep).unwrap();
        assert!(is_readable(&near, Duration::ZERO), "{length}: it has room again");
        assert!(send(&mut near, to, 0, length));
        near.flush();

        // It does not wait for room any more.
        near.control(Command::BeforeSleep).unwrap();
        let rings = counters(&far)["shm_rings"];
        while !receive(&mut far).is_empty() {}
        assert_eq!((counters(&far)["shm_rings"], is_readable(&near, Duration::ZERO)), (rings, false), "{length}");
    }
}

#[test]
fn a_sleeper_in_another_thread_misses_nothing() {
    let dir = tempdir().unwrap();
    let options = options(dir.path());
    let mut near = join(&options);
    const MANY: u64 = 3000;
    let (tell, told) = std::sync::mpsc::channel();
    let far = std::thread::spawn(move || {
        let mut far = join(&options);
        tell.send(far.caps().address).unwrap();
        let mut next = 0;
        while next < MANY {
            let mut got = receive(&mut far);
            if got.is_empty() {
                far.control(Command::BeforeSleep).unwrap();
                got = receive(&mut far);
            }
            for (_, number) in &got {
                assert_eq!(*number, next);
                next += 1;
            }
            if got.is_empty() {
                // A wake-up that is lost is a test that fails.
                assert!(is_readable(&far, crate::link::PATIENCE), "after frame {next}");
            }
        }
        counters(&far)["shm_sleeps"]
    });
    let to = told.recv().unwrap();
    for number in 0..MANY {
        until("there is room", || {
            let sent = send(&mut near, to, number, 100);
            near.flush();
            sent
        });
        if number % 100 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert!(far.join().unwrap() > 0, "it never slept, so nothing was tried");
}

/// Another user of an open link could name a process of this user.
#[test]
fn memory_is_read_only_where_one_user_can_join() {
    for (mode, is_read) in [(0o600, true), (0o660, false), (0o606, false)] {
        let dir = tempdir().unwrap();
        let options = am_shm::ShmOptions { mode, ..options(dir.path()) };
        let (mut one, other) = (join(&options), join(&options));
        let (bytes, mut into) = ([1, 2, 3], [0; 3]);
        let (at, address) = ((&raw const bytes).addr() as u64, other.caps().address);
        one.flush();
        assert_eq!(one.read_memory(address, 0, &mut []), is_read, "{mode:o}");
        assert_eq!((one.read_memory(address, at, &mut into), into == bytes), (is_read, is_read), "{mode:o}");
        assert!(!one.read_memory(Address([2, 9, 9, 9, 9, 3]), at, &mut into), "there is no such member");
        drop(other);
        one.flush();
        assert!(!one.read_memory(address, at, &mut into), "it has left");
    }
}

/// Each has its number before the next one looks for one.
#[test]
fn members_that_come_and_go_at_once_take_different_numbers() {
    let dir = tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..60).for_each(|_| drop(join(&options(dir.path())))));
        }
    });
}
