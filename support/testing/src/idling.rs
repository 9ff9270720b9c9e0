//! The processor time of a node that waits.

use std::os::fd::AsFd;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Endpoint, Events, Node, Transport};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const LONG: Duration = Duration::from_secs(30);
/// How long they wait. Processor time is counted by ticks of a few milliseconds on some kernels.
const WHILE: Duration = Duration::from_secs(3);

/// How a thread waits.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// In [`Endpoint::wait`], as a server does.
    Blocked,
    /// On the node's descriptor.
    OwnLoop,
}

/// What this thread has used.
fn used() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("the thread's own");
    Duration::from_micros((usage.user_time() + usage.system_time()).num_microseconds() as u64)
}

fn wait(endpoint: &mut Endpoint<()>, how: Wait) {
    let end = Instant::now() + WHILE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match how {
            Wait::Blocked => _ = endpoint.wait(&mut (), left),
            Wait::OwnLoop => {
                let descriptor = endpoint.descriptor().expect("a descriptor");
                if endpoint.poll_events().expect("a descriptor") == Events::empty() {
                    let timeout = PollTimeout::try_from(left).expect("short");
                    poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], timeout).expect("open");
                } else {
                    endpoint.poll(&mut ());
                }
            }
        }
    }
}

/// One side: opened, connected, idle. Returns the share of a processor that its thread used while it waited.
fn side(name: &str, transport: Box<dyn Transport>, how: Wait, both: &Barrier) -> f64 {
    let node = Node::open_on(name, transport).expect("a node");
    let mut endpoint = node.endpoint::<()>("main").expect("an endpoint");
    both.wait();
    let start = Instant::now();
    if name == "alpha" {
        loop {
            let to = endpoint.connect("beta", "main").expect("a connection asked for");
            if endpoint.wait_open(&mut (), to, LONG).is_ok() {
                break;
            }
            assert!(start.elapsed() < LONG, "never connected");
        }
    }
    // What follows a set-up: probes, beacons, the end of a spin.
    while start.elapsed() < Duration::from_secs(2) {
        endpoint.wait(&mut (), Duration::from_millis(100));
    }
    both.wait();
    let before = used();
    wait(&mut endpoint, how);
    let share = (used() - before).as_secs_f64() / WHILE.as_secs_f64();
    both.wait();
    share
}

/// Two nodes on threads of their own, connected and idle. Neither may use a hundredth of a processor.
pub fn both_idle(
    how: Wait,
    alpha: impl FnOnce() -> Box<dyn Transport> + Send,
    beta: impl FnOnce() -> Box<dyn Transport> + Send,
) {
    let both = &Barrier::new(2);
    let shares = thread::scope(|scope| {
        let beta = scope.spawn(move || side("beta", beta(), how, both));
        let alpha = scope.spawn(move || side("alpha", alpha(), how, both));
        [alpha, beta].map(|side| side.join().expect("no panic"))
    });
    println!("{how:?}: {:.3} % and {:.3} %", shares[0] * 100.0, shares[1] * 100.0);
    assert!(shares.iter().all(|share| *share < 0.01), "{how:?}: shares of a processor: {shares:?}");
}
