//! Several transports as one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use am_ring::Frame;
use am_ring::own::{Own, high};
use am_transport::{
    Caps, Command, JointWaker, Notice, OutOfBand, PeerAddressError, PeerInfo, Transport, TransportName,
};
use am_wire::{Address, Buffer, EtherType};

use crate::path::TransportPath;
use crate::peers::{MAX_PATHS, Peer, Peers, UsablePaths};
use crate::rewrite::{self, FrameClass, classify};

/// Why transports cannot be joined.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum MultipathOpenError {
    /// No transport was given.
    #[error("no transport was given: give at least one, as in `udp:127.0.0.1:7000`")]
    None,
    /// Too many transports were given.
    #[error("{0} transports are too many for one node: give at most {MAX_PATHS}")]
    TooMany(usize),
    /// Their wake descriptors could not be joined.
    #[error("cannot wait for several transports at once: epoll: {0}; raise the limit of open files with `ulimit -n`")]
    Wake(String),
}

am_transport::debug_as_display!(MultipathOpenError);

/// Several transports as one. See [the crate](crate).
pub struct Multipath {
    paths: Vec<TransportPath>,
    /// Their wake descriptors as one, if all have one.
    waker: Option<JointWaker>,
    joint: JointState,
    /// The path that `receive` reads first. It changes with each call, so that a busy path does not starve another.
    first: usize,
    count: Count,
    /// The link errors of all paths, if each has one.
    link_error: Option<String>,
}

/// The paths of heartbeats, and the node's address on each.
#[derive(Debug)]
struct MultipathOutOfBand {
    paths: Vec<(Address, Arc<dyn OutOfBand>)>,
    ethertype: EtherType,
}

impl MultipathOutOfBand {
    /// Each path, with the frame as it leaves there.
    fn for_each(&self, frame: &[u8], mut each: impl FnMut(&dyn OutOfBand, &[u8])) {
        let class = classify(frame, self.ethertype);
        for (from, path) in &self.paths {
            let mut frame = frame.to_vec();
            rewrite::readdress(&mut frame, (None, Some(*from)), &class, self.ethertype);
            each(&**path, &frame);
        }
    }
}

impl OutOfBand for MultipathOutOfBand {
    fn announce(&self, frame: &[u8]) {
        self.for_each(frame, |path, frame| path.announce(frame));
    }

    fn broadcast(&self, frame: &[u8]) -> bool {
        let mut sent = false;
        self.for_each(frame, |path, frame| sent |= path.broadcast(frame));
        sent
    }
}

#[derive(Debug, Default)]
struct Count {
    changed: u64,
    losses_reported: u64,
    flooded: u64,
    lost_no_path: u64,
    lost_full: u64,
    lost_probes: u64,
}

impl Multipath {
    /// Join these transports, the best first, on a network with these EtherTypes.
    ///
    /// # Errors
    /// See [`MultipathOpenError`].
    pub fn new(transports: Vec<Box<dyn Transport>>, ethertype: EtherType) -> Result<Multipath, MultipathOpenError> {
        if transports.len() > MAX_PATHS {
            return Err(MultipathOpenError::TooMany(transports.len()));
        }
        let first = transports.first().ok_or(MultipathOpenError::None)?.caps().clone();
        let all = || transports.iter().map(|transport| transport.caps());
        let names = |of: fn(&Caps) -> &str| all().map(of).collect::<Vec<_>>().join("+");
        let waker = JointWaker::of_all(all().map(|caps| caps.wake.as_deref()));
        let waker = waker.map_err(|e| MultipathOpenError::Wake(e.to_string()))?;
        let wake = waker.as_ref().map(|waker| waker.epoll.try_clone()).transpose();
        let wake = wake.map_err(|e| MultipathOpenError::Wake(e.to_string()))?;
        let out_of_band = MultipathOutOfBand {
            paths: all().filter_map(|caps| Some((caps.address, caps.out_of_band.clone()?))).collect(),
            ethertype,
        };
        let caps = Caps {
            name: names(|caps| &caps.name),
            mode: names(|caps| &caps.mode),
            max_frame: all().map(|caps| caps.max_frame).min().unwrap_or(first.max_frame),
            // Even if each path is reliable, a frame in flight on a path that dies is lost.
            reliable: false,
            ordered: false,
            hears_all: all().all(|caps| caps.hears_all),
            wake: wake.map(|fd| vec![Arc::new(Own::new(high(fd)))]),
            wakes_by_level: all().all(|caps| caps.wakes_by_level),
            out_of_band: Some(Arc::new(out_of_band)),
            ..first
        };
        let paths: Vec<_> = transports.into_iter().map(|transport| TransportPath::new(transport, ethertype)).collect();
        let joint = JointState {
            caps,
            ethertype,
            peers: Peers::default(),
            turn: 0,
            usable: usable(&paths),
            rewritten: 0,
            lost_no_memory: 0,
        };
        Ok(Multipath { paths, waker, joint, first: 0, count: Count::default(), link_error: None })
    }

