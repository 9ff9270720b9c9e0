//! One network, and who is on it.
//!
//! Everything happens under one lock, and begins with what was due before ([`Network::with`]). Who only looks whether
//! something came need not take it: [`Network::is_quiet`].

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use am_wire::Address;

use super::bell::Bell;
use super::monotonic;
use super::settings::Settings;
use super::timer::Timer;
use crate::card::Card;
use crate::clock::{Nanos, US};
use crate::net::{Happening, Net};

/// While some sleep and others do not, it is left to those for so long to let happen what is due: the sleepers are woken
/// for it only where nobody did.
const OTHERS: Nanos = 200 * US;

/// So often the lock is tried before the thread sleeps for it: it is held for some events, which take less than that.
const SPINS: usize = 1000;

/// A network that several threads use.
#[derive(Debug)]
pub(super) struct Network {
    settings: Settings,
    /// The machine's clock when the network's was 0.
    start: Nanos,
    /// When something happens next, for who looks without the lock.
    due: AtomicU64,
    /// When the timer rings.
    alarm: AtomicU64,
    /// For which node frames wait.
    waiting: Box<[AtomicBool]>,
    /// How many nodes there are.
    present: AtomicUsize,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    net: Net<Card>,
    /// Of each node that is there.
    bells: Vec<Option<Bell>>,
    /// So many of them are armed.
    asleep: usize,
    timer: Timer,
}

impl Network {
    /// With these settings, none of which is left out; nobody is on it.
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

    /// Of a node.
    pub(super) fn address(&self, node: usize) -> Address {
        self.lock().net.address(node)
    }

    /// Of all nodes that are here but this.
    pub(super) fn others(&self, node: usize) -> Vec<Address> {
        let inside = self.lock();
        let here = inside.bells.iter().enumerate().filter(|(other, bell)| *other != node && bell.is_some());
        here.map(|(other, _)| inside.net.address(other)).collect()
    }

    /// How many nodes are on it.
    pub(super) fn present(&self) -> usize {
        self.present.load(Relaxed)
    }

    /// A place for a node, and what it waits for; `None` where all are taken.
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

    /// The node is gone, and with it what its NIC held. What it had been told to send is sent.
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

    /// Whether nothing waits for the node and nothing is due, so that there is nothing to do on the network now. The
    /// timer is to be set anew where it has rung, by the one whom it woke.
    #[inline]
    pub(super) fn is_quiet(&self, node: usize, now: Nanos, is_armed: bool) -> bool {
        let is_due = self.due.load(Relaxed) <= now || is_armed && self.alarm.load(Relaxed) <= now;
        !is_due && !self.waiting[node].load(Relaxed)
    }

    /// Use a node's card, at the present time.
    pub(super) fn with<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        self.use_card(self.lock(), node, use_it)
    }

    /// The same, unless somebody else uses the network now, and so lets happen what is due.
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

    /// Use a node's card for what takes no time: nothing happens meanwhile.
    pub(super) fn touch<T>(&self, node: usize, use_it: impl FnOnce(&mut Card) -> T) -> T {
        use_it(self.lock().net.nic(node))
    }

    /// What befell the frames of a node, each with the name of its counter.
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

    /// The node may be about to sleep. Whether it may.
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
            // Who panicked did so in here, where nothing is left half done that another could not go on with.
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

    /// Before the lock is given back: say when something happens next, and have those woken for it who sleep.
    fn settle(&self, inside: &mut Inside) {
        let next = inside.net.next();
        self.due.store(next.unwrap_or(Nanos::MAX), Relaxed);
        let wanted = next.filter(|_| inside.asleep > 0).map(|next| {
            let is_left_to_others = inside.asleep < self.present();
            self.start + next + if is_left_to_others { OTHERS } else { 0 }
        });
        let now = self.start + inside.net.now();
        let is_right = match (wanted, inside.timer.at()) {
            // Nobody looks at it.
            (None, _) if inside.asleep == 0 => true,
            (None, at) => at.is_none(),
            // A bit early costs a look; set anew each time it would cost a system call.
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
