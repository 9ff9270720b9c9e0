//! Heartbeats of programs that do not poll. When a program opens its node, it gives the daemon its heartbeat, a frame that announces that
//! the node lives. The daemon sends this frame while the program leaves frames unread, because a handler takes long or the program is
//! stopped. A program whose frames arrive on a queue of its own asks for each heartbeat, because the daemon does not see its backlog.

use std::time::{Duration, Instant};

use crate::judge::Ruling;
use crate::switch::Switch;

/// The interval of the checks, and of the heartbeats of one program.
const INTERVAL: Duration = Duration::from_millis(200);

impl Switch {
    /// Send the heartbeats of the programs that have not read their frames since the last check.
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

    /// Handle a packet in which a program gives its heartbeat, or asks the daemon to send it.
    pub(crate) fn on_heartbeat(&mut self, number: usize, frame: &[u8]) {
        let member = self.members[number].as_deref_mut();
        if member.is_some_and(|member| member.heartbeat.on_packet(frame)) {
            self.send_heartbeat(number, Instant::now());
        }
    }

    /// Broadcast a program's heartbeat, if the filter allows the frame, as if the program had sent it now.
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
