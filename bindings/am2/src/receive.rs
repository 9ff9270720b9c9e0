//! Receiving: tag, handler and bounds of a message are checked, then its handler runs. A message that fails a check returns to its sender.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use am_api::{
    Class, Connection, ConnectionChange, Destination, Endpoint, ForeignPart, LongHead, Message, OwnedMessage, Request,
    Returned, Token,
};

use crate::code::Status;
use crate::context::{CURRENT, Context, ReplyTo};
use crate::endpoint::{Common, Ep, Here};
use crate::header::{Extent, Header, Kind};
use crate::invoke;
use crate::lines::{By, Kept, Queued, Waiting};
use crate::local::Local;
use crate::lost;
use crate::name::Name;
use crate::reply::{self, Outgoing};
use crate::undelivered::{on_error, status_of, status_of_reason};

/// Of all messages and requests that a node can have on their way, requests that wait have the tokens of all but one: the parts of
/// replies need the rest.
const SHARE_OF_WAITING: usize = 4;

/// The bytes of a handler's message are on the stack up to this many times 16.
const ON_STACK: usize = 16;

/// The payload of a message.
#[derive(Clone, Copy)]
struct Payload<'a> {
    bytes: &'a [u8],
    /// The data lies in the segment already, or where a get wants it.
    is_placed: bool,
}

/// The source of a message.
struct Origin<'a> {
    connection: Option<Connection>,
    /// Its name.
    source: &'a dyn Fn() -> Option<Name>,
    is_reply: bool,
    /// The translation that leads over its connection, as that of the request does for a reply.
    index: &'a dyn Fn() -> Option<usize>,
    reply: Option<ReplyTo>,
    /// A message that can be kept, with its credit.
    keep: Option<&'a dyn Fn() -> OwnedMessage>,
}

/// Set the handlers of an endpoint.
pub(crate) fn listen(endpoint: &mut Endpoint<Here>) {
    for kind in Kind::ALL {
        let id = am_api::HandlerId(kind as u8);
        endpoint.on_request(id, move |Here { common, ep }, Request { message, token }| {
            on_message(common, ep, kind, &message, Some(token));
        });
        endpoint.on_reply(id, move |Here { common, ep }, message| on_message(common, ep, kind, &message, None));
    }
    endpoint.receive_into(|here, head| destination(&here.ep, head));
    endpoint.on_returned(|here, returned| on_returned(&here.ep, &returned));
    endpoint.on_connection(|here, event| {
        if let ConnectionChange::Ended(reason) = event.change {
            lost::note(&here.ep, event.connection, status_of_reason(reason));
        }
    });
}

/// Where the data of a transfer longer than a frame goes. It is checked here as later for its handler, because a peer that may not write
/// must not.
fn destination(ep: &Ep, head: &LongHead<'_>) -> Option<Destination> {
    if Kind::of(head.handler.0) != Some(Kind::Transfer) {
        return None;
    }
    let words = [0, 1, 2, 3].map(|at| head.word(at));
    let (header, data) = Header::parse(&words, head.first)?;
    let front = head.first.len() - data.len();
    let may_write = !ep.is_leaving() && admit(ep, &header, head.class == Class::Reply).is_ok();
    let place = header.extent.filter(|_| may_write).and_then(|extent| ep.place_of(header.is_get, extent));
    let length = head.length - front;
    let memory = place.filter(|place| place.length() == length).unwrap_or_else(|| ForeignPart::nowhere(length));
    Some(Destination { front, memory })
}

