//! One network, and its nodes.
//!
//! Each call takes one lock, and first runs the events that are due ([`Network::with`]). A node that only asks whether a
//! frame has arrived needs no lock: [`Network::is_quiet`].

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use am_wire::Address;

use super::bell::{Bell, Timer};
use super::monotonic;
use super::settings::Settings;
use crate::card::Card;
use crate::clock::{Nanos, US};
use crate::net::{Happening, Net};

/// While some nodes sleep and others run, a running node probably runs the due events. A sleeping node is woken for an
/// event only if no node has run it for this long.
const OTHERS: Nanos = 200 * US;

/// How often the lock is tried before the thread sleeps for it. The lock is held for a few events, which take less time.
const SPINS: usize = 1000;

/// A network that several threads use.
#[derive(Debug)]
pub(super) struct Network {
    settings: Settings,
    /// The machine's clock when the network's was 0.
    start: Nanos,
    /// The time of the next event, readable without the lock.
    due: AtomicU64,
    /// The time that the timer is set to.
    alarm: AtomicU64,
    /// For each node, whether frames wait.
    waiting: Box<[AtomicBool]>,
    /// How many nodes are on the network.
    present: AtomicUsize,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    net: Net<Card>,
    /// The waker of each node that is on the network.
    bells: Vec<Option<Bell>>,
    /// How many of them are armed.
    asleep: usize,
    timer: Timer,
}

