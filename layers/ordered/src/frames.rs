//! Messages as frames of the group: one frame reaches all members, and where the network's program can, it numbers the frame on the way.
//!
//! ```text
//!   sender ──to stamp──▶ the sequencer's host: its XDP program, or its process
//!                                     │ one Ethernet multicast
//!   sender ◀──────────── stamped ─────┴──────────────▶ the other members
//!     └──── echo ───────▶ the sequencer's process, if its program has stamped (decision 183)
//! ```
//!
//! What is lost is repaired by messages between two members. A view whose members are not all on such a network uses no frames.

use am_api::group_frames::{GroupFrame, GroupHeader};
use am_api::{Address, Endpoint, GroupMessage, Multicast, MulticastSendError};
use am_ordered_core::{Content, Core, Level, Member, MemberId, Message, StampTable, Stamped, View};
use bytes::Bytes;

use crate::packet::{content, form};

/// The frames of a group that this process has joined.
pub(crate) struct Frames {
    multicast: Multicast,
    /// Stamped frames that arrived, and those that were sent to the sequencer's process.
    pub(crate) stamped: u64,
    pub(crate) echoed: u64,
}

/// A flag of a stamped frame: the sequencer's process has the message.
const IS_HELD: u8 = 1 << 7;

/// A frame that makes no sense.
pub(crate) struct Malformed;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// It left as a frame.
    Sent,
    /// The transport has no room for a frame at this moment.
    Full,
    /// It is none for a frame, or too long for one.
    NoFrame,
}

impl Frames {
    /// Join the frames of a group. `None` if the network does not multiply them.
    pub(crate) fn join<S>(
        endpoint: &mut Endpoint<S>,
        group: u64,
        run: impl FnMut(&mut S, GroupMessage<'_, S>) + 'static,
    ) -> Option<Frames> {
        let multicast = endpoint.join_group(group, run).ok()?;
        multicast.is_one_frame().then_some(Frames { multicast, stamped: 0, echoed: 0 })
    }

    pub(crate) fn group(&self) -> u64 {
        self.multicast.group()
    }

    /// The address to which the frames go.
    pub(crate) fn address(&self) -> Address {
        am_api::group_frames::address(self.group())
    }

    /// Why the network does not stamp, or the table in which it does, if this member becomes the sequencer. `now` is the member's time.
    pub(crate) fn table(&self, now: am_ordered_core::Time) -> Result<StampTable, &str> {
        let clock = Multicast::lease_clock().saturating_sub(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        Ok(StampTable { stamps: self.multicast.stamps()?.clone(), key: self.multicast.key(), clock })
    }

    /// Send a message as a frame.
    pub(crate) fn send(&self, view: &View, me: MemberId, message: &Message) -> Sending {
        let Some(slot) = view.slot(me).filter(|_| view.has_links() && view.group == self.group()) else {
            return Sending::NoFrame;
        };
        match message {
            Message::Submit { epoch, seq, level, content } => {
                let (flags, payload) = form(*level, content);
                let header = GroupHeader { flags, ..GroupHeader::to_stamp(view.group, epoch.0, slot as u16, *seq) };
                let sequencer = view.members.iter().find(|member| member.id == view.sequencer);
                sequencer
                    .map_or(Sending::NoFrame, |to| self.send_to(Some(Address::from_u64(to.link)), &header, &payload))
            }
            Message::Stamped(Stamped { epoch, number, sender, seq, limit, level, content }) => {
                let (flags, payload) = form(*level, content);
                let header = GroupHeader::to_stamp(view.group, epoch.0, *sender, *seq);
                let (what, flags, limit, number) = (GroupFrame::Stamped, flags | IS_HELD, *limit, *number);
                self.send_to(None, &GroupHeader { what, flags, limit, number, ..header }, &payload)
            }
            Message::Ack(ack) => {
                let header = GroupHeader::to_stamp(view.group, ack.epoch.0, slot as u16, 0);
                let payload = postcard::to_allocvec(message).expect("all of it can be written");
                self.send_to(None, &GroupHeader { what: GroupFrame::Datagram, ..header }, &payload)
            }
            _ => Sending::NoFrame,
        }
    }

    fn send_to(&self, to: Option<Address>, header: &GroupHeader, payload: &[u8]) -> Sending {
        let sent = match to {
            Some(to) => self.multicast.send_to(to, header, payload),
            None => self.multicast.send(header, payload),
        };
        match sent {
            Ok(()) => Sending::Sent,
            Err(MulticastSendError::Full) => Sending::Full,
            Err(MulticastSendError::TooLarge { .. }) => Sending::NoFrame,
        }
    }

    /// A frame has arrived.
    pub(crate) fn on_frame<S>(&mut self, core: &mut Core, frame: &GroupMessage<'_, S>) -> Result<(), Malformed> {
        let GroupHeader { what, epoch, sender, .. } = frame.header;
        let view = core.view();
        if epoch != view.epoch.0 {
            // Of an old view, or of one that this member does not know yet.
            return Ok(());
        }
        let link = |member: &Member| Address::from_u64(member.link);
        let from = view.members.get(usize::from(sender)).ok_or(Malformed)?;
        let is_senders = frame.from() == link(from);
        let is_sequencers =
            view.members.iter().any(|member| member.id == view.sequencer && link(member) == frame.from());
        let (id, is_mine, now) = (from.id, from.id == core.me(), frame.endpoint.turn_time());
        match what {
            GroupFrame::ToStamp if is_senders => {
                let (level, content) = payload_of(frame)?;
                core.on_message(now, id, Message::Submit { epoch: view.epoch, seq: frame.header.seq, level, content });
            }
            GroupFrame::Stamped if is_senders || is_sequencers => {
                let (GroupHeader { seq, limit, number, .. }, (level, content)) = (frame.header, payload_of(frame)?);
                self.stamped += 1;
                // One that comes again after its delivery is a stranger's.
                let is_new = frame.header.flags & IS_HELD == 0 && number >= core.delivered();
                if is_mine && is_sequencers && is_new {
                    self.echoed += 1;
                    self.send_to(Some(frame.from()), &frame.header, frame);
                }
                let epoch = view.epoch;
                core.on_stamped_frame(now, Stamped { epoch, number, sender, seq, limit, level, content });
            }
            GroupFrame::Datagram if is_senders => {
                let ack = postcard::from_bytes(frame).ok().filter(|message| matches!(message, Message::Ack(_)));
                core.on_message(now, id, ack.ok_or(Malformed)?);
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

fn payload_of<S>(frame: &GroupMessage<'_, S>) -> Result<(Level, Content), Malformed> {
    content(frame.header.flags & !IS_HELD, Bytes::copy_from_slice(frame)).ok_or(Malformed)
}
