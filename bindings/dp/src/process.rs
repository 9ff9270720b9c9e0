//! The process: its node with all endpoints, by descriptor, under one lock.

use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use am_api::own;
use am_c_runtime::{NodeOwner, Waker};
use am_dp::{Dp, Dpid, Nid, OpenError, Point, PointReport};
use am_spmd::Place;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;

use crate::failure::{self, Failure};
use crate::mapping::Mapping;
use crate::pace::{Pace, Step};
use crate::report::{self, Reporter};
use crate::vertex::Vertex;

/// An endpoint of the program.
pub(crate) struct Entry {
    /// The program owns its descriptor: only `dp_close` closes it here.
    pub(crate) point: ManuallyDrop<Point>,
    /// How often its edge was redirected.
    pub(crate) redirects: u64,
    /// The program's mapping of the pool.
    pool: *const u8,
    bytes: usize,
}

/// The state of the process. The first call makes it.
pub(crate) struct Process {
    pub(crate) dp: Dp<Mapping>,
    /// The endpoints, by descriptor.
    entries: Vec<Option<Entry>>,
    live: usize,
    pub(crate) place: Option<Place>,
    pace: Pace,
    /// Ends the sleep of the progress thread.
    waker: Arc<Waker>,
    /// The number of its vertex in the graph.
    pub(crate) vertex: Option<Vertex>,
    reporter: Option<Reporter>,
    /// When all descriptors were last checked.
    looked: Instant,
    owner: NodeOwner,
}

// SAFETY: the only value is in `PROCESS`, and every access is under its lock: `Rc` counts, cells and the node are touched by one
// thread at a time, and no `Rc` leaves it. The node's parts are bound to no thread by the operating system; frames that another thread drops go home by a
// list that is made for that. The pointers in entries are only handed to the program.
unsafe impl Send for Process {}

/// The one process.
pub(crate) static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// The number of the process that opened the node.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// A bit for each descriptor: whether it is an endpoint. `read` and `write` of other descriptors check it without the lock.
static IS_POINT: [AtomicU64; MAX_FD / 64] = [const { AtomicU64::new(0) }; MAX_FD / 64];

/// How often the progress thread checks whether the program has closed descriptors of the library.
const LOOK: Duration = Duration::from_millis(100);

/// The descriptors of endpoints are below this number.
const MAX_FD: usize = 1 << 16;

fn mark(fd: RawFd, is_point: bool) {
    let Ok(fd) = usize::try_from(fd) else { return };
    let Some(word) = IS_POINT.get(fd / 64) else { return };
    match is_point {
        true => word.fetch_or(1 << (fd % 64), Ordering::Relaxed),
        false => word.fetch_and(!(1 << (fd % 64)), Ordering::Relaxed),
    };
}

/// Whether this is an endpoint, or, in a forked child, a copy of one.
pub(crate) fn is_point_or_copy(fd: RawFd) -> bool {
    let Ok(fd) = usize::try_from(fd) else { return false };
    let word = IS_POINT.get(fd / 64).map_or(0, |word| word.load(Ordering::Relaxed));
    word >> (fd % 64) & 1 == 1
}

pub(crate) fn is_point(fd: RawFd) -> bool {
    is_point_or_copy(fd) && not_in_child().is_ok()
}

/// A forked child has closed its copy of an endpoint's descriptor.
pub(crate) fn forget_copy(fd: RawFd) {
    mark(fd, false);
}

/// The program has closed descriptors of the node. Close the rest of it, with all endpoints. The next `dp_open` opens a new node.
#[cold]
pub(crate) fn abandon(slot: &mut Option<Process>) {
    let Some(mut process) = slot.take() else { return };
    failure::note_hang_up();
    IS_POINT.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    // The program owns the endpoints' descriptors, so do not close them.
    process.entries.drain(..).flatten().for_each(|entry| ManuallyDrop::into_inner(entry.point).forget());
}

/// Abandon the node if the program has closed the library's descriptors. The progress thread may not have noticed this yet.
///
/// # Errors
/// This process was forked.
#[cold]
pub(crate) fn abandon_if_closed() -> Result<(), Failure> {
    not_in_child()?;
    let mut slot = PROCESS.lock();
    if slot.as_mut().is_some_and(Process::is_lost) {
        abandon(&mut slot);
    }
    Ok(())
}

#[cold]
fn child() -> Failure {
    Failure::new(Errno::EPERM, "this process was forked: the endpoints are its parent's; open some after exec")
}

/// # Errors
/// This process was forked.
#[inline]
pub(crate) fn not_in_child() -> Result<(), Failure> {
    if am_api::is_forked_child() { Err(child()) } else { Ok(()) }
}

/// Whether this is a child of `vfork`. It shares the memory of the process that has the node, and has its own descriptors.
pub(crate) fn is_in_owners_memory() -> bool {
    !am_api::is_forked_child() && OPENER.load(Ordering::Relaxed) != std::process::id()
}

