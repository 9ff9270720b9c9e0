//! The connections with other processes, and what waits for them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, RequestError};
use am_base::Link;

use crate::packet::Packet;

/// The handler of all messages between members.
pub(crate) const HANDLER: HandlerId = HandlerId(0);
/// The most messages that wait for one process, and the most bytes. What is dropped beyond them is repaired like a loss.
const MOST_WAITING: usize = 4096;
const MOST_BYTES: usize = 64 << 20;
/// The pause before a connection is made again.
const PAUSE: Duration = Duration::from_millis(50);
/// A process that takes nothing for this time is not waited for.
const STALLED: Duration = Duration::from_millis(500);
/// A part of a longer message, unless the peer accepts less.
const PART: usize = 64 << 10;
/// A link is closed after this time without a message.
const UNUSED: Duration = Duration::from_secs(60);

/// Two connections with each node that has members: a beat or an answer does not wait behind long messages.
#[derive(Debug)]
pub(crate) struct Links {
    endpoint: String,
    /// By the node, and whether it is for long messages.
    links: BTreeMap<String, [Option<Waiting>; 2]>,
    /// Stands for the start of the node's clock, by which pauses are measured: in a simulation it is not the machine's.
    began: Instant,
    /// Messages that found no room.
    pub(crate) dropped: u64,
}

#[derive(Debug)]
struct Waiting {
    link: Link,
    queue: VecDeque<Packet>,
    /// Bytes of the first one that have left.
    left: usize,
    part: usize,
    /// Bytes of contents that wait.
    bytes: usize,
    /// By the node's clock.
    used_at: Duration,
    /// Since then something has waited, and nothing has left.
    stuck_since: Option<Duration>,
}

impl Links {
    /// Links with the endpoints of this name.
    pub(crate) fn new(endpoint: &str) -> Links {
        Links { endpoint: endpoint.into(), links: BTreeMap::new(), began: Instant::now(), dropped: 0 }
    }

    /// Queue a message for a node. `now` is the time of the endpoint.
    pub(crate) fn push(&mut self, now: Duration, node: &str, packet: Packet) {
        let new = || Waiting {
            link: Link::to(node, &*self.endpoint, 0),
            queue: VecDeque::new(),
            left: 0,
            part: PART,
            bytes: 0,
            used_at: now,
            stuck_since: None,
        };
        let links = match self.links.get_mut(node) {
            Some(links) => links,
            None => self.links.entry(node.into()).or_default(),
        };
        let waiting = links[usize::from(packet.is_long())].get_or_insert_with(new);
        if waiting.queue.len() >= MOST_WAITING || waiting.bytes >= MOST_BYTES {
            self.dropped += 1;
            return;
        }
        waiting.bytes += content_bytes(&packet);
        waiting.queue.push_back(packet);
    }

    /// Send what credit allows. Returns how many messages left.
    pub(crate) fn flush<S>(&mut self, endpoint: &Endpoint<S>) -> usize {
        let (mut sent, mut time) = (0, None);
        let all = self.links.values_mut().flatten().flatten();
        for waiting in all.filter(|waiting| !waiting.queue.is_empty()) {
            let time = *time.get_or_insert_with(|| endpoint.time());
            let left = waiting.flush(endpoint, time, self.began + time, &mut self.dropped);
            waiting.stuck_since = if left > 0 { None } else { waiting.stuck_since.or(Some(time)) };
            sent += left;
        }
        sent
    }

    /// Whether a message waits.
    pub(crate) fn has_more(&self) -> bool {
        self.links.values().flatten().flatten().any(|waiting| !waiting.queue.is_empty())
    }

    /// The nodes that have taken nothing for this time, though something was for them.
    pub(crate) fn unreached(&self, now: Duration, time: Duration) -> impl Iterator<Item = &str> {
        let is_stuck = move |waiting: &Waiting| waiting.stuck_since.is_some_and(|since| since + time <= now);
        let stuck = self.links.iter().filter(move |(_, links)| links.iter().flatten().any(is_stuck));
        stuck.map(|(node, _)| node.as_str())
    }

    /// Close what was not used for long.
    pub(crate) fn close_unused<S>(&mut self, endpoint: &Endpoint<S>) {
        let now = endpoint.time();
        let is_used = |waiting: &Waiting| !waiting.queue.is_empty() || waiting.used_at + UNUSED > now;
        for link in self.links.values_mut().flatten() {
            if let Some(unused) = link.take_if(|waiting| !is_used(waiting)) {
                unused.link.connection().into_iter().for_each(|to| endpoint.close(to));
            }
        }
        self.links.retain(|_, links| links.iter().any(Option::is_some));
    }

    /// The bytes of contents that wait for the process that is furthest behind. One that has taken nothing for long does not count.
    pub(crate) fn backlog(&self, now: Duration) -> usize {
        let takes = |waiting: &&Waiting| waiting.used_at + STALLED > now;
        self.links.values().flatten().flatten().filter(takes).map(|waiting| waiting.bytes).max().unwrap_or(0)
    }

    /// The connections on which messages were sent.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        self.links.values().flatten().flatten().filter_map(|waiting| waiting.link.connection()).collect()
    }
}

fn content_bytes(packet: &Packet) -> usize {
    if packet.is_content() { packet.payload.len() } else { 0 }
}

impl Waiting {
    /// `time` is the endpoint's, and `now` stands for it where pauses are measured.
    fn flush<S>(&mut self, endpoint: &Endpoint<S>, time: Duration, now: Instant, dropped: &mut u64) -> usize {
        let to = match self.link.connect(endpoint, now) {
            Ok(Some(to)) => to,
            // In a pause, or the node has no flow for another connection.
            Ok(None) | Err(_) => return 0,
        };
        let mut sent = 0;
        while let Some(packet) = self.queue.front() {
            let rest = packet.payload.len() - self.left;
            let is_part = packet.has_parts() && packet.payload.len() > self.part;
            let result = match is_part {
                true => {
                    let part = &packet.payload[self.left..self.left + rest.min(self.part)];
                    endpoint.try_request(to, HANDLER, &packet.part_words(self.left), part)
                }
                false => endpoint.try_request(to, HANDLER, packet.words(), &packet.payload),
            };
            match result {
                Ok(()) => {
                    (self.used_at, sent) = (time, sent + 1);
                    if is_part && rest > self.part {
                        self.left += self.part;
                        continue;
                    }
                }
                Err(error) if error.is_temporary() => break,
                Err(RequestError::TooLarge { most, .. }) if packet.has_parts() && (1..self.part).contains(&most) => {
                    (self.part, self.left) = (most, 0);
                    continue;
                }
                Err(RequestError::TooLarge { .. }) => *dropped += 1,
                Err(_) => {
                    // What waits is old when the process answers again: the protocol says anew what matters.
                    *dropped += self.queue.len() as u64;
                    self.queue.clear();
                    (self.bytes, self.left, self.part) = (0, 0, PART);
                    self.link.end(now + PAUSE);
                    return 0;
                }
            }
            self.bytes -= content_bytes(packet);
            self.left = 0;
            self.queue.pop_front();
        }
        sent
    }
}
