//! Two tasks connect: each has the other's address. One asks, and the other accepts; it does no harm if both ask.

use std::time::Duration;

use am_api::{Connection, NotOpen};

use crate::code::{Code, Failure, of_not_open};
use crate::handle::Handle;
use crate::interface::{ENDPOINT, Interface};
use crate::place::Place;
use crate::registry;
use crate::send::Service;

/// The place that a text names, which another task has to be at. The endpoint has to be free for it.
fn prepare(interface: &Interface, endpoint: Handle, name: &str) -> Result<Place, Failure> {
    let wrong = |text: String| Failure::new(Code::Address, text);
    interface.shared.tasks.borrow().check(endpoint)?;
    let Some(place) = Place::parse(name) else {
        return Err(wrong(format!(
            "`{}` is no address: pass what am_task_address returns in the other task",
            shown(name)
        )));
    };
    if place.node == interface.place.node {
        return Err(wrong("this is the address of this task itself: call the handler's function instead".to_owned()));
    }
    release_if_ended(interface, endpoint)?;
    let other = interface.shared.tasks.borrow().endpoint_of_node(&place.node);
    if other.is_some_and(|other| other != endpoint) {
        let text =
            "another endpoint of this interface is connected with this task: use that one, or deallocate it first";
        return Err(Failure::new(Code::Connected, text));
    }
    place.note(&interface.place, &interface.node).map_err(wrong)?;
    Ok(place)
}

/// The beginning of a text.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// An endpoint whose connection has ended may have another one.
fn release_if_ended(interface: &Interface, endpoint: Handle) -> Result<(), Failure> {
    let connection = interface.shared.tasks.borrow().target(endpoint).map(|target| target.connection);
    match connection {
        Ok(connection) if interface.endpoint.borrow().is_open(connection) => Err(Failure::plain(Code::Connected)),
        Ok(_) => {
            close(interface, endpoint);
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// Connect the endpoint with the task at this address.
pub(crate) fn connect(interface: &Interface, endpoint: Handle, name: &str) -> Result<(), Failure> {
    let place = prepare(interface, endpoint, name)?;
    let accepted = interface.shared.tasks.borrow().accepted_from(&place.node);
    let connection = match accepted.filter(|connection| interface.endpoint.borrow().is_open(*connection)) {
        // It has asked before.
        Some(connection) => connection,
        None => open(interface, &place).map_err(|failure| interface.explain(failure))?,
    };
    interface.shared.tasks.borrow_mut().connect(endpoint, place, connection)
}

/// Ask for a connection until there is one. A task that does not answer may have other things to do.
fn open(interface: &Interface, place: &Place) -> Result<Connection, Failure> {
    let mut service = Service::new(interface, Some(interface.timeout));
    loop {
        let asked = interface.endpoint.borrow().connect_with_tag(&place.node, ENDPOINT, place.tag());
        let connection = asked.map_err(Failure::of(Code::Unreachable))?;
        let why = loop {
            let turned = service.turn();
            let ready = interface.endpoint.borrow().ready(connection);
            match (turned, ready) {
                (Ok(()), Ok(())) => return Ok(connection),
                (Err(failure), _) => {
                    interface.endpoint.borrow().close(connection);
                    return Err(failure);
                }
                (Ok(()), Err(NotOpen::Connecting)) if !service.is_over() => {}
                (Ok(()), Err(why)) => break why,
            }
        };
        let is_final = service.is_over() || matches!(why, NotOpen::Refused(_));
        // With what this node knows of its peers.
        let text = interface.with_endpoint(|endpoint, state| {
            endpoint
                .wait_open(state, connection, Duration::ZERO)
                .map_or_else(|error| error.to_string(), |()| String::new())
        });
        interface.endpoint.borrow().close(connection);
        if is_final {
            let text = format!(
                "no answer from `{}` within {:?}: {text}. Is its task in a call of this library, as am_accept_task, and this its address?",
                place.node, interface.timeout
            );
            let code = if service.is_over() { Code::Timeout } else { of_not_open(why) };
            return Err(Failure::new(code, text));
        }
    }
}

/// Wait until the task at this address has connected.
pub(crate) fn accept(interface: &Interface, endpoint: Handle, name: &str) -> Result<(), Failure> {
    let place = prepare(interface, endpoint, name)?;
    let mut service = Service::new(interface, Some(interface.timeout));
    loop {
        let accepted = interface.shared.tasks.borrow().accepted_from(&place.node);
        if let Some(connection) = accepted {
            return interface.shared.tasks.borrow_mut().connect(endpoint, place, connection);
        }
        if service.is_over() {
            let text = format!(
                "`{}` has not connected within {:?}: it has to call am_connect_task with the address of this task; of two tasks one \
                 connects, and the other accepts",
                place.node, interface.timeout
            );
            return Err(interface.explain(Failure::new(Code::Timeout, text)));
        }
        service.turn()?;
    }
}

/// Wait until all that was sent on these connections is accepted, or has come back.
///
/// # Errors
/// It is not within the interface's time.
pub(crate) fn finish(interface: &Interface, connections: impl Fn() -> Vec<Connection>) -> Result<(), Failure> {
    let mut service = Service::without_event(interface, interface.timeout);
    loop {
        let all = connections();
        let is_accepted = |connection: &Connection| interface.endpoint.borrow().is_accepted(*connection);
        if all.iter().all(is_accepted) {
            return Ok(());
        }
        if service.is_over() {
            let text = format!(
                "messages were not acknowledged within {:?}, and may not arrive: their task does not poll, or is not reached",
                interface.timeout
            );
            return Err(interface.explain(Failure::new(Code::Timeout, text)));
        }
        service.turn()?;
    }
}

/// Close the connections of an endpoint.
pub(crate) fn close(interface: &Interface, endpoint: Handle) {
    let Some((target, connections)) = interface.shared.tasks.borrow_mut().disconnect(endpoint) else { return };
    let own = interface.endpoint.borrow();
    connections.into_iter().for_each(|connection| own.close(connection));
    own.flush();
    target.place.forget(&interface.node);
}

/// End an endpoint.
///
/// # Errors
/// As for [`finish`]; the endpoint has ended.
pub(crate) fn deallocate(interface: &Interface, endpoint: Handle) -> Result<(), Failure> {
    interface.shared.tasks.borrow().check(endpoint)?;
    let finished = finish(interface, || interface.shared.tasks.borrow().connections(endpoint));
    close(interface, endpoint);
    interface.shared.tasks.borrow_mut().deallocate(endpoint);
    finished
}

/// End an interface.
///
/// # Errors
/// As for [`finish`]; the interface has ended.
pub(crate) fn shut_down(interface: &Interface) -> Result<(), Failure> {
    registry::close_if_lost(interface)?;
    let finished = finish(interface, || interface.shared.tasks.borrow().all_connections());
    registry::remove(interface);
    finished
}
