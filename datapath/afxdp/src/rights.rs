//! The capabilities that this process needs.

use std::fmt;

use am_bpf::{Kernel, setcap};
use caps::{CapSet, Capability, has_cap};

/// Each capability, and its purpose.
const NEEDED: [(Capability, &str); 3] = [
    (Capability::CAP_NET_RAW, "to make an AF_XDP socket"),
    (Capability::CAP_NET_ADMIN, "to attach an XDP program"),
    (Capability::CAP_BPF, "to load the XDP program"),
];
/// Older kernels need this one as well.
const PERFMON: (Capability, &str) = (Capability::CAP_PERFMON, "for this kernel's verifier of XDP programs");

/// Capabilities that this thread lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(Vec<(Capability, &'static str)>);

/// # Errors
/// The missing capabilities.
pub(crate) fn check() -> Result<(), Missing> {
    // If capabilities cannot be read, the kernel's own refusal tells.
    let lacks = |right| !has_cap(None, CapSet::Effective, right).unwrap_or(true);
    let missing = missing(lacks);
    if missing.0.is_empty() { Ok(()) } else { Err(missing) }
}

fn missing(lacks: impl Fn(Capability) -> bool) -> Missing {
    // Linux 5.8 split these off CAP_SYS_ADMIN, which still implies them.
    let split_off = |right| matches!(right, Capability::CAP_BPF | Capability::CAP_PERFMON);
    let implied = |right| split_off(right) && !lacks(Capability::CAP_SYS_ADMIN);
    let without = |right| lacks(right) && !implied(right);
    let needed = NEEDED.into_iter().chain(Kernel::running().needs_perfmon().then_some(PERFMON));
    Missing(needed.filter(|&(right, _)| without(right)).collect())
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (right, purpose)) in self.0.iter().enumerate() {
            write!(f, "{}{right} {purpose}", if at == 0 { "" } else { ", " })?;
        }
        write!(f, ": run as root, or once {}", setcap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_right_is_named_with_its_purpose() {
        let error = missing(|right| right == Capability::CAP_NET_RAW).to_string();
        assert!(error.starts_with("CAP_NET_RAW to make an AF_XDP socket: run as root"), "{error}");
        assert!(error.contains("setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock"), "{error}");
        assert_eq!(missing(|_| true).0.len(), 3);
    }

    #[test]
    fn an_administrator_may_load_programs() {
        assert_eq!(missing(|right| right == Capability::CAP_BPF).0, []);
    }
}
