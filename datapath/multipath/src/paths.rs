//! Several transports as one.

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

/// Several transports as one. See [the crate](crate).
pub struct Paths {
    ways: Vec<Way>,
    /// Their descriptors as one, if all have one.
    joint: Option<Joint>,
    arrivals: Arrivals,
    /// The path that is read first. It changes each time, so that a busy path does not starve another.
    first: usize,
    count: Count,
    /// The link errors, if all paths have one.
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

    /// Send a frame on every path that has room. False if no path has room.
    #[cold]
    fn flood(&mut self, to: Address, sort: &Sort, frame: &Frame) -> bool {
        let (mut carried, mut full) = (0, 0);
        let peer = self.arrivals.peers.index(to);
        for way in 0..self.ways.len() {
            if !self.ways[way].is_usable() {
                continue;
            }
            // A peer that is known only on other paths may be on this one too.
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

    /// Send a frame to a known peer, on the best usable path.
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
            tracing::info!(%to, from = self.ways[before].name(), to = self.ways[way].name(), "another path");
        }
        let outgoing = self.outgoing(to, link, sort);
        self.ways[way].carry(&outgoing, frame)
    }

    /// The path that frames to a peer take, and why.
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

    /// The paths of an address's kind.
    fn of_kind(&mut self, place: &str) -> Result<impl Iterator<Item = &mut Way>, IntroduceError> {
        let none = || IntroduceError::NoPlace { place: place.to_owned(), example: "udp:127.0.0.1:7000" };
        let name = place.parse::<Name>().map_err(|_| none())?;
        let is_it = move |way: &&mut Way| way.name().split(':').next() == Some(name.scheme());
        let mut found = self.ways.iter_mut().filter(is_it).peekable();
        if found.peek().is_none() { Err(none()) } else { Ok(found) }
    }
}

/// The paths that can be used now.
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
            // A probe's result would hold for one path only.
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
            // Every path of the address's kind gets the command.
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
            // Each path gets the template with its own addresses. A peer that is found on another path later is a `NewPath`.
            Command::RejectTemplate { flow, template } => {
                let Some(peer) = self.arrivals.peers.index(template.to()) else { return Ok(()) };
                let links = self.ways.iter_mut().zip(&self.arrivals.peers.get(peer).links);
                links.filter_map(|(way, link)| Some((way, link.address?))).try_for_each(|(way, link)| {
                    let template = &template.readdressed(link, way.inner.caps().address);
                    way.inner.control(Command::RejectTemplate { flow, template })
                })
            }
            Command::Steer { .. } | Command::RxFull(_) | Command::RxCredit(_) => {
                self.ways.iter_mut().try_for_each(|way| way.inner.control(command))
            }
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let (mut changed, peers) = (false, &mut self.arrivals.peers);
        for (number, way) in self.ways.iter_mut().enumerate() {
            changed |= way.poll_notices(&mut |notice| match notice {
                // The peer may have left this path only.
                Notice::PeerGone(link) => {
                    peers.gone(number, link).into_iter().for_each(|to| each(Notice::PeerGone(to)))
                }
                other => each(other),
            });
        }
        peers.found.drain(..).for_each(|peer| each(Notice::NewPath(peer)));
        if changed {
            let why = self.ways.iter().map(|way| Some(format!("{}: {}", way.name(), way.broken()?)));
            self.broken = why.collect::<Option<Vec<_>>>().map(|all| all.join("; "));
            if let Some(Err(error)) = self.joint.as_ref().map(Joint::watch) {
                tracing::error!(%error, "cannot wait for a path that has reopened");
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
        // Two paths of a kind have counters of the same names.
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
