//! Messages leave: by a connection, or to an endpoint of this process.

use std::hint;
use std::io::IoSlice;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use am_api::{ConnectError, Connection, Endpoint, HandlerId, NotOpen, Refusal, RequestError, ReturnReason};

use crate::am::{self, Am};
use crate::code::{Code, Status};
use crate::context;
use crate::endpoint::{Ep, Here, Translation};
use crate::header::{Kind, MAX_MEDIUM, without_zeros};
use crate::leave;
use crate::loan::Loan;
use crate::lost;
use crate::name::Name;
use crate::progress;
use crate::reply::{self, Outgoing};
use crate::tables::Handle;
use crate::undelivered;

/// Looks in a row at a receiver without room before others may have the processor, and before the thread sleeps between two.
const SPINS: u32 = 50;
const YIELDS: u32 = 250;
/// Looks between two at the node's descriptors.
const TRIES_PER_LOOK: u32 = 256;
/// Tries in a row before a request takes a connection's last credit.
const TRIES_BEFORE_LAST: u32 = 2000;
/// How long it sleeps then.
const PAUSE: Duration = Duration::from_micros(50);

/// The data of longer requests is not copied: they wait until the peer has it.
const MAX_COPIED: usize = MAX_MEDIUM;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// It left.
    Sent,
    /// There is no room now.
    Busy,
    /// It cannot be delivered.
    Back(Status),
    /// It does not fit into a frame.
    TooLong,
}

/// A thread that waits: for room, or for the peer to have the data.
#[derive(Debug, Default)]
struct Wait {
    tries: u32,
    idle: u32,
}

impl Wait {
    /// Rest before the next try, if the poll before had nothing to do.
    fn rest(&mut self, was_busy: bool) -> Result<(), Code> {
        self.idle = if was_busy { 0 } else { self.idle + 1 };
        match self.idle {
            ..SPINS => hint::spin_loop(),
            SPINS..YIELDS => thread::yield_now(),
            _ => thread::sleep(PAUSE),
        }
        self.tries += 1;
        if self.tries.is_multiple_of(TRIES_PER_LOOK) { am::hang_up_if_lost() } else { Ok(()) }
    }
}

/// Send a request, and wait for room as long as it takes. What cannot be delivered goes to the endpoint's error handler.
pub(crate) fn request(ep: Handle, index: usize, mut outgoing: Outgoing<'_>, is_async: bool) -> Result<(), Code> {
    if context::is_in_handler() {
        // A request handler may reply, and a reply handler may send nothing: so there is no deadlock.
        return Err(Code::BadArg);
    }
    let is_lent = outgoing.data.len() > MAX_COPIED;
    // SAFETY: the data is the caller's, and this returns when the loan is over.
    let mut loan = is_lent.then(|| unsafe { Loan::of(outgoing.data) });
    let mut wait = Wait::default();
    loop {
        let (tried, was_busy) = am::with_ep(ep, |am, ep| {
            if wait.tries == 0 {
                ep.check_index(index)?;
            }
            let tried = attempt(am, ep, index, &mut outgoing, loan.as_ref());
            let mut was_busy = false;
            match tried {
                Tried::Busy => was_busy = progress::poll(am, &*am.bundle(ep.bundle.get())?),
                Tried::Back(status) => {
                    undelivered::on_error(ep, status, &outgoing.header, outgoing.data.len(), index, false)
                }
                // It leaves now, not with the next poll.
                Tried::Sent => ep.endpoint.borrow().flush(),
                Tried::TooLong => {}
            }
            Ok((tried, was_busy))
        })?;
        match tried {
            Tried::Sent => return loan.as_mut().map_or(Ok(()), |loan| wait_for_end(ep, loan)),
            Tried::Back(_) => return Ok(()),
            Tried::TooLong => return Err(Code::BadArg),
            // The first poll may have opened the connection.
            Tried::Busy if is_async && wait.tries > 0 => return Err(Code::NotSent),
            Tried::Busy => wait.rest(was_busy)?,
        }
    }
}