fn on_message(common: &Common, ep: &Ep, kind: Kind, message: &Message<'_, Here>, token: Option<Token>) {
    let connection = message.from();
    let words = [0, 1, 2, 3].map(|at| message.word(at));
    if is_of_connection(ep, kind, message, token.is_none()) {
        return;
    }
    let is_placed = message.is_placed();
    let token = match token {
        Some(token) if kind != Kind::Returned && (ep.is_leaving() || !ep.lines.has_room(connection)) => {
            let (payload, source) = (Kept::Message(message.keep()), source(ep, message));
            let request = Waiting { kind, from: connection, words, payload, is_placed, token, source };
            if ep.is_leaving() {
                refuse(common, ep, request, Status::BadEndpoint);
            } else {
                wait_for_room(common, ep, request);
            }
            return;
        }
        other => other,
    };
    if ep.is_leaving() {
        return;
    }
    let origin = Origin {
        connection: Some(connection),
        source: &|| source(ep, message),
        is_reply: token.is_none(),
        index: &|| ep.index_of(connection),
        reply: token.map(ReplyTo::Token),
        keep: Some(&|| message.keep()),
    };
    deliver(common, ep, kind, &words, Payload { bytes: message.payload(), is_placed }, origin);
}

/// Handle a message about its connection. Returns whether it was one.
fn is_of_connection(ep: &Ep, kind: Kind, message: &Message<'_, Here>, is_reply: bool) -> bool {
    match kind {
        Kind::Hello => {
            let name = Name::of_bytes(message.payload());
            name.map(|name| ep.peers.borrow_mut().insert(message.from(), name));
            true
        }
        Kind::Last if is_reply => {
            on_last(ep, message.from());
            true
        }
        _ => false,
    }
}

/// The name of the endpoint that sent a message.
fn source(ep: &Ep, message: &Message<'_, Here>) -> Option<Name> {
    let connection = message.from();
    let own = || ep.index_of(connection).and_then(|index| ep.translation(index)).map(|entry| entry.name);
    let far = || {
        let name = message.endpoint().peer(connection)?;
        Name::new(name.node.as_str(), name.endpoint.as_str(), "")
    };
    let greeted = ep.peers.borrow().get(&connection).copied();
    greeted.or_else(own).or_else(far)
}

/// Queue a request. Its handler runs when fewer bytes of replies wait to be sent.
fn wait_for_room(common: &Common, ep: &Ep, request: Waiting) {
    let most = common.node.send_frames();
    let may_wait = ep.lines.may_wait(request.from, request.payload.len());
    if !may_wait || common.totals.requests() >= most - most / SHARE_OF_WAITING {
        return refuse(common, ep, request, Status::Congestion);
    }
    ep.lines.push_request(request.from, request);
    ep.note_work();
}

/// Run the handler of a request that has waited.
pub(crate) fn on_waiting(common: &Common, ep: &Ep, request: Waiting) {
    let Waiting { kind, from: connection, words, payload, is_placed, token, source } = request;
    let (source, index) = (|| source, || ep.index_of(connection));
    let reply = Some(ReplyTo::Token(token));
    let origin =
        Origin { connection: Some(connection), source: &source, is_reply: false, index: &index, reply, keep: None };
    deliver(common, ep, kind, &words, Payload { bytes: &payload, is_placed }, origin);
}

/// Return a request that has waited to its sender.
pub(crate) fn refuse(common: &Common, ep: &Ep, request: Waiting, why: Status) {
    let Waiting { kind, words, payload, token, source, .. } = request;
    if kind == Kind::Last {
        return reply::answer(ep, token, kind, &[0; 4], [&[], &[]]);
    }
    if let Some((header, data)) = Header::parse(&words, &payload) {
        let reply = Some(ReplyTo::Token(token));
        let origin =
            Origin { connection: None, source: &|| source, is_reply: false, index: &|| None, reply, keep: None };
        send_back(common, ep, why, &header, data.len(), origin);
    }
    if let Kept::Message(message) = payload
        && ep.is_leaving()
    {
        ep.held.borrow_mut().push(message);
    }
}

/// All answers have arrived on the connection of a translation that was unmapped.
fn on_last(ep: &Ep, connection: Connection) {
    let mut all = ep.unmapped.borrow_mut();
    all.iter_mut().filter(|one| one.connection == connection).for_each(|one| one.is_answered = true);
}

/// A message of this process to itself.
pub(crate) fn on_local(common: &Common, ep: &Ep, local: &Local) {
    let source = || common.endpoints.borrow().get(local.from).map(|from| from.name);
    let index = || Some(local.index);
    let reply = (!local.is_reply).then_some(ReplyTo::Local(local.from, local.index));
    let (is_reply, keep) = (local.is_reply, None);
    let origin = Origin { connection: None, source: &source, is_reply, index: &index, reply, keep };
    deliver(common, ep, local.kind, &local.words, Payload { bytes: &local.payload, is_placed: false }, origin);
}

