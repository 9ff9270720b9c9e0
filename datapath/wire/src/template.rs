//! Short messages, which nearly all are: requests and replies in `bare` or `split` framing, with room for acknowledgements behind them.
//! The part of the header that is the same in all messages of a flow is written from a template, and what a receiver can foresee of its
//! next message is compared at once, as in TCP's header prediction (Jacobson, 1990).

use crate::frame::{LinkAddresses, hidden_source, source_like};
use crate::length::{ETHERNET_HEADER, MIN_FRAME, SHORT_FRAME_CODE};
use crate::trailer::{self, Piggyback, has_room_for_piggyback};
use crate::{Class, EtherType, Flow, Framing, Seq, WORD_BYTES, bare, payload};

// Neither framing writes a code of the length where the frame is short.
const _: () = assert!(SHORT_FRAME_CODE == 0);

/// The addresses, EtherType, flow and nonce of a flow's messages, as a frame has them: in `bare` or `split` framing, in which nearly all
/// messages leave. What differs from message to message is or-ed into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The destination, and two bytes of the source.
    front: u64,
    /// Source and EtherType.
    source: u64,
    /// In `split`: the header's part in the payload.
    rest: u64,
    is_bare: bool,
    /// The longest body that leaves room for a piggyback.
    max_body: u8,
}

/// What differs between the messages of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortMessage {
    /// Request or reply.
    pub class: Class,
    /// Index into the receiver's handler table.
    pub handler: u8,
    /// The number of words at the start of the body.
    pub words: u8,
    /// The number of the message.
    pub seq: Seq,
    /// Bytes of words and payload.
    pub body: usize,
    /// The acknowledgements behind it.
    pub acks: Piggyback,
}

impl Template {
    /// Of the messages that leave with these addresses, flow and nonce. `None` in `plain` framing.
    pub fn new(framing: Framing, link: &LinkAddresses, flow: Flow, nonce: u16) -> Option<Template> {
        let (source, rest) = match framing {
            Framing::Bare => (bare::source_of(flow), 0),
            Framing::Split => (payload::split_source(flow, link.from), (nonce as u64) << 32),
            Framing::Plain => return None,
        };
        let source = source << 16 | link.ethertype.hidden() as u64;
        let max_body =
            (0..MIN_FRAME).take_while(|&body| has_room_for_piggyback(framing, body)).last().unwrap_or(0) as u8;
        Some(Template { front: link.to.to_u64() << 16, source, rest, is_bare: framing == Framing::Bare, max_body })
    }

    /// Whether a message with a body of this length leaves room for a piggyback: [write](Self::emit) it.
    #[inline(always)]
    pub fn takes(&self, body: usize) -> bool {
        body <= self.max_body as usize
    }

    /// As [`emit`](crate::frame::emit), for a message that the template [takes](Self::takes).
    #[inline(always)]
    pub fn emit(&self, frame: &mut [u8; MIN_FRAME], message: &ShortMessage) {
        let &ShortMessage { class, handler, words, seq: Seq(seq), body, acks } = message;
        let mut source = self.source;
        if self.is_bare {
            source |= bare::message(class, words, handler, seq) << 16;
        } else {
            let rest = self.rest | payload::split_message(class, words, handler, seq);
            frame[ETHERNET_HEADER..][..8].copy_from_slice(&rest.to_be_bytes());
        }
        frame[..8].copy_from_slice(&self.front.to_be_bytes());
        frame[6..ETHERNET_HEADER].copy_from_slice(&source.to_be_bytes());
        trailer::emit_acks(frame, body, acks);
    }
}

/// A short message that arrived: what its receiver needs of its header. A frame that may be malformed, or has more to it, is none;
/// [`parse`](crate::frame::parse) finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortFrame {
    /// The receiver's flow id.
    pub flow: Flow,
    /// Request or reply.
    pub class: Class,
    /// Index into the receiver's handler table.
    pub handler: u8,
    /// The number of words at the start of the body.
    pub words: u8,
    /// Bytes of words and payload.
    pub body: u8,
    /// Its framing: `bare` or `split`.
    pub framing: Framing,
    /// The acknowledgements behind it.
    pub acks: Piggyback,
    /// The part of the header that has the number.
    numbered: u64,
}

impl ShortFrame {
    /// The short message in a frame, if it has this framing. The compiler makes a copy for each framing if it is a constant.
    #[inline(always)]
    pub fn find(framing: Framing, frame: &[u8], ethertype: EtherType) -> Option<ShortFrame> {
        let frame: &[u8; MIN_FRAME] = frame.try_into().ok()?;
        let (flow, (class, words, handler), numbered) = match framing {
            Framing::Split => {
                let source = source_like(payload::SPLIT, payload::IS_SPLIT, frame, ethertype)?;
                let rest = u64::from_be_bytes(*frame[ETHERNET_HEADER..].first_chunk()?);
                (payload::source_flow(source), payload::short_message(rest)?, rest)
            }
            Framing::Bare => {
                let bits = bare::bits(hidden_source(frame, ethertype)?);
                (bare::flow(bits), bare::short_message(bits)?, bits)
            }
            Framing::Plain => return None,
        };
        let (body, acks) = trailer::parse_acks(frame)?;
        let most = trailer::ACKS_AT - framing.body_at();
        let is_whole = body as usize <= most && words as usize * WORD_BYTES <= body as usize;
        is_whole.then_some(ShortFrame { flow, class, handler, words, body, framing, acks, numbered })
    }