/// Poll until the peer has all of what was lent, or it has come back.
fn wait_for_end(ep: Handle, loan: &mut Loan) -> Result<(), Code> {
    let mut wait = Wait::default();
    while !loan.is_over() {
        let was_busy = am::with(|am| {
            // Another thread may have freed the endpoint. It leaves when the peer has all.
            let ep = am.endpoints.borrow().get(ep);
            Ok(match ep.and_then(|ep| am.bundle(ep.bundle.get()).ok()) {
                Some(bundle) => progress::poll(am, &bundle),
                None => am.turn() | !leave::drive(am),
            })
        });
        wait.rest(was_busy?)?;
    }
    Ok(())
}

fn attempt(am: &Am, ep: &Rc<Ep>, index: usize, outgoing: &mut Outgoing<'_>, loan: Option<&Loan>) -> Tried {
    let mut translations = ep.translations.borrow_mut();
    let Some(Some(entry)) = translations.get_mut(index) else { return Tried::Back(Status::BadEntry) };
    outgoing.header.tag = entry.tag;
    if entry.is_own {
        let name = entry.name;
        drop(translations);
        return to_self(am, ep, index, &name, outgoing);
    }
    let endpoint = ep.endpoint.borrow();
    let connection = match entry.connection {
        Some(connection) if entry.is_greeted => connection,
        _ => match open(am, ep, &endpoint, entry) {
            Ok(Some(connection)) => connection,
            Ok(None) => return Tried::Busy,
            Err(status) => return Tried::Back(status),
        },
    };
    if !may_take_credit(entry, endpoint.credit(connection)) {
        // It may have ended.
        return open(am, ep, &endpoint, entry).err().map_or(Tried::Busy, Tried::Back);
    }
    let header = &outgoing.header;
    let (words, prefix, handler) = (header.words(), header.prefix(), HandlerId(header.kind as u8));
    let words = without_zeros(&words);
    let result = tried(match loan {
        Some(loan) => endpoint.try_request_shared_behind(connection, handler, words, &prefix, loan.lent()),
        None if prefix.is_empty() => endpoint.try_request(connection, handler, words, outgoing.data),
        None => {
            let payload = [IoSlice::new(&prefix), IoSlice::new(outgoing.data)];
            endpoint.try_request_vectored(connection, handler, words, &payload)
        }
    });
    match (result, header.kind, header.extent) {
        (Tried::Back(status), ..) => Tried::Back(open(am, ep, &endpoint, entry).err().unwrap_or(status)),
        (Tried::Sent, Kind::Get, Some(extent)) => {
            ep.gets.borrow_mut().entry(extent.id.into()).and_modify(|get| get.connection = Some(connection));
            result
        }
        _ => result,
    }
}

/// Whether a request may take one of these credits. The last one is for the node, which asks for the rest of a long reply by it: the peer
/// may hold all others until that reply has left. A connection that never gets more than one does without.
fn may_take_credit(entry: &mut Translation, credit: usize) -> bool {
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

fn tried(result: Result<(), RequestError>) -> Tried {
    match result {
        Ok(()) => Tried::Sent,
        Err(error) if error.is_temporary() => Tried::Busy,
        Err(RequestError::TooLarge { .. } | RequestError::TooManyWords { .. }) => Tried::TooLong,
        Err(_) => Tried::Back(Status::Unreachable),
    }
}

/// The open connection of a translation; `None` while it is being made.
#[cold]
fn open(am: &Am, ep: &Ep, endpoint: &Endpoint<Here>, entry: &mut Translation) -> Result<Option<Connection>, Status> {
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
fn to_self(am: &Am, ep: &Ep, index: usize, name: &Name, outgoing: &Outgoing<'_>) -> Tried {
    let Some([_, name, _]) = name.parts() else { return Tried::Back(Status::BadEndpoint) };
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
