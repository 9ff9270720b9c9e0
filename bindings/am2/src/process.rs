//! The beginning and the end of a process's node and endpoints.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Once;
use std::thread;
use std::time::Duration;

use am_api::{Endpoint, EndpointError, Events, Owner};
use am_c_runtime::NodeOwner;
use am_spmd::{FindError, Place};

use crate::am::{self, Am, Kept, Process};
use crate::bundle::Bundle;
use crate::code::Code;
use crate::context;
use crate::endpoint::{Ep, Tag};
use crate::leave;
use crate::name::Name;
use crate::receive;
use crate::sleepers::Sleepers;
use crate::tables::Table;

/// How long a peer may leave a message unacknowledged: programs compute between two polls.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a peer to which nothing is sent may go without a poll.
const KEEPALIVE: Duration = Duration::from_secs(120);
/// Between two looks at endpoints that leave.
const PAUSE: Duration = Duration::from_micros(100);

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
    let place = find_place(&process).map_err(|error| {
        say(&error);
        Code::Resource
    })?;
    let node = place.borrow_mut().open_with(|builder| builder.patience(PATIENCE).keepalive(KEEPALIVE));
    let node = node.map_err(|error| {
        say(&error);
        Code::Resource
    })?;
    let (rank, size) = (place.borrow().rank(), place.borrow().size());
    let am = Am {
        place,
        rank,
        size,
        node,
        bundles: RefCell::new(Table::new(1)),
        endpoints: RefCell::new(Table::new(2)),
        leaving: RefCell::default(),
        totals: Rc::default(),
        pump: RefCell::default(),
        next_name: Cell::new(0),
        sleepers: Sleepers::default(),
        owner: NodeOwner::new(owner),
    };
    *process.am.borrow_mut() = Some(Rc::new(am));
    Ok(())
}

/// The place of this process. A launcher gives it once, so it is kept for the next `AM_Init`, also where this one fails.
fn find_place(process: &Process) -> Result<Rc<RefCell<Place>>, FindError> {
    if let Some(kept) = process.place.take().and_then(Kept::if_own)
        && kept.place.borrow().is_launched()
    {
        let place = kept.place.clone();
        *process.place.borrow_mut() = Some(kept);
        return Ok(place);
    }
    let place = Rc::new(RefCell::new(Place::find()?));
    static AT_EXIT: Once = Once::new();
    // SAFETY: the function belongs to this library, which a program does not unload before it exits.
    AT_EXIT.call_once(|| _ = unsafe { nix::libc::atexit(end_place) });
    *process.place.borrow_mut() = Some(Kept::new(place.clone()));
    Ok(place)
}

/// The process exits after `AM_Terminate`: take leave of the launcher, which takes a process that does not for a failed one.
extern "C" fn end_place() {
    if am::not_in_child().is_err() {
        return;
    }
    // Another thread may be in a call, and stay there.
    let Some(process) = am::PROCESS.try_lock() else { return };
    let is_over = process.am.try_borrow().is_ok_and(|am| am.is_none());
    if is_over && let Ok(mut kept) = process.place.try_borrow_mut() {
        drop(kept.take().and_then(Kept::if_own));
    }
}

/// `AM_Terminate`: free all endpoints, wait until what they have sent has arrived, then close the node.
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
    // A bundle looks at its own mask; see `sleepers`.
    endpoint.set_event_mask(Events::empty());
    let mut endpoints = am.endpoints.borrow_mut();
    let handle = endpoints.add(|handle| {
        receive::listen(&mut endpoint, handle);
        Rc::new(Ep::new(handle, bundle.handle, name, endpoint, &am.totals))
    });
    let ep = endpoints.get(handle.ok_or(Code::Resource)?).ok_or(Code::Resource)?;
    bundle.add(&ep);
    // An endpoint accepts nothing before it has a tag.
    ep.tag.set(Tag(Tag::NONE));
    Ok(ep)
}

/// The node's endpoint of this name. One that was freed under the name leaves first.
fn open_endpoint(am: &Am, name: &str) -> Result<Endpoint<()>, Code> {
    loop {
        match am.node.endpoint::<()>(name) {
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
