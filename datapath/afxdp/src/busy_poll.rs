//! Busy polling: our own thread polls the NIC's queue, and is not interrupted by it.
//!
//! It pays where interrupts and thread share a core. It needs the socket's options ([`BusyPoll`]), and an interface
//! that holds back its interrupts while it is polled ([`Defer`]).

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Instant;

use crate::interface::Interface;
use crate::sockopt;

/// The options of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// The most frames that one poll takes from the NIC (`SO_BUSY_POLL_BUDGET`).
    pub budget: u16,
    /// Microseconds that a blocking call polls before it sleeps (`SO_BUSY_POLL`).
    pub microseconds: u32,
    /// The interface's settings; `None` leaves them as they are.
    pub defer: Option<Defer>,
}

impl Default for BusyPoll {
    fn default() -> Self {
        BusyPoll { budget: 64, microseconds: 20, defer: Some(Defer::default()) }
    }
}

/// How an interface holds back its interrupts. Set while the transport is open, and restored when it is closed. After a
/// crash the setting stays, and does no harm: an interface that is not polled returns to interrupts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defer {
    /// Empty polls before interrupts are enabled again (`napi_defer_hard_irqs`).
    pub polls: u32,
    /// Nanoseconds without a poll before interrupts are enabled again (`gro_flush_timeout`).
    pub nanoseconds: u64,
}

impl Default for Defer {
    /// The values that the kernel's documentation recommends for AF_XDP.
    fn default() -> Self {
        Defer { polls: 2, nanoseconds: 200_000 }
    }
}

/// Settings of the interface, and when each was saved. They are restored when this is dropped, the first saved last:
/// others may be settings of another node.
#[derive(Debug, Default)]
pub(crate) struct SavedSettings(Vec<(Instant, PathBuf, String)>);

/// Enable busy polling. If the interface's settings cannot be changed, that is a note and not an error.
pub(crate) fn enable(
    wanted: &BusyPoll,
    socket: BorrowedFd<'_>,
    interface: &Interface,
    notes: &mut Vec<String>,
) -> io::Result<SavedSettings> {
    let set = |option, value| sockopt::set(socket, libc::SOL_SOCKET, option, value);
    set(libc::SO_PREFER_BUSY_POLL, 1)?;
    set(libc::SO_BUSY_POLL, wanted.microseconds.min(i32::MAX as u32) as i32)?;
    set(libc::SO_BUSY_POLL_BUDGET, wanted.budget.into())?;
    let mut deferred = SavedSettings::default();
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

impl SavedSettings {
    fn defer(&mut self, defer: Defer, interface: &Interface) -> io::Result<()> {
        let directory = PathBuf::from("/sys/class/net").join(&interface.name);
        // /sys shows the network namespace in which it was mounted. Check that this is our interface.
        if read(&directory.join("ifindex"))? != interface.index.to_string() {
            return Err(io::Error::other("/sys shows another network namespace"));
        }
        self.write(directory.join("napi_defer_hard_irqs"), defer.polls.to_string())?;
        self.write(directory.join("gro_flush_timeout"), defer.nanoseconds.to_string())
    }

    /// Restore the other's, too.
    pub(crate) fn append(&mut self, mut other: SavedSettings) {
        self.0.append(&mut other.0);
    }

    /// Restore nothing.
    pub(crate) fn discard(mut self) {
        self.0.clear();
    }

    fn write(&mut self, path: PathBuf, value: String) -> io::Result<()> {
        let before = read(&path)?;
        fs::write(&path, value)?;
        self.0.push((Instant::now(), path, before));
        Ok(())
    }
}

fn read(path: &PathBuf) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

impl Drop for SavedSettings {
    fn drop(&mut self) {
        self.0.sort_by_key(|(saved, ..)| Reverse(*saved));
        for (_, path, before) in &self.0 {
            // The interface may be gone, and its settings with it.
            let _ = fs::write(path, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_saved_value_is_restored_whoever_closes_first() {
        let directory = tempfile::tempdir().unwrap();
        for closed in [[0, 1], [1, 0]] {
            let path = directory.path().join("setting");
            fs::write(&path, "original").unwrap();
            let mut saved = [SavedSettings::default(), SavedSettings::default()];
            saved.iter_mut().for_each(|saved| saved.write(path.clone(), "ours".to_owned()).unwrap());
            let mut all = SavedSettings::default();
            closed.into_iter().for_each(|node: usize| all.append(std::mem::take(&mut saved[node])));
            drop(all);
            assert_eq!(read(&path).unwrap(), "original", "closed in the order {closed:?}");
        }
    }
}
