//! Messages leave: by a connection, or to an endpoint of this process.

use std::io::IoSlice;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use am_api::{ConnectError, Connection, Endpoint, HandlerId, NotOpen, Refusal, RequestError, ReturnReason};

use crate::am::{self, Am};
use crate::code::{Code, Status};
use crate::context;
use crate::endpoint::Ep;
use crate::header::Kind;
use crate::lost;
use crate::progress;
use crate::reply::{self, Outgoing};
use crate::tables::Handle;
use crate::undelivered;

/// Looks at a receiver without room before the thread sleeps between two.
const SPINS: u32 = 200;
/// Looks between two at the node's descriptors.
const TRIES_PER_LOOK: u32 = 256;
/// Tries in a row before a request takes a connection's last credit.
const TRIES_BEFORE_LAST: u32 = 2000;
/// How long it sleeps then.
const PAUSE: Duration = Duration::from_micros(50);

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// All of it left.
    Sent,
    /// A part left: its length.
    Part(usize),
    /// There is no room now.
    Busy,
    /// It cannot be delivered.
    Back(Status),
    /// It does not fit into a frame.
    TooLong,
}

/// Send a request, and wait for room as long as it takes. What cannot be delivered goes to the endpoint's error handler.
pub(crate) fn request(ep: Handle, index: usize, outgoing: Outgoing<'_>, is_async: bool) -> Result<(), Code> {
    if context::is_in_handler() {
        // A request handler may reply, and a reply handler may send nothing: so there is no deadlock.
        return Err(Code::BadArg);
    }
    let (mut from, mut tries) = (0, 0u32);
    loop {
        let tried = am::with_ep(ep, |am, ep| {
            let tried = attempt(am, ep, index, &outgoing, from);
            match tried {
                Tried::Busy => _ = progress::poll(am, &*am.bundle(ep.bundle.get())?),
                Tried::Back(status) => {
                    undelivered::on_error(ep, status, &outgoing.header, outgoing.data.len(), index, false)
                }
                // It leaves now, not with the next poll.
                Tried::Sent => ep.endpoint.borrow().flush(),
                Tried::Part(_) | Tried::TooLong => {}
            }
            Ok(tried)
        })?;
        match tried {
            Tried::Sent | Tried::Back(_) => return Ok(()),
            Tried::TooLong => return Err(Code::BadArg),
            Tried::Part(bytes) => from += bytes,
            // The first poll may have opened the connection.
            Tried::Busy if is_async && from == 0 && tries > 0 => return Err(Code::NotSent),
            Tried::Busy if tries < SPINS => thread::yield_now(),
            Tried::Busy => thread::sleep(PAUSE),
        }
        tries += 1;
        if tries.is_multiple_of(TRIES_PER_LOOK) {
            am::hang_up_if_lost()?;
        }
    }
}

fn attempt(am: &Am, ep: &Rc<Ep>, index: usize, outgoing: &Outgoing<'_>, from: usize) -> Tried {
    let Some(entry) = ep.translation(index) else { return Tried::Back(Status::BadEntry) };
    let Some([node, name, _]) = entry.name.parts() else { return Tried::Back(Status::BadEndpoint) };
    if node == am.node.name() {
        return to_self(am, ep, index, name, outgoing);
    }
    let endpoint = ep.endpoint.borrow();
    let connection = match connection(am, ep, &endpoint, index) {
        Ok(Some(connection)) => connection,
        Ok(None) => return Tried::Busy,
        Err(status) => return Tried::Back(status),
    };
    if !may_take_credit(ep, index, endpoint.credit(connection)) {
        return Tried::Busy;
    }
    let max = endpoint.frame_payload(connection, 4).unwrap_or(0);
    if let Some((fragment, data)) = outgoing.fragment(from, max) {
        let handler = HandlerId(Kind::Fragment as u8);
        return tried(endpoint.try_request(connection, handler, &fragment.words(), data), Tried::Part(data.len()));
    }
    let (words, prefix, handler) =
        (outgoing.header.words(), outgoing.header.prefix(), HandlerId(outgoing.header.kind as u8));
    let payload = [IoSlice::new(&prefix), IoSlice::new(&outgoing.data[from..])];
    let result = tried(endpoint.try_request_vectored(connection, handler, &words, &payload), Tried::Sent);
    if let (Kind::Get, Some(extent), Tried::Sent) = (outgoing.header.kind, outgoing.header.extent, result) {
        ep.gets.borrow_mut().entry(extent.id.into()).and_modify(|get| get.connection = Some(connection));
    }
    result
}

