//! Heartbeats of programs that do not poll. A program gives its heartbeat, a frame that says that it lives, when it opens its
//! node. The daemon sends it while the program leaves frames unread: its handler takes long, or it is stopped. The program also
//! asks for it, in case its frames come by a queue of its own.

use std::time::{Duration, Instant};

use crate::Daemon;
use crate::judge::Ruling;
use crate::switch::Switch;

/// The time between two looks, and between two heartbeats of a program.
const INTERVAL: Duration = Duration::from_millis(200);
/// A program that has read nothing in this many looks does not poll.
const LOOKS: u32 = 2;

/// A program's heartbeat, and how far it reads.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    frame: Vec<u8>,
    unread_from: Option<u32>,
    looks: u32,
    sent_at: Option<Instant>,
}

impl Heartbeat {
    /// The program gives its frame, or asks for it. Returns whether it is to be sent now.
    fn on_packet(&mut self, frame: &[u8]) -> bool {
        let is_repeated = self.frame == frame;
        if !is_repeated {
            self.frame = frame.to_vec();
        }
        is_repeated
    }

    /// Whether the program leaves frames unread.
    fn is_due(&mut self, unread_from: Option<u32>) -> bool {
        self.looks = if unread_from.is_some() && unread_from == self.unread_from { self.looks + 1 } else { 0 };
        self.unread_from = unread_from;
        self.looks >= LOOKS
    }
}

impl Daemon {
    /// Look how far the programs have read, now and then.
    pub(crate) fn send_heartbeats(&mut self, now: Instant) {
        if now < self.next_heartbeats {
            return;
        }
        self.next_heartbeats = now + INTERVAL;
        for number in self.switch.schedule.ports().collect::<Vec<_>>() {
            let Some(member) = self.switch.members[number].as_deref_mut() else { continue };
            let Some(port) = &mut member.port else { continue };
            if member.heartbeat.is_due(port.unread_from()) {
                self.switch.send_heartbeat(number, now);
            }
        }
    }
}

impl Switch {
    /// A program gives its heartbeat, or asks for it.
    pub(crate) fn on_heartbeat(&mut self, number: usize, frame: &[u8]) {
        let member = self.members[number].as_deref_mut();
        if member.is_some_and(|member| member.heartbeat.on_packet(frame)) {
            self.send_heartbeat(number, Instant::now());
        }
    }

    /// Send a program's heartbeat to all, if its frame may pass: as if the program had sent it now.
    fn send_heartbeat(&mut self, number: usize, now: Instant) {
        let Some(member) = self.members[number].as_deref_mut() else { return };
        let is_soon = member.heartbeat.sent_at.is_some_and(|sent_at| now - sent_at < INTERVAL / 2);
        if is_soon || member.guard.judge(&member.heartbeat.frame) != Ok(Ruling::Everyone) {
            return;
        }
        member.heartbeat.sent_at = Some(now);
        let frame = member.heartbeat.frame.clone();
        self.broadcast(number, &frame);
    }
}
