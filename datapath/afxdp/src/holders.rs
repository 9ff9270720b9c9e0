//! Finds the process that holds a queue, or the XDP program of an interface. The kernel does not name the holder of a
//! queue, unless it was built with `CONFIG_XDP_SOCKETS_DIAG`. So look for processes that map a socket's rings: few do.
//! The holder of a program is found in `/proc`, where each open `bpf_link` names its interface.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};

use am_bpf::{has_descriptor, process_name};

/// Processes that map the rings of a socket, or have the program's link open.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Holders(Vec<(u32, String)>);

impl Holders {
    /// Find the holders of a queue. Sees the processes of this user, or all of them as root.
    pub(crate) fn find() -> Holders {
        let mut holders = others(|pid| !rings(pid).is_empty());
        let this = std::process::id();
        // One of this process's sockets is the one that is to be bound.
        if holders.is_empty() && rings(this).len() > 1 {
            holders.push(this);
        }
        Holders::named(holders)
    }

    /// Find other processes that hold the XDP program of this interface. Sees the same processes.
    pub(crate) fn of_program(interface: u32) -> Holders {
        let link = [("link_type", "xdp"), ("ifindex", &*interface.to_string())];
        Holders::named(others(|pid| has_descriptor(&pid.to_string(), &link)))
    }

    fn named(holders: Vec<u32>) -> Holders {
        Holders(holders.into_iter().map(|pid| (pid, process_name(pid))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is this process, and no other one.
    pub(crate) fn are_this_process(&self) -> bool {
        !self.is_empty() && self.0.iter().all(|(pid, _)| *pid == std::process::id())
    }
}

/// Other processes of our network namespace for which `holds` is true.
fn others(holds: impl Fn(u32) -> bool) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let this = std::process::id();
    numbers.filter(|&pid| pid != this && is_in_reach(pid) && holds(pid)).collect()
}

/// Whether a thread of the process is in our network namespace. Other processes can hardly have a socket on our
/// interface.
fn is_in_reach(pid: u32) -> bool {
    let Ok(ours) = fs::read_link("/proc/thread-self/ns/net") else { return true };
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| fs::read_link(thread.path().join("ns/net")).is_ok_and(|theirs| theirs == ours))
}

/// The sockets whose rings this process maps.
fn rings(pid: u32) -> BTreeSet<String> {
    let Ok(maps) = fs::File::open(format!("/proc/{pid}/maps")) else { return BTreeSet::new() };
    let lines = BufReader::new(maps).lines().map_while(Result::ok);
    lines.filter_map(|line| line.find("socket:[").map(|at| line[at..].to_owned())).collect()
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (pid, command)) in self.0.iter().enumerate() {
            write!(f, "{}{pid} ({command})", if at == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_read_as_a_sentence() {
        let some = Holders(vec![(7, "am-bench".to_owned()), (9, "node".to_owned())]);
        assert_eq!(some.to_string(), "7 (am-bench) or 9 (node)");
    }

    #[test]
    fn a_process_without_sockets_in_its_memory_is_none() {
        assert!(rings(std::process::id()).is_empty());
        assert!(rings(u32::MAX).is_empty());
    }
}
