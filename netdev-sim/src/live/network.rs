//! The networks of this process, by their seed, and the nodes of each.
//!
//! Each call takes one lock, and first runs the events that are due ([`Network::with`]). A node that only asks whether a
//! frame has arrived needs no lock: [`Network::is_quiet`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use am_ring::{LayoutError, Own};
use am_transport::memory::NoMemory;
use am_wire::Address;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use super::settings::{MAX_NODES, SimSettings};
use super::waker::{NodeWaker, Timer};
use crate::card::Card;
use crate::clock::{Nanos, US};
use crate::net::{Net, NodeEvent};

/// While some nodes sleep and others run, a running node probably runs the due events. A sleeping node is woken for an
/// event only if no node has run it for this long.
const TIMER_SLACK: Nanos = 200 * US;

/// How often the lock is tried before the thread sleeps for it. The lock is held for a few events, which take less time.
const MAX_LOCK_SPINS: usize = 1000;

/// Why a simulated network could not be opened.
#[derive(thiserror::Error)]
pub enum SimOpenError {
    /// The node that made the network chose another value.
    #[error(
        "the network `sim:{seed}` exists already and has {setting}={has}, not {asked}: leave the setting out, or use another seed"
    )]
    Conflict {
        /// The network's seed.
        seed: u64,
        /// The setting.
        setting: &'static str,
        /// The network's value.
        has: String,
        /// The requested value.
        asked: String,
    },
    /// The network has no room for another node.
    #[error(
        "the network `sim:{seed}` has {nodes} nodes, its maximum: set `nodes=` in the name that opens it first, up to {MAX_NODES}"
    )]
    Full {
        /// The network's seed.
        seed: u64,
        /// The maximum number of nodes.
        nodes: usize,
    },
    /// There is not enough memory for the pool.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The pool cannot be laid out.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// A descriptor could not be made.
    #[error(
        "cannot make the descriptors that wake a sleeping node: {0}; raise the limit of open files with `ulimit -n`"
    )]
    System(#[from] Errno),
}

am_transport::debug_as_display!(SimOpenError);

/// Every network that has a node.
static NETWORKS: Mutex<BTreeMap<u64, Weak<Network>>> = Mutex::new(BTreeMap::new());

/// A node's place on its network. The node leaves when it is dropped.
#[derive(Debug)]
pub(super) struct JoinedNode {
    pub(super) network: Arc<Network>,
    pub(super) node: usize,
    pub(super) wake: Arc<Own>,
}

impl JoinedNode {
    /// Join the network of this seed. The first node makes the network.
    pub(super) fn join(settings: &SimSettings) -> Result<JoinedNode, SimOpenError> {
        let mut networks = NETWORKS.lock().unwrap_or_else(PoisonError::into_inner);
        networks.retain(|_, network| network.strong_count() > 0);
        let seed = settings.seed;
        let network = match networks.get(&seed).and_then(Weak::upgrade) {
            Some(network) => network,
            None => Arc::new(Network::new(settings.with_defaults())?),
        };
        if let Some((setting, has, asked)) = settings.conflict(&network.settings) {
            return Err(SimOpenError::Conflict { seed, setting, has, asked });
        }
        let nodes = network.settings.options().nodes;
        let (node, wake) = network.join()?.ok_or(SimOpenError::Full { seed, nodes })?;
        networks.insert(seed, Arc::downgrade(&network));
        Ok(JoinedNode { network, node, wake })
    }
}

impl Drop for JoinedNode {
    /// Its NIC sends the frames of its TX ring; all other frames that it held are gone.
    fn drop(&mut self) {
        let JoinedNode { network, node, .. } = self;
        let mut inside = network.lock();
        network.advance(&mut inside);
        inside.net.unplug(*node);
        let bell = inside.wakers[*node].take();
        inside.asleep -= bell.is_some_and(|bell| bell.is_armed) as usize;
        network.has_arrivals[*node].store(false, Relaxed);
        network.node_count.fetch_sub(1, Relaxed);
        network.schedule_wakeup(&mut inside);
    }
}

