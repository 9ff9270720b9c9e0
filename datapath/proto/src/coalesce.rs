//! Output: coalescing. Small messages of one flow and class that are ready together share a frame. No message waits for
//! another: one that is ready alone leaves alone.
//!
//! Each message keeps its own slot and its own frame, and is copied from there. So a lost message is sent again, alone
//! or in another coalesced frame, and an undeliverable one comes back, as if each had had a frame of its own.

use am_wire::coalesced::{MESSAGE_HEADER, Writer};
use am_wire::frame::{self, LinkAddresses as Wire};
use am_wire::{Buffer, Class, Header, Kind, Seq};

use crate::flow::Route;
use crate::node::Core;
use crate::output::Transmit;
use crate::reordering::LOSS_THRESHOLD;
use crate::slots::{Skip, SlotIndex};

/// The most messages in a coalesced frame. When the frame is lost, a selective acknowledgement must still cover enough
/// later messages to report the loss.
const MAX_COALESCED: usize = u64::BITS as usize + 1 - LOSS_THRESHOLD as usize;

/// The first message of a coalesced frame, and where the frame goes.
struct FirstMessage {
    link: SlotIndex,
    class: Class,
    seq: Seq,
    route: Route,
}

impl<B: Buffer> Core<B> {
    /// Send the message at `link` in one frame with the messages of its flow and class that are ready behind it. `None`
    /// if no other message is ready, if two do not fit, or if there is no fresh frame: the message then leaves alone.
    #[inline(never)]
    pub(crate) fn transmit_coalesced(
        &mut self,
        link: SlotIndex,
        fresh: &mut dyn FnMut() -> Option<B>,
    ) -> Option<Transmit<B>> {
        let slot = &self.slots[link];
        let (class, seq, flow, next, body) = (slot.class, slot.seq, slot.flow, slot.next, slot.body);
        let second = self.slots.coalescable(next, self.config.coalesce_below)?.body;
        let route = self.flows.by_flow(flow)?.route;
        if 2 * MESSAGE_HEADER as u32 + body + second > route.max_body {
            return None;
        }
        let mut frame = fresh()?;
        let length = self.write_coalesced(frame.space()?, &FirstMessage { link, class, seq, route })?;
        frame.set_len(length);
        Some(Transmit { to: route.to, frame })
    }

    /// Write the whole frame. Returns its length.
    fn write_coalesced(&mut self, space: &mut [u8], head: &FirstMessage) -> Option<usize> {
        let Route { to, flow, nonce, framing, max_body, .. } = head.route;
        // This clears the padding of a short frame, before the messages are written.
        frame::body(space, framing, 0).ok()?;
        let at = framing.body_at();
        let end = space.len().min(at + max_body as usize);
        let body = self.write_messages(&mut space[at..end], head.link, at);
        let header = Header { kind: Kind::Coalesced(head.class), flow, nonce, handler: 0, words: 0, seq: head.seq.0 };
        let wire = Wire { to, from: self.config.address, ethertype: self.config.ethertype };
        let record = self.flows.by_flow(self.slots[head.link].flow)?;
        let piggyback = frame::has_room_for_piggyback(framing, body).then(|| record.take_piggyback());
        self.counters.piggybacks_sent += piggyback.is_some() as u64;
        if piggyback.is_none() && head.class == Class::Reply {
            record.queue_ack_after_reply(&mut self.sending.acks_due);
        }
        self.counters.bundles_sent += 1;
        frame::emit(space, framing, &wire, &header, body, piggyback.as_ref()).ok()
    }

    /// Write as many messages as fit. Returns how many bytes they take.
    fn write_messages(&mut self, space: &mut [u8], head: SlotIndex, body_at: usize) -> usize {
        let mut writer = Writer::new(space);
        let mut link = head;
        for behind in 0..MAX_COALESCED as u8 {
            let slot = &mut self.slots[link];
            let Some(frame) = &slot.frame else { break };
            let Some(body) = frame.bytes().get(body_at..body_at + slot.body as usize) else { break };
            if !writer.push(slot.handler, slot.words, body) {
                break;
            }
            // The first message was popped from the ready queue. The others are still in it, and are skipped when their
            // turn comes.
            if slot.queued {
                slot.skip = Skip::Coalesced;
            }
            self.counters.bundled_sent += 1;
            self.counters.retransmitted += slot.note_sent() as u64;
            self.deferred.just_sent.push(link);
            let next = slot.next;
            self.slots[head].sharing = behind;
            if self.slots.coalescable(next, self.config.coalesce_below).is_none() {
                break;
            }
            link = next;
        }
        writer.length()
    }
}
