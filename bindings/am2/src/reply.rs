//! Messages on their way out, and replies from their handlers.

use std::io::IoSlice;

use am_api::HandlerId;

use crate::am::Am;
use crate::code::Code;
use crate::context::ReplyTo;
use crate::endpoint::{Ep, Local, Queued, To};
use crate::header::{Fragment, Header, Kind};
use crate::tables::Handle;

/// A message on its way, with the data that has not left yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) header: Header,
    pub(crate) data: &'a [u8],
    pub(crate) is_reply: bool,
}

impl Outgoing<'_> {
    /// The data that leaves before the message's own frame, in a fragment of at most so many bytes.
    pub(crate) fn fragment(&self, from: usize, max: usize) -> Option<(Fragment, &[u8])> {
        let left = &self.data[from..];
        let extent = self.header.extent?;
        if self.header.prefix().len() + left.len() <= max {
            return None;
        }
        let (is_get, is_reply, tag) = (self.header.is_get, self.is_reply, self.header.tag);
        let fragment = Fragment { id: extent.id, is_get, is_reply, tag, base: extent.base, position: from as u64 };
        Some((fragment, &left[..left.len().min(max)]))
    }
}

/// A message to an endpoint of this process.
pub(crate) fn push(to: &Ep, (from, index): (Handle, usize), outgoing: &Outgoing<'_>) {
    let mut payload = outgoing.header.prefix();
    payload.extend_from_slice(outgoing.data);
    let (kind, words, is_reply) = (outgoing.header.kind, outgoing.header.words(), outgoing.is_reply);
    to.local.borrow_mut().push_back(Local { kind, words, payload, is_reply, from, index });
}

/// Send a reply from its handler. One that needs several frames leaves with the next polls.
pub(crate) fn reply(am: &Am, ep: &Ep, to: ReplyTo, outgoing: &Outgoing<'_>) -> Result<(), Code> {
    let token = match to {
        ReplyTo::Token(token) => token,
        ReplyTo::Local(handle, index) => {
            // An endpoint that is gone wants no reply.
            am.endpoints.borrow().get(handle).iter().for_each(|to| push(to, (ep.handle, index), outgoing));
            return Ok(());
        }
    };
    let (connection, max, header) = (token.from(), token.max_payload(4), &outgoing.header);
    if max == 0 {
        // The connection has ended.
        return Ok(());
    }
    let mut queued = ep.queued.borrow_mut();
    let mut from = 0;
    while let Some((fragment, data)) = outgoing.fragment(from, max) {
        let (to, payload) = (To::Connection(connection), data.to_vec());
        queued.push_back(Queued { to, kind: Kind::Fragment, words: fragment.words(), payload });
        from += data.len();
    }
    let prefix = header.prefix();
    if prefix.len() + outgoing.data.len() - from > max {
        return Err(Code::BadArg);
    }
    let rest = &outgoing.data[from..];
    if from > 0 {
        let payload = [&prefix[..], rest].concat();
        queued.push_back(Queued { to: To::Token(token), kind: header.kind, words: header.words(), payload });
    } else {
        let payload = [IoSlice::new(&prefix), IoSlice::new(rest)];
        // Nobody is left who wants it, if this fails: it fits.
        _ = token.reply_vectored(HandlerId(header.kind as u8), &header.words(), &payload);
    }
    Ok(())
}
