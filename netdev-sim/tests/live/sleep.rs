//! A sleeping node is woken: by a sender, or by the timer.

use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use am_netdev_sim::live::{LiveNic, SimSettings};
use am_netdev_sim::{MS, US};
use am_transport::Transport;
use am_wire::Address;
use nix::poll::{PollFd, PollFlags, poll};

use super::ends::{TEST_TIMEOUT, open, receive_numbers, seed, send};

/// Milliseconds. A sleeper that the network does not wake fails the test after this time.
const SLEEP_TIMEOUT_MS: u16 = 15_000;

/// Receive this many frames, and sleep whenever the transport allows it. Returns how often the thread slept.
fn sleep_until(end: &mut LiveNic, frames: usize) -> usize {
    let start = Instant::now();
    let (mut slept, mut come) = (0, 0);
    loop {
        come += receive_numbers(end).len();
        if come >= frames {
            return slept;
        }
        let wake = end.caps().wake.clone().expect("it can be waited for");
        let before = Instant::now();
        poll(&mut [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)], SLEEP_TIMEOUT_MS).expect("no signals");
        slept += usize::from(before.elapsed() > Duration::from_micros(200));
        assert!(start.elapsed() < TEST_TIMEOUT, "{come} of {frames} came");
        assert!(before.elapsed() < Duration::from_millis(SLEEP_TIMEOUT_MS.into()), "it was not woken");
    }
}

#[test]
fn due_events_run_while_all_nodes_sleep() {
    let settings = SimSettings { seed: seed(), delay: Some(20 * MS), ..SimSettings::default() };
    let (mut near, mut far) = (open(&settings), open(&settings));
    // The sender does not look again, and does not sleep either. So the sleeper is left alone for some time, and then woken.
    // This is repeated, because a descheduled test may look only after the event is due.
    let slept = (0..100).any(|number| {
        send(&mut near, far.caps().address, number..number + 1);
        sleep_until(&mut far, 1) > 0
    });
    assert!(slept, "it never slept");
}

#[test]
fn a_sleeper_is_woken_by_a_sender() {
    let settings = SimSettings { seed: seed(), ..SimSettings::default() };
    let (tell, told) = channel::<Address>();
    let of_far = settings.clone();
    let far = thread::spawn(move || {
        let mut far = open(&of_far);
        tell.send(far.caps().address).expect("the test waits");
        // A descheduled thread finds a frame, and does not sleep. So this is repeated.
        let mut slept = 0;
        while slept < 10 {
            slept += sleep_until(&mut far, 1);
        }
    });
    let mut near = open(&settings);
    let to = told.recv().expect("the thread says");
    let start = Instant::now();
    for number in 0.. {
        if far.is_finished() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
        send(&mut near, to, number..number + 1);
        // Poll, like a node that waits for an answer.
        (0..2000).for_each(|_| drop(receive_numbers(&mut near)));
        assert!(start.elapsed() < TEST_TIMEOUT, "it never slept");
    }
    far.join().expect("no panic");
}

/// Each sleeps until the other answers, over a network with a delay.
#[test]
fn two_sleeping_nodes_wake_each_other() {
    let settings = SimSettings { seed: seed(), delay: Some(300 * US), ..SimSettings::default() };
    let (tell, told) = channel::<Address>();
    let of_far = settings.clone();
    let mut near = open(&settings);
    let to_near = near.caps().address;
    let far = thread::spawn(move || {
        let mut far = open(&of_far);
        tell.send(far.caps().address).expect("the test waits");
        for number in 0..200 {
            sleep_until(&mut far, 1);
            send(&mut far, to_near, number..number + 1);
        }
        // The network carries its last frame after the node has left.
    });
    let to_far = told.recv().expect("the thread says");
    for number in 0..200 {
        send(&mut near, to_far, number..number + 1);
        sleep_until(&mut near, 1);
    }
    far.join().expect("no panic");
}
