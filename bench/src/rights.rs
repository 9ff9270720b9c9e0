//! The rights that a measurement needs, asked for before anything is made.

use std::env;

use caps::{CapSet, Capability, has_cap};

use crate::error::Error;
use crate::plan::Via;

const HOSTS: [(Capability, &str); 2] = [
    (Capability::CAP_SYS_ADMIN, "network namespaces are made with"),
    (Capability::CAP_NET_ADMIN, "interfaces are set up and XDP programs attached with"),
];
const AF_XDP: [(Capability, &str); 3] = [
    (Capability::CAP_NET_RAW, "AF_XDP sockets are opened with"),
    (Capability::CAP_BPF, "XDP programs are loaded with"),
    (Capability::CAP_NET_ADMIN, "XDP programs are attached with"),
];

/// Make sure of what `--hosts veth` needs (`hosts`), and what these vias do.
///
/// # Errors
/// [`Error::Capability`] names all that are missing and, where there is one, the line that grants them.
pub(crate) fn check(hosts: bool, vias: &[Via]) -> Result<(), Error> {
    // Hosts are set up by `ip`, which does not get what a file is granted;
    // frames take more locked memory than the usual limit allows.
    let mut needed: Vec<(Capability, &'static str)> = Vec::new();
    if hosts {
        needed.extend(HOSTS);
    }
    if vias.iter().any(|via| *via != Via::Udp) {
        needed.extend(AF_XDP);
    }
    needed.sort_by_key(|(capability, _)| *capability as u8);
    needed.dedup_by_key(|(capability, _)| *capability as u8);
    let grants = if hosts { None } else { Some(Capability::CAP_IPC_LOCK) };
    let has = |capability| has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    // CAP_BPF is what CAP_SYS_ADMIN was for, and still is.
    let bpf = |capability| capability == Capability::CAP_BPF && has(Capability::CAP_SYS_ADMIN);
    missing(&needed, grants, |capability| has(capability) || bpf(capability))
}

/// `besides`: what else to grant, where the program alone can be given rights.
fn missing(
    needed: &[(Capability, &'static str)],
    besides: Option<Capability>,
    has: impl Fn(Capability) -> bool,
) -> Result<(), Error> {
    let missing: Vec<_> = needed.iter().filter(|(capability, _)| !has(*capability)).collect();
    let Some((_, why)) = missing.first() else { return Ok(()) };
    let names = |list: &mut dyn Iterator<Item = Capability>| list.map(|c| c.to_string()).collect::<Vec<_>>();
    Err(Error::Capability {
        missing: names(&mut missing.iter().map(|(capability, _)| *capability)).join(", "),
        why,
        command: env::args().collect::<Vec<_>>().join(" "),
        grant: besides.map_or(String::new(), |more| {
            let all = needed.iter().map(|(capability, _)| *capability).chain([more]);
            grant(&names(&mut { all }).join(",").to_lowercase())
        }),
    })
}

fn grant(capabilities: &str) -> String {
    let program = env::current_exe().map_or("am-bench".to_owned(), |path| path.display().to_string());
    format!("\n  or grant it for good:  sudo setcap {capabilities}+ep {program}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_line_that_grants_it() {
        let error = missing(&AF_XDP, Some(Capability::CAP_IPC_LOCK), |c| c == Capability::CAP_NET_ADMIN).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("not permitted: this needs CAP_NET_RAW, CAP_BPF, which AF_XDP sockets"), "{text}");
        assert!(text.contains("sudo setcap cap_net_raw,cap_bpf,cap_net_admin,cap_ipc_lock+ep /"), "{text}");
        assert_eq!(error.exit_code(), 3);
        assert!(missing(&AF_XDP, None, |_| true).is_ok());
    }

    /// `ip`, which sets up hosts, would not have what is granted to this program.
    #[test]
    fn hosts_are_made_as_root() {
        let text = missing(&HOSTS, None, |_| false).unwrap_err().to_string();
        assert!(text.contains("sudo ") && !text.contains("setcap"), "{text}");
    }
}