impl Network {
    /// A network without nodes. `settings` leaves out none.
    pub(super) fn new(settings: Settings) -> nix::Result<Network> {
        let options = settings.options();
        let (nodes, under_way) = (options.nodes, options.tx);
        let mut net = Net::with(options);
        net.reserve(under_way);
        (0..nodes).for_each(|node| net.unplug(node));
        let bells = (0..nodes).map(|_| None).collect();
        Ok(Network {
            settings,
            start: monotonic(),
            due: AtomicU64::new(Nanos::MAX),
            alarm: AtomicU64::new(Nanos::MAX),
            waiting: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            present: AtomicUsize::new(0),
            inside: Mutex::new(Inside { net, bells, asleep: 0, timer: Timer::new()? }),
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The address of a node.
    pub(super) fn address(&self, node: usize) -> Address {
        self.lock().net.address(node)
    }

    /// The addresses of all other nodes on the network.
    pub(super) fn others(&self, node: usize) -> Vec<Address> {
        let inside = self.lock();
        let here = inside.bells.iter().enumerate().filter(|(other, bell)| *other != node && bell.is_some());
        here.map(|(other, _)| inside.net.address(other)).collect()
    }

    /// How many nodes are on the network.
    pub(super) fn present(&self) -> usize {
        self.present.load(Relaxed)
    }

    /// Add a node. Returns its number and the descriptor that wakes it; `None` if the network is full.
    pub(super) fn join(&self) -> nix::Result<Option<(usize, Arc<OwnedFd>)>> {
        let mut inside = self.lock();
        let Some(node) = inside.bells.iter().position(Option::is_none) else { return Ok(None) };
        let bell = Bell::new()?;
        let wake = bell.wake(&inside.timer)?;
        self.advance(&mut inside);
        inside.bells[node] = Some(bell);
        inside.net.plug(node);
        self.present.fetch_add(1, Relaxed);
        self.settle(&mut inside);
        Ok(Some((node, wake)))
    }

    /// Remove a node. Its NIC sends the frames of its TX ring; all other frames that it held are gone.
    pub(super) fn leave(&self, node: usize) {
        let mut inside = self.lock();
        self.advance(&mut inside);
        inside.net.unplug(node);
        let bell = inside.bells[node].take();
        inside.asleep -= bell.is_some_and(|bell| bell.is_armed()) as usize;
        self.waiting[node].store(false, Relaxed);
        self.present.fetch_sub(1, Relaxed);
        self.settle(&mut inside);
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
        let is_due = self.due.load(Relaxed) <= now || is_armed && self.alarm.load(Relaxed) <= now;
        !is_due && !self.waiting[node].load(Relaxed)
    }

    /// Use a node's card, at the present time.
    pub(super) fn with<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        self.use_card(self.lock(), node, use_it)
    }

    /// The same, unless another thread has the lock. That thread then runs the due events.
    pub(super) fn try_with<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> Option<T> {
        self.try_lock().map(|inside| self.use_card(inside, node, use_it))
    }

    fn use_card<T>(&self, mut inside: MutexGuard<'_, Inside>, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        self.advance(&mut inside);
        let net = &mut inside.net;
        let result = use_it(net.nic(node));
        net.turned(node);
        let (now, has_arrivals) = (net.now(), net.nic(node).has_arrivals());
        self.waiting[node].store(has_arrivals, Relaxed);
        self.advance_to(now, &mut inside);
        self.settle(&mut inside);
        result
    }

    /// Use a node's card without running due events.
    pub(super) fn touch<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        use_it(self.lock().net.nic(node))
    }

    /// The counters of a node's NIC and links, and of the switch, each with its name.
    pub(super) fn counters(&self, node: usize) -> Vec<(&'static str, u64)> {
        let mut inside = self.lock();
        let mut all = vec![];
        inside.net.nic(node).counters(&mut |name, value| all.push((name, value)));
        let links = inside.net.links(node).map(|link| link.count());
        let both = |of: fn(&crate::LinkCount) -> u64| links.iter().map(of).sum();
        all.extend([
            ("sim_lost_on_link", both(|link| link.lost)),
            ("sim_duplicated", both(|link| link.duplicated)),
            ("sim_late", both(|link| link.late)),
            ("sim_corrupted", both(|link| link.damaged)),
            ("sim_lost_switch_full", inside.net.switch().count().full),
        ]);
        all
    }

    /// The node may be about to sleep: arm its waker, unless frames wait for it. Whether it may sleep.
    pub(super) fn doze(&self, node: usize) -> bool {
        let mut inside = self.lock();
        self.advance(&mut inside);
        let may = !inside.net.nic(node).has_arrivals();
        if let Some(bell) = inside.bells[node].as_mut().filter(|bell| may && !bell.is_armed()) {
            bell.arm();
            inside.asleep += 1;
        }
        self.settle(&mut inside);
        may
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        for _ in 0..SPINS {
            match self.try_lock() {
                Some(inside) => return inside,
                None => std::hint::spin_loop(),
            }
        }
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Inside>> {
        match self.inside.try_lock() {
            Ok(inside) => Some(inside),
            // A thread panicked under the lock. The state is still consistent, so the others continue.
            Err(TryLockError::Poisoned(inside)) => Some(inside.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn advance(&self, inside: &mut Inside) {
        self.advance_to(self.now(), inside);
    }

    fn advance_to(&self, to: Nanos, Inside { net, bells, asleep, .. }: &mut Inside) {
        net.advance(to, &mut |happening| {
            if let Happening::Wake(node) = happening {
                self.waiting[node].store(true, Relaxed);
                *asleep -= bells[node].as_mut().is_some_and(Bell::ring) as usize;
            }
        });
    }

    /// Called before the lock is released: publish the time of the next event, and set the timer for sleeping nodes.
    fn settle(&self, inside: &mut Inside) {
        let next = inside.net.next();
        self.due.store(next.unwrap_or(Nanos::MAX), Relaxed);
        let wanted = next.filter(|_| inside.asleep > 0).map(|next| {
            let is_left_to_others = inside.asleep < self.present();
            self.start + next + if is_left_to_others { OTHERS } else { 0 }
        });
        let now = self.start + inside.net.now();
        let is_right = match (wanted, inside.timer.at()) {
            // No node sleeps, so the timer does not matter.
            (None, _) if inside.asleep == 0 => true,
            (None, at) => at.is_none(),
            // An early wake-up costs one look at the network. An exact timer would cost a system call each time.
            (Some(wanted), at) => at.is_some_and(|at| now < at && at <= wanted),
        };
        if !is_right {
            inside.timer.set(wanted);
            self.alarm.store(wanted.map_or(Nanos::MAX, |at| at - self.start), Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