/// A network that several threads use.
#[derive(Debug)]
pub(super) struct Network {
    /// Leaves out none.
    pub(super) settings: SimSettings,
    /// The machine's clock when the network's was 0.
    start: Nanos,
    /// The time of the next event, readable without the lock.
    next_event_at: AtomicU64,
    /// The time that the timer is set to.
    timer_at: AtomicU64,
    /// For each node, whether frames wait.
    has_arrivals: Box<[AtomicBool]>,
    /// How many nodes are on the network.
    node_count: AtomicUsize,
    state: Mutex<NetworkState>,
}

#[derive(Debug)]
struct NetworkState {
    net: Net<Card>,
    /// The waker of each node that is on the network.
    wakers: Vec<Option<NodeWaker>>,
    /// How many of them are armed.
    asleep: usize,
    timer: Timer,
}

impl Network {
    /// A network without nodes. `settings` leaves out none.
    pub(super) fn new(settings: SimSettings) -> nix::Result<Network> {
        let options = settings.options();
        let (nodes, under_way) = (options.nodes, options.tx);
        let mut net = Net::with_devices(options);
        net.reserve(under_way);
        (0..nodes).for_each(|node| net.unplug(node));
        Ok(Network {
            settings,
            start: monotonic(),
            next_event_at: AtomicU64::new(Nanos::MAX),
            timer_at: AtomicU64::new(Nanos::MAX),
            has_arrivals: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            node_count: AtomicUsize::new(0),
            state: Mutex::new(NetworkState {
                net,
                wakers: (0..nodes).map(|_| None).collect(),
                asleep: 0,
                timer: Timer::new()?,
            }),
        })
    }

    /// The address of a node.
    pub(super) fn address(&self, node: usize) -> Address {
        self.lock().net.address(node)
    }

    /// The addresses of all other nodes on the network.
    pub(super) fn peer_addresses(&self, node: usize) -> Vec<Address> {
        let inside = self.lock();
        let here = inside.wakers.iter().enumerate().filter(|(other, bell)| *other != node && bell.is_some());
        here.map(|(other, _)| inside.net.address(other)).collect()
    }

    /// How many nodes are on the network.
    pub(super) fn node_count(&self) -> usize {
        self.node_count.load(Relaxed)
    }

    /// Add a node. Returns its number and the descriptor that wakes it; `None` if the network is full.
    pub(super) fn join(&self) -> nix::Result<Option<(usize, Arc<Own>)>> {
        let mut inside = self.lock();
        let Some(node) = inside.wakers.iter().position(Option::is_none) else { return Ok(None) };
        let bell = NodeWaker::new()?;
        let wake = bell.poll_descriptor(&inside.timer)?;
        self.advance(&mut inside);
        inside.wakers[node] = Some(bell);
        inside.net.plug(node);
        self.node_count.fetch_add(1, Relaxed);
        self.schedule_wakeup(&mut inside);
        Ok(Some((node, wake)))
    }

    /// The network's time.
    #[inline]
    pub(super) fn now(&self) -> Nanos {
        monotonic().saturating_sub(self.start)
    }

    /// Whether no frame waits for the node and no event is due, so that the node need not take the lock. A node that the
    /// timer may have woken takes the lock, because it must set the timer again.
    #[inline]
    pub(super) fn is_quiet(&self, node: usize, now: Nanos, is_armed: bool) -> bool {
        let is_due = self.next_event_at.load(Relaxed) <= now || is_armed && self.timer_at.load(Relaxed) <= now;
        !is_due && !self.has_arrivals[node].load(Relaxed)
    }

