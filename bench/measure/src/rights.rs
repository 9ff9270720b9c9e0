//! Checks the rights that a measurement needs, before anything is made.

use std::env;

use caps::{CapSet, Capability, has_cap};

use crate::driver::Driver;
use crate::error::Error;

type Right = (Capability, &'static str);

const HOSTS: [Right; 2] = [
    (Capability::CAP_SYS_ADMIN, "to make network namespaces"),
    (Capability::CAP_NET_ADMIN, "to set up interfaces and attach XDP programs"),
];
const AF_XDP: [Right; 3] = [
    (Capability::CAP_NET_ADMIN, "to attach XDP programs"),
    (Capability::CAP_NET_RAW, "to open AF_XDP sockets"),
    (Capability::CAP_BPF, "to load XDP programs"),
];

/// Check what `--hosts veth` needs (`hosts`), and what these drivers need.
///
/// # Errors
/// [`Error::Capability`] names all missing ones and, if there is one, the command that grants them.
pub fn check(hosts: bool, drivers: &[Driver]) -> Result<(), Error> {
    let frames = drivers.iter().any(|driver| !driver.is_kernel());
    let more = AF_XDP.iter().filter(|(right, _)| !(hosts && HOSTS.iter().any(|(known, _)| known == right)));
    let needed: Vec<Right> = HOSTS.iter().filter(|_| hosts).chain(more.filter(|_| frames)).copied().collect();
    let has = |right| has_cap(None, CapSet::Effective, right).unwrap_or(false);
    // CAP_BPF was a part of CAP_SYS_ADMIN, which still implies it.
    let has = |right| has(right) || right == Capability::CAP_BPF && has(Capability::CAP_SYS_ADMIN);
    let missing: Vec<String> =
        needed.iter().filter(|(right, _)| !has(*right)).map(|(right, purpose)| format!("{right} {purpose}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut grant = String::new();
    // Hosts are set up by `ip`, which does not get the capabilities of our file.
    if !hosts {
        // Frames need more locked memory than the usual limit allows.
        let all = needed.iter().map(|(right, _)| *right).chain([Capability::CAP_IPC_LOCK]);
        let names: Vec<String> = all.map(|right| right.to_string().to_lowercase()).collect();
        let program = env::current_exe().map_or("am-bench".to_owned(), |path| path.display().to_string());
        grant = format!("\n  or grant it for good:  sudo setcap {}+ep {program}", names.join(","));
    }
    let command = env::args().collect::<Vec<_>>().join(" ");
    Err(Error::Capability { missing: missing.join(", "), command, grant })
}
