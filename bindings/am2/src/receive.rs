//! Messages arrive: tag, handler and bounds are checked, then the handler runs. What does not fit goes back to its sender.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;

use am_api::{Connection, ConnectionChange, Endpoint, Message, Request, ReturnReason, Returned};

use crate::am::{self, Am};
use crate::code::Status;
use crate::context::{CURRENT, Context, ReplyTo};
use crate::endpoint::{Arriving, Ep, Local, PendingGet, Queued, To};
use crate::header::{Extent, Fragment, Header, Kind};
use crate::invoke;
use crate::name::Name;
use crate::reply::{self, Outgoing};
use crate::tables::Handle;
use crate::undelivered::{on_error, status_of};

/// Where a message came from.
struct Origin {
    connection: Option<Connection>,
    source: Option<Name>,
    is_reply: bool,
    /// The translation that the request was sent by; of a reply only.
    index: usize,
    reply: Option<ReplyTo>,
}

/// Set the handlers of an endpoint.
pub(crate) fn listen(endpoint: &mut Endpoint<()>, ep: Handle) {
    for kind in Kind::ALL {
        let id = am_api::HandlerId(kind as u8);
        endpoint.on_request(id, move |(), Request { message, token }| {
            on_message(ep, kind, &message, Some(ReplyTo::Token(token)));
        });
        endpoint.on_reply(id, move |(), message| on_message(ep, kind, &message, None));
    }
    endpoint.on_returned(move |(), returned| on_returned(ep, &returned));
    endpoint.on_connection(move |(), event| {
        if let ConnectionChange::Ended(_) = event.change {
            _ = am::with_ep(ep, |_, ep| {
                ep.peers.borrow_mut().remove(&event.connection);
                ep.arriving.borrow_mut().retain(|(connection, ..), _| *connection != Some(event.connection));
                Ok(())
            });
        }
    });
}

fn on_message(ep: Handle, kind: Kind, message: &Message<'_, ()>, reply: Option<ReplyTo>) {
    // It fails only for an endpoint that is being closed.
    _ = am::with_ep(ep, |am, ep| {
        let connection = message.from();
        if kind == Kind::Hello {
            Name::of_bytes(message.payload()).map(|name| ep.peers.borrow_mut().insert(connection, name));
            return Ok(());
        }
        let index = ep.index_of(connection);
        let own = index.and_then(|index| ep.translation(index)).map(|entry| entry.name);
        let far = || {
            let name = message.endpoint().peer(connection)?;
            Name::new(name.node.as_str(), name.endpoint.as_str(), "")
        };
        let source = ep.peers.borrow().get(&connection).copied().or(own).or_else(far);
        let words = [0, 1, 2, 3].map(|at| message.word(at));
        let origin = Origin {
            connection: Some(connection),
            source,
            is_reply: reply.is_none(),
            index: index.unwrap_or(0),
            reply,
        };
        deliver(am, ep, kind, &words, message.payload(), origin);
        Ok(())
    });
}

/// A message of this process to itself.
pub(crate) fn on_local(am: &Am, ep: &Ep, local: &Local) {
    let source = am.endpoints.borrow().get(local.from).map(|from| from.name);
    let reply = (!local.is_reply).then_some(ReplyTo::Local(local.from, local.index));
    let origin = Origin { connection: None, source, is_reply: local.is_reply, index: local.index, reply };
    deliver(am, ep, local.kind, &local.words, &local.payload, origin);
}

fn deliver(am: &Am, ep: &Ep, kind: Kind, words: &[u64; 4], payload: &[u8], origin: Origin) {
    if kind == Kind::Fragment {
        return on_fragment(ep, &Fragment::of(words), payload, origin);
    }
    if kind == Kind::Returned {
        let [status, first, low, high] = *words;
        if let Some((header, _)) = Header::parse(&[first, 0, low, high], payload) {
            // A reply that is no request's answer came back as a request.
            on_error(ep, status_of(status as u32), &header, (status >> 32) as usize, origin.index, !origin.is_reply);
        }
        return;
    }
    // The sender's kind and the header's are the same in what this library sends.
    let Some((header, data)) = Header::parse(words, payload).filter(|(header, _)| header.kind == kind) else { return };
    match admit(ep, &header, &origin) {
        Ok(()) if kind == Kind::Get => on_get(am, ep, &header, origin),
        Ok(()) if kind == Kind::Transfer => on_transfer(am, ep, &header, data, origin),
        Ok(()) => run(ep, &header, Some(data).filter(|_| kind == Kind::Medium), ptr::null_mut(), origin),
        Err(status) => send_back(am, ep, status, &header, data.len(), origin),
    }
}

