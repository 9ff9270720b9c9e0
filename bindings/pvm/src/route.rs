//! `mroute`: where each message of the program goes, and where each one that arrives comes from.
//!
//! ```text
//!   mroute(message, to, tag, time)
//!     a handler of the program calls?   send at once, or later: never wait
//!     to a task that has agreed         active messages (send.rs)
//!     to another task                   an offer, once (agree.rs); then PVM's own route
//!     to anything else                  PVM's own route
//!   then, until a message has arrived, or the time is over
//!     active messages that have arrived ─▶ PVM's list (mesg_input)
//!     the daemon's socket, direct routes ─▶ PVM's own mroute, without a wait
//!     nothing: spin for a moment, then sleep on both
//! ```

use std::collections::VecDeque;
use std::ffi::c_int;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use am_c_runtime::thread_end;
use libc::timeval;
use parking_lot::Mutex;

use crate::agree::{self, Word};
use crate::ending;
use crate::idle::{self, Idle};
use crate::layout::{self, CONNECT_REQUEST, CONTROL, DAEMON, DAEMON_CONTEXT, EXIT, HALT, Pmsg, TASK_EXIT};
use crate::library::Library;
use crate::pair::{Loose, OWES, Stage};
use crate::process::{self, Process};
use crate::progress::{Away, Call};
use crate::pvm_route::{self, ALLOWED, NOW, Within, during, within};
use crate::send::{self, Progress, Sent};
use crate::wait::sleep_on;
use crate::watch;

/// PVM's error for a handler that wants to wait.
const NOT_IMPLEMENTED: c_int = -24;

/// PVM's error where the daemon cannot be reached.
pub(crate) const SYSTEM_ERROR: c_int = -14;

/// How often a program that is busy with active messages looks at the daemon's socket.
const LOOK: Duration = Duration::from_micros(100);

/// How long a message of the daemon waits while others send without a pause.
const DRAIN: Duration = Duration::from_millis(50);
/// How long a task that ends waits until its messages are accepted.
pub(crate) const FINISH: Duration = Duration::from_secs(5);

/// Messages that handlers of the program have sent, and that had to wait: a copy of each, its task and its tag.
static LATER: Mutex<VecDeque<(Loose, c_int, c_int)>> = Mutex::new(VecDeque::new());

/// The program's own call sends a message, and may receive meanwhile: what a handler sends then comes after it.
static IS_SENDING: AtomicBool = AtomicBool::new(false);

/// Sending a message, as long as it lasts.
struct Sending;

impl Sending {
    fn begin() -> Sending {
        IS_SENDING.store(true, Ordering::Relaxed);
        Sending
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        IS_SENDING.store(false, Ordering::Relaxed);
    }
}

/// The program has handlers: what PVM gets may be given to one, which may compute.
static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);

/// When the daemon's socket was last looked at, in nanoseconds of the host's clock. 0 if it has to be looked at.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// The task has left PVM. The daemon reads nothing more of it, so a message for another task would wait for ever.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// The daemon has answered that the task has left. PVM reads nothing behind this answer, as the notice of the task's own exit.
static IS_LET_GO: AtomicBool = AtomicBool::new(false);

/// How many messages PVM has been given: whatever a call does, it may receive some, and no call may wait for one that has arrived.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// How many messages PVM has been given since then.
fn given_since(before: u32) -> c_int {
    GIVEN.load(Ordering::Relaxed).wrapping_sub(before) as c_int
}

/// PVM's `mroute`, whose place this takes.
pub(crate) fn route(library: &'static Library, mid: c_int, to: c_int, tag: c_int, time: Option<&timeval>) -> c_int {
    if within() != Within::None {
        return route_in_handler(library, mid, to, tag, time);
    }
    // SAFETY: a number, of a message or not.
    let message = unsafe { (library.message)(mid) };
    let _call = Call::begin();
    let before = GIVEN.load(Ordering::Relaxed);
    // Before what the program sends now.
    send_later(library);
    let mut count = 0;
    if !message.is_null() {
        // SAFETY: a message of PVM's.
        unsafe { ((*message).destination, (*message).tag) = (to, tag) };
        count = send(library, message, to, tag);
    } else if !process::is_open() {
        return pvm_route::route(library, mid, to, tag, time);
    }
    if count >= 0 {
        count = receive(library, before, time, message.is_null());
    }
    arm(library);
    count
}

