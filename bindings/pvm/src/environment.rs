//! `PVM_AM`: the transports of a task, and what a short name stands for.

use std::env;
use std::ffi::{CStr, OsStr};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, Ordering};

use am_api::{tag_of, transports};

use crate::library::Library;

/// The variable that names the transports.
pub(crate) const TRANSPORT: &str = "PVM_AM";
/// The variable that asks for a line on standard error when a task ends.
pub(crate) const REPORT: &str = "PVM_AM_REPORT";

/// The frames of a task over shared memory, of 16 KiB. What the progress thread frees is used only when all others are in use, so a task gets
/// to write each of its frames: more would be as much cold memory.
const FRAMES: usize = 1024;

/// Tasks of one host by shared memory, others by UDP. Neither needs rights.
const DEFAULT: &str = "shm+udp";

/// The address of this host, as the daemon gave it to PVM. 0 if it is unknown.
static HOST: AtomicU32 = AtomicU32::new(0);

/// The daemon has given this host's address.
pub(crate) fn note_host(address: Ipv4Addr) {
    HOST.store(address.into(), Ordering::Relaxed);
}

fn host() -> Ipv4Addr {
    match HOST.load(Ordering::Relaxed) {
        0 => Ipv4Addr::LOCALHOST,
        known => known.into(),
    }
}

/// A number that the tasks of one host and one virtual machine have in common: that of the daemon's file.
fn machine(library: &Library) -> u64 {
    // SAFETY: it returns a text of its own, or none.
    let file = unsafe { (library.socket_file)() };
    // SAFETY: as above.
    let file = if file.is_null() { c"" } else { unsafe { CStr::from_ptr(file) } };
    tag_of([OsStr::from_bytes(file.to_bytes()).to_string_lossy().as_ref()])
}

/// The shared memory of this machine's tasks on this host.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) transport: String,
    pub(crate) file: String,
}

impl Link {
    fn of(library: &Library) -> Link {
        let name = format!("pvm-{:012x}", machine(library) & 0xffff_ffff_ffff);
        Link { transport: format!("shm:{name},members=64,frames={FRAMES}"), file: format!("/dev/shm/am-{name}.shm") }
    }
}

fn names() -> String {
    let names = env::var_os(TRANSPORT).filter(|names| !names.is_empty());
    // What is no text is no transport: the error shows it.
    names.map_or_else(|| DEFAULT.to_owned(), |names| names.to_string_lossy().into_owned())
}

/// Whether a task has another address than a process that is no task: that of this host, as the daemon knows it.
pub(crate) fn lacks_host() -> bool {
    let names = names();
    HOST.load(Ordering::Relaxed) == 0 && transports::split(&names).iter().any(|name| ["udp", "tcp"].contains(name))
}

/// The link, if tasks have one.
pub(crate) fn link(library: &Library) -> Option<Link> {
    transports::split(&names()).contains(&"shm").then(|| Link::of(library))
}

/// The names of the transports to try, the best first.
pub(crate) fn transports(library: &Library) -> Vec<String> {
    let names = names();
    let complete = |name: &str| match name {
        "shm" => Link::of(library).transport,
        "udp" | "tcp" => format!("{name}:{}:0", host()),
        _ => name.to_owned(),
    };
    let parts: Vec<String> = transports::split(&names).into_iter().map(complete).collect();
    // A link of shared memory has a limited number of members. A task beyond it has the rest.
    let is_complete = !parts.iter().any(String::is_empty);
    let rest: Vec<String> = parts.iter().filter(|part| !part.starts_with("shm:")).cloned().collect();
    let mut tries = vec![parts.join("+")];
    if is_complete && !rest.is_empty() && rest.len() < parts.len() {
        tries.push(rest.join("+"));
    }
    tries
}

/// Whether frames of these transports pass a switch.
pub(crate) fn has_switch(names: &str) -> bool {
    !transports::split(names)
        .iter()
        .all(|name| ["shm:", "udp:", "tcp:", "node:"].iter().any(|kind| name.starts_with(kind)))
}

/// Whether a task says at its end what it has sent.
pub(crate) fn wants_report() -> bool {
    env::var_os(REPORT).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Say something on standard error, in one piece: a daemon takes each piece of a task's for a line.
pub(crate) fn say(text: &str) {
    // Without a standard error there is no place for it.
    _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
