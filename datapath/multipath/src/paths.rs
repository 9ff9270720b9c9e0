//! The transport that is several.

use std::collections::BTreeMap;
use std::fmt;

use am_ring::Frame;
use am_transport::{Caps, Command, IntroduceError, Name, Notice, PeerInfo, Transport};
use am_wire::{Address, Buffer, EtherType};

use crate::arrivals::Arrivals;
use crate::peers::{Peer, Peers, Usable};
use crate::readdress::{Sort, sort};
use crate::wake::Joint;
use crate::way::{Outgoing, Way};

/// Several transports, as one. See [the crate](crate).
pub struct Paths {
    ways: Vec<Way>,
    /// Where all of them can be waited for.
    joint: Option<Joint>,
    arrivals: Arrivals,
    /// The way that is looked at first, so that a busy one does not starve another.
    first: usize,
    count: Count,
    /// Why all of them are broken.
    broken: Option<String>,
}

#[derive(Debug, Default)]
struct Count {
    changed: u64,
    suspected: u64,
    flooded: u64,
    lost_no_way: u64,
    lost_full: u64,
    lost_probes: u64,
}

impl Paths {
    pub(crate) fn over(caps: Caps, joint: Option<Joint>, ethertype: EtherType, ways: Vec<Way>) -> Paths {
        let arrivals = Arrivals {
            caps,
            ethertype,
            peers: Peers::default(),
            turn: 0,
            usable: usable(&ways),
            readdressed: 0,
            lost_no_memory: 0,
        };
        Paths { ways, joint, arrivals, first: 0, count: Count::default(), broken: None }
    }

    fn outgoing<'a>(&self, to: Address, link: Address, sort: &'a Sort) -> Outgoing<'a> {
        let Arrivals { caps, ethertype, .. } = &self.arrivals;
        let is_plain = matches!(sort, Sort::Plain | Sort::Setup | Sort::Beacon(_));
        Outgoing { to, link, from: caps.address, is_plain, beacon: sort.beacon(), ethertype: *ethertype }
    }

    /// On every way, or on those that have room. Where none has, it was not sent.
    #[cold]
    fn flood(&mut self, to: Address, sort: &Sort, frame: &Frame) -> bool {
        let (mut carried, mut full) = (0, 0);
        let peer = self.arrivals.peers.index(to);
        for way in 0..self.ways.len() {
            if !self.ways[way].is_usable() {
                continue;
            }
            // Who is known elsewhere only may be here as well.
            let link = |index| self.arrivals.peers.get(index).links[way].address.unwrap_or(Address::BROADCAST);
            let outgoing = self.outgoing(to, peer.map_or(to, link), sort);
            match self.ways[way].carry(&outgoing, frame) {
                true => carried += 1,
                false => full += 1,
            }
        }
        if carried == 0 && full > 0 {
            return false;
        }
        self.count.flooded += 1;
        self.count.lost_full += full;
        true
    }

    /// To a peer that is known, by the best way that leads there now.
    #[inline]
    fn send_to(&mut self, peer: usize, to: Address, sort: &Sort, frame: &Frame) -> bool {
        let (known, usable) = (self.arrivals.peers.get(peer), usable(&self.ways));
        let is_setup = *sort == Sort::Setup;
        let way = if is_setup { known.way_back(self.arrivals.turn, usable) } else { known.way(usable) };
        let Some((way, link)) = way else {
            self.count.lost_no_way += 1;
            return true;
        };
        if !is_setup && let Some(before) = self.arrivals.peers.get_mut(peer).take(way) {
            self.count.changed += 1;
            tracing::info!(%to, from = self.ways[before].name(), to = self.ways[way].name(), "another way");
        }
        let outgoing = self.outgoing(to, link, sort);
        self.ways[way].carry(&outgoing, frame)
    }

    /// Which way frames to a peer take, and why.
    fn path_to(&self, peer: &Peer) -> Option<String> {
        let (taken, _) = peer.way(usable(&self.ways))?;
        let name = self.ways[taken].name();
        let passed = (0..taken).filter(|&way| peer.links[way].address.is_some());
        let why = passed.map(|way| match self.ways[way].trouble() {
            Some(trouble) => format!("{}: {trouble}", self.ways[way].name()),
            None => format!("{}: nothing arrived by it", self.ways[way].name()),
        });
        let why = why.collect::<Vec<_>>().join("; ");
        Some(match (why.is_empty(), peer.known()) {
            (true, 1) => format!("{name} (the only one that both have)"),
            (true, known) => format!("{name} (the best of {known} that both have)"),
            (false, _) => format!("{name} (not {why})"),
        })
    }

    /// The ways that a place can be on: those of its kind.
    fn of_kind(&mut self, place: &str) -> Result<impl Iterator<Item = &mut Way>, IntroduceError> {
        let none = || IntroduceError::NoPlace { place: place.to_owned(), example: "udp:127.0.0.1:7000" };
        let name = place.parse::<Name>().map_err(|_| none())?;
        let is_it = move |way: &&mut Way| way.name().split(':').next() == Some(name.scheme());
        let mut found = self.ways.iter_mut().filter(is_it).peekable();
        if found.peek().is_none() { Err(none()) } else { Ok(found) }
    }
}

