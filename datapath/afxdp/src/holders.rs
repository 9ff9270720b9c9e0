//! Who may have a queue. The kernel does not say, unless it was built with
//! `CONFIG_XDP_SOCKETS_DIAG`, so look for processes that have a socket's rings
//! in their memory: few have.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};

/// Processes that have the rings of a socket mapped.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Holders(Vec<(u32, String)>);

impl Holders {
    /// Look for them. Sees what the process may see: its own user's, or as root all.
    pub(crate) fn find() -> Holders {
        let Ok(entries) = fs::read_dir("/proc") else { return Holders::default() };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let this = std::process::id();
        let holds = |&pid: &u32| pid != this && is_in_reach(pid) && has_rings(pid);
        let mut holders: Vec<u32> = numbers.filter(holds).collect();
        if holders.is_empty() {
            // Nobody else: then it is an earlier socket of our own.
            holders.push(this);
        }
        Holders(holders.into_iter().map(|pid| (pid, command(pid))).collect())
    }
}

/// Whether a thread of the process is in our network namespace: no other can
/// have opened a socket on our interface, or hardly.
fn is_in_reach(pid: u32) -> bool {
    let Ok(ours) = fs::read_link("/proc/thread-self/ns/net") else { return true };
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| fs::read_link(thread.path().join("ns/net")).is_ok_and(|theirs| theirs == ours))
}

fn has_rings(pid: u32) -> bool {
    let Ok(maps) = fs::File::open(format!("/proc/{pid}/maps")) else { return false };
    BufReader::new(maps).lines().map_while(Result::ok).any(|line| line.contains("socket:["))
}

fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (pid, command)) in self.0.iter().enumerate() {
            let word = if at == 0 { ", probably that of process" } else { " or" };
            write!(f, "{word} {pid} ({command})")?;
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
        assert_eq!(some.to_string(), ", probably that of process 7 (am-bench) or 9 (node)");
        assert_eq!(Holders::default().to_string(), "");
    }

    #[test]
    fn a_process_without_sockets_in_its_memory_is_none() {
        assert!(!has_rings(std::process::id()));
        assert!(!has_rings(u32::MAX));
    }
}
