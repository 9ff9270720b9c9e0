//! The progress thread, which receives, acknowledges and sends again while the program computes. It touches nothing of PVM's: it keeps copies
//! of what has arrived, and the program's next call gives them to PVM.
//!
//! ```text
//!   the program               this thread
//!   calls PVM now and then    naps, some milliseconds each
//!   waits in PVM for longer   sleeps until it leaves: the call receives itself
//!   is in a handler of its    naps, or sleeps on the node's descriptor, and receives
//!   computes                  sleeps on the node's descriptor, and receives
//! ```

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use am_api::NodeDescriptor;
use am_c_runtime::{Waker, start_thread};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

use crate::wait::is_not_polled;

const NAP: Duration = Duration::from_millis(4);

/// How often the program has left PVM.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// The program is in PVM.
static IS_INSIDE: AtomicBool = AtomicBool::new(false);
/// The thread sleeps until the program leaves PVM.
static IS_AWAY: AtomicBool = AtomicBool::new(false);
/// Ends the sleep of the thread.
static WAKER: Mutex<Option<Arc<Waker>>> = Mutex::new(None);

/// Only the program's thread counts.
#[inline]
fn count_call() {
    CALLS.store(CALLS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// A call of the program, as long as it lasts.
#[derive(Debug)]
pub(crate) struct Call(());

impl Call {
    #[inline]
    pub(crate) fn begin() -> Call {
        // The thread may see this late: then it does a turn more, or naps.
        IS_INSIDE.store(true, Ordering::Relaxed);
        Call(())
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        count_call();
        IS_INSIDE.store(false, Ordering::SeqCst);
        if IS_AWAY.load(Ordering::SeqCst) {
            wake();
        }
    }
}

/// A part of a call that receives nothing: the thread does it meanwhile.
#[derive(Debug)]
pub(crate) struct Away {
    was_inside: bool,
}

impl Away {
    #[inline]
    pub(crate) fn begin() -> Away {
        let was_inside = IS_INSIDE.swap(false, Ordering::SeqCst);
        if IS_AWAY.load(Ordering::SeqCst) {
            wake();
        }
        Away { was_inside }
    }
}

impl Drop for Away {
    #[inline]
    fn drop(&mut self) {
        count_call();
        IS_INSIDE.store(self.was_inside, Ordering::SeqCst);
    }
}

/// Whether the program is in PVM.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.load(Ordering::SeqCst)
}

#[cold]
fn wake() {
    IS_AWAY.store(false, Ordering::SeqCst);
    WAKER.lock().iter().for_each(|waker| waker.wake());
}

/// What the thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something has happened: look again.
    Again,
    /// Nothing has: sleep on the descriptor.
    Sleep,
    /// The node is closed.
    End,
}

/// Start the thread of a node. `turn` does a turn of it, if the program is not in PVM.
pub(crate) fn start(descriptor: NodeDescriptor, turn: fn(&Arc<Waker>) -> Step) -> io::Result<Arc<Waker>> {
    let waker = Arc::new(Waker::new()?);
    *WAKER.lock() = Some(waker.clone());
    let own = waker.clone();
    start_thread("pvm-am", move || run(&descriptor, &own, turn))?;
    Ok(waker)
}

/// The node is closed: the thread ends.
pub(crate) fn end(waker: &Waker) {
    IS_AWAY.store(false, Ordering::SeqCst);
    waker.wake();
}

fn run(descriptor: &NodeDescriptor, waker: &Arc<Waker>, turn: fn(&Arc<Waker>) -> Step) {
    let mut seen = CALLS.load(Ordering::Relaxed);
    loop {
        let calls = CALLS.load(Ordering::Relaxed);
        if calls != seen {
            seen = calls;
            thread::sleep(NAP);
            continue;
        }
        if is_inside() {
            if !sleep_away(waker) {
                return;
            }
            thread::sleep(NAP);
            continue;
        }
        waker.clear();
        match turn(waker) {
            Step::Again => {}
            Step::Sleep if is_readable(&[descriptor.as_fd(), waker.as_fd()]) => {}
            Step::Sleep | Step::End => return,
        }
    }
}

/// Sleep until the program leaves PVM. Whether the descriptor is still there.
fn sleep_away(waker: &Waker) -> bool {
    waker.clear();
    IS_AWAY.store(true, Ordering::SeqCst);
    // It may have left in between, and not seen that.
    let has_left = !is_inside();
    let is_there = has_left || is_readable(&[waker.as_fd()]);
    IS_AWAY.store(false, Ordering::SeqCst);
    is_there
}

/// Sleep until one of these is readable. `false` if the program has closed one.
fn is_readable(descriptors: &[std::os::fd::BorrowedFd<'_>]) -> bool {
    let mut on: Vec<PollFd<'_>> = descriptors.iter().map(|&on| PollFd::new(on, PollFlags::POLLIN)).collect();
    if poll(&mut on, PollTimeout::NONE).is_err_and(|error| is_not_polled(&error.into())) {
        thread::sleep(NAP);
    }
    on.iter().all(|on| on.revents().is_none_or(|is| !is.contains(PollFlags::POLLNVAL)))
}