    /// Send a frame on every path that has room. False if no path has room.
    #[cold]
    fn flood(&mut self, to: Address, class: &FrameClass, frame: &Frame) -> bool {
        let (mut carried, mut full) = (0, 0);
        let JointState { caps, peers, .. } = &self.joint;
        let peer = peers.index(to).map(|index| &peers.all[index]);
        // Only of a peer that is not known here, because a transport may write its address for the answer.
        let knows = |path: &TransportPath| peer.is_none() && path.inner.peer(to).is_known;
        let (usable, last_resort, static_on) =
            (usable(&self.paths), with_link_error(&self.paths), those(&self.paths, knows));
        // A peer that no usable path reaches may still be heard of by one with a link error.
        let is_cut_off = peer.is_some_and(|peer| peer.best_path(usable).is_none());
        let takes = |(number, path): &(usize, &mut TransportPath)| {
            usable.has(*number) || path.is_trial_due() || is_cut_off && last_resort.has(*number)
        };
        for (number, path) in self.paths.iter_mut().enumerate().filter(takes) {
            let link = match peer.map(|peer| (peer.paths[number].address, peer.known_paths())) {
                // A static peer, on the path of its address. On another path a frame to it would be flooded.
                None if static_on.0 != 0 && !static_on.has(number) => match path.may_search() {
                    true => Address::BROADCAST,
                    false => continue,
                },
                None => to,
                Some((Some(link), _)) => link,
                // A peer that is known only on other paths may be on this one too. One broadcast serves all such peers.
                Some((None, known)) if known == 0 || path.may_search() => Address::BROADCAST,
                Some((None, _)) => continue,
            };
            match path.send(to, caps.address, link, class, frame) {
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

    /// Send a frame to a known peer, on the best usable path. A peer that is on none gets it on a path with a link error, as from a node with that
    /// transport alone: not every such error keeps frames from their peer.
    #[inline]
    fn send_to(&mut self, peer: usize, to: Address, class: &FrameClass, frame: &Frame) -> bool {
        let (known, usable) = (&mut self.joint.peers.all[peer], usable(&self.paths));
        for (path, state) in self.paths.iter_mut().zip(&known.paths).filter(|(path, _)| path.is_trial_due()) {
            if let Some(link) = state.address
                && path.send(to, self.joint.caps.address, link, class, frame)
            {
                return true;
            }
        }
        let is_setup = *class == FrameClass::Setup;
        let path = if is_setup { known.reply_path(self.joint.turn, usable) } else { known.best_path(usable) };
        let path = path.or_else(|| known.best_path(with_link_error(&self.paths)));
        let Some((path, link)) = path else {
            self.count.lost_no_path += 1;
            return true;
        };
        if !is_setup && let Some(before) = known.active.replace(path).filter(|before| *before != path) {
            self.count.changed += 1;
            tracing::info!(peer = %to, from = self.paths[before].name(), to = self.paths[path].name(), "another path");
        }
        self.paths[path].send(to, self.joint.caps.address, link, class, frame)
    }

    /// The path that frames to a peer take, by the peer's address or the transport's name, and why.
    fn path_to(&self, peer: &Peer) -> Option<String> {
        let taken = peer.best_path(usable(&self.paths)).or_else(|| peer.best_path(with_link_error(&self.paths)));
        let (taken, _) = taken?;
        let path = &self.paths[taken];
        let address = peer.paths[taken].address.and_then(|at| path.inner.peer(at).address);
        let name = address.as_deref().unwrap_or(path.name());
        let passed = (0..taken).filter(|&path| peer.paths[path].address.is_some());
        let why = passed.map(|path| {
            let why = self.paths[path].unusable_reason().unwrap_or("nothing arrived by it");
            format!("{}: {why}", self.paths[path].name())
        });
        let why = why.collect::<Vec<_>>().join("; ");
        Some(match (why.is_empty(), peer.known_paths()) {
            (true, 1) => match path.unusable_reason() {
                None => format!("{name} (the only one that both have)"),
                Some(why) => format!("{name} (the only one that both have: {why})"),
            },
            (true, known) => format!("{name} (the best of {known} that both have)"),
            (false, _) => format!("{name} (not {why})"),
        })
    }

    /// The paths of this address's kind, such as `udp`.
    fn paths_of_kind(&mut self, address: &str) -> Result<impl Iterator<Item = &mut TransportPath>, PeerAddressError> {
        let none = || PeerAddressError::NoPlace { place: address.to_owned(), example: "udp:127.0.0.1:7000" };
        let name = address.parse::<TransportName>().map_err(|_| none())?;
        let is_of_kind = move |path: &&mut TransportPath| path.name().split(':').next() == Some(name.scheme());
        let mut found = self.paths.iter_mut().filter(is_of_kind).peekable();
        if found.peek().is_none() { Err(none()) } else { Ok(found) }
    }
}

/// The state of all paths together.
#[derive(Debug)]
struct JointState {
    /// The caps that the protocol sees.
    caps: Caps,
    ethertype: EtherType,
    peers: Peers,
    /// The number of calls of `receive`.
    turn: u64,
    /// The paths that can be used in this turn.
    usable: UsablePaths,
    /// Frames that were handed over with rewritten addresses.
    rewritten: u64,
    lost_no_memory: u64,
}

impl JointState {
    /// A frame has arrived on a path. Returns it with the addresses that the protocol knows, or `None` to drop it.
    #[inline]
    fn on_frame(&mut self, path: usize, frame: Frame) -> Option<Frame> {
        let class = classify(frame.bytes(), self.ethertype);
        let link = rewrite::source(frame.bytes());
        let protocol_address = match &class {
            // A message is identified by its flow.
            FrameClass::HeaderInSource | FrameClass::Probe => return Some(frame),
            FrameClass::Plain => link.and_then(|link| self.peers.on_frame(path, link, self.turn, self.usable)),
            FrameClass::Setup => link.and_then(|link| self.peers.on_setup(path, link, self.turn)),
            // A beacon is accepted only from the address that it names.
            FrameClass::Beacon(beacon) if link == Some(beacon.address) => Some(self.peers.on_beacon(path, beacon)),
            FrameClass::Beacon(_) => None,
        };
        match protocol_address.filter(|protocol_address| Some(*protocol_address) != link) {
            None => Some(frame),
            Some(protocol_address) => {
                let copy =
                    rewrite::copy(&self.caps.pool, &frame, (None, Some(protocol_address)), &class, self.ethertype);
                self.rewritten += 1;
                self.lost_no_memory += copy.is_none() as u64;
                copy
            }
        }
    }
}

impl Multipath {
    /// The paths on which the peer at this address is known, each with the peer's address there.
    fn links(&mut self, to: Address) -> impl Iterator<Item = (&mut TransportPath, Address)> {
        let peer = self.joint.peers.index(to).map(|peer| &self.joint.peers.all[peer]);
        let paths = peer.into_iter().flat_map(|peer| &peer.paths);
        self.paths.iter_mut().zip(paths).filter_map(|(path, link)| Some((path, link.address?)))
    }
}

/// The paths for which `is_one` holds.
#[inline]
fn those(paths: &[TransportPath], is_one: impl Fn(&TransportPath) -> bool) -> UsablePaths {
    UsablePaths(paths.iter().enumerate().fold(0, |bits, (at, path)| bits | u8::from(is_one(path)) << at))
}

/// The paths that can be used now.
#[inline]
fn usable(paths: &[TransportPath]) -> UsablePaths {
    those(paths, |path| path.unusable_reason().is_none())
}

/// The paths with a link error: the last resort.
#[cold]
fn with_link_error(paths: &[TransportPath]) -> UsablePaths {
    those(paths, |path| path.link_error.is_some())
}

impl Transport for Multipath {
    fn caps(&self) -> &Caps {
        &self.joint.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let Multipath { paths, joint, first, .. } = self;
        let mut taken = 0;
        (joint.turn, joint.usable) = (joint.turn + 1, usable(paths));
        for number in (*first..paths.len()).chain(0..*first) {
            let mut lost = 0;
            let received =
                paths[number].inner.receive(budget - taken, &mut |frame| match joint.on_frame(number, frame) {
                    Some(frame) => each(frame),
                    None => lost += 1,
                });
            taken += received - lost;
        }
        *first = (*first + 1) % paths.len();
        taken
    }

    #[inline]
    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        let class = classify(frame.bytes(), self.joint.ethertype);
        match (&class, self.joint.peers.index(to)) {
            // The result of a probe would hold for one path only.
            (FrameClass::Probe, _) => {
                self.count.lost_probes += 1;
                true
            }
            (FrameClass::Beacon(_), _) | (_, None) => self.flood(to, &class, frame),
            (_, Some(peer)) => self.send_to(peer, to, &class, frame),
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.paths.iter_mut().for_each(|path| path.inner.flush());
    }

    /// Until the first of the full paths is tried again.
    fn room_within(&self) -> Duration {
        let full = self.paths.iter().filter(|path| path.is_full());
        full.map(|path| path.inner.room_within()).min().unwrap_or_default()
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            // Every path of the address's kind gets the command.
            Command::AddPeer(address) | Command::RemovePeer(address) => {
                self.paths_of_kind(address)?.try_for_each(|path| path.inner.control(command))
            }
            Command::ReportLoss(to) => {
                let usable = usable(&self.paths);
                let peers = &mut self.joint.peers;
                if peers.index(to).is_some_and(|peer| peers.report_loss(peer, usable)) {
                    self.count.losses_reported += 1;
                }
                Ok(())
            }
            Command::AskAlive(Address::BROADCAST) => {
                self.paths.iter_mut().try_for_each(|path| path.inner.control(command))
            }
            Command::AskAlive(to) => {
                self.links(to).try_for_each(|(path, link)| path.inner.control(Command::AskAlive(link)))
            }
            Command::Introduce(frame) => {
                let (class, ethertype) = (classify(frame, self.joint.ethertype), self.joint.ethertype);
                self.paths.iter_mut().try_for_each(|path| {
                    let (mut frame, own) = (frame.to_vec(), path.inner.caps().address);
                    rewrite::readdress(&mut frame, (None, Some(own)), &class, ethertype);
                    path.inner.control(Command::Introduce(&frame))
                })
            }
            // Each path gets the template with its own addresses. A peer that is found on another path later is a `NewPath`.
            Command::RejectTemplate { flow, template } => self.links(template.to()).try_for_each(|(path, link)| {
                let template = &template.readdressed(link, path.inner.caps().address);
                path.inner.control(Command::RejectTemplate { flow, template })
            }),
            // The paths rewrite addresses to their own, and a peer knows one of them on each path.
            Command::AddAddress(address) => {
                let why =
                    "each of its transports has an address of its own, which stands for the node; use one transport";
                Err(PeerAddressError::not_served(&self.joint.caps, address, why))
            }
            Command::RemoveAddress(_) => Ok(()),
            // A group frame has its sender's address on one path, which is not the one on another.
            Command::LendQueue { .. } | Command::JoinGroup { .. } | Command::CopyStamped { .. } => {
                command.without_peers(&self.joint.caps)
            }
            Command::LeaveGroup(_) => Ok(()),
            Command::Steer { .. }
            | Command::RxFull(_)
            | Command::RxCredit(_)
            | Command::BeforeSleep
            | Command::Leave(_) => self.paths.iter_mut().try_for_each(|path| path.inner.control(command)),
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        let (mut changed, peers) = (false, &mut self.joint.peers);
        for (number, path) in self.paths.iter_mut().enumerate() {
            changed |= path.poll_notices(&mut |notice| match notice {
                // The peer may have left this path only.
                Notice::PeerGone(link) => {
                    peers.on_gone(number, link).into_iter().for_each(|to| each(Notice::PeerGone(to)))
                }
                Notice::PeerAlive(link) => {
                    peers.by_link(number, link).into_iter().for_each(|to| each(Notice::PeerAlive(to)))
                }
                // The node knows no address of a path.
                Notice::StrangerAlive(link) if peers.by_link(number, link).is_none() => {
                    each(Notice::StrangerAlive(Address::BROADCAST))
                }
                Notice::StrangerAlive(_) => {}
                other => each(other),
            });
        }
        peers.found.drain(..).for_each(|peer| each(Notice::NewPath(peer)));
        if changed {
            let why = self.paths.iter().map(|path| Some(format!("{}: {}", path.name(), path.link_error.as_ref()?)));
            self.link_error = why.collect::<Option<Vec<_>>>().map(|all| all.join("; "));
            if let Some(Err(error)) = self.waker.as_ref().map(JointWaker::watch) {
                tracing::error!(%error, "cannot wait for a path that has reopened");
            }
        }
        self.link_error.iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn peer(&self, at: Address) -> PeerInfo {
        let Some(peer) = self.joint.peers.index(at).map(|index| &self.joint.peers.all[index]) else {
            return PeerInfo::default();
        };
        let links = self.paths.iter().zip(&peer.paths);
        let addresses = links.filter_map(|(path, link)| path.inner.peer(link.address?).address);
        let address = Some(addresses.collect::<Vec<_>>().join("+")).filter(|addresses| !addresses.is_empty());
        PeerInfo { address, is_known: true, path: self.path_to(peer) }
    }

    fn read_memory(&mut self, of: Address, at: u64, into: &mut [u8]) -> bool {
        self.links(of).any(|(path, link)| path.inner.read_memory(link, at, into))
    }

    fn prefers_reading(&mut self, of: Address, bytes: u64) -> bool {
        self.links(of).any(|(path, link)| path.inner.prefers_reading(link, bytes))
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("paths_changed", self.count.changed);
        each("paths_suspected", self.count.losses_reported);
        each("paths_flooded", self.count.flooded);
        each("paths_readdressed", self.joint.rewritten + self.paths.iter().map(|path| path.rewritten).sum::<u64>());
        each("paths_lost_no_way", self.count.lost_no_path);
        each("paths_lost_full", self.count.lost_full);
        each("paths_lost_no_memory", self.joint.lost_no_memory);
        each("paths_lost_probes", self.count.lost_probes);
        // Two paths of a kind have counters of the same names.
        let mut sums = BTreeMap::new();
        self.paths
            .iter()
            .for_each(|path| path.inner.counters(&mut |name, value| *sums.entry(name).or_insert(0) += value));
        sums.into_iter().for_each(|(name, value)| each(name, value));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use am_transport::{TransportExt, loopback};
    use am_wire::control::{Beacon, Control, Incarnation, Name, NodeId, Purpose};
    use am_wire::frame::{self, LinkAddresses};
    use am_wire::{Flow, Framing, Framings, Header, Kind};

    use super::*;

    /// A carrier that sends only what was announced to it, as those outside of the process do.
    #[derive(Debug, Default)]
    struct Carrier(Mutex<Vec<u8>>);

    impl OutOfBand for Carrier {
        fn announce(&self, frame: &[u8]) {
            *self.0.lock().unwrap() = frame.to_vec();
        }

        fn broadcast(&self, frame: &[u8]) -> bool {
            *self.0.lock().unwrap() == frame
        }
    }

    #[test]
    fn each_path_is_told_its_heartbeat() {
        let addresses = [1, 2].map(|last| Address([2, 0, 0, 0, 0, last]));
        let carriers: [Arc<Carrier>; 2] = Default::default();
        let paths = addresses.into_iter().zip(carriers.clone().map(|carrier| carrier as Arc<dyn OutOfBand>)).collect();
        let joint = MultipathOutOfBand { paths, ethertype: EtherType::DEFAULT };
        let frame = [0; 60];
        assert!(!joint.broadcast(&frame), "nothing was announced");
        joint.announce(&frame);
        for (address, carrier) in addresses.into_iter().zip(&carriers) {
            assert_eq!(rewrite::source(&carrier.0.lock().unwrap()), Some(address));
        }
        assert!(joint.broadcast(&frame));
    }

    fn beacon_frame(caps: &Caps, to: Address, beacon: Beacon) -> Frame {
        let mut frame = caps.pool.take().expect("a frame");
        let space = frame.space().expect("its bytes");
        let mut body = [0; Control::MAX_BYTES];
        let length = Control::Beacon(Beacon { address: caps.address, ..beacon }).emit(&mut body);
        frame::body(space, Framing::Plain, length).expect("room").copy_from_slice(&body[..length]);
        let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
        let link = LinkAddresses { to, from: caps.address, ethertype: EtherType::DEFAULT };
        let length = frame::emit(space, Framing::Plain, &link, &header, length, None).expect("room");
        frame.set_len(length);
        frame
    }

    /// A node with two paths, and the far ends of both.
    fn two_paths() -> (Multipath, Vec<impl Transport>) {
        let mut far = vec![];
        let mut near = vec![];
        for [one, other] in [loopback::pair(), loopback::pair()] {
            near.push(Box::new(one.open().expect("memory")) as Box<dyn Transport>);
            far.push(other.open().expect("memory"));
        }
        (Multipath::new(near, EtherType::DEFAULT).expect("paths"), far)
    }

    fn beacon_from(address: Address) -> Beacon {
        let name = Name::new("beta").expect("a name");
        let (node, incarnation, framings) = (NodeId(7), Incarnation(1), Framings::ALL);
        Beacon { node, incarnation, name, address, framings, max_frame: 1514, purpose: Purpose::Announce }
    }

    /// A frame of a flow, for this peer.
    fn flow_frame(caps: &Caps, to: Address, flow: Flow) -> Frame {
        let mut frame = caps.pool.take().expect("a frame");
        let space = frame.space().expect("its bytes");
        let header = Header { kind: Kind::Request, flow, nonce: 1, handler: 0, words: 0, seq: 1 };
        let link = LinkAddresses { to, from: caps.address, ethertype: EtherType::DEFAULT };
        let length = frame::emit(space, Framing::Plain, &link, &header, 0, None).expect("room");
        frame.set_len(length);
        frame
    }

    #[test]
    fn a_path_with_a_link_error_is_the_last_resort() {
        let (mut near, mut far) = two_paths();
        let beacon = beacon_from(far[0].caps().address);
        let peer = near.joint.peers.on_beacon(0, &beacon);
        let (flow, other) = (Flow::new(3).expect("14 bits"), far[1].caps().address);
        far.iter_mut().for_each(|far| far.steer(flow, true));
        near.paths[0].link_error = Some("the file was removed".to_owned());
        let mut arrivals = |near: &mut Multipath, is_beacon| {
            let caps = &near.joint.caps;
            let frame = if is_beacon { beacon_frame(caps, peer, beacon) } else { flow_frame(caps, peer, flow) };
            assert!(near.send(peer, &frame));
            near.flush();
            [0, 1].map(|path| far[path].receive(64, &mut drop))
        };
        assert_eq!(arrivals(&mut near, false), [1, 0]);
        assert_eq!(arrivals(&mut near, true)[0], 1);
        assert_eq!(near.count.lost_no_path, 0);
        let why = near.peer(peer).path;
        assert!(why.is_some_and(|why| why.ends_with("(the only one that both have: the file was removed)")));
        near.joint.peers.on_beacon(1, &Beacon { address: other, ..beacon });
        assert_eq!(arrivals(&mut near, false), [0, 1], "the peer is on a usable path");
        assert_eq!(arrivals(&mut near, true), [0, 1]);
    }

    #[test]
    fn answers_to_a_peer_that_is_known_on_one_path_are_no_broadcasts_on_the_other() {
        let (mut near, mut far) = two_paths();
        let beacon = beacon_from(far[0].caps().address);
        let peer = near.joint.peers.on_beacon(0, &beacon);
        let mut arrived = [0; 2];
        let start = Instant::now();
        for _ in 0..100 {
            assert!(near.send(peer, &beacon_frame(&near.joint.caps, peer, beacon)));
            near.flush();
            for (far, arrived) in far.iter_mut().zip(&mut arrived) {
                *arrived += far.receive(64, &mut drop);
            }
        }
        assert_eq!(arrived[0], 100);
        let searches = 1 + start.elapsed().as_millis() as usize / 50;
        assert!((1..=searches).contains(&arrived[1]), "{} searches, not {searches}", arrived[1]);
    }
}