/// Whether the message may be handled here.
fn admit(ep: &Ep, header: &Header, origin: &Origin) -> Result<(), Status> {
    if !origin.is_reply && !ep.tag.get().accepts(header.tag) {
        return Err(Status::BadTag);
    }
    let has_handler =
        || header.handler > 0 && ep.handlers.borrow().get(usize::from(header.handler)).is_some_and(Option::is_some);
    if header.kind != Kind::Get && !has_handler() {
        return Err(Status::BadHandler);
    }
    let Some(extent) = header.extent else { return Ok(()) };
    let segment = ep.segment.get();
    match ep.place_of(header.is_get, extent) {
        Some(_) => Ok(()),
        None if header.is_get || extent.base <= segment.length as u64 => Err(Status::BadLength),
        None => Err(Status::BadSegmentOffset),
    }
}

fn on_fragment(ep: &Ep, fragment: &Fragment, data: &[u8], origin: Origin) {
    let &Fragment { id, is_get, is_reply, tag, base, position } = fragment;
    if !is_reply && !ep.tag.get().accepts(tag) {
        // The transfer's end comes back.
        return;
    }
    let end = position.saturating_add(data.len() as u64);
    let to = if is_get {
        let gets = ep.gets.borrow();
        gets.get(&base).filter(|get| end <= get.bytes.into()).map(|get| get.to.wrapping_add(position as usize))
    } else {
        base.checked_add(position).and_then(|at| ep.segment.get().range(at, data.len() as u64))
    };
    let Some(to) = to else { return };
    // SAFETY: the program has given this memory, by AM_SetSeg or a get, and the bytes are in it.
    unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    let key = (origin.connection, id, is_reply);
    let mut arriving = ep.arriving.borrow_mut();
    let transfer = arriving.entry(key).or_default();
    transfer.bytes += data.len() as u64;
    let Some(header) = transfer.end else { return };
    if transfer.bytes >= header.extent.map_or(0, |extent| extent.bytes.into()) {
        arriving.remove(&key);
        drop(arriving);
        finish(ep, &header, Origin { is_reply, reply: None, ..origin });
    }
}

/// The end of a transfer, with its last bytes.
fn on_transfer(am: &Am, ep: &Ep, header: &Header, data: &[u8], origin: Origin) {
    let Some((extent, to)) = header.extent.and_then(|extent| Some((extent, ep.place_of(header.is_get, extent)?)))
    else {
        return;
    };
    let (total, last) = (u64::from(extent.bytes), data.len() as u64);
    let key = (origin.connection, extent.id, origin.is_reply);
    let before = ep.arriving.borrow_mut().remove(&key).unwrap_or_default().bytes;
    let Some(position) = total.checked_sub(last) else {
        return send_back(am, ep, Status::BadLength, header, 0, origin);
    };
    // SAFETY: the program has given this memory, and `place_of` says that all bytes of the transfer are in it.
    unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to.wrapping_add(position as usize), data.len()) };
    if before >= position {
        finish(ep, header, origin);
    } else if origin.is_reply {
        // Fragments of a reply are requests, which may arrive after it.
        let arriving = Arriving { bytes: before + last, end: Some(*header) };
        ep.arriving.borrow_mut().insert(key, arriving);
    } else {
        send_back(am, ep, Status::BadLength, header, 0, origin);
    }
}

/// All bytes of a transfer are here.
fn finish(ep: &Ep, header: &Header, origin: Origin) {
    let Some((extent, at)) = header.extent.and_then(|extent| Some((extent, ep.place_of(header.is_get, extent)?)))
    else {
        return;
    };
    if header.is_get {
        ep.gets.borrow_mut().remove(&extent.base);
    }
    run(ep, header, None, at, origin);
}

/// Answer a get with bytes of the segment.
fn on_get(am: &Am, ep: &Ep, header: &Header, origin: Origin) {
    let place = header.extent.and_then(|extent| Some((extent, ep.place_of(false, extent)?)));
    let (Some((extent, from)), Some(to)) = (place, origin.reply) else { return };
    let data = match extent.bytes {
        0 => &[][..],
        // SAFETY: the program has given this memory, and all bytes are in it.
        bytes => unsafe { std::slice::from_raw_parts(from.cast_const(), bytes as usize) },
    };
    let extent = Extent { id: ep.new_transfer(), bytes: extent.bytes, base: extent.id.into() };
    let header = header.answer(extent);
    // It fails only for a message that fits no frame, which a transfer's parts do.
    _ = reply::reply(am, ep, to, &Outgoing { header, data, is_reply: true });
}

