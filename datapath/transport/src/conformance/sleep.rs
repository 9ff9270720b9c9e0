//! The descriptors to wait on: a frame wakes a thread that sleeps.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use am_ring::Own;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::pair::PROGRESS_TIMEOUT;
use super::{CheckFailure, Checked, Pair, ensure};
use crate::{Command, Transport};

/// How often the end sleeps.
const SLEEPS: u64 = 20;
/// How long it sleeps when no frame comes, or until a frame that may be lost is sent again.
const NAP_MS: u8 = 20;

pub(super) fn a_frame_wakes_a_sleeper(mut pair: Pair) -> Checked {
    pair.open_flow();
    let wake = pair.far.caps().wake.clone().unwrap_or_default();
    ensure!(!wake.is_empty(), "there is no descriptor to wait on");
    let mut quiet_naps = 0;
    for number in 0..SLEEPS {
        prepare_to_sleep(&mut *pair.far)?;
        quiet_naps += u64::from(!becomes_readable(&wake)?);
        sleep_until_it_arrives(&mut pair, &wake, number)?;
    }
    // A link may wake the end for its own frames, but not each time.
    ensure!(quiet_naps > 0, "at each of {SLEEPS} times a descriptor became readable, though no frame had been sent");
    Ok(())
}

/// Send a short or the longest frame to the sleeping end. Each time that it is woken, it receives.
fn sleep_until_it_arrives(pair: &mut Pair, wake: &[Arc<Own>], number: u64) -> Checked {
    let len = if number.is_multiple_of(2) { 200 } else { pair.max_frame() };
    let (spec, begin, mut arrived) = (pair.spec(number, len), Instant::now(), 0);
    prepare_to_sleep(&mut *pair.far)?;
    while arrived == 0 {
        // On a lossy link the frame may have been lost.
        let sent = pair.build(&spec).is_some_and(|frame| pair.near.send(spec.to, &frame));
        ensure!(sent, "there was no room for one frame");
        pair.near.flush();
        if becomes_readable(wake)? {
            arrived += pair.far.receive(1, &mut drop);
            if arrived == 0 {
                prepare_to_sleep(&mut *pair.far)?;
            }
        }
        ensure!(begin.elapsed() < PROGRESS_TIMEOUT, "frame {number} made no descriptor readable");
    }
    Ok(())
}

/// As a node does: say that the thread is about to sleep, and receive once more, unless a frame that waits keeps a descriptor readable.
fn prepare_to_sleep(end: &mut dyn Transport) -> Checked {
    let begin = Instant::now();
    if end.caps().wakes_by_level {
        ensure!(end.control(Command::BeforeSleep).is_ok(), "the command before sleep failed");
        return Ok(());
    }
    loop {
        ensure!(end.control(Command::BeforeSleep).is_ok(), "the command before sleep failed");
        if end.receive(1, &mut drop) == 0 {
            return Ok(());
        }
        ensure!(begin.elapsed() < PROGRESS_TIMEOUT, "frames arrive without end");
    }
}

/// Whether one of the descriptors becomes readable within a nap.
fn becomes_readable(wake: &[Arc<Own>]) -> Result<bool, CheckFailure> {
    let mut fds: Vec<PollFd<'_>> = wake.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    let found = poll(&mut fds, PollTimeout::from(NAP_MS));
    found.map(|readable| readable > 0).map_err(|error| CheckFailure(format!("waiting for the descriptors: {error}")))
}
