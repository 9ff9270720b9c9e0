//! The flows on which a port may send.
//!
//! The receiver of frames chooses their flow id and sends it in a Connect or an Accept. The daemon reads these set-up frames on their
//! way to a port, and so it learns the flows on which that port may send.
//!
//! The table is bounded. A program on this host may grant a port a limited number of flows; further grants are refused. Nodes on the
//! wire can forge their addresses, so they share one limit. When it is reached, a new grant evicts the least recently used one.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};

use am_wire::{Address, Flow, Route, RouteTemplate};

/// The most flows that nodes of the wire grant to a port.
pub const MAX_FROM_WIRE: usize = 4096;

/// The most flows that another port grants to a port.
pub const MAX_FROM_PORT: usize = 1024;

/// A flow of a peer on which a port may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowGrant {
    /// The peer.
    pub to: Address,
    /// The peer's flow id.
    pub flow: Flow,
    /// The nonce of this use of the flow id.
    pub nonce: u16,
}

/// What is known of a grant besides its key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    nonce: u16,
    /// The port that granted it; `None` for a node of the wire.
    granter: Option<u16>,
    /// Whether a frame was sent on the flow since the last search for an unused grant.
    is_used: bool,
    /// The number of its record in the state file.
    record: u32,
}

/// The grants of one port.
#[derive(Debug)]
pub struct Grants {
    entries: HashMap<u64, Entry, Mixing>,
    /// The keys of the grants from the wire, in the order in which they are candidates for eviction. Keys of revoked grants are
    /// still in it.
    from_wire: VecDeque<u64>,
    wire_count: usize,
    port_counts: HashMap<u16, usize>,
    max_from_wire: usize,
    /// The route of the last frame on a granted flow, while that grant holds: the fast path, as most frames have the route of the frame before.
    last: Option<RouteTemplate>,
}

/// What happened to a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The grant is new. `Some` is the record of the grant that was evicted for it.
    New(Option<u32>),
    /// The grant with this record was known, and has a new nonce.
    Renewed(u32),
    /// The grant was known.
    Known,
    /// The granting port has reached its limit.
    Refused,
}

const fn key(to: Address, flow: Flow) -> u64 {
    to.to_u64() << Flow::BITS | flow.id() as u64
}

impl Grants {
    /// An empty table. `random` seeds its hash, so that peers cannot provoke collisions.
    pub fn new(random: u64) -> Grants {
        Grants {
            entries: HashMap::with_hasher(Mixing(random | 1)),
            from_wire: VecDeque::new(),
            wire_count: 0,
            port_counts: HashMap::new(),
            max_from_wire: MAX_FROM_WIRE,
            last: None,
        }
    }

    /// Fast path: whether the port may send a frame because its last frame had the same destination, source and flow. After `false`, ask
    /// [`allows`](Self::allows).
    #[inline]
    pub fn allows_same(&self, frame: &[u8]) -> bool {
        self.last.is_some_and(|last| last.matches(frame))
    }

    /// Whether the port may send this frame, which has this destination and route.
    #[inline]
    pub fn allows(&mut self, to: Address, frame: &[u8], route: &Route) -> bool {
        let Some(entry) = self.entries.get_mut(&key(to, route.flow)) else { return false };
        entry.is_used = true;
        self.last = RouteTemplate::of(frame, route);
        true
    }

    /// Grant a flow. A new grant gets `record` as its number in the state file.
    pub fn grant(&mut self, grant: FlowGrant, granter: Option<u16>, record: u32) -> Granted {
        let key = key(grant.to, grant.flow);
        if let Some(entry) = self.entries.get_mut(&key) {
            let known = entry.nonce == grant.nonce;
            entry.nonce = grant.nonce;
            return if known { Granted::Known } else { Granted::Renewed(entry.record) };
        }
        let mut forgotten = None;
        match granter {
            Some(port) => {
                let count = self.port_counts.entry(port).or_default();
                if *count >= MAX_FROM_PORT {
                    return Granted::Refused;
                }
                *count += 1;
            }
            None => {
                if self.wire_count >= self.max_from_wire {
                    forgotten = self.evict_unused();
                }
                self.wire_count += 1;
                self.from_wire.push_back(key);
                if self.from_wire.len() > 2 * self.max_from_wire {
                    let entries = &self.entries;
                    self.from_wire.retain(|other| entries.contains_key(other) || *other == key);
                }
            }
        }
        self.entries.insert(key, Entry { nonce: grant.nonce, granter, is_used: false, record });
        Granted::New(forgotten)
    }

    /// Evict the least recently used grant from the wire (second-chance algorithm). Returns its record.
    fn evict_unused(&mut self) -> Option<u32> {
        // The fast path marks no grant as used, so the next frame must take the slow path.
        self.last = None;
        // The first round clears all marks, so two rounds find a grant.
        for _ in 0..2 * self.from_wire.len() {
            let key = self.from_wire.pop_front()?;
            match self.entries.get_mut(&key) {
                Some(entry) if entry.is_used => {
                    entry.is_used = false;
                    self.from_wire.push_back(key);
                }
                Some(_) => return self.remove(key),
                None => (),
            }
        }
        None
    }

    fn remove(&mut self, key: u64) -> Option<u32> {
        self.last = None;
        let entry = self.entries.remove(&key)?;
        match entry.granter {
            None => self.wire_count -= 1,
            Some(port) => *self.port_counts.entry(port).or_insert(1) -= 1,
        }
        Some(entry.record)
    }

    /// Revoke the grant of a flow that has ended. Returns its record, if this use of the flow was granted.
    pub fn revoke(&mut self, grant: FlowGrant) -> Option<u32> {
        let key = key(grant.to, grant.flow);
        self.entries.get(&key).filter(|entry| entry.nonce == grant.nonce)?;
        self.remove(key)
    }

    /// Revoke the grants of a port that has gone. Returns their records.
    pub fn revoke_all_of(&mut self, port: u16) -> Vec<u32> {
        let its = self.entries.iter().filter(|(_, entry)| entry.granter == Some(port)).map(|(key, _)| *key);
        let keys: Vec<u64> = its.collect();
        self.last = None;
        self.port_counts.remove(&port);
        keys.iter().filter_map(|key| self.entries.remove(key)).map(|entry| entry.record).collect()
    }

    /// The records of all grants.
    pub fn records(&self) -> impl Iterator<Item = u32> {
        self.entries.values().map(|entry| entry.record)
    }

    /// The number of grants.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no grant.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A hash that multiplies by one random number. Peers choose part of the keys, but cannot provoke collisions without knowing the number.
#[derive(Clone, Copy, Debug)]
struct Mixing(u64);

struct Mixed(u64, u64);

impl BuildHasher for Mixing {
    type Hasher = Mixed;

    #[inline]
    fn build_hasher(&self) -> Mixed {
        Mixed(self.0, 0)
    }
}

impl Hasher for Mixed {
    #[inline]
    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ self.0.rotate_left(32)) * u128::from(self.0);
        self.1 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.1
    }
}
