//! What the daemon gives up once its wire is open.

use caps::{CapSet, Capability, CapsHashSet};

/// What a wire needs while it is open: an interface that went down is opened again, and each port's address needs a socket
/// (`PACKET_MR_UNICAST`).
fn needed(wire: Option<&str>) -> CapsHashSet {
    let is = |scheme: &str| {
        wire.is_some_and(|names| am_api::transports::split(names).iter().any(|name| name.starts_with(scheme)))
    };
    let mut needed = CapsHashSet::new();
    if is("xdp:") {
        needed.extend([Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_BPF]);
        needed.extend([Capability::CAP_PERFMON, Capability::CAP_IPC_LOCK]);
    }
    if is("dpdk:") {
        // DPDK's drivers use them from threads and at times of their own.
        needed.extend([Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_SYS_RAWIO]);
        needed.extend([Capability::CAP_IPC_LOCK, Capability::CAP_SYS_ADMIN]);
    }
    needed
}

/// Keep only the capabilities that this wire needs, of those that the process has, and gain none by starting a program.
/// Returns what is left.
///
/// # Errors
/// The system's.
pub fn drop_all_but_needed(wire: Option<&str>) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let has = caps::read(None, CapSet::Permitted)?;
    let left: CapsHashSet = needed(wire).intersection(&has).copied().collect();
    // Root may limit what programs that it starts could ever have; any other user has been limited by whoever started it.
    if has.contains(&Capability::CAP_SETPCAP) {
        let bounding = caps::read(None, CapSet::Bounding)?;
        bounding.difference(&left).try_for_each(|capability| caps::drop(None, CapSet::Bounding, *capability))?;
    }
    caps::clear(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Effective, &left)?;
    caps::set(None, CapSet::Permitted, &left)?;
    caps::clear(None, CapSet::Inheritable)?;
    nix::sys::prctl::set_no_new_privs()?;
    let mut names: Vec<String> = left.iter().map(ToString::to_string).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_of_the_kernels_sockets_needs_nothing() {
        for wire in [None, Some("udp:127.0.0.1:0"), Some("shm:xdp+tcp:127.0.0.1:0")] {
            assert!(needed(wire).is_empty(), "{wire:?}");
        }
        for wire in ["xdp:eth1", "udp:127.0.0.1:0+xdp:eth1"] {
            assert!(needed(Some(wire)).contains(&Capability::CAP_NET_RAW), "{wire}");
        }
    }
}