/// Whether this is a descriptor of the library that the program must not close. A child may close its copies.
pub(crate) fn is_own(fd: RawFd) -> bool {
    own::is_spared(fd) && not_in_child().is_ok() && !is_in_owners_memory()
}

/// Run `work` with the process's node, if it is open.
#[inline]
pub(crate) fn with<T>(fd: RawFd, work: impl FnOnce(&mut Process) -> Result<T, Failure>) -> Result<T, Failure> {
    not_in_child()?;
    let mut process = PROCESS.lock();
    match process.as_mut() {
        Some(process) => work(process).map_err(|failure| failure.explained(&process.dp)),
        None => Err(Failure::not_a_point(fd)),
    }
}

/// Check whether the program has closed this descriptor with `close`, and another file has its number.
///
/// # Errors
/// No node is open.
pub(crate) fn notice_closed(fd: RawFd) -> Result<(), Failure> {
    not_in_child()?;
    let mut slot = PROCESS.lock();
    if slot.as_mut().is_some_and(Process::is_found_lost) {
        abandon(&mut slot);
    }
    let process = slot.as_mut().ok_or_else(|| Failure::not_a_point(fd))?;
    process.drop_if_lost(fd);
    process.notice_closed();
    Ok(())
}

/// Run `work` with an endpoint.
#[inline]
pub(crate) fn with_point<T>(
    fd: RawFd,
    work: impl FnOnce(&mut Process, &Point, *const u8) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with(fd, |process| {
        let entry = usize::try_from(fd).ok().and_then(|at| process.entries.get(at)?.as_ref());
        let Some(Entry { point, pool, .. }) = entry else { return Err(Failure::not_a_point(fd)) };
        // SAFETY: a copy of the number alone, which `ManuallyDrop` never closes. It is used under the lock, and `dp_close` needs the lock.
        let point = unsafe { std::ptr::read(point) };
        let pool = *pool;
        work(process, &point, pool)
    })
}

impl Process {
    pub(crate) fn new(dp: Dp<Mapping>, place: Option<Place>, waker: Arc<Waker>, owner: NodeOwner) -> Process {
        let (entries, pace, reporter) = (vec![], Pace::default(), Reporter::find());
        OPENER.store(std::process::id(), Ordering::Relaxed);
        Process { dp, entries, live: 0, place, pace, waker, vertex: None, reporter, looked: Instant::now(), owner }
    }

    /// Whether this is the node of the progress thread with this waker.
    pub(crate) fn has_waker(&self, waker: &Arc<Waker>) -> bool {
        Arc::ptr_eq(&self.waker, waker)
    }

    /// Whether the program has closed descriptors of the node. An endpoint that lost only its own descriptor is closed alone.
    #[cold]
    pub(crate) fn is_lost(&mut self) -> bool {
        self.looked = Instant::now();
        (0..self.entries.len()).for_each(|fd| self.drop_if_lost(fd as RawFd));
        self.owner.is_lost()
    }

    /// Drop this endpoint if the program has closed its descriptor. Another file may have the number.
    fn drop_if_lost(&mut self, fd: RawFd) {
        let entry = usize::try_from(fd).ok().and_then(|at| self.entries.get(at)?.as_ref());
        let is_lost = entry.is_some_and(|entry| entry.point.is_lost());
        if is_lost && let Some(point) = self.forget(fd) {
            self.dp.note_closed(point);
        }
    }

    /// As [`is_lost`](Process::is_lost), for the progress thread, which also checks all endpoints from time to time.
    pub(crate) fn is_found_lost(&mut self) -> bool {
        self.waker.is_lost() || self.looked.elapsed() > LOOK && self.is_lost()
    }

    /// Record a call of the program. `is_empty`: it was a read that found nothing.
    #[inline]
    pub(crate) fn note_call(&mut self, is_empty: bool) {
        if self.pace.note_call(is_empty) {
            self.wake_or_arm();
        }
    }

    /// The progress thread sleeps: wake it, or arm its descriptor.
    #[cold]
    fn wake_or_arm(&mut self) {
        if self.pace.take_long() || !self.dp.prepare_wait().unwrap_or(false) {
            self.waker.wake();
        }
    }

    /// One turn of the progress thread.
    pub(crate) fn look(&mut self) -> Step {
        let is_active = self.pace.begin_look();
        let handled = if is_active.is_some() { self.dp.poll() } else { 0 };
        // Before a wait, `prepare_wait` looks for closed descriptors.
        if is_active.is_none() || handled > 0 {
            self.dp.look_for_hang_ups();
        }
        self.sweep();
        let Some(is_active) = is_active else { return Step::Nap };
        if handled > 0 || !self.dp.prepare_wait().unwrap_or(true) {
            return self.pace.again();
        }
        self.pace.wait(is_active, self.dp.next_deadline())
    }