    /// Use a node's card, at the present time.
    pub(super) fn with<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        self.use_card(self.lock(), node, use_it)
    }

    /// The same, unless another thread has the lock. That thread then runs the due events.
    pub(super) fn try_with<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> Option<T> {
        self.try_lock().map(|inside| self.use_card(inside, node, use_it))
    }

    fn use_card<T>(
        &self,
        mut inside: MutexGuard<'_, NetworkState>,
        node: usize,
        use_it: impl FnOnce(&mut Card) -> T,
    ) -> T {
        self.advance(&mut inside);
        let net = &mut inside.net;
        let result = use_it(net.nic(node));
        net.start_nic(node);
        let (now, has_arrivals) = (net.now(), net.nic(node).has_arrivals());
        self.has_arrivals[node].store(has_arrivals, Relaxed);
        self.advance_to(now, &mut inside);
        self.schedule_wakeup(&mut inside);
        result
    }

    /// Use a node's card without running due events.
    pub(super) fn with_paused<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        use_it(self.lock().net.nic(node))
    }

    /// The counters of a node's NIC and links, and of the switch, each with its name.
    pub(super) fn counters(&self, node: usize) -> Vec<(&'static str, u64)> {
        let mut inside = self.lock();
        let mut all = vec![];
        inside.net.nic(node).counters(&mut |name, value| all.push((name, value)));
        let links = inside.net.links(node).map(|link| link.count);
        let both = |of: fn(&crate::SimLinkCount) -> u64| links.iter().map(of).sum();
        all.extend([
            ("sim_lost_on_link", both(|link| link.lost)),
            ("sim_duplicated", both(|link| link.duplicated)),
            ("sim_late", both(|link| link.late)),
            ("sim_corrupted", both(|link| link.damaged)),
            ("sim_lost_switch_full", inside.net.switch().count.full),
        ]);
        all
    }

    /// The node may be about to sleep: arm its waker, unless frames wait for it. Whether it may sleep.
    pub(super) fn try_sleep(&self, node: usize) -> bool {
        let mut inside = self.lock();
        self.advance(&mut inside);
        let may = !inside.net.nic(node).has_arrivals();
        if let Some(bell) = inside.wakers[node].as_mut().filter(|bell| may && !bell.is_armed) {
            bell.arm();
            inside.asleep += 1;
        }
        self.schedule_wakeup(&mut inside);
        may
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        for _ in 0..MAX_LOCK_SPINS {
            match self.try_lock() {
                Some(inside) => return inside,
                None => std::hint::spin_loop(),
            }
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, NetworkState>> {
        match self.state.try_lock() {
            Ok(inside) => Some(inside),
            // A thread panicked under the lock. The state is still consistent, so the others continue.
            Err(TryLockError::Poisoned(inside)) => Some(inside.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn advance(&self, inside: &mut NetworkState) {
        self.advance_to(self.now(), inside);
    }

    fn advance_to(&self, to: Nanos, NetworkState { net, wakers: bells, asleep, .. }: &mut NetworkState) {
        net.advance(to, &mut |happening| {
            if let NodeEvent::Wake(node) = happening {
                self.has_arrivals[node].store(true, Relaxed);
                *asleep -= bells[node].as_mut().is_some_and(NodeWaker::wake) as usize;
            }
        });
    }

    /// Called before the lock is released: publish the time of the next event, and set the timer for sleeping nodes.
    fn schedule_wakeup(&self, inside: &mut NetworkState) {
        let next = inside.net.clock.next_time();
        self.next_event_at.store(next.unwrap_or(Nanos::MAX), Relaxed);
        let wanted = next.filter(|_| inside.asleep > 0).map(|next| {
            let is_left_to_others = inside.asleep < self.node_count();
            self.start + next + if is_left_to_others { TIMER_SLACK } else { 0 }
        });
        let now = self.start + inside.net.now();
        let is_right = match (wanted, inside.timer.at) {
            // No node sleeps, so the timer does not matter.
            (None, _) if inside.asleep == 0 => true,
            (None, at) => at.is_none(),
            // An early wake-up costs one look at the network. An exact timer would cost a system call each time.
            (Some(wanted), at) => at.is_some_and(|at| now < at && at <= wanted),
        };
        if !is_right {
            inside.timer.set(wanted);
            self.timer_at.store(wanted.map_or(Nanos::MAX, |at| at - self.start), Relaxed);
        }
    }
}

/// The machine's clock.
fn monotonic() -> Nanos {
    // Fails only for an unknown clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests;
