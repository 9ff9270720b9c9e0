//! Requests, which wait for room, and what a waiting call does meanwhile: it services the network.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use am_api::{Connection, HandlerId, RequestError};
use am_c_runtime::thread_end;

use crate::code::{Code, Failure};
use crate::interface::Interface;
use crate::registry;

/// A call that waits checks this often whether its thread was cancelled, and whether the interface's descriptors are still there.
const SLICE: Duration = Duration::from_millis(100);

/// How long it sleeps at most where more than the events of one interface may end the wait.
const SHORT: Duration = Duration::from_millis(1);

/// A wait that services all interfaces of the thread, as each may be what the other one waits for.
pub(crate) struct Service<'a> {
    interface: &'a Interface,
    until: Option<Instant>,
    next_check: Instant,
    /// The longest sleep.
    longest: Duration,
}

impl<'a> Service<'a> {
    /// Wait on this interface for this time; without one as long as it takes.
    pub(crate) fn new(interface: &'a Interface, timeout: Option<Duration>) -> Service<'a> {
        let now = Instant::now();
        // A time beyond all clocks is none.
        let until = timeout.and_then(|timeout| now.checked_add(timeout));
        Service { interface, until, next_check: now + SLICE, longest: SLICE }
    }

    /// The same, for what makes no event.
    pub(crate) fn without_event(interface: &'a Interface, timeout: Duration) -> Service<'a> {
        Service { longest: SHORT, ..Service::new(interface, Some(timeout)) }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Run handlers, and sleep if nothing happens.
    ///
    /// # Errors
    /// The thread was cancelled, or the program has closed the library's descriptors.
    pub(crate) fn turn(&mut self) -> Result<(), Failure> {
        let others = registry::others(self.interface);
        let mut handled = self.interface.with_endpoint(|endpoint, state| endpoint.poll(state));
        for other in &others {
            handled += other.with_endpoint(|endpoint, state| endpoint.poll(state));
        }
        let now = Instant::now();
        if now >= self.next_check {
            self.next_check = now + SLICE;
            registry::close_if_lost(self.interface)?;
        }
        if thread_end::is_cancelled() {
            return Err(Failure::new(Code::Timeout, "the thread was cancelled"));
        }
        if handled == 0 {
            let slice = if others.is_empty() { self.longest } else { SHORT };
            let left = self.until.map_or(slice, |until| until.saturating_duration_since(now).min(slice));
            // Handlers run in the next turn, when the checks above are done.
            self.interface.with_endpoint(|endpoint, _| endpoint.wait_events(left));
        }
        Ok(())
    }
}

/// A request's data.
pub(crate) enum Data<'a> {
    Bytes(&'a [u8]),
    Vector(Vec<IoSlice<'a>>),
}

/// Send a request. Without room at the receiver, service the network until there is some.
///
/// # Errors
/// The connection is not open any more, or the data is longer than a message may be.
#[inline]
pub(crate) fn request(
    interface: &Interface,
    to: Connection,
    handler: HandlerId,
    data: &Data<'_>,
) -> Result<(), Failure> {
    match try_request(interface, to, handler, data) {
        Err(error) if error.is_temporary() => wait_and_request(interface, to, handler, data),
        done => done.map_err(|error| failed(interface, error)),
    }
}

#[cold]
fn wait_and_request(interface: &Interface, to: Connection, handler: HandlerId, data: &Data<'_>) -> Result<(), Failure> {
    let mut service = Service::new(interface, None);
    loop {
        service.turn()?;
        match try_request(interface, to, handler, data) {
            Err(error) if error.is_temporary() => {}
            done => return done.map_err(|error| failed(interface, error)),
        }
    }
}

#[inline]
fn try_request(interface: &Interface, to: Connection, handler: HandlerId, data: &Data<'_>) -> Result<(), RequestError> {
    let (endpoint, words) = (interface.endpoint.borrow(), interface.words());
    match data {
        Data::Bytes(bytes) => endpoint.try_request(to, handler, &words, bytes)?,
        Data::Vector(parts) => endpoint.try_request_vectored(to, handler, &words, parts)?,
    }
    endpoint.flush();
    Ok(())
}

#[cold]
fn failed(interface: &Interface, error: RequestError) -> Failure {
    match registry::close_if_lost(interface) {
        Ok(()) => interface.explain(error.into()),
        Err(lost) => lost,
    }
}
