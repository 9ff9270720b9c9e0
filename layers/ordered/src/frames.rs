//! Messages as frames of the group: one frame reaches all members, and where the network's program can, it numbers the frame on the way.
//!
//! ```text
//!   sender ──to stamp──▶ the sequencer's host: its XDP program, or its process
//!                                     │ one Ethernet multicast
//!   sender ◀──────────── stamped ─────┴──────────────▶ the other members
//!     └──── echo ───────▶ the sequencer's process, if its program has stamped (decision 183)
//! ```
//!
//! [`Dissemination`] chooses another way: the sequencer sends each member a copy, or its number back to the sender, which sends the multicast.
//!
//! ```text
//!   copies   sender ──to stamp──▶ sequencer ──stamped──▶ each member
//!   fetch    sender ──to stamp, without content──▶ sequencer ──number──▶ sender ──stamped, one Ethernet multicast──▶ the members
//! ```
//!
//! What is lost is repaired by messages between two members. A view whose members are not all on such a network uses no frames.

use std::cell::RefCell;
use std::rc::Rc;

use am_api::group_frames::{GroupFrame, GroupHeader};
use am_api::{Address, Endpoint, GroupMessage, Multicast};
use am_ordered_core::{Content, Core, Dissemination, Level, Member, Message, StampTable, Stamped, Time};
use bytes::Bytes;

use crate::packet::{content, form};

/// The frames of a group that this process has joined.
pub(crate) struct Frames {
    multicast: Rc<Multicast>,
    /// Whether the network sends copies, once it was asked, or why it does not.
    copies: Rc<RefCell<Option<Result<(), String>>>>,
    /// Stamped frames that arrived, and those that were sent to the sequencer's process.
    pub(crate) stamped: u64,
    pub(crate) echoed: u64,
}

/// A flag of a stamped frame: the sequencer's process has the message.
const IS_HELD: u8 = 1 << 7;

/// A frame that makes no sense.
pub(crate) struct Malformed;

