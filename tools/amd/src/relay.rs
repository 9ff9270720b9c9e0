//! The fast path between two ports: a message on the flow of the message before goes from lane to lane, with one copy.
//!
//! ```text
//!   lane of A ── head ──▶ copied, judged ──▶ lane of B
//!            └── rest ─────────────────────▶
//! ```
//!
//! The daemon reads only the head of such a message: destination, source and flow. It checks its own copy of the head and writes that
//! copy to the receiver, so the receiver gets the head that was checked. A program that changes the rest during the copy changes only its
//! own message.

use am_ring::lane::Relayed;
use am_wire::frame::MIN_FRAME;

use crate::judge::{Refusal, destination};
use crate::switch::{Step, Switch};

impl Switch {
    /// Relay the next frame of a port, which has this length. `None` if the frame needs the slow path (a full check, or the wire); then it
    /// stays in the lane.
    #[inline]
    pub(crate) fn relay(&mut self, from: usize, length: usize) -> Option<Step> {
        let member = self.members[from].as_deref().filter(|member| member.relays)?;
        let mut head = [0; MIN_FRAME];
        if !member.port.as_ref()?.lanes.from.read_head(&mut head, length) || !member.guard.grants.allows_same(&head) {
            return None;
        }
        let to = self.port_at(destination(&head))?;
        let [member, receiver] = self.members.get_disjoint_mut([from, to]).ok()?;
        let (member, receiver) = (member.as_deref_mut()?, receiver.as_deref_mut()?);
        let far = receiver.port.as_mut()?;
        let relayed = far.lanes.to.relay(&mut member.port.as_mut()?.lanes.from, &head, length);
        member.counts.sent += 1;
        let came_alone = member.came_alone();
        match relayed {
            Relayed::Moved => {
                receiver.counts.delivered += 1;
                if came_alone {
                    far.publish();
                } else {
                    self.dirty |= 1 << to;
                }
            }
            Relayed::Full => receiver.counts.dropped += 1,
            Relayed::Gone => return Some(self.refuse(from, Refusal::Malformed)),
        }
        Some(if came_alone { Step::Last } else { Step::Moved })
    }
}