/// Remember where the bytes of a get go; returns its number.
pub(crate) fn add_get(ep: &Ep, to: *mut u8, bytes: u32) -> u32 {
    let id = ep.new_transfer();
    ep.gets.borrow_mut().insert(id.into(), PendingGet { to, bytes });
    id
}

/// Run the program's handler.
fn run(ep: &Ep, header: &Header, bytes: Option<&[u8]>, at: *mut u8, origin: Origin) {
    let handler = ep.handlers.borrow().get(usize::from(header.handler)).copied().flatten();
    let Some(handler) = handler else { return };
    let Origin { source, reply, .. } = origin;
    let context = Context { ep: ep.handle, source, tag: header.tag, reply: RefCell::new(reply) };
    let token = (&raw const context).cast_mut().cast::<c_void>();
    let before = CURRENT.replace(&raw const context);
    // Aligned as `malloc` aligns, for programs that look at the bytes as numbers.
    let mut room: Vec<u128> = vec![];
    let (at, count) = match bytes {
        Some(bytes) => {
            room.resize(bytes.len().div_ceil(size_of::<u128>()).max(1), 0);
            let to = room.as_mut_ptr().cast::<u8>();
            // SAFETY: there is room for them.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            (to, bytes.len())
        }
        None => (at, header.extent.map_or(0, |extent| extent.bytes as usize)),
    };
    let count = c_int::try_from(count).unwrap_or(c_int::MAX);
    // SAFETY: `am.h` asks of the program for a handler of the type that the messages for it have; context and bytes live on.
    unsafe {
        match header.kind {
            Kind::Short => invoke::short(handler, token, header.arguments()),
            _ => invoke::bytes(handler, token, at.cast(), count, header.arguments()),
        }
    }
    CURRENT.set(before);
}

/// Send a message back that cannot be handled here.
fn send_back(am: &Am, ep: &Ep, status: Status, header: &Header, bytes: usize, origin: Origin) {
    let [first, _, low, high] = header.words();
    let words = [status as u64 | (bytes as u64) << 32, first, low, high];
    let (kind, payload) = (Kind::Returned, header.prefix());
    let handler = am_api::HandlerId(kind as u8);
    match (origin.reply, origin.connection, origin.source) {
        // Nobody is left who wants it, if this fails.
        (Some(ReplyTo::Token(token)), ..) => _ = token.reply(handler, &words, &payload),
        (Some(ReplyTo::Local(to, index)), ..) => {
            let local = Local { kind, words, payload, is_reply: true, from: ep.handle, index };
            am.endpoints.borrow().get(to).iter().for_each(|to| to.local.borrow_mut().push_back(local.clone()));
        }
        (None, Some(connection), _) => {
            let to = To::Connection(connection);
            ep.queued.borrow_mut().push_back(Queued { to, kind, words, payload });
        }
        (None, None, source) => {
            let local = Local { kind, words, payload, is_reply: false, from: ep.handle, index: 0 };
            let all = am.endpoints.borrow();
            all.all()
                .filter(|to| Some(to.name) == source)
                .for_each(|to| to.local.borrow_mut().push_back(local.clone()));
        }
    }
}

/// The node could not deliver a message.
fn on_returned(ep: Handle, returned: &Returned<'_, ()>) {
    _ = am::with_ep(ep, |_, ep| {
        let words = [0, 1, 2, 3].map(|at| returned.message.word(at));
        let kind = Kind::of(returned.message.handler().0);
        let parsed = Header::parse(&words, returned.message.payload());
        let Some((header, data)) = parsed.filter(|(header, _)| Some(header.kind) == kind) else { return Ok(()) };
        let status = match returned.reason {
            ReturnReason::Closed => Status::BadEndpoint,
            ReturnReason::Tag => Status::BadTag,
            _ => Status::Unreachable,
        };
        let index = ep.index_of(returned.to()).unwrap_or(0);
        on_error(ep, status, &header, data.len(), index, returned.class() == am_api::Class::Reply);
        Ok(())
    });
}