impl Frames {
    /// Join the frames of a group. `None` if the network does not multiply them.
    pub(crate) fn join<S>(
        endpoint: &mut Endpoint<S>,
        group: u64,
        run: impl FnMut(&mut S, GroupMessage<'_, S>) + 'static,
    ) -> Option<Frames> {
        let multicast = Rc::new(endpoint.join_group(group, run).ok()?);
        multicast.is_one_frame().then_some(Frames { multicast, copies: Rc::default(), stamped: 0, echoed: 0 })
    }

    pub(crate) fn group(&self) -> u64 {
        self.multicast.group()
    }

    /// The address to which the frames go.
    pub(crate) fn address(&self) -> Address {
        am_api::group_frames::address(self.group())
    }

    /// Why the network does not stamp, or the table in which it does, if this member becomes the sequencer. `now` is the member's time.
    pub(crate) fn table(&self, dissemination: Dissemination, now: Time) -> Result<StampTable, String> {
        let clock = Multicast::lease_clock().saturating_sub(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let (stamps, key) = (self.multicast.stamps()?.clone(), self.multicast.key());
        let copy = match dissemination {
            Dissemination::Copies => Some(self.copier()?),
            Dissemination::Multicast | Dissemination::Fetch => None,
        };
        Ok(StampTable { stamps, key, clock, copy })
    }

    /// What lets the network send copies of stamped messages.
    fn copier(&self) -> Result<Rc<dyn Fn(usize) -> bool>, String> {
        let (multicast, answer) = (self.multicast.clone(), self.copies.clone());
        let ask = move |copies| multicast.set_copies(copies).map_err(|why| why.to_string());
        let first = self.copies.borrow_mut().get_or_insert_with(|| ask(0)).clone();
        first.map(|()| Rc::new(move |copies| answer.borrow_mut().insert(ask(copies)).is_ok()) as _)
    }

    /// Send a message as a frame, or as one to each of its receivers. Returns whether it left: it fits, and there is room.
    pub(crate) fn send(&self, core: &Core, message: &Message) -> bool {
        let (view, dissemination) = (core.view(), core.settings().dissemination);
        let is_ours = view.has_links() && view.group == self.group();
        let Some(slot) = view.slot(core.me()).filter(|_| is_ours) else { return false };
        match message {
            Message::Submit { epoch, seq, level, content } => {
                let (flags, payload) = form(*level, content);
                let header = GroupHeader { flags, ..GroupHeader::to_stamp(view.group, epoch.0, slot as u16, *seq) };
                let payload = if dissemination == Dissemination::Fetch { Bytes::new() } else { payload };
                let sequencer = view.members.iter().find(|member| member.id == view.sequencer);
                sequencer.is_some_and(|to| self.send_to(Some(Address::from_u64(to.link)), &header, &payload))
            }
            Message::Stamped(stamped) => self.send_stamped(core, stamped, IS_HELD),
            Message::Ack(ack) => {
                let header = GroupHeader::to_stamp(view.group, ack.epoch.0, slot as u16, 0);
                let payload = postcard::to_allocvec(message).expect("all of it can be written");
                self.send_all(core, &GroupHeader { what: GroupFrame::Datagram, ..header }, &payload)
            }
            _ => false,
        }
    }

    fn send_stamped(&self, core: &Core, stamped: &Stamped, held: u8) -> bool {
        let Stamped { epoch, number, sender, seq, limit, level, content } = stamped;
        let (flags, payload) = form(*level, content);
        let header = GroupHeader::to_stamp(self.group(), epoch.0, *sender, *seq);
        let (what, flags, limit, number) = (GroupFrame::Stamped, flags | held, *limit, *number);
        self.send_all(core, &GroupHeader { what, flags, limit, number, ..header }, &payload)
    }

    /// Send a frame to the other members, and to those that become members.
    fn send_all(&self, core: &Core, header: &GroupHeader, payload: &[u8]) -> bool {
        if core.settings().dissemination != Dissemination::Copies {
            return self.send_to(None, header, payload);
        }
        let links = core.audience().into_iter().filter_map(|id| core.member(id)).map(|member| member.link);
        let links = links.filter(|link| *link != 0);
        // A full queue for one is no reason to leave out the others.
        links
            .map(|link| self.send_to(Some(Address::from_u64(link)), header, payload))
            .filter(|is_sent| !is_sent)
            .count()
            == 0
    }

    fn send_to(&self, to: Option<Address>, header: &GroupHeader, payload: &[u8]) -> bool {
        let sent = match to {
            Some(to) => self.multicast.send_to(to, header, payload),
            None => self.multicast.send(header, payload),
        };
        sent.is_ok()
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
        let is_fetched = core.settings().dissemination == Dissemination::Fetch;
        match what {
            GroupFrame::ToStamp if is_senders && is_fetched => {
                let (epoch, seq) = (view.epoch, frame.header.seq);
                if let Some((number, limit)) = core.fetch(now, id, epoch, seq) {
                    let what = GroupFrame::Stamped;
                    self.send_to(Some(frame.from()), &GroupHeader { what, number, limit, ..frame.header }, &[]);
                }
            }
            GroupFrame::Stamped if is_fetched && is_mine && frame.header.flags & IS_HELD == 0 => {
                if !is_sequencers {
                    return Err(Malformed);
                }
                self.send_fetched(core, now, &frame.header);
            }
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

    /// The number of an own message has arrived: send the message, and deliver it here. One that was delivered already has reached others.
    fn send_fetched(&mut self, core: &mut Core, now: Time, header: &GroupHeader) {
        let GroupHeader { sender, seq, limit, number, .. } = *header;
        let Some((level, content)) = core.submitted(seq) else { return };
        let stamped = Stamped { epoch: core.view().epoch, number, sender, seq, limit, level, content };
        self.stamped += 1;
        self.send_stamped(core, &stamped, 0);
        core.on_stamped_frame(now, stamped);
    }
}

fn payload_of<S>(frame: &GroupMessage<'_, S>) -> Result<(Level, Content), Malformed> {
    content(frame.header.flags & !IS_HELD, Bytes::copy_from_slice(frame)).ok_or(Malformed)
}
