//! Busy polling: our own thread drives the NIC's queue, instead of the NIC's
//! interrupts interrupting our thread.
//!
//! It pays where interrupts and thread share a core, and needs both halves: the
//! socket's options ([`BusyPoll`]), and an interface that holds its interrupts
//! back as long as somebody polls ([`Defer`]).

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use crate::interface::Interface;
use crate::sockopt;

/// The options of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// Frames that one poll takes from the NIC at most (`SO_BUSY_POLL_BUDGET`).
    pub budget: u16,
    /// Microseconds that a call which waits polls before it sleeps (`SO_BUSY_POLL`).
    pub microseconds: u32,
    /// The interface's half; `None` where somebody else has set it.
    pub defer: Option<Defer>,
}

impl Default for BusyPoll {
    fn default() -> Self {
        BusyPoll { budget: 64, microseconds: 20, defer: Some(Defer::default()) }
    }
}

/// How an interface holds its interrupts back. Set while the transport is open,
/// set back when it is closed; after a crash it stays, and does no harm: an
/// interface that nobody polls returns to its interrupts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defer {
    /// Polls without a frame before interrupts are let in again (`napi_defer_hard_irqs`).
    pub polls: u32,
    /// Nanoseconds without a poll before they are (`gro_flush_timeout`).
    pub nanoseconds: u64,
}

impl Default for Defer {
    /// The kernel's documentation recommends these for AF_XDP.
    fn default() -> Self {
        Defer { polls: 2, nanoseconds: 200_000 }
    }
}

/// What is set back when the transport is closed.
#[derive(Debug, Default)]
pub(crate) struct Deferred(Vec<(PathBuf, String)>);

/// Switch it on. The interface's half may fail for want of rights: that is a
/// note, not an error.
pub(crate) fn enable(
    wanted: &BusyPoll,
    socket: BorrowedFd<'_>,
    interface: &Interface,
    notes: &mut Vec<String>,
) -> io::Result<Deferred> {
    let set = |option, value| sockopt::set(socket, libc::SOL_SOCKET, option, value);
    set(libc::SO_PREFER_BUSY_POLL, 1)?;
    set(libc::SO_BUSY_POLL, wanted.microseconds.min(i32::MAX as u32) as i32)?;
    set(libc::SO_BUSY_POLL_BUDGET, wanted.budget.into())?;
    let mut deferred = Deferred::default();
    if let Some(defer) = wanted.defer
        && let Err(error) = deferred.defer(defer, interface)
    {
        let name = &interface.name;
        notes.push(format!(
            "{name} keeps its interrupts ({error}): \
             `echo {} > /sys/class/net/{name}/napi_defer_hard_irqs; echo {} > /sys/class/net/{name}/gro_flush_timeout`",
            defer.polls, defer.nanoseconds
        ));
    }
    Ok(deferred)
}

impl Deferred {
    fn defer(&mut self, defer: Defer, interface: &Interface) -> io::Result<()> {
        let directory = PathBuf::from("/sys/class/net").join(&interface.name);
        // /sys shows the network namespace that it was mounted in: is this our interface at all?
        if read(&directory.join("ifindex"))? != interface.index.to_string() {
            return Err(io::Error::other("/sys shows another network namespace"));
        }
        self.write(directory.join("napi_defer_hard_irqs"), defer.polls.to_string())?;
        self.write(directory.join("gro_flush_timeout"), defer.nanoseconds.to_string())
    }

    /// Set nothing back.
    pub(crate) fn forget(mut self) {
        self.0.clear();
    }

    fn write(&mut self, path: PathBuf, value: String) -> io::Result<()> {
        let before = read(&path)?;
        fs::write(&path, value)?;
        self.0.push((path, before));
        Ok(())
    }
}

fn read(path: &PathBuf) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

impl Drop for Deferred {
    fn drop(&mut self) {
        for (path, before) in &self.0 {
            // The interface may be gone, and its settings with it.
            let _ = fs::write(path, before);
        }
    }
}