/// Whether a request may take one of these credits. The last one is for the node, which asks for the rest of a long reply by it: the peer
/// may hold all others until that reply has left. A connection that never gets more than one does without.
fn may_take_credit(ep: &Ep, index: usize, credit: usize) -> bool {
    let mut translations = ep.translations.borrow_mut();
    let Some(Some(entry)) = translations.get_mut(index) else { return true };
    match credit {
        0 => false,
        1 if entry.reserved > 0 => {
            entry.reserved -= 1;
            false
        }
        1 => true,
        _ => {
            entry.reserved = TRIES_BEFORE_LAST;
            true
        }
    }
}

fn tried(result: Result<(), RequestError>, sent: Tried) -> Tried {
    match result {
        Ok(()) => sent,
        Err(error) if error.is_temporary() => Tried::Busy,
        Err(RequestError::TooLarge { .. } | RequestError::TooManyWords { .. }) => Tried::TooLong,
        Err(_) => Tried::Back(Status::Unreachable),
    }
}

/// The open connection of a translation; `None` while it is being made.
fn connection(am: &Am, ep: &Ep, endpoint: &Endpoint<()>, index: usize) -> Result<Option<Connection>, Status> {
    let mut translations = ep.translations.borrow_mut();
    let Some(Some(entry)) = translations.get_mut(index) else { return Err(Status::BadEntry) };
    let Some(connection) = entry.connection else {
        let [node, name, _] = entry.name.parts().ok_or(Status::BadEndpoint)?;
        for address in entry.name.peer_addresses() {
            // A node without such a transport may know the peer otherwise.
            _ = am.node.add_peer_address(address);
        }
        let connection = endpoint.connect(node, name).map_err(|error| match error {
            ConnectError::NoFlow => Status::NoConnection,
            _ => Status::BadEndpoint,
        });
        entry.connection = Some(connection?);
        entry.is_greeted = false;
        return Ok(None);
    };
    let status = match endpoint.ready(connection) {
        Ok(()) if entry.is_greeted => return Ok(Some(connection)),
        Ok(()) => {
            let greeting = endpoint.try_request(connection, HandlerId(Kind::Hello as u8), &[], ep.name.bytes());
            entry.is_greeted = greeting.is_ok();
            return Ok(entry.is_greeted.then_some(connection));
        }
        Err(NotOpen::Connecting) => return Ok(None),
        Err(NotOpen::Refused(Refusal::Full | Refusal::Name)) => Status::NoConnection,
        Err(NotOpen::Refused(_) | NotOpen::Dead(ReturnReason::Closed)) => Status::BadEndpoint,
        Err(_) => Status::Unreachable,
    };
    // The next message tries again.
    entry.connection = None;
    if ep.has_gets(connection) {
        lost::note(ep, connection, status);
    }
    endpoint.close(connection);
    Err(status)
}

/// A message to an endpoint of this process. Where it has no room its bundle is polled, too: the caller's thread may be the only one.
fn to_self(am: &Am, ep: &Ep, index: usize, name: &str, outgoing: &Outgoing<'_>) -> Tried {
    let found = am.endpoints.borrow().all().find(|ep| ep.name.is_endpoint(name)).cloned();
    let Some(to) = found else { return Tried::Back(Status::BadEndpoint) };
    if to.local.has_room(outgoing.data.len()) {
        reply::push(&to, (ep.handle, index), outgoing);
        return Tried::Sent;
    }
    if to.bundle.get() != ep.bundle.get()
        && let Ok(bundle) = am.bundle(to.bundle.get())
    {
        progress::poll(am, &bundle);
    }
    Tried::Busy
}