/// A handler of the program calls. As in PVM, what it sends may leave later, and it cannot wait.
fn route_in_handler(library: &'static Library, mid: c_int, to: c_int, tag: c_int, time: Option<&timeval>) -> c_int {
    // SAFETY: a number, of a message or not.
    let message = unsafe { (library.message)(mid) };
    let may_wait = time.is_none_or(|time| time.tv_sec != 0 || time.tv_usec != 0);
    if !message.is_null() {
        // SAFETY: a message of PVM's.
        let is_data = unsafe { is_data(message, to, tag) };
        let is_first = LATER.lock().is_empty() && !IS_SENDING.load(Ordering::Relaxed);
        let is_active = is_data && agree::is_switched(library, to);
        let sent = match is_active && is_first {
            // SAFETY: as above.
            true => unsafe { send::send(library, message, to, tag, &mut Progress::default()) },
            false => Sent::Blocked,
        };
        match sent {
            Sent::All => {}
            // PVM queues it itself.
            _ if within() == Within::Route && !is_active => {
                return pvm_route::route(library, mid, to, tag, time);
            }
            Sent::Blocked | Sent::Ended => {
                LATER.lock().push_back((copy(library, message), to, tag));
                OWES.store(true, Ordering::Relaxed);
            }
        }
    }
    if may_wait { NOT_IMPLEMENTED } else { 0 }
}

/// A copy of a message, which its handler may free.
fn copy(library: &Library, message: *mut Pmsg) -> Loose {
    // SAFETY: a message of PVM's, and a new one.
    unsafe {
        let fragments: Vec<&[u8]> = layout::fragments(message).collect();
        let encoding = (*message).encoding;
        let encoding = if encoding == layout::IN_PLACE { library.own_encoding() } else { encoding };
        let copy = library.build(&fragments, encoding);
        (*copy).context = (*message).context;
        (*copy).wait_id = (*message).wait_id;
        (*copy).source = (*message).source;
        Loose::new(copy)
    }
}

/// Whether this is a message of the program, and not one of the libraries or for the daemon.
///
/// # Safety
/// The message is PVM's.
unsafe fn is_data(message: *const Pmsg, to: c_int, tag: c_int) -> bool {
    // SAFETY: the caller's promise.
    tag >= 0 && layout::is_task(to) && unsafe { (*message).context } != CONTROL
}

/// Send a message. Returns PVM's error if it is negative.
fn send(library: &'static Library, message: *mut Pmsg, to: c_int, tag: c_int) -> c_int {
    if (to, tag) == (DAEMON, EXIT) {
        wait_accepted(library);
        send_later(library);
        HAS_LEFT.store(true, Ordering::Relaxed);
    }
    if (to, tag) == (DAEMON, HALT) {
        ending::note_halt();
    }
    // SAFETY: a message of PVM's.
    if unsafe { is_data(message, to, tag) } && to != library.own_tid() {
        if agree::is_switched(library, to) {
            return send_active(library, message, to, tag);
        }
        if is_new(to) {
            agree::offer(library, to);
        }
        let stage = process::with(|process| {
            process.pairs.counts.passed += 1;
            process.pairs.stage(to).0
        });
        // They need no direct route, and the other task may not answer a request for one.
        if stage == Some(Stage::Agreed) {
            return library.with_route_option(ALLOWED, || pass_on(library, message, to, tag));
        }
    }
    pass_on(library, message, to, tag)
}

/// Send a message by PVM's own route.
fn pass_on(library: &Library, message: *mut Pmsg, to: c_int, tag: c_int) -> c_int {
    // SAFETY: a message of PVM's.
    let mid = unsafe { (*message).mid };
    pvm_route::route(library, mid, to, tag, NOW)
}