/// A message of this process to an endpoint that was freed.
pub(crate) fn refuse_local(common: &Common, ep: &Ep, local: &Local) {
    let header = Header::parse(&local.words, &local.payload);
    let Some((header, data)) = header.filter(|_| !local.is_reply && local.kind != Kind::Returned) else { return };
    let reply = Some(ReplyTo::Local(local.from, local.index));
    let origin = Origin { connection: None, source: &|| None, is_reply: false, index: &|| None, reply, keep: None };
    send_back(common, ep, Status::BadEndpoint, &header, data.len(), origin);
}

fn deliver(common: &Common, ep: &Ep, kind: Kind, words: &[u64; 4], payload: Payload<'_>, origin: Origin<'_>) {
    let Payload { bytes: payload, is_placed } = payload;
    if let (Kind::Last, Some(ReplyTo::Token(_))) = (kind, &origin.reply) {
        let Some(ReplyTo::Token(token)) = origin.reply else { return };
        return reply::answer(ep, token, kind, &[0; 4], [&[], &[]]);
    }
    if kind == Kind::Returned {
        let [status, first, low, high] = *words;
        if let Some((header, _)) = Header::parse(&[first, low, high, 0], payload) {
            // A message returned that was sent as a request, because it answers no request.
            let index = (origin.index)().unwrap_or(0);
            on_error(ep, status_of(status as u32), &header, (status >> 32) as usize, index, !origin.is_reply);
        }
        return;
    }
    // This library always sends equal kinds in the header and in the message.
    let Some((header, data)) = Header::parse(words, payload).filter(|(header, _)| header.kind == kind) else { return };
    match admit(ep, &header, origin.is_reply) {
        Ok(()) if kind == Kind::Get => on_get(common, ep, &header, origin),
        Ok(()) if kind == Kind::Transfer => {
            on_transfer(common, ep, &header, Payload { bytes: data, is_placed }, origin)
        }
        Ok(()) => run(common, ep, &header, Some(data).filter(|_| kind == Kind::Medium), ptr::null_mut(), origin),
        Err(status) => send_back(common, ep, status, &header, data.len(), origin),
    }
}

/// Whether the message may be handled here.
fn admit(ep: &Ep, header: &Header, is_reply: bool) -> Result<(), Status> {
    if !is_reply && !ep.tag.get().accepts(header.tag) {
        return Err(Status::BadTag);
    }
    let has_handler =
        || header.handler > 0 && ep.handlers.borrow().get(usize::from(header.handler)).is_some_and(Option::is_some);
    if header.kind != Kind::Get && !has_handler() {
        return Err(Status::BadHandler);
    }
    let Some(extent) = header.extent else { return Ok(()) };
    match ep.place_of(header.is_get, extent) {
        Some(_) => Ok(()),
        None if header.is_get || extent.base <= ep.segment.borrow().length() as u64 => Err(Status::BadLength),
        None => Err(Status::BadSegmentOffset),
    }
}

/// All of a transfer has arrived.
fn on_transfer(common: &Common, ep: &Ep, header: &Header, data: Payload<'_>, origin: Origin<'_>) {
    let Some((extent, place)) = header.extent.and_then(|extent| Some((extent, ep.place_of(header.is_get, extent)?)))
    else {
        return;
    };
    let Payload { bytes, is_placed } = data;
    let is_there = is_placed
        || (bytes.len() == place.length() && place.fill(0, bytes.len(), |to| to.copy_from_slice(bytes)).is_some());
    if !is_there {
        // The segment was another when it arrived.
        return send_back(common, ep, Status::BadLength, header, 0, origin);
    }
    if header.is_get {
        ep.gets.borrow_mut().remove(&extent.base);
    }
    run(common, ep, header, None, place.start(), origin);
}

