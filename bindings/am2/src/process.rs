//! The beginning and the end of a process's node and endpoints.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use am_api::{Events, own};
use am_spmd::Place;

use crate::am::{self, Am};
use crate::bundle::Bundle;
use crate::code::Code;
use crate::context;
use crate::endpoint::{Ep, Tag};
use crate::forked::Owner;
use crate::name::Name;
use crate::progress;
use crate::receive;
use crate::sleepers::Sleepers;
use crate::tables::Table;

/// How long a peer may leave a message unacknowledged: programs compute between two polls.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a peer to which nothing is sent may go without a poll.
const KEEPALIVE: Duration = Duration::from_secs(120);

/// `AM_Init`: find the process's place and open its node.
pub(crate) fn init() -> Result<(), Code> {
    let say = |error: &dyn std::fmt::Display| eprintln!("libam2: AM_Init: {error}");
    am::not_in_child()
        .inspect_err(|_| say(&"this process was forked, and the node is its parent's: call it after exec"))?;
    let process = am::PROCESS.lock();
    if process.am.borrow().is_some() {
        return Ok(());
    }
    let owner = Owner::new().map_err(|error| {
        say(&error);
        Code::Resource
    })?;
    let mut place = Place::find().map_err(|error| {
        say(&error);
        Code::Resource
    })?;
    let node = place.open_with(|builder| builder.patience(PATIENCE).keepalive(KEEPALIVE)).map_err(|error| {
        say(&error);
        Code::Resource
    })?;
    let am = Am {
        place: RefCell::new(place),
        node,
        bundles: RefCell::new(Table::new(1)),
        endpoints: RefCell::new(Table::new(2)),
        next_name: Cell::new(0),
        sleepers: Sleepers::default(),
        losses: own::losses(),
        _owner: owner,
    };
    *process.am.borrow_mut() = Some(Rc::new(am));
    Ok(())
}

/// `AM_Terminate`: close all endpoints, then the node.
pub(crate) fn terminate() -> Result<(), Code> {
    am::hang_up_if_lost()?;
    let process = am::PROCESS.lock();
    let am = process.am.borrow_mut().take().ok_or(Code::NotInit)?;
    if !am.sleepers.is_empty() || context::is_in_handler() {
        *process.am.borrow_mut() = Some(am);
        return Err(Code::InUse);
    }
    progress::flush(&am);
    Ok(())
}

/// A new endpoint, named after the port if there is one.
pub(crate) fn add_endpoint(am: &Am, bundle: &Bundle, port: Option<u32>) -> Result<Rc<Ep>, Code> {
    let own = port.map_or_else(
        || {
            am.next_name.set(am.next_name.get() + 1);
            format!("ep{}", am.next_name.get())
        },
        |port| format!("port{port}"),
    );
    let name = Name::new(am.node.name(), &own, &am.node.local_address()).ok_or(Code::Resource)?;
    let mut endpoint = am.node.endpoint::<()>(&own).map_err(|error| match error {
        am_api::EndpointError::Taken(_) => Code::InUse,
        _ => Code::Resource,
    })?;
    // A bundle looks at its own mask; see `sleepers`.
    endpoint.set_event_mask(Events::empty());
    let mut endpoints = am.endpoints.borrow_mut();
    let handle = endpoints.add(|handle| {
        receive::listen(&mut endpoint, handle);
        Rc::new(Ep::new(handle, bundle.handle, name, endpoint))
    });
    let ep = endpoints.get(handle.ok_or(Code::Resource)?).ok_or(Code::Resource)?;
    bundle.add(&ep);
    // An endpoint accepts nothing before it has a tag.
    ep.tag.set(Tag(Tag::NONE));
    Ok(ep)
}