/// Before the task leaves, wait until the others have accepted what it has sent. The daemon may say meanwhile that one has ended.
fn wait_accepted(library: &'static Library) {
    let (until, mut idle) = (Instant::now() + FINISH, Idle::default());
    while process::with(Process::is_all_accepted) == Some(false) && Instant::now() < until {
        if serve(library, &mut idle, Some(until)) < 0 {
            return;
        }
    }
}

/// The daemon has let the task go, which may become another one.
pub(crate) fn end() {
    process::close(FINISH);
    watch::forget();
    HAS_LEFT.store(false, Ordering::Relaxed);
    IS_LET_GO.store(false, Ordering::Relaxed);
}

/// Whether nothing was ever sent to this task.
pub(crate) fn is_new(task: c_int) -> bool {
    process::with(|process| process.pairs.stage(task).0 == Stage::New).unwrap_or(true)
}

/// Send a message as active messages. While there is no room, receive.
fn send_active(library: &'static Library, message: *mut Pmsg, to: c_int, tag: c_int) -> c_int {
    // SAFETY: a message of PVM's. A handler may free it meanwhile, so this needs a reference of its own.
    unsafe { (*message).references += 1 };
    let (mut progress, mut error, mut idle) = (Progress::default(), 0, Idle::default());
    let sending = Sending::begin();
    let sent = loop {
        // SAFETY: as above; nothing of the program runs meanwhile.
        let sent = unsafe { send::send(library, message, to, tag, &mut progress) };
        if sent != Sent::Blocked {
            break sent;
        }
        error = serve(library, &mut idle, None).min(0);
        if error < 0 {
            break Sent::All;
        }
    };
    drop(sending);
    // SAFETY: the reference from above.
    unsafe { (library.unref_message)(message) };
    if sent == Sent::Ended {
        // What comes back was sent before this message.
        _ = process::with(|process| {
            process.poll();
            process.end(to);
        });
        send_back(library);
        // The task may have been forgotten meanwhile.
        let is_known = process::with(|process| process.pairs.stage(to).0 == Stage::Own) == Some(true);
        return if is_known { pass_on(library, message, to, tag) } else { 0 };
    }
    error
}

/// How long a time of the program is. As PVM, it takes more than a million microseconds for what they are.
fn length_of(time: &timeval) -> Duration {
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(positive(time.tv_sec)).saturating_add(Duration::from_micros(positive(time.tv_usec)))
}

/// Receive until a message has arrived since `before`, or the time is over. Returns how many have, or PVM's error.
fn receive(library: &'static Library, before: u32, time: Option<&timeval>, is_look: bool) -> c_int {
    let time = time.map(length_of);
    let is_look = is_look && time.is_some_and(|time| time.is_zero());
    let until = time.filter(|time| !time.is_zero()).and_then(|time| Instant::now().checked_add(time));
    let mut idle = Idle::default();
    loop {
        // A call that only looks sees all that has arrived.
        if is_look {
            deliver(library);
        } else {
            deliver_one(library);
        }
        let error = look_if_due(library).min(0);
        let count = given_since(before);
        if error < 0 {
            // The next call meets it again.
            return if count > 0 { count } else { error };
        }
        let is_over = time.is_some_and(|time| time.is_zero()) || until.is_some_and(|until| until <= Instant::now());
        if count > 0 {
            idle.end();
        }
        if count > 0 || is_over {
            return count;
        }
        // Handlers may have left some.
        send_later(library);
        if !rest(library, &mut idle, until) {
            return SYSTEM_ERROR;
        }
    }
}

/// One turn of a send that waits. Returns how many messages have arrived, or PVM's error. It rests first: the turn may receive what the send
/// waits for, and the caller looks before it rests again.
fn serve(library: &'static Library, idle: &mut Idle, until: Option<Instant>) -> c_int {
    if !rest(library, idle, until) {
        return SYSTEM_ERROR;
    }
    let handled = process::with(Process::poll).unwrap_or(0);
    let count = deliver(library);
    let found = look_if_due(library);
    if found < 0 {
        return found;
    }
    if handled > 0 || count + found > 0 {
        idle.end();
    }
    count + found
}

