//! A member of a simulated group.

use std::time::Duration;

use am_api::{Incarnation, Node};
use am_measure::hosts::world::{Nanos, Seat, Simulated};
use am_measure::{DriverOptions, Error, drivers::facility};
use am_ordered::{Delivered, Epoch, Group, Level, MemberId, Replica, SendError, Settings};

const GROUP: &str = "am-bench";

/// Counts what is delivered.
#[derive(Debug, Default)]
struct Log {
    count: u64,
    /// Of these, own messages.
    own: u64,
    has_wrong: bool,
}

impl Replica for Log {
    fn deliver(&mut self, message: &Delivered<'_>) {
        self.count += 1;
        self.own += u64::from(message.own.is_some());
        self.has_wrong |= !message.payload.is_empty();
    }

    /// One that joins has not seen what was before.
    fn restore(&mut self, _: &[u8]) {
        *self = Log::default();
    }
}

/// What a member does besides receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    Nothing,
    /// A null message at this level, as soon as it has its last one.
    InTurn(Level),
    /// As many as this, on their way at once.
    Stream(Level, u64),
}

pub(super) struct Member {
    group: Group<Log>,
    sends: Sends,
    /// Messages before the measurement: all, and own ones.
    before: (u64, u64),
    pub(super) sent: u64,
    /// Of a sender in turn.
    pub(super) sent_at: Vec<Nanos>,
    /// When each message was delivered, while some member sends in turn.
    pub(super) delivered_at: Option<Vec<Nanos>>,
}

fn name(at: usize) -> String {
    format!("m{at}")
}

impl Member {
    /// The first one founds the group, the others join it.
    pub(super) fn open(seat: Seat, how: DriverOptions, settings: Settings) -> Result<Member, Error> {
        let run = Incarnation(seat.at as u64 + 1);
        let builder = Node::builder(&name(seat.at)).clock(seat.clock, run).coalesce(how.coalesce);
        let builder = how.framing.fixed().into_iter().fold(builder, am_api::Builder::framing);
        let known = seat.addresses.iter().enumerate().filter(|(at, _)| *at != seat.at);
        let builder = known.fold(builder, |builder, (at, address)| builder.peer(&name(at), *address));
        let node = builder.open_on(seat.transport).map_err(facility)?;
        let (id, contact) = (MemberId(seat.at as u64 + 1), name(0));
        let contact = Some(&*contact).filter(|_| seat.at > 0);
        let group = Group::simulated(&node, GROUP, (id, contact), settings, Log::default());
        Ok(Member {
            group: group.map_err(facility)?,
            sends: Sends::Nothing,
            before: (0, 0),
            sent: 0,
            sent_at: vec![],
            delivered_at: None,
        })
    }

    /// Begin a measurement, in which some members send in turn, or none does.
    pub(super) fn begin(&mut self, sends: Sends, is_in_turn: bool) {
        let log = self.group.replica();
        (self.sends, self.before, self.sent) = (sends, (log.count, log.own), 0);
        (self.sent_at, self.delivered_at) = (vec![], is_in_turn.then(Vec::new));
    }

    pub(super) fn stop(&mut self) {
        self.sends = Sends::Nothing;
    }

    /// Messages that were delivered here since the measurement began.
    pub(super) fn count(&self) -> u64 {
        self.group.replica().count - self.before.0
    }

    pub(super) fn is_whole(&self, members: usize) -> bool {
        self.group.view().members.len() == members && self.group.is_primary()
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.group.view().epoch
    }

    /// Whether any message had a content.
    pub(super) fn has_wrong(&self) -> bool {
        self.group.replica().has_wrong
    }

    /// Messages that came again, those that got no number, and those that found no room.
    pub(super) fn troubles(&self) -> [u64; 3] {
        let counters = self.group.counters();
        [counters.protocol.repaired, counters.protocol.not_stamped, counters.dropped]
    }

    /// Why the network does not stamp, if this member is the sequencer.
    pub(super) fn stamps(&self) -> String {
        match self.group.stamps_in_network() {
            Ok(()) => "the network stamps".to_owned(),
            Err(why) => format!("the sequencer's process stamps: {why}"),
        }
    }

    fn send(&mut self, level: Level) -> Result<bool, Error> {
        match self.group.send(level, []) {
            Ok(_) => Ok(true),
            Err(SendError::Full(_)) => Ok(false),
            Err(why) => Err(Error::Lost(why.to_string())),
        }
    }
}

impl Simulated for Member {
    fn turn(&mut self, now: Nanos) -> Result<bool, Error> {
        let handled = self.group.poll();
        if let Some(why) = self.group.ended() {
            return Err(Error::Lost(format!("the group has put a member out: {why:?}")));
        }
        let (before, own) = (self.sent, self.group.replica().own - self.before.1);
        match self.sends {
            Sends::Nothing => {}
            Sends::InTurn(level) => {
                if self.sent == own && self.send(level)? {
                    self.sent += 1;
                    self.sent_at.push(now);
                }
            }
            Sends::Stream(level, window) => {
                while self.sent - own < window && self.send(level)? {
                    self.sent += 1;
                }
            }
        }
        let count = self.count() as usize;
        if let Some(times) = &mut self.delivered_at {
            times.resize(count, now);
        }
        Ok(handled > 0 || self.sent > before)
    }
}

/// A time as virtual time.
pub(super) fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}
