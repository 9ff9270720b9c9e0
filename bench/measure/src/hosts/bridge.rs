//! Hosts on this machine: network namespaces on a Linux bridge, one thread for each node, AF_XDP in copy mode.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Idle;
use am_netns::{Bridge, BridgeOptions};
use am_transport::Transport;

use super::host::{Host, HostClock, builder};
use super::{Arena, HostPlan, Tally, Wait};
use crate::cores::{pin, pin_elsewhere};
use crate::deploy::link::open_xdp;
use crate::deploy::veth::INTERFACE;
use crate::drivers::am::facility;
use crate::error::Error;
use crate::plan::{Amount, DriverOptions};
use crate::watch::Watch;

/// A namespace, its cable and its node take most of a second on a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_INTERVAL: Duration = Duration::from_millis(2);
/// How often the phase is looked at, at least.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long an idle host yields its core before it sleeps.
const YIELD_TIME: Duration = Duration::from_micros(50);

/// Hosts on a bridge, as long as this lives.
pub struct Bridged<'a> {
    hosts: Vec<am_netns::Host>,
    _bridge: Bridge,
    how: DriverOptions,
    /// The core of hosts that poll. The others leave it to them.
    core: Option<usize>,
    watch: &'a Watch,
}

/// What the threads of a run share.
#[derive(Default)]
struct Shared {
    phase: AtomicUsize,
    /// Hosts whose connections are open, and hosts that have stopped.
    ready: AtomicUsize,
    stopped: AtomicUsize,
}

const CONNECT: usize = 0;
const COUNT: usize = 1;
const STOP: usize = 2;

impl<'a> Bridged<'a> {
    /// A switch, and a host at each of its ports.
    pub fn new(
        ports: usize,
        mtu: u32,
        (how, core): (DriverOptions, Option<usize>),
        watch: &'a Watch,
    ) -> Result<Bridged<'a>, Error> {
        let host = |nth| am_netns::Host::new(&format!("host{nth}"));
        let hosts: Vec<am_netns::Host> = (0..ports).map(host).collect::<Result<_, _>>()?;
        let options = BridgeOptions { mtu, ..BridgeOptions::default() };
        let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), INTERFACE, &options)?;
        Ok(Bridged { hosts, _bridge: bridge, how, core, watch })
    }

    /// One host, on its own thread in its own namespace.
    fn host(&self, plan: &HostPlan, total: usize, shared: &Shared) -> Result<Tally, Error> {
        let tally = self.hosts[plan.port].enter(|| self.work(plan, total, shared))?;
        // Nobody waits for a host that failed.
        tally.inspect_err(|_| shared.phase.store(STOP, Relaxed))
    }

    fn work(&self, plan: &HostPlan, total: usize, shared: &Shared) -> Result<Tally, Error> {
        match plan.wait {
            Wait::Poll => drop(pin(self.core)?),
            Wait::Yield | Wait::Block => pin_elsewhere(self.core),
        }
        let (idle, wait) = match plan.wait {
            Wait::Poll => (Idle::spinning(), None),
            Wait::Yield => (Idle::new(Duration::ZERO, YIELD_TIME), Some(LOOK_INTERVAL)),
            Wait::Block => (Idle::sleeping(), Some(LOOK_INTERVAL)),
        };
        let transport: Box<dyn Transport> = Box::new(open_xdp(INTERFACE, self.how)?);
        let clock = HostClock::Machine(Instant::now());
        let mut host = Host::open(builder(plan, self.how, &[]).idle(idle), plan.clone(), transport, clock)?;
        let tally = self.turns(&mut host, wait, shared)?;
        // Peers would take a node that closes for an error.
        shared.stopped.fetch_add(1, Relaxed);
        let begin = Instant::now();
        while shared.stopped.load(Relaxed) < total && begin.elapsed() < 20 * LOOK_INTERVAL {
            thread::sleep(LOOK_INTERVAL / 5);
        }
        Ok(tally)
    }

    fn turns(&self, host: &mut Host, wait: Option<Duration>, shared: &Shared) -> Result<Tally, Error> {
        let (mut is_ready, mut is_counting, mut tried) = (false, false, Instant::now());
        loop {
            match shared.phase.load(Relaxed) {
                COUNT if !is_counting => {
                    host.start_counting();
                    is_counting = true;
                }
                STOP => return Ok(host.stop_counting()),
                _ => {}
            }
            if !is_ready && tried.elapsed() > CONNECT_INTERVAL {
                host.connect()?;
                tried = Instant::now();
                if host.is_ready() {
                    is_ready = true;
                    shared.ready.fetch_add(1, Relaxed);
                }
            }
            if !host.turn(if is_ready { wait } else { wait.map(|_| CONNECT_INTERVAL) })? {
                self.watch.check()?;
                thread::yield_now();
            }
        }
    }

    /// Lead the hosts through a run.
    fn lead(&self, total: usize, amount: Amount, shared: &Shared) -> Result<(), Error> {
        let begin = Instant::now();
        while shared.ready.load(Relaxed) < total {
            self.watch.check()?;
            if shared.phase.load(Relaxed) == STOP {
                return Ok(());
            }
            if begin.elapsed() > CONNECT_TIMEOUT {
                let open = shared.ready.load(Relaxed);
                let waited = CONNECT_TIMEOUT.as_secs();
                return Err(Error::Lost(format!("{open} of {total} hosts reached their peers within {waited} s")));
            }
            thread::sleep(CONNECT_INTERVAL);
        }
        self.sleep(amount.warm_up, shared)?;
        // A host that failed has set the last phase.
        let _ = shared.phase.compare_exchange(CONNECT, COUNT, Relaxed, Relaxed);
        self.sleep(amount.time, shared)
    }

    fn sleep(&self, time: Duration, shared: &Shared) -> Result<(), Error> {
        let begin = Instant::now();
        while begin.elapsed() < time && shared.phase.load(Relaxed) != STOP {
            self.watch.check()?;
            thread::sleep((time.saturating_sub(begin.elapsed())).min(LOOK_INTERVAL));
        }
        Ok(())
    }
}

impl Arena for Bridged<'_> {
    fn mode(&self) -> String {
        "veth copy, bridge".to_owned()
    }

    fn run(&mut self, plans: &[HostPlan], amount: Amount) -> Result<Vec<Tally>, Error> {
        let (this, shared, total) = (&*self, &Shared::default(), plans.len());
        thread::scope(|scope| {
            let threads: Vec<_> =
                plans.iter().map(|plan| scope.spawn(move || this.host(plan, total, shared))).collect();
            let led = this.lead(total, amount, shared);
            shared.phase.store(STOP, Relaxed);
            let panicked = |_| Err(facility(std::io::Error::other("the thread of a host panicked")));
            let tallies: Result<Vec<Tally>, Error> =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
            // A host's error is the cause; an interrupt ends all of them.
            match (led, tallies) {
                (Err(interrupted @ Error::Interrupted { .. }), _) => Err(interrupted),
                (led, tallies) => tallies.and_then(|tallies| led.map(|()| tallies)),
            }
        })
    }
}