/// Answer a get with bytes of the segment.
fn on_get(common: &Common, ep: &Ep, header: &Header, origin: Origin<'_>) {
    let place = header.extent.and_then(|extent| Some((extent, ep.place_of(false, extent)?)));
    let (Some((extent, from)), Some(to)) = (place, origin.reply) else { return };
    let data = match extent.bytes {
        0 => &[][..],
        // SAFETY: the program has given this memory, and all bytes are in it.
        bytes => unsafe { std::slice::from_raw_parts(from.start().cast_const(), bytes as usize) },
    };
    let extent = Extent { id: 0, bytes: extent.bytes, base: extent.id.into() };
    let header = header.answer(extent);
    reply::reply(common, ep, to, &Outgoing { header, data, is_reply: true });
}

/// Run the program's handler.
fn run(common: &Common, ep: &Ep, header: &Header, bytes: Option<&[u8]>, at: *mut u8, origin: Origin<'_>) {
    let handler = ep.handlers.borrow().get(usize::from(header.handler)).copied().flatten();
    let Some(handler) = handler else { return };
    let Origin { connection, source, is_reply, index, reply, .. } = origin;
    let context = Context {
        common,
        ep,
        source,
        index: &|| if is_reply { index() } else { ep.index_of_name(connection, &source()?) },
        handler: header.handler,
        operation: header.operation(is_reply).unwrap_or(0),
        tag: header.tag,
        reply: RefCell::new(reply),
    };
    let token = (&raw const context).cast_mut().cast::<c_void>();
    let before = CURRENT.replace((&raw const context).cast());
    // Align them as `malloc` does, for programs that read the bytes as numbers.
    let (mut near, mut far) = ([const { MaybeUninit::<u128>::uninit() }; ON_STACK], Vec::<u128>::new());
    let (at, count) = match bytes {
        Some(bytes) => {
            let to = if bytes.len() <= size_of_val(&near) {
                near.as_mut_ptr().cast::<u8>()
            } else {
                far.reserve(bytes.len().div_ceil(size_of::<u128>()));
                far.as_mut_ptr().cast()
            };
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

/// Return a message that cannot be handled here.
fn send_back(common: &Common, ep: &Ep, status: Status, header: &Header, bytes: usize, origin: Origin<'_>) {
    let [first, low, high, _] = header.words();
    let words = [status as u64 | (bytes as u64) << 32, first, low, high];
    let (kind, payload) = (Kind::Returned, header.prefix());
    match (origin.reply, origin.connection, origin.source) {
        (Some(ReplyTo::Token(token)), ..) => reply::answer(ep, token, kind, &words, [&payload, &[]]),
        (Some(ReplyTo::Local(to, index)), ..) => {
            let to = common.endpoints.borrow().get(to);
            let local = Local { kind, words, payload, is_reply: true, from: ep.handle, index };
            to.iter().for_each(|to| to.push_local(local.clone()));
        }
        (None, Some(connection), _) => {
            let by = By::Request(origin.keep.map(|keep| keep()));
            ep.lines.push(connection, Queued { by, kind, words, payload });
        }
        (None, None, source) => {
            let local = Local { kind, words, payload, is_reply: false, from: ep.handle, index: 0 };
            let source = source();
            let to = common.endpoints.borrow().all().find(|to| Some(to.name) == source).cloned();
            to.iter().for_each(|to| to.push_local(local.clone()));
        }
    }
}

/// The node could not deliver a message.
fn on_returned(ep: &Ep, returned: &Returned<'_, Here>) {
    let words = [0, 1, 2, 3].map(|at| returned.message.word(at));
    let kind = Kind::of(returned.message.handler().0);
    if kind == Some(Kind::Last) {
        on_last(ep, returned.to());
    }
    if ep.is_leaving() {
        return;
    }
    let parsed = Header::parse(&words, returned.message.payload());
    let Some((header, data)) = parsed.filter(|(header, _)| Some(header.kind) == kind) else { return };
    let status = status_of_reason(returned.reason);
    let index = ep.index_of(returned.to()).unwrap_or(0);
    on_error(ep, status, &header, data.len(), index, returned.class() == Class::Reply);
}
