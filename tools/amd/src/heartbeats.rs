//! Heartbeats of programs that do not poll. A program gives its heartbeat, a frame that says that it lives, when it opens its
//! node. The daemon sends it while the program leaves frames unread: its handler takes long, or it is stopped. The program also
//! asks for it, in case its frames come by a queue of its own.

use std::time::{Duration, Instant};

use crate::judge::Ruling;
use crate::switch::Switch;

/// The time between two looks, and between two heartbeats of a program.
const INTERVAL: Duration = Duration::from_millis(200);

impl Switch {
    /// Look how far the programs have read, now and then.
    pub(crate) fn send_heartbeats(&mut self, now: Instant) {
        if now < self.next_heartbeats {
            return;
        }
        self.next_heartbeats = now + INTERVAL;
        for nth in 0.. {
            let Some(number) = self.schedule.port(nth) else { break };
            let Some(member) = self.members[number].as_deref_mut() else { continue };
            let Some(port) = &mut member.port else { continue };
            if member.heartbeat.is_due(port.unread_from()) {
                self.send_heartbeat(number, now);
            }
        }
    }

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
        self.deliver_to_all(&frame, Some(number));
        self.publish();
        self.pool.copy(&frame).iter().for_each(|frame| self.send_once(frame));
    }
}
