//! For a program that waits on descriptors: one that is readable as soon as the program has to call PVM.
//!
//! ```text
//!   pvm_getfds                       PVM's own, and this one: it is there before the node is
//!   pvm_notify(PvmRouteAdd, ..)      this one, with each task whose messages come as active messages from now on
//!   pvm_notify(PvmRouteDelete, ..)   when such a task has ended
//! ```
//!
//! A program may take PVM's list only once, at its start, and learn of new routes by these messages.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::slice;
use std::sync::OnceLock;

use am_api::own::{Own, high};
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::layout::XDR;
use crate::library::Library;
use crate::pair::Loose;

/// Readable if one of the node's descriptors is. The program has its number.
static JOINT: OnceLock<Option<Own>> = OnceLock::new();

/// The descriptor. `None` if the process can have no more.
pub(crate) fn descriptor() -> Option<RawFd> {
    let joint = JOINT.get_or_init(|| epoll::create(CreateFlags::CLOEXEC).ok().map(|epoll| Own::new(high(epoll))));
    joint.as_ref().map(AsRawFd::as_raw_fd)
}

/// Whether the program waits on descriptors.
#[inline]
pub(crate) fn is_wanted() -> bool {
    JOINT.get().is_some()
}

/// The descriptor is readable, too, as long as this one is.
pub(crate) fn add(part: BorrowedFd<'_>) {
    if let Some(joint) = JOINT.get().and_then(|joint| joint.as_ref()?.get()) {
        // It fails for one that was added before.
        _ = epoll::add(joint, part, EventData::new_u64(0), EventFlags::IN);
    }
}

/// What a program asks PVM to say.
const ROUTE_ADDED: c_int = 4;
const ROUTE_DELETED: c_int = 5;
/// It does not want it any more.
const CANCEL: c_int = 256;

/// A message that the program wants: its context and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    context: c_int,
    tag: c_int,
}

/// Of each new route, this number of times. -1 is always.
#[derive(Debug)]
struct Added {
    wish: Wish,
    times: c_int,
}

#[derive(Debug, Default)]
struct News {
    added: Vec<Added>,
    /// The end of the route to this task.
    deleted: Vec<(Wish, c_int)>,
    /// The tasks that the program knows to have the descriptor for a route.
    routes: Vec<c_int>,
}

static NEWS: Mutex<News> = Mutex::new(News { added: vec![], deleted: vec![], routes: vec![] });

/// A call of `pvm_notify`. Returns whether it is not PVM's: it asks for the end of routes that PVM does not know.
///
/// # Safety
/// There are `count` numbers.
pub(crate) unsafe fn notify(library: &Library, what: c_int, tag: c_int, count: c_int, tasks: *const c_int) -> bool {
    let wish = Wish { context: library.own_context(), tag };
    let mut news = NEWS.lock();
    match what & !CANCEL {
        ROUTE_ADDED => {
            news.added.retain(|added| added.wish != wish);
            if count != 0 && what & CANCEL == 0 {
                news.added.push(Added { wish, times: count });
            }
            false
        }
        ROUTE_DELETED if count > 0 && !tasks.is_null() => {
            // SAFETY: the caller's promise.
            let tasks = unsafe { slice::from_raw_parts(tasks, count as usize) };
            let is_own = tasks.iter().all(|task| news.routes.contains(task));
            if is_own {
                news.deleted.extend(tasks.iter().map(|&task| (wish, task)));
            }
            is_own
        }
        _ => false,
    }
}

/// The task leaves PVM: what it has asked for ends.
pub(crate) fn forget() {
    *NEWS.lock() = News::default();
}

fn message(library: &Library, wish: Wish, task: c_int, descriptor: c_int) -> Loose {
    let bytes: Vec<u8> = [task, descriptor].into_iter().flat_map(c_int::to_be_bytes).collect();
    let message = library.build(&[&bytes], XDR);
    // SAFETY: it was just made.
    unsafe { ((*message).context, (*message).tag) = (wish.context, wish.tag) };
    Loose::new(message)
}

/// The messages of this task come as active messages from now on. Returns what the program wants to hear of it.
pub(crate) fn route_added(library: &Library, task: c_int) -> Vec<Loose> {
    let mut news = NEWS.lock();
    let News { added, routes, .. } = &mut *news;
    let Some(descriptor) = (if added.is_empty() { None } else { descriptor() }) else { return vec![] };
    routes.push(task);
    let messages = added.iter().map(|added| message(library, added.wish, task, descriptor)).collect();
    added.iter_mut().for_each(|added| added.times -= c_int::from(added.times > 0));
    added.retain(|added| added.times != 0);
    messages
}

/// This task has ended. Returns what the program wants to hear of it.
pub(crate) fn route_deleted(library: &Library, task: c_int) -> Vec<Loose> {
    let mut news = NEWS.lock();
    let News { deleted, routes, .. } = &mut *news;
    routes.retain(|&route| route != task);
    deleted.extract_if(.., |(_, of)| *of == task).map(|(wish, task)| message(library, wish, task, -1)).collect()
}
