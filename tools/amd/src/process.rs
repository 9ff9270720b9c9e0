//! A process by more than its number, which the kernel uses again. So a daemon that restarts knows which programs have ended.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process. Zeros stand for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number in the PID namespace with this inode.
    pub(crate) pid: i32,
    pub(crate) namespace: u64,
    /// The inode of its pidfd. Every process has its own from Linux 6.9 on; before, all have the same.
    pub(crate) inode: u64,
    /// When it started, in ticks. Not known where other users' processes are hidden, as by the daemon's unit.
    pub(crate) started: u64,
}

/// What has become of a process.
#[derive(Debug)]
pub(crate) enum Fate {
    Unknown,
    /// It has ended, even if its parent has not asked for its status.
    Ended,
    /// It runs. The descriptor is readable when it has ended.
    Runs(OwnedFd),
}

impl Process {
    /// The process with this number, or an unknown one for 0.
    pub(crate) fn of(pid: i32) -> Process {
        let Some(found) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return Process::default();
        };
        Process::at(pid, &found)
    }

    /// The process with this number, and with this pidfd.
    fn at(pid: i32, found: &OwnedFd) -> Process {
        let inode = rustix::fs::fstat(found).map_or(0, |file| file.st_ino);
        Process { pid, namespace: own_namespace(), inode, started: start_of(pid) }
    }

    pub(crate) fn fate(&self) -> Fate {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.namespace == own_namespace()) else {
            return Fate::Unknown;
        };
        let found = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(found) => found,
            // The number is free, or a thread's.
            Err(Errno::SRCH | Errno::INVAL) => return Fate::Ended,
            Err(_) => return Fate::Unknown,
        };
        let differs = |before: u64, now: u64| before != 0 && now != 0 && before != now;
        let now = Process::at(self.pid, &found);
        let is_another = differs(self.inode, now.inode) || differs(self.started, now.started);
        if is_another || has_ended(&found) { Fate::Ended } else { Fate::Runs(found) }
    }
}

/// A descriptor of the process that has connected a socket, whose number is `pid`. `None` if the system does not say, or if it
/// has ended. A child that it has forked has a copy of the socket, and not its number.
pub(crate) fn peer(socket: impl AsFd, pid: i32) -> Option<OwnedFd> {
    // A kernel before 6.5 knows the number only.
    let by_number = || pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
    getsockopt(&socket, PeerPidfd).ok().or_else(by_number)
}

/// Whether this process has ended.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)) == Ok(1)
}

fn own_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |namespace| namespace.st_ino)
}

/// When a process started: the 22nd field, counted behind the name, which may have any characters.
fn start_of(pid: i32) -> u64 {
    let status = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    status.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(19)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_has_ended_before_its_parent_asks() {
        let own = Process::of(std::process::id() as i32);
        assert!(own.pid > 0 && own.started > 0 && own.inode > 0 && own.namespace > 0, "{own:?}");
        assert!(matches!(own.fate(), Fate::Runs(_)));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let its = Process::of(child.id() as i32);
        let Fate::Runs(found) = its.fate() else { panic!("it waits for its input") };
        child.stdin = None;
        poll(&mut [PollFd::new(&found, PollFlags::IN)], None).unwrap();
        assert!(has_ended(&found) && matches!(its.fate(), Fate::Ended), "nothing has asked for its status");
        child.wait().unwrap();
        assert!(matches!(its.fate(), Fate::Ended));
    }

    #[test]
    fn another_process_with_the_number_is_another() {
        let own = Process::of(std::process::id() as i32);
        for other in [Process { inode: 0, started: own.started + 1, ..own }, Process { inode: own.inode + 1, ..own }] {
            assert!(matches!(other.fate(), Fate::Ended), "{other:?}");
        }
        for unknown in [Process::default(), Process { namespace: own.namespace + 1, ..own }] {
            assert!(matches!(unknown.fate(), Fate::Unknown), "{unknown:?}");
        }
        assert!(matches!(Process { inode: 0, started: 0, ..own }.fate(), Fate::Runs(_)), "it may be it");
    }
}
