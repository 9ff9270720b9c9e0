//! The send path. The transport pushes frames into a queue of 256, and `flush` sends them with as few system calls as
//! possible. When the queue is full, `push` returns `false`.

use std::array;
use std::io::IoSlice;
use std::net::UdpSocket;

use am_ring::Frame;
use am_wire::Buffer;
use nix::sys::socket::{setsockopt, sockopt};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, send, sendmmsg, sendto};

use super::peer_table::{PeerKey, PeerTable};
use super::plan::{BATCH, Call};
use super::refusals::Refusals;

/// The most frames that wait for a flush.
const MAX_QUEUED: usize = 256;
/// The most messages of a call that sets up a smaller array.
const MESSAGES_PER_CHEAP_CALL: usize = 8;
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// A single peer. If its entry is removed before the frame is sent, the frame is dropped.
    One(PeerKey),
    /// All peers that are known when it is sent.
    All,
}

#[derive(Debug)]
pub(super) struct Sender {
    queue: Vec<(To, Frame)>,
    /// Whether the socket is connected, so that messages need no address.
    is_connected: bool,
    /// Whether the kernel splits runs.
    gso: bool,
    /// The segment length that is set on the socket; 0 if none.
    segment: usize,
    /// Whether a filter of system calls refuses `sendmmsg` and not `sendto`: then each frame is a call.
    is_one_by_one: bool,
    pub(super) refusals: Refusals,
    pub(super) counters: SendCounters,
}

#[derive(Debug, Default)]
pub(super) struct SendCounters {
    pub(super) sent: u64,
    pub(super) calls: u64,
    /// Messages that the kernel has split.
    pub(super) gso: u64,
    pub(super) gso_refused: u64,
    pub(super) full: u64,
    pub(super) no_room: u64,
    pub(super) forgotten: u64,
    pub(super) refused: u64,
    pub(super) path: u64,
    pub(super) unreachable: u64,
    pub(super) no_buffers: u64,
    pub(super) other: u64,
}

impl Sender {
    pub(super) fn new(gso: bool, is_connected: bool) -> Sender {
        Sender {
            queue: Vec::with_capacity(MAX_QUEUED),
            is_connected,
            gso,
            segment: 0,
            is_one_by_one: false,
            refusals: Refusals::new(is_connected),
            counters: SendCounters::default(),
        }
    }

    /// Queue a frame, if there is room.
    #[inline]
    pub(super) fn push(&mut self, to: To, frame: &Frame) -> bool {
        let has_room = self.queue.len() < MAX_QUEUED;
        if has_room {
            self.queue.push((to, frame.share()));
        } else {
            self.counters.full += 1;
        }
        has_room
    }

    /// Send the queued frames, until the socket is full.
    #[inline]
    pub(super) fn flush(&mut self, socket: &UdpSocket, peers: &PeerTable) {
        if self.queue.is_empty() {
            return;
        }
        let mut done = 0;
        while done < self.queue.len() {
            let step = match self.queue[done].0 {
                To::One(_) => self.batch(socket, peers, done),
                To::All => self.flood(socket, peers, done),
            };
            // `None`: the socket is full.
            let Some(frames) = step else { break };
            done += frames;
        }
        self.queue.drain(..done);
    }

    /// Send frames for single peers, from `start` on. Returns how many were sent or dropped; `None` if the socket is full.
    fn batch(&mut self, socket: &UdpSocket, peers: &PeerTable, start: usize) -> Option<usize> {
        let queue = &self.queue[start..];
        let frames = queue.iter().take(BATCH).take_while(|(to, _)| socket_address_of(peers, *to).is_some()).count();
        match frames {
            0 => {
                self.counters.forgotten += 1;
                Some(1)
            }
            1 => self.send_one(socket, peers, start),
            _ if self.is_one_by_one => self.send_one(socket, peers, start),
            _ => {
                let call = Call::plan(frames, |at| (queue[at].0, queue[at].1.bytes().len()), self.gso);
                if call.frames == 1 {
                    self.send_one(socket, peers, start)
                } else {
                    self.send_planned(socket, peers, start, &call)
                }
            }
        }
    }

    fn send_one(&mut self, socket: &UdpSocket, peers: &PeerTable, at: usize) -> Option<usize> {
        let to = self.queue[at].0;
        let Some(raw) = socket_address_of(peers, to) else { return Some(1) };
        self.counters.calls += 1;
        self.ensure_unsplit(socket, self.queue[at].1.bytes().len());
        match self.call(socket, at, raw) {
            Ok(_) => {
                self.counters.sent += 1;
                Some(1)
            }
            Err(error) => self.failed(to, error, 1),
        }
    }

    #[inline]
    fn call(&self, socket: &UdpSocket, at: usize, to: &SocketAddrAny) -> Result<usize, Errno> {
        let bytes = self.queue[at].1.bytes();
        if self.is_connected { send(socket, bytes, FLAGS) } else { sendto(socket, bytes, FLAGS, to) }
    }

