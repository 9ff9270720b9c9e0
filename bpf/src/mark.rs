//! Marks interfaces on which this process has a program. The kernel names the process of a `bpf_link` only to root. So
//! a process that attaches a program also binds an abstract socket whose name says so, which everybody in the network
//! namespace can list.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How the names begin.
const NAME: &str = "am-xdp";

/// This process has a program on an interface as long as this lives.
#[derive(Debug)]
pub(crate) struct Mark {
    // Without the mark, others only get a less exact error.
    pub(crate) socket: Option<UnixDatagram>,
}

impl Mark {
    /// On the interface with this index.
    pub(crate) fn new(interface: u32) -> Mark {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("{NAME}/{interface}/{}/{}", process::id(), MADE.fetch_add(1, Relaxed));
        let address = SocketAddr::from_abstract_name(name);
        Mark { socket: address.and_then(|address| UnixDatagram::bind_addr(&address)).ok() }
    }
}

/// Another process with a program of ours on the interface with this index, in the calling thread's network namespace.
pub fn sibling(interface: u32) -> Option<u32> {
    processes(interface).into_iter().find(|pid| *pid != process::id())
}

/// Whether this process has a program there.
pub fn is_marked(interface: u32) -> bool {
    processes(interface).contains(&process::id())
}

fn processes(interface: u32) -> Vec<u32> {
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    sockets.lines().filter_map(|line| process_of(line, interface)).collect()
}

/// The name of a process.
pub fn process_name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

/// Whether a process (`self` or a number) has a descriptor about which `/proc/.../fdinfo` has all these lines: key and
/// value.
pub fn has_descriptor(process: &str, lines: &[(&str, &str)]) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fdinfo")) else { return false };
    open.flatten().any(|file| fs::read_to_string(file.path()).is_ok_and(|info| has_lines(&info, lines)))
}

fn has_lines(info: &str, lines: &[(&str, &str)]) -> bool {
    let has =
        |key, value| info.lines().filter_map(|line| line.split_once(':')).any(|(k, v)| k == key && v.trim() == value);
    lines.iter().all(|(key, value)| has(*key, *value))
}

fn process_of(line: &str, interface: u32) -> Option<u32> {
    let name = line.split_whitespace().last()?.strip_prefix('@')?;
    let mut parts = name.strip_prefix(NAME)?.strip_prefix('/')?.split('/');
    (parts.next()?.parse() == Ok(interface)).then_some(())?;
    parts.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_while_it_lives() {
        let line = |interface| format!("0000: 00000002 00000000 00000000 0002 01 123 @am-xdp/{interface}/77/0");
        assert_eq!(process_of(&line(3), 3), Some(77));
        assert_eq!(process_of(&line(33), 3), None);
        assert_eq!(process_of("0000: 00000002 00000000 00000000 0002 01 123 /run/am-xdp/3/77/0", 3), None);
        let marks = [Mark::new(u32::MAX), Mark::new(u32::MAX)];
        assert!(is_marked(u32::MAX));
        assert_eq!(sibling(u32::MAX), None, "this process is none of its own");
        drop(marks);
        assert!(!is_marked(u32::MAX));
    }

    #[test]
    fn a_link_is_known_by_its_lines() {
        let info = "pos:\t0\nflags:\t02000000\nlink_type:\txdp\nlink_id:\t7\nprog_id:\t12\nifindex:\t3\n";
        assert!(has_lines(info, &[("link_type", "xdp"), ("ifindex", "3")]));
        assert!(!has_lines(info, &[("link_type", "xdp"), ("ifindex", "7")]));
        assert!(!has_lines(info, &[("link_type", "xdp"), ("ifindex", "33")]));
        assert!(!has_lines("pos:\t0\nflags:\t02\n", &[("ifindex", "3")]));
    }
}
