//! The beginning and the end of a process's node and endpoints.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use am_api::{Builder, Endpoint, EndpointError, Events, Node, Owner};
use am_c_runtime::{NodeOwner, at_exit};

use crate::am::{self, Am};
use crate::bundle::Bundle;
use crate::code::Code;
use crate::context;
use crate::endpoint::{Common, Ep, Here, Tag};
use crate::header::MAX_PAYLOAD;
use crate::leave;
use crate::name::Name;
use crate::receive;
use crate::sleepers::Sleepers;
use crate::tables::Table;

/// How long a peer may leave a message unacknowledged: programs compute between two polls.
const PATIENCE: Duration = Duration::from_secs(30);
/// The keepalive: how long a peer to which nothing is sent may not poll.
const KEEPALIVE: Duration = Duration::from_secs(120);
/// The pause between two checks of leaving endpoints.
const PAUSE: Duration = Duration::from_micros(100);

/// `AM_Init`: find the process's place and open its node.
pub(crate) fn init() -> Result<(), Code> {
    let failed = |error: &dyn Display| {
        eprintln!("libam2: AM_Init: {error}");
        Code::Resource
    };
    am::not_in_child()
        .inspect_err(|_| _ = failed(&"this process was forked, and the node is its parent's: call it after exec"))?;
    let process = am::PROCESS.lock();
    if process.am.borrow().is_some() {
        return Ok(());
    }
    let owner = Owner::new().map_err(|error| failed(&error))?;
    let mut kept = process.place.borrow_mut();
    let place = kept.find().map_err(|error| failed(&error))?;
    at_exit(end_place);
    let node = place.open_with(with_settings).map_err(|error| failed(&error))?;
    let am = new_am(node, place.rank(), place.size(), NodeOwner::new(owner));
    *process.am.borrow_mut() = Some(Rc::new(am));
    Ok(())
}

/// The settings of a process's node.
pub(crate) fn with_settings(builder: Builder) -> Builder {
    builder.patience(PATIENCE).keepalive(KEEPALIVE).max_message(MAX_PAYLOAD)
}

/// A process without bundles.
pub(crate) fn new_am(node: Node, rank: usize, size: usize, owner: NodeOwner) -> Am {
    Am {
        rank,
        size,
        common: Rc::new(Common { node, endpoints: RefCell::new(Table::new(2)), totals: Rc::default() }),
        bundles: RefCell::new(Table::new(1)),
        leaving: RefCell::default(),
        pump: RefCell::default(),
        next_name: Cell::new(0),
        sleepers: Sleepers::default(),
        idle_polls: Cell::new(0),
        owner,
        #[cfg(feature = "echo")]
        hand: None,
    }
}

/// The process exits after `AM_Terminate`: say goodbye to the launcher, which takes a process that exits without this for a failed one.
fn end_place() {
    // Do not wait for the lock, because another thread may be in a call for ever.
    let Some(process) = am::PROCESS.try_lock() else { return };
    let is_over = process.am.try_borrow().is_ok_and(|am| am.is_none());
    if is_over && let Ok(mut kept) = process.place.try_borrow_mut() {
        drop(kept.take());
    }
}

/// `AM_Terminate`: free all endpoints, wait until their messages have arrived, then close the node.
pub(crate) fn terminate() -> Result<(), Code> {
    am::hang_up_if_lost()?;
    let process = am::PROCESS.lock();
    let am = process.am.borrow().clone().ok_or(Code::NotInit)?;
    if !am.sleepers.is_empty() || context::is_in_handler() {
        return Err(Code::InUse);
    }
    let endpoints: Vec<Rc<Ep>> = am.endpoints.borrow().all().cloned().collect();
    endpoints.iter().for_each(|ep| leave::free(&am, ep));
    drop(endpoints);
    while leave::drive(&am) {
        thread::sleep(PAUSE);
    }
    drop(am);
    let am = process.am.take();
    drop(am);
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
    let mut endpoint = open_endpoint(am, &own)?;
    // No events: a bundle has its own mask, see `sleepers`.
    endpoint.set_event_mask(Events::empty());
    let mut endpoints = am.endpoints.borrow_mut();
    let handle = endpoints.add(|handle| {
        receive::listen(&mut endpoint);
        Rc::new(Ep::new(handle, bundle.handle, name, endpoint, &am.totals))
    });
    let ep = endpoints.get(handle.ok_or(Code::Resource)?).ok_or(Code::Resource)?;
    bundle.add(&ep);
    // An endpoint accepts nothing before it has a tag.
    ep.tag.set(Tag(Tag::NONE));
    Ok(ep)
}

/// Open the node's endpoint of this name. If one was freed under this name, wait until it has left.
fn open_endpoint(am: &Am, name: &str) -> Result<Endpoint<Here>, Code> {
    loop {
        match am.node.endpoint::<Here>(name) {
            Ok(endpoint) => return Ok(endpoint),
            Err(EndpointError::Taken(_)) if leave::is_leaving(am, name) => {
                leave::drive(am);
                thread::sleep(PAUSE);
            }
            Err(EndpointError::Taken(_)) => return Err(Code::InUse),
            Err(_) => return Err(Code::Resource),
        }
    }
}
