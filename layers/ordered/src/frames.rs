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
//! The content of a long message goes to the group as pieces, and only its order to the sequencer (`pieces.rs`).
//! What is lost is repaired by messages between two members. A view whose members are not all on such a network uses no frames.

use std::cell::RefCell;
use std::rc::Rc;

use am_api::group_frames::{GroupFrame, GroupHeader};
use am_api::{Address, Endpoint, GroupMessage, Multicast, MulticastSendError};
use am_ordered_core::{Content, Core, Dissemination, Level, Member, MemberId, Message, StampTable, Stamped, Time};
use bytes::Bytes;

use crate::packet::{content, form};
use crate::pieces::{Contents, Piece, Report};

/// The frames of a group that this process has joined.
pub(crate) struct Frames {
    multicast: Rc<Multicast>,
    /// Whether the network sends copies, once it was asked, or why it does not.
    copies: Rc<RefCell<Option<Result<(), String>>>>,
    /// Stamped frames that arrived, and those that were sent to the sequencer's process.
    pub(crate) stamped: u64,
    pub(crate) echoed: u64,
    contents: Contents,
}

/// A flag of a stamped frame: the sequencer's process has the message.
const IS_HELD: u8 = 1 << 7;

/// Flags of a datagram: a piece of a content, whose sender asks for a report or does not, or a report. An acknowledgement has none.
const PIECE: u8 = 1;
const ASKS: u8 = 2;
const REPORT: u8 = 4;

/// Bytes of a piece's frame before its part of the content.
const PIECE_HEADER: usize = 32;

/// The pause when there is no room for a piece.
const FULL: Time = Time::from_micros(100);

/// The most pieces that are sent before others' frames are received.
const PIECES_AT_ONCE: usize = 64;