/// Nothing has happened: spin, or sleep until something does. `false` if the thread has been cancelled: the call has to return.
fn rest(library: &Library, idle: &mut Idle, until: Option<Instant>) -> bool {
    if idle.spins() {
        hint::spin_loop();
        return true;
    }
    let armed = process::with(|process| process.prepare_wait().then(|| process.descriptor()));
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let own = library.own_descriptors().iter().copied();
    let descriptors: Vec<c_int> = match armed {
        // Something has arrived just now.
        Some(None) => {
            _ = process::with(Process::note_no_sleep);
            thread::yield_now();
            return !thread_end::is_ending();
        }
        Some(Some(descriptor)) => own.chain([descriptor]).collect(),
        None => own.collect(),
    };
    sleep_on(&descriptors, left);
    // It may be the daemon that ended the sleep.
    LOOKED.store(0, Ordering::Relaxed);
    !thread_end::is_ending()
}

/// A descriptor for a program that waits. It is readable as soon as the program has to call PVM.
pub(crate) fn watch(library: &'static Library) -> Option<c_int> {
    let descriptor = watch::descriptor()?;
    _ = process::with(|process| process.watch());
    arm(library);
    Some(descriptor)
}

/// After each call: the program may wait on the node's descriptors next.
fn arm(library: &Library) {
    if !watch::is_wanted() {
        return;
    }
    _ = process::with(|process| process.silence());
    while process::with(Process::prepare_wait) == Some(false) {
        deliver(library);
    }
}

/// Look at the daemon's socket if it was not looked at for a while. Returns the number of messages, or PVM's error.
fn look_if_due(library: &Library) -> c_int {
    let since = (idle::now().as_nanos() as u64).saturating_sub(LOOKED.load(Ordering::Relaxed));
    let is_due = since > LOOK.as_nanos() as u64 && !IS_LET_GO.load(Ordering::Relaxed);
    let found = if is_due { look(library) } else { 0 };
    if process::is_lost() { SYSTEM_ERROR } else { found }
}

/// Receive what the daemon and direct routes have. Returns the number of messages, or PVM's error.
fn look(library: &Library) -> c_int {
    LOOKED.store(idle::now().as_nanos() as u64, Ordering::Relaxed);
    if !sleep_on(library.own_descriptors(), Some(Duration::ZERO)) {
        return 0;
    }
    let found = pvm_route::route(library, 0, 0, 0, NOW);
    if found < 0 {
        // The next call hears it, too.
        LOOKED.store(0, Ordering::Relaxed);
    }
    found
}

/// The program has a handler from now on.
pub(crate) fn note_handler() {
    HAS_HANDLERS.store(true, Ordering::Relaxed);
}

/// Give PVM the messages that have arrived. Returns how many.
pub(crate) fn deliver(library: &Library) -> c_int {
    let mut count = 0;
    while deliver_one(library) {
        count += 1;
    }
    count
}

/// Give PVM the next message that has arrived. PVM's own `mroute` receives one at a time, too: a program may add a handler when it gets a
/// message, and the handler is for the next one already.
fn deliver_one(library: &Library) -> bool {
    let Some(message) = process::with(Process::take).flatten() else { return false };
    let message = message.into_raw();
    let _away = HAS_HANDLERS.load(Ordering::Relaxed).then(Away::begin);
    let during_what = if within() == Within::Route { Within::Route } else { Within::Delivery };
    // SAFETY: a whole message, in no list.
    during(during_what, || unsafe { pvm_route::input(library, message) });
    GIVEN.fetch_add(1, Ordering::Relaxed);
    true
}

/// Receive, and give PVM, everything that the node's transports have now: a long message is in many frames.
fn drain(library: &Library) {
    let end = Instant::now() + DRAIN;
    while process::with(Process::prepare_wait) == Some(false) && Instant::now() < end {
        _ = process::with(Process::poll);
        deliver(library);
    }
}