    fn send_planned(&mut self, socket: &UdpSocket, peers: &PeerTable, start: usize, call: &Call) -> Option<usize> {
        if call.segment > 0 && call.segment != self.segment {
            self.set_segment(socket, call.segment);
        }
        if call.segment == 0 {
            self.ensure_unsplit(socket, call.longest_single);
        }
        self.counters.calls += 1;
        let queue = &self.queue[start..start + call.frames];
        let result = if call.messages <= MESSAGES_PER_CHEAP_CALL && call.frames <= MESSAGES_PER_CHEAP_CALL {
            send_many::<MESSAGES_PER_CHEAP_CALL>(socket, peers, queue, call, self.is_connected)
        } else {
            send_many::<BATCH>(socket, peers, queue, call, self.is_connected)
        };
        let first = call.runs[0] as usize;
        match result {
            Ok(messages) => {
                let runs = &call.runs[..messages];
                let frames = runs.iter().map(|run| *run as usize).sum();
                self.counters.gso += runs.iter().filter(|run| **run > 1).count() as u64;
                self.counters.sent += frames as u64;
                Some(frames)
            }
            Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE) if self.segment > 0 => {
                self.send_singly(socket, peers, start, first, result == Err(Errno::IO))
            }
            Err(Errno::PERM | Errno::NOSYS) if first == 1 => self.try_one_by_one(socket, peers, start),
            Err(error) => self.failed(self.queue[start].0, error, first),
        }
    }

    /// The kernel refuses `sendmmsg`. If it accepts a single message, later messages are sent singly too.
    #[cold]
    fn try_one_by_one(&mut self, socket: &UdpSocket, peers: &PeerTable, start: usize) -> Option<usize> {
        let before = self.counters.sent;
        let step = self.send_one(socket, peers, start);
        self.is_one_by_one = self.counters.sent > before;
        step
    }

    /// The path of these frames does not support GSO: send each frame alone. `never` means that the device does not support
    /// it: never use it again.
    #[cold]
    fn send_singly(
        &mut self,
        socket: &UdpSocket,
        peers: &PeerTable,
        start: usize,
        frames: usize,
        never: bool,
    ) -> Option<usize> {
        self.counters.gso_refused += 1;
        self.gso &= !never;
        self.set_segment(socket, 0);
        for at in 0..frames {
            if self.send_one(socket, peers, start + at).is_none() {
                return (at > 0).then_some(at);
            }
        }
        Some(frames)
    }

    /// Send a frame to all peers. Floods are rare, so each datagram is a call.
    #[cold]
    fn flood(&mut self, socket: &UdpSocket, peers: &PeerTable, at: usize) -> Option<usize> {
        self.ensure_unsplit(socket, self.queue[at].1.bytes().len());
        for (peer, raw) in peers.all() {
            self.counters.calls += 1;
            match self.call(socket, at, raw) {
                Ok(_) => {
                    self.counters.sent += 1;
                    self.refusals.remove(peer);
                }
                // Other peers already have the frame and must not get it twice, so it cannot be tried again later.
                Err(Errno::AGAIN) => self.counters.no_room += 1,
                Err(error) => _ = self.failed(To::One(peer), error, 1),
            }
        }
        Some(1)
    }

    /// Frames to a peer could not be sent.
    #[cold]
    fn failed(&mut self, to: To, error: Errno, frames: usize) -> Option<usize> {
        if let To::One(peer) = to {
            self.refusals.insert(peer, error);
        }
        self.count_failed(error, frames)
    }

    /// Count frames that could not be sent as lost. `None` if the socket is only full. In each case it stays usable.
    #[cold]
    fn count_failed(&mut self, error: Errno, frames: usize) -> Option<usize> {
        let lost = match error {
            Errno::AGAIN => return None,
            // An ICMP error for an earlier frame. The kernel reports it in place of sending this frame.
            Errno::CONNREFUSED => &mut self.counters.refused,
            Errno::MSGSIZE => &mut self.counters.path,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN | Errno::ADDRNOTAVAIL => {
                &mut self.counters.unreachable
            }
            Errno::NOBUFS | Errno::NOMEM => &mut self.counters.no_buffers,
            _ => &mut self.counters.other,
        };
        *lost += frames as u64;
        Some(frames)
    }

    /// Make sure that a message of this length is not split.
    #[inline]
    fn ensure_unsplit(&mut self, socket: &UdpSocket, len: usize) {
        if self.segment != 0 && len > self.segment {
            self.set_segment(socket, 0);
        }
    }

    fn set_segment(&mut self, socket: &UdpSocket, segment: usize) {
        // This cannot fail: GSO was tested when the socket was opened, and the length fits two bytes.
        if setsockopt(socket, sockopt::UdpGsoSegment, &(segment as i32)).is_ok() {
            self.segment = segment;
        }
    }
}

/// Make one system call. Returns the number of messages sent.
fn send_many<const N: usize>(
    socket: &UdpSocket,
    peers: &PeerTable,
    queue: &[(To, Frame)],
    call: &Call,
    is_connected: bool,
) -> Result<usize, Errno> {
    let pieces: [IoSlice<'_>; N] =
        array::from_fn(|at| IoSlice::new(queue.get(at).map_or(&[][..], |(_, frame)| frame.bytes())));
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; N] = array::from_fn(|_| SendAncillaryBuffer::default());
    let mut start = 0;
    let mut runs = call.runs[..call.messages].iter();
    let mut messages = controls.each_mut().map(|control| {
        let run = runs.next().map_or(0, |run| *run as usize);
        start += run;
        let pieces = &pieces[start - run..start];
        match queue.get(start - run).and_then(|(to, _)| socket_address_of(peers, *to)) {
            Some(to) if run > 0 && !is_connected => MMsgHdr::new_with_addr(to, pieces, control),
            _ => MMsgHdr::new(pieces, control),
        }
    });
    sendmmsg(socket, &mut messages[..call.messages], FLAGS)
}

fn socket_address_of(peers: &PeerTable, to: To) -> Option<&SocketAddrAny> {
    match to {
        To::One(key) => peers.get(key),
        To::All => None,
    }
}