/// A frame that makes no sense.
pub(crate) struct Malformed;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
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
        let multicast = Rc::new(endpoint.join_group(group, run).ok()?);
        let size = multicast.max_payload().saturating_sub(PIECE_HEADER);
        let contents = Contents::new(size, endpoint.max_message() as u64);
        multicast.is_one_frame().then_some(Frames { multicast, copies: Rc::default(), stamped: 0, echoed: 0, contents })
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

    /// Send a message as a frame, or as one to each of its receivers.
    pub(crate) fn send(&self, core: &Core, message: &Message) -> Outcome {
        let (view, dissemination) = (core.view(), core.settings().dissemination);
        let is_ours = view.has_links() && view.group == self.group();
        let Some(slot) = view.slot(core.me()).filter(|_| is_ours) else { return Outcome::NoFrame };
        match message {
            Message::Submit { epoch, seq, level, content } => {
                let (flags, payload) = form(*level, content);
                let header = GroupHeader { flags, ..GroupHeader::to_stamp(view.group, epoch.0, slot as u16, *seq) };
                let payload = if dissemination == Dissemination::Fetch { Bytes::new() } else { payload };
                let sequencer = view.members.iter().find(|member| member.id == view.sequencer);
                sequencer
                    .map_or(Outcome::NoFrame, |to| self.send_to(Some(Address::from_u64(to.link)), &header, &payload))
            }
            Message::Stamped(stamped) => self.send_stamped(core, stamped, IS_HELD),
            Message::Ack(ack) => {
                let header = GroupHeader::to_stamp(view.group, ack.epoch.0, slot as u16, 0);
                let payload = postcard::to_allocvec(message).expect("all of it can be written");
                self.send_all(core, &GroupHeader { what: GroupFrame::Datagram, ..header }, &payload)
            }
            _ => Outcome::NoFrame,
        }
    }

    fn send_stamped(&self, core: &Core, stamped: &Stamped, held: u8) -> Outcome {
        let Stamped { epoch, number, sender, seq, limit, level, content } = stamped;
        let (flags, payload) = form(*level, content);
        let header = GroupHeader::to_stamp(self.group(), epoch.0, *sender, *seq);
        let (what, flags, limit, number) = (GroupFrame::Stamped, flags | held, *limit, *number);
        self.send_all(core, &GroupHeader { what, flags, limit, number, ..header }, &payload)
    }

    /// Send a frame to the other members, and to those that become members.
    fn send_all(&self, core: &Core, header: &GroupHeader, payload: &[u8]) -> Outcome {
        if core.settings().dissemination != Dissemination::Copies {
            return self.send_to(None, header, payload);
        }
        let links = core.audience().into_iter().filter_map(|id| core.member(id)).map(|member| member.link);
        let links = links.filter(|link| *link != 0);
        // A full queue for one is no reason to leave out the others, or to send these another copy.
        let sent: Vec<Outcome> =
            links.map(|link| self.send_to(Some(Address::from_u64(link)), header, payload)).collect();
        let first = sent.first().copied().unwrap_or(Outcome::Sent);
        if sent.contains(&Outcome::Sent) { Outcome::Sent } else { first }
    }

    fn send_to(&self, to: Option<Address>, header: &GroupHeader, payload: &[u8]) -> Outcome {
        let sent = match to {
            Some(to) => self.multicast.send_to(to, header, payload),
            None => self.multicast.send(header, payload),
        };
        match sent {
            Ok(()) => Outcome::Sent,
            Err(MulticastSendError::Full) => Outcome::Full,
            Err(MulticastSendError::TooLarge { .. }) => Outcome::NoFrame,
        }
    }

    /// Send the content of an own message to all, as pieces, if the view has frames for it. A group of two has a connection.
    pub(crate) fn push_content(&mut self, core: &Core, id: u64, payload: &Bytes) -> Outcome {
        let view = core.view();
        let is_multicast = core.settings().dissemination != Dissemination::Copies;
        let is_possible = is_multicast && view.has_links() && view.group == self.group() && view.members.len() > 2;
        if !is_possible {
            return Outcome::NoFrame;
        }
        self.contents.sending.push(id, payload.clone());
        Outcome::Sent
    }

    /// The bytes of contents that some member does not have yet.
    pub(crate) fn backlog(&self, now: Time) -> usize {
        self.contents.sending.backlog(now)
    }

    /// Send the pieces that may be sent. Returns how many left, and when the next one is due.
    pub(crate) fn pump(&mut self, core: &Core, now: Time) -> (usize, Option<Time>) {
        if !self.contents.sending.has_more() {
            return (0, None);
        }
        let me = core.me();
        let others: Vec<u64> =
            core.view().members.iter().filter(|member| member.id != me).map(|member| member.link).collect();
        self.contents.share(now);
        for count in 0..PIECES_AT_ONCE {
            let Some((to, piece)) = self.contents.sending.next(now, &others) else {
                return (count, self.contents.sending.next_time());
            };
            let asks = if piece.asks { ASKS } else { 0 };
            let header = GroupHeader {
                what: GroupFrame::Datagram,
                flags: PIECE | asks,
                number: piece.place,
                limit: piece.size,
                ..GroupHeader::to_stamp(self.group(), 0, 0, piece.nth)
            };
            let to_address = to.map_or_else(|| self.address(), Address::from_u64);
            let parts = [&piece_header(me, &piece)[..], &piece.bytes];
            if self.multicast.send_parts_to(to_address, &header, parts).is_err() {
                return (count, Some(now + FULL));
            }
            self.contents.sending.sent(now, &piece);
        }
        (PIECES_AT_ONCE, Some(now))
    }

    /// A piece of a content or a report has arrived. Contents have no epoch.
    fn on_content_frame<S>(&mut self, core: &mut Core, frame: &GroupMessage<'_, S>) -> Result<(), Malformed> {
        let (header, link, now) = (frame.header, frame.from().to_u64(), frame.endpoint.turn_time());
        if header.flags == REPORT {
            // A process that ran on this node before may have been meant.
            let (of, report): (MemberId, Report) = postcard::from_bytes(frame).map_err(|_| Malformed)?;
            if of == core.me() {
                self.contents.sending.on_report(now, link, &report);
            }
            return Ok(());
        }
        let (prefix, bytes) = frame.split_first_chunk::<PIECE_HEADER>().ok_or(Malformed)?;
        let (sender, piece) = piece_from(&header, prefix, Bytes::copy_from_slice(bytes)).ok_or(Malformed)?;
        if sender == core.me() || core.member(sender).is_none_or(|member| member.link != link) {
            return Ok(());
        }
        let got = self.contents.on_piece(now, sender, &piece).map_err(|_| Malformed)?;
        if let Some(report) = got.report {
            let payload = postcard::to_allocvec(&(sender, report)).expect("all of it can be written");
            let header = GroupHeader::to_stamp(self.group(), 0, 0, 0);
            let header = GroupHeader { what: GroupFrame::Datagram, flags: REPORT, ..header };
            // One that does not leave is asked for again.
            _ = self.send_to(Some(frame.from()), &header, &payload);
        }
        if let Some((id, payload)) = got.content {
            core.on_message(now, sender, Message::Data { sender, id, payload });
        }
        Ok(())
    }

    /// A frame has arrived.
    pub(crate) fn on_frame<S>(&mut self, core: &mut Core, frame: &GroupMessage<'_, S>) -> Result<(), Malformed> {
        let GroupHeader { what, epoch, sender, flags, .. } = frame.header;
        if what == GroupFrame::Datagram && flags != 0 {
            return self.on_content_frame(core, frame);
        }
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

/// What is before the bytes of a piece. The oldest place and id of its sender are not far behind its own.
fn piece_header(sender: MemberId, piece: &Piece) -> [u8; PIECE_HEADER] {
    let behind = [piece.place - piece.first, piece.id - piece.first_id].map(|behind| behind as u32);
    let mut header = [0; PIECE_HEADER];
    header[..8].copy_from_slice(&piece.id.to_be_bytes());
    header[8..16].copy_from_slice(&piece.length.to_be_bytes());
    header[16..20].copy_from_slice(&behind[0].to_be_bytes());
    header[20..24].copy_from_slice(&behind[1].to_be_bytes());
    header[24..].copy_from_slice(&sender.0.to_be_bytes());
    header
}

fn piece_from(header: &GroupHeader, prefix: &[u8; PIECE_HEADER], bytes: Bytes) -> Option<(MemberId, Piece)> {
    let number = |at: usize| u64::from_be_bytes(*prefix[at..].first_chunk().expect("it is long enough"));
    let (place, id, length, behind) = (header.number, number(0), number(8), number(16));
    let (first, first_id) = (place.checked_sub(behind >> 32)?, id.checked_sub(behind & 0xffff_ffff)?);
    let (nth, size, asks) = (header.seq, header.limit, header.flags & ASKS != 0);
    Some((MemberId(number(24)), Piece { place, id, length, nth, size, first, first_id, asks, bytes }))
}

fn payload_of<S>(frame: &GroupMessage<'_, S>) -> Result<(Level, Content), Malformed> {
    content(frame.header.flags & !IS_HELD, Bytes::copy_from_slice(frame)).ok_or(Malformed)
}