/// Send what has come back, by PVM's route.
fn send_back(library: &Library) {
    if process::with(|process| process.pairs.has_back()) != Some(true) {
        return;
    }
    // The daemon may have said that a task has ended. Then its messages are dropped: another task may have its number by now.
    let end = Instant::now() + DRAIN;
    while look(library) > 0 && Instant::now() < end {}
    while process::with(|process| process.pairs.has_back()) == Some(true) {
        for (message, to, tag) in process::with(|process| process.pairs.take_back()).unwrap_or_default() {
            let message = message.into_raw();
            // SAFETY: a message of this library's, freed after it was sent.
            unsafe {
                ((*message).destination, (*message).tag) = (to, tag);
                library.with_route_option(ALLOWED, || pass_on(library, message, to, tag));
                (library.free_message)(message);
            }
        }
    }
}

/// Send what has come back, and what handlers have left.
fn send_later(library: &'static Library) {
    if !OWES.load(Ordering::Relaxed) || HAS_LEFT.load(Ordering::Relaxed) {
        return;
    }
    OWES.store(false, Ordering::Relaxed);
    send_back(library);
    loop {
        let next = LATER.lock().pop_front();
        let Some((message, to, tag)) = next else { return };
        let message = message.into_raw();
        // SAFETY: a copy of this library's, freed after it was sent.
        unsafe {
            ((*message).destination, (*message).tag) = (to, tag);
            send(library, message, to, tag);
            (library.free_message)(message);
        }
    }
}

/// Give PVM messages of this library.
fn give(library: &Library, messages: Vec<Loose>) {
    for message in messages {
        // SAFETY: a message of this library's, in no list.
        unsafe { pvm_route::input(library, message.into_raw()) };
        GIVEN.fetch_add(1, Ordering::Relaxed);
    }
}

/// PVM's `mesg_input`, through which each message comes that arrives by PVM's own route.
pub(crate) fn input(library: &'static Library, message: *mut Pmsg) -> c_int {
    // SAFETY: a message of PVM's, in no list.
    let (word, from, context, tag) =
        unsafe { (Word::in_message(message), (*message).source, (*message).context, (*message).tag) };
    if let Some(word) = word {
        if word == Word::Switch {
            give(library, watch::route_added(library, from));
            _ = process::with(|process| process.watch());
        }
        agree::heard(library, from, word);
        // SAFETY: as above.
        return unsafe { (library.free_message)(message) };
    }
    // What was sent as active messages before this is PVM's first.
    deliver(library);
    if !layout::is_task(from) {
        // The daemon may say that a task has ended.
        drain(library);
        if (context, tag) == (DAEMON_CONTEXT, EXIT) {
            IS_LET_GO.store(true, Ordering::Relaxed);
        }
    }
    // This library hears of an exit, and the program, in two messages: after either nothing of the task arrives.
    let is_notice = (context, tag) == (CONTROL, TASK_EXIT) || !layout::is_task(from) && context != CONTROL && tag >= 0;
    // SAFETY: as above.
    if let Some(task) = is_notice.then(|| unsafe { layout::only_number(message) }).flatten() {
        // Of two that are on their way, one is the answer to this library, and PVM's handlers do not get it: a task tells of their calls.
        let is_own = (context, tag) == (CONTROL, TASK_EXIT)
            && process::with(|process| process.pairs.watched.remove(&task)) == Some(true);
        _ = process::with(|process| process.forget(task));
        give(library, watch::route_deleted(library, task));
        if is_own {
            // SAFETY: as above.
            return unsafe { (library.free_message)(message) };
        }
    }
    if (context, tag) == (CONTROL, CONNECT_REQUEST)
        && process::with(|process| process.pairs.has_library(from)) == Some(true)
    {
        // PVM would answer two requests that cross in a way that opens a direct route beside the active messages, and loses the order.
        agree::refuse_direct_route(library, from);
        // SAFETY: as above.
        return unsafe { (library.free_message)(message) };
    }
    GIVEN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { pvm_route::input(library, message) }
}