/// Which ways can be taken now.
#[inline]
fn usable(ways: &[Way]) -> Usable {
    Usable(ways.iter().enumerate().fold(0, |bits, (at, way)| bits | u8::from(way.is_usable()) << at))
}

impl Transport for Paths {
    fn caps(&self) -> &Caps {
        &self.arrivals.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let Paths { ways, arrivals, first, .. } = self;
        let mut taken = 0;
        (arrivals.turn, arrivals.usable) = (arrivals.turn + 1, usable(ways));
        for number in (*first..ways.len()).chain(0..*first) {
            let mut lost = 0;
            let came = ways[number].inner.receive(budget - taken, &mut |frame| match arrivals.arrived(number, frame) {
                Some(frame) => each(frame),
                None => lost += 1,
            });
            taken += came - lost;
        }
        *first = (*first + 1) % ways.len();
        taken
    }

    #[inline]
    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        let sort = sort(frame.bytes(), self.arrivals.ethertype);
        match (&sort, self.arrivals.peers.index(to)) {
            // What one way lets through, another may not.
            (Sort::Probe, _) => {
                self.count.lost_probes += 1;
                true
            }
            (Sort::Beacon(_), _) | (_, None) => self.flood(to, &sort, frame),
            (_, Some(peer)) => self.send_to(peer, to, &sort, frame),
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.ways.iter_mut().for_each(|way| way.inner.flush());
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), IntroduceError> {
        match command {
            // Where an address could be on several ways, each of its kind is told.
            Command::AddPeer(place) | Command::RemovePeer(place) => {
                self.of_kind(place)?.try_for_each(|way| way.inner.control(command))
            }
            Command::ReportLoss(to) => {
                let usable = usable(&self.ways);
                let peers = &mut self.arrivals.peers;
                if peers.index(to).is_some_and(|peer| peers.suspect(peer, usable)) {
                    self.count.suspected += 1;
                }
                Ok(())
            }
            // They are for one way, with its addresses.
            Command::RejectTemplate { .. } => Ok(()),
            Command::RxFull(_) => Ok(()),
            Command::Steer { .. } | Command::RxCredit(_) => {
                self.ways.iter_mut().try_for_each(|way| way.inner.control(command))
            }
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let (mut changed, peers) = (false, &mut self.arrivals.peers);
        for (number, way) in self.ways.iter_mut().enumerate() {
            changed |= way.poll_notices(&mut |notice| match notice {
                // A peer that is known on another way, too, may only have left this one.
                Notice::PeerGone(link) => {
                    peers.gone(number, link).into_iter().for_each(|to| each(Notice::PeerGone(to)))
                }
                other => each(other),
            });
        }
        if changed {
            let why = self.ways.iter().map(|way| Some(format!("{}: {}", way.name(), way.broken()?)));
            self.broken = why.collect::<Option<Vec<_>>>().map(|all| all.join("; "));
            if let Some(Err(error)) = self.joint.as_ref().map(Joint::watch) {
                tracing::error!(%error, "a way that opened anew cannot be waited for");
            }
        }
        self.broken.iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn peer(&self, at: Address) -> PeerInfo {
        let Some(peer) = self.arrivals.peers.index(at).map(|index| self.arrivals.peers.get(index)) else {
            return PeerInfo::default();
        };
        let links = self.ways.iter().zip(&peer.links);
        let places = links.filter_map(|(way, link)| way.inner.peer(link.address?).address);
        let address = Some(places.collect::<Vec<_>>().join("+")).filter(|places| !places.is_empty());
        PeerInfo { address, path: self.path_to(peer) }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("paths_changed", self.count.changed);
        each("paths_suspected", self.count.suspected);
        each("paths_flooded", self.count.flooded);
        each("paths_readdressed", self.arrivals.readdressed + self.ways.iter().map(|way| way.readdressed).sum::<u64>());
        each("paths_lost_no_way", self.count.lost_no_way);
        each("paths_lost_full", self.count.lost_full);
        each("paths_lost_no_memory", self.arrivals.lost_no_memory);
        each("paths_lost_probes", self.count.lost_probes);
        // Two ways of a kind count under the same names.
        let mut sums = BTreeMap::new();
        self.ways.iter().for_each(|way| way.inner.counters(&mut |name, value| *sums.entry(name).or_insert(0) += value));
        sums.into_iter().for_each(|(name, value)| each(name, value));
    }
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paths").field("caps", &self.arrivals.caps).field("count", &self.count).finish_non_exhaustive()
    }
}