    /// Whether it is the message with this number, on a flow with this nonce.
    #[inline(always)]
    pub fn is_next(&self, nonce: u16, seq: Seq) -> bool {
        let mask = if self.framing == Framing::Bare { bare::FORESEEN } else { payload::FORESEEN };
        (((nonce as u64) << 32 | seq.0 as u64) ^ self.numbered) & mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Header, Kind, PiggybackClass, frame};
    use proptest::prelude::*;

    proptest! {
        /// A message from the template is the message that the general code writes.
        #[test]
        fn the_short_way_and_the_long_way_write_the_same(
            (to, from, flow, nonce) in (any::<[u8; 6]>(), any::<[u8; 6]>(), 1..Flow::COUNT as u16, any::<u16>()),
            (is_reply, words, handler, seq) in (any::<bool>(), 0u8..6, any::<u8>(), any::<u32>()),
            (body, framing, acks) in (0usize..MIN_FRAME, 0usize..3, any::<[u16; 4]>()),
        ) {
            let framing = [Framing::Bare, Framing::Split, Framing::Plain][framing];
            let flow = Flow::new(flow).unwrap();
            let link = LinkAddresses { to: Address(to), from: Address(from), ethertype: EtherType::DEFAULT };
            let nonce = if framing == Framing::Bare { 0 } else { nonce };
            let Some(template) = Template::new(framing, &link, flow, nonce) else {
                prop_assert_eq!(framing, Framing::Plain);
                return Ok(());
            };
            prop_assert_eq!(template.takes(body), has_room_for_piggyback(framing, body));
            if template.takes(body) {
                let (kind, class) = if is_reply { (Kind::Reply, Class::Reply) } else { (Kind::Request, Class::Request) };
                let header = Header { kind, flow, nonce, handler, words, seq };
                let [a, b, c, d] = acks;
                let classes = [PiggybackClass { accepted: a, limit: b }, PiggybackClass { accepted: c, limit: d }];
                let acks = Piggyback::new(classes);
                let [mut long, mut short] = [[0xaa; MIN_FRAME]; 2];
                frame::body(&mut long, framing, body).unwrap().fill(7);
                frame::body(&mut short, framing, body).unwrap().fill(7);
                frame::emit(&mut long, framing, &link, &header, body, Some(&acks)).unwrap();
                template.emit(&mut short, &ShortMessage { class, handler, words, seq: Seq(seq), body, acks });
                prop_assert_eq!(&long[..], &short[..]);
                let found = ShortFrame::find(framing, &short, EtherType::DEFAULT);
                prop_assert_eq!(found.is_some(), words as usize * WORD_BYTES <= body);
                prop_assert!(found.is_none_or(|found| found.is_next(nonce, Seq(seq)) && !found.is_next(nonce, Seq(seq ^ 1))));
            }
        }

        /// What the short way finds in a damaged frame, the general code finds as well, and the other way round.
        #[test]
        fn a_short_frame_is_what_the_long_way_reads(
            (mut bytes, framing, body) in (prop::collection::vec(any::<u8>(), MIN_FRAME..MIN_FRAME + 2), 0usize..3, 0usize..40),
            (is_reply, words, handler, seq) in (any::<bool>(), 0u8..8, any::<u8>(), any::<u32>()),
            (flow, nonce, damage) in (0..Flow::COUNT as u16, any::<u16>(), 0usize..2 * MIN_FRAME * 8),
        ) {
            let framing = [Framing::Bare, Framing::Split, Framing::Plain][framing];
            let (flow, kind) = (Flow::new(flow).unwrap(), if is_reply { Kind::Reply } else { Kind::Request });
            let link = LinkAddresses { to: Address([2; 6]), from: Address([4; 6]), ethertype: EtherType::DEFAULT };
            let header = Header { kind, flow, nonce, handler, words, seq };
            _ = frame::emit(&mut bytes, framing, &link, &header, body, Some(&Piggyback::default()));
            if let Some(byte) = bytes.get_mut(damage / 8) {
                *byte ^= 1 << (damage % 8);
            }
            let find = |framing| ShortFrame::find(framing, &bytes, EtherType::DEFAULT);
            let found = find(Framing::Split).or_else(|| find(Framing::Bare));
            let parsed = if flow == Flow::NODE { None } else { frame::parse_usual(&bytes, EtherType::DEFAULT) };
            let parsed = parsed.filter(|parsed| bytes.len() == MIN_FRAME && parsed.piggyback.is_some());
            prop_assert_eq!(found.is_some() && flow != Flow::NODE, parsed.is_some());
            if let (Some(found), Some(parsed)) = (found, parsed) {
                let Header { kind, flow, nonce, handler, words, seq } = parsed.header;
                prop_assert_eq!((found.flow, found.class, found.handler), (flow, kind.into(), handler));
                prop_assert_eq!((found.words, Some(found.acks)), (words, parsed.piggyback));
                let place = (found.framing.body_at(), found.body as usize);
                prop_assert_eq!(place, (parsed.framing.body_at(), parsed.body_len()));
                prop_assert!(found.is_next(nonce, Seq(seq)) && !found.is_next(nonce, Seq(seq).plus(1)));
            }
        }
    }
}