    /// Open an endpoint. Returns its descriptor.
    pub(crate) fn open_point(&mut self, dpid: Dpid, bytes: usize) -> Result<RawFd, Failure> {
        let bytes = NonZeroUsize::new(bytes).ok_or(OpenError::PoolSize { size: 0, least: 4096 })?;
        let point = match self.try_open(dpid, bytes) {
            Err(failure) if failure.errno == Errno::EMFILE && raise_limit() => self.try_open(dpid, bytes)?,
            Err(failure) if failure.errno == Errno::EADDRINUSE => {
                self.notice_closed();
                self.try_open(dpid, bytes)?
            }
            done => done?,
        };
        let pool = self.dp.memory(&point).map_or(std::ptr::null(), |memory| memory.theirs());
        let fd = std::os::fd::AsFd::as_fd(&point).as_raw_fd();
        let at = usize::try_from(fd).unwrap_or_default();
        if at >= MAX_FD {
            self.dp.close(point);
            return Err(Failure::new(Errno::EMFILE, format!("descriptor {fd}: endpoints have numbers below {MAX_FD}")));
        }
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || None);
        }
        let entry = Entry { point: ManuallyDrop::new(point), redirects: 0, pool, bytes: bytes.get() };
        // An earlier endpoint with this number was closed by the program.
        self.live += usize::from(self.entries[at].replace(entry).is_none());
        mark(fd, true);
        Ok(fd)
    }

    fn try_open(&mut self, dpid: Dpid, bytes: NonZeroUsize) -> Result<Point, Failure> {
        let memory =
            Mapping::new(bytes).map_err(|error| Failure::io(&error, "no memory or descriptor for the pool"))?;
        Ok(self.dp.open(dpid, memory)?)
    }

    /// Check whether the program has closed descriptors.
    #[cold]
    pub(crate) fn notice_closed(&mut self) {
        self.dp.look_for_hang_ups();
        self.dp.poll();
        self.sweep();
    }

    /// The program's mapping of an endpoint's pool.
    pub(crate) fn pool(&self, fd: RawFd) -> Option<(*const u8, usize)> {
        let entry = self.entries.get(usize::try_from(fd).ok()?)?.as_ref()?;
        Some((entry.pool, entry.bytes))
    }

    /// The endpoints, by descriptor.
    pub(crate) fn points(&self) -> impl Iterator<Item = (RawFd, &Entry)> {
        self.entries.iter().enumerate().filter_map(|(fd, entry)| Some((fd as RawFd, entry.as_ref()?)))
    }

    /// The other end of an endpoint's edge.
    pub(crate) fn edge(&self, fd: RawFd) -> Option<(Nid, Dpid)> {
        let entry = self.entries.get(usize::try_from(fd).ok()?)?.as_ref()?;
        self.dp.edge(&entry.point)
    }

    /// The edge of an endpoint was redirected.
    pub(crate) fn note_redirect(&mut self, fd: RawFd) {
        let entry = usize::try_from(fd).ok().and_then(|at| self.entries.get_mut(at)?.as_mut());
        entry.into_iter().for_each(|entry| entry.redirects += 1);
    }

    /// How long until the next report. `Duration::MAX` if reports are off.
    pub(crate) fn report_in(&self) -> Duration {
        self.reporter.as_ref().map_or(Duration::MAX, Reporter::due_in)
    }

    /// The report's lines, if it is due.
    pub(crate) fn due_report(&mut self) -> Vec<String> {
        if self.reporter.as_mut().is_some_and(Reporter::is_due) { self.report() } else { vec![] }
    }

    /// The report's lines, now.
    pub(crate) fn report(&self) -> Vec<String> {
        self.lines(self.points().map(|(_, entry)| entry))
    }

    fn lines<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
        let Some(reporter) = &self.reporter else { return vec![] };
        let points = entries.filter_map(|Entry { point, redirects, .. }| {
            let (dpid, traffic) = (self.dp.dpid(point)?, self.dp.traffic(point)?);
            Some(PointReport { dpid, edge: self.dp.edge(point), traffic, redirects: *redirects })
        });
        reporter.lines(self.dp.nodes().own(), &points.collect::<Vec<_>>())
    }

    /// Remove the endpoint of this descriptor. Returns it.
    pub(crate) fn forget(&mut self, fd: RawFd) -> Option<Point> {
        let entry = self.entries.get_mut(usize::try_from(fd).ok()?)?.take()?;
        // Report its last figures.
        report::write(&self.lines(std::iter::once(&entry)));
        self.live -= 1;
        mark(fd, false);
        Some(ManuallyDrop::into_inner(entry.point))
    }

    /// Remove the endpoints whose descriptors the program has closed.
    fn sweep(&mut self) {
        if self.live == self.dp.open_count() {
            return;
        }
        for fd in 0..self.entries.len() {
            let is_gone = self.entries[fd].as_ref().is_some_and(|entry| !self.dp.is_open(&entry.point));
            if is_gone && let Some(point) = self.forget(fd as RawFd) {
                // The program has closed the descriptor, and another file may have its number.
                point.forget();
            }
        }
    }
}

/// Raise the soft limit of descriptors. Returns whether that was possible.
#[cold]
pub(crate) fn raise_limit() -> bool {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return false };
    soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok()
}
