//! Replies from their handlers.

use std::io::IoSlice;

use am_api::{HandlerId, Token};

use crate::context::ReplyTo;
use crate::endpoint::{Common, Ep};
use crate::header::{Header, Kind, without_zeros};
use crate::lines::{By, Queued};
use crate::local::Local;
use crate::tables::Handle;

/// So many bytes fit every frame.
const FITS: usize = 32;

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) header: Header,
    pub(crate) data: &'a [u8],
    pub(crate) is_reply: bool,
}

/// A message to an endpoint of this process.
pub(crate) fn push(to: &Ep, (from, index): (Handle, usize), outgoing: &Outgoing<'_>) {
    let mut payload = outgoing.header.prefix();
    payload.extend_from_slice(outgoing.data);
    let (kind, words, is_reply) = (outgoing.header.kind, outgoing.header.words(), outgoing.is_reply);
    to.push_local(Local { kind, words, payload, is_reply, from, index });
}

/// Send a reply from its handler.
pub(crate) fn reply(common: &Common, ep: &Ep, to: ReplyTo, outgoing: &Outgoing<'_>) {
    let token = match to {
        ReplyTo::Token(token) => token,
        ReplyTo::Local(handle, index) => {
            let to = common.endpoints.borrow().get(handle);
            // An endpoint that is gone wants no reply.
            return to.iter().for_each(|to| push(to, (ep.handle, index), outgoing));
        }
    };
    let header = &outgoing.header;
    answer(ep, token, header.kind, &header.words(), [&header.prefix(), outgoing.data]);
}

/// Send one message as the answer, behind what waits to leave by its connection.
pub(crate) fn answer(ep: &Ep, token: Token, kind: Kind, words: &[u64; 4], payload: [&[u8]; 2]) {
    let connection = token.from();
    if ep.lines.has_messages(connection) {
        let payload = payload.concat();
        ep.lines.push(connection, Queued { by: By::Token(token), kind, words: *words, payload });
    } else {
        let (words, bytes) = (without_zeros(words), payload[0].len() + payload[1].len());
        let kept = if bytes > FITS && bytes > token.frame_payload(words.len()) { bytes } else { 0 };
        let handler = HandlerId(kind as u8);
        // It fails only if the connection has ended: then no peer is left that wants it.
        let sent = match payload {
            [[], data] => token.reply(handler, words, data),
            _ => token.reply_vectored(handler, words, &payload.map(IoSlice::new)),
        };
        if sent.is_ok() && kept > 0 {
            ep.lines.keep_more(connection, kept);
        }
    }
}
