//! A member of our group.

use std::time::Duration;

use am_api::Node;
use am_measure::Error;
use am_measure::drivers::facility;
use am_measure::members::name;
use am_ordered::{Delivered, Dissemination, Event, Group, Level, Replica, SendError, Settings};

use super::{Member, Shared};
use crate::protocol::Opening;
use crate::work::Stack;

const GROUP: &str = "am-bench";

/// Counts what is delivered.
struct Log {
    seen: Shared,
    returned: bool,
}

impl Replica for Log {
    fn deliver(&mut self, message: &Delivered<'_>) {
        self.seen.lock().delivered(message.own.is_some(), message.payload);
    }

    fn event(&mut self, event: &Event) {
        self.returned |= matches!(event, Event::Returned { .. });
    }
}

pub(super) struct Ours {
    group: Group<Log>,
    level: Level,
    members: usize,
    /// Whether it is to be found out that the XDP program gives the numbers.
    is_judged: bool,
}

impl Ours {
    pub(super) fn open(node: &Node, opening: &Opening, seen: Shared) -> Result<Ours, Error> {
        let level = if opening.stack == Stack::Safe { Level::Safe } else { Level::Agreed };
        let dissemination = match opening.stack {
            stack if stack.copies() => Dissemination::Copies,
            Stack::Fetch => Dissemination::Fetch,
            _ => Dissemination::Multicast,
        };
        let stamp_in_process = matches!(opening.stack, Stack::AgreedHost | Stack::CopiesHost);
        let log = Log { seen, returned: false };
        let settings = Settings { dissemination, stamp_in_process, ..Settings::default() };
        let group = match opening.seat.index {
            0 => Group::found(node, GROUP, settings, log),
            _ => Group::join(node, GROUP, &[name(0)], settings, log),
        };
        let is_judged = opening.seat.index == 0 && matches!(opening.stack, Stack::Copies | Stack::Fetch);
        Ok(Ours { group: group.map_err(facility)?, level, members: opening.seat.members, is_judged })
    }

    /// A row that is called after the XDP program must not be the process's.
    fn judge(&mut self) -> Result<(), Error> {
        if !self.is_judged || !self.is_whole() {
            return Ok(());
        }
        self.is_judged = false;
        self.group.stamps_in_network().map_err(Error::Refused)
    }
}

impl Member for Ours {
    fn send(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        match self.group.send(self.level, bytes) {
            Ok(_) => Ok(true),
            Err(SendError::Full(_)) => Ok(false),
            Err(why) => Err(Error::Lost(why.to_string())),
        }
    }

    fn turn(&mut self, longest: Duration) -> Result<(), Error> {
        self.group.wait(longest);
        self.judge()?;
        if self.group.replica().returned {
            return Err(Error::Lost(
                "own messages came back: members were silent, and the group went on without them".into(),
            ));
        }
        match self.group.ended() {
            None => Ok(()),
            Some(why) => Err(Error::Lost(format!("the group has put this member out: {why:?}"))),
        }
    }

    fn is_whole(&self) -> bool {
        self.group.view().members.len() == self.members && self.group.is_primary()
    }

    fn leads(&self) -> bool {
        self.group.view().sequencer == self.group.me()
    }
}
