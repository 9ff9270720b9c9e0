use std::env;
use std::error::Error;
use std::io;

use crate::kernel::Kernel;

/// How a process gets more file descriptors.
const MORE_FILES: &str = "a larger `ulimit -n`, or LimitNOFILE= in the systemd unit";

/// Why a program could not be loaded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum LoadError {
    /// The kernel lacks something that the program needs.
    #[error("kernel {found} is too old: XDP through a bpf_link needs 5.9 or newer")]
    KernelTooOld { found: String },
    /// The process may not load programs.
    #[error("not permitted to load an XDP program: {}", advice())]
    NotPermitted,
    /// Kernels before 5.11 count programs as locked memory.
    #[error(
        "kernel {release} wants more locked memory than the limit allows: \
         run `ulimit -l unlimited`, or set LimitMEMLOCK=infinity in the systemd unit"
    )]
    LockedMemory { release: String },
    /// The process has no file descriptor left for programs and maps.
    #[error("no file descriptor left to load the XDP program with: {MORE_FILES}")]
    OpenFiles,
    /// The kernel's verifier does not accept the program: a bug in the program, or a kernel that we do not know.
    #[error("kernel {release} rejects the program; please report this with its verifier's log:\n{log}")]
    Rejected { release: String, log: String },
    /// The kernel refused for another reason.
    #[error("kernel {release} does not load the program: {source}")]
    Refused { release: String, source: io::Error },
    /// The compiled program is not what this loader expects.
    #[error("the compiled program cannot be loaded: {0}")]
    Object(String),
}

/// Why the program sends no copies of the frames that it stamps.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum CopyError {
    /// The program does not stamp.
    #[error("kernel {found} is too old: an XDP program that stamps needs 5.18")]
    KernelTooOld { found: String },
    /// Programs in the generic path share the bytes of all copies.
    #[error(
        "the program runs in the generic receive path, where copies of a frame share their bytes: open the interface with \
         `attach=native`"
    )]
    Generic,
    /// The driver has no `ndo_xdp_xmit`, or not now.
    #[error(
        "the driver does not send frames that an XDP program redirects to it: take a NIC whose driver does, or for a veth turn \
         on `ethtool -K .. gro on` at its other end"
    )]
    Driver,
    /// The kernel cannot say whether the driver does.
    #[error("kernel {found} does not say whether the driver sends redirected frames: 6.3 does")]
    Unknown { found: String },
    /// There is one device map.
    #[error("the program sends copies for another group of this node: one group can have them")]
    Taken,
    /// The program that addresses the copies is not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel's; no cause is known.
    #[error("the kernel does not take the copies: {0}")]
    Kernel(io::Error),
}

/// Why a program could not be attached to an interface.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum AttachError {
    /// No such interface in this network namespace.
    #[error("no interface {interface} here: `ip link` lists those there are")]
    NoSuchInterface { interface: String },
    /// There is an XDP program already, ours or another's.
    #[error(
        "another XDP program is attached to {interface}: `ip link show dev {interface}` shows it; \
         `ip link set dev {interface} xdp off` removes it, `ip link set dev {interface} xdpgeneric off` where it is \
         shown as xdpgeneric, or, where a process holds it, that process's end (`bpftool link` names it)"
    )]
    Occupied { interface: String },
    /// Another process has nodes of ours there.
    #[error(
        "process {process} ({}) has nodes on {interface}, and the nodes of one interface have to be in one process: open this \
         one there, on a queue of its own, or take another interface", crate::mark::process_name(*process)
    )]
    Sibling { interface: String, process: u32 },
    /// The interface's driver has no XDP.
    #[error(
        "the driver of {interface} does not run XDP programs: take another interface \
         (of a bridge, a bond or a VLAN, the one beneath), or ask for the generic mode, which is slower"
    )]
    NoNativeMode { interface: String },
    /// The MTU is more than the driver can give to an XDP program.
    #[error(
        "the MTU of {interface} is too large for XDP ({said}): \
         `ip link set dev {interface} mtu {}`, and the same at the other ends", .most.unwrap_or(1500)
    )]
    MtuTooLarge { interface: String, said: String, most: Option<u32> },
    /// A veth needs as many receive queues as its peer has transmit queues.
    #[error(
        "{interface} has fewer receive queues than its peer has transmit queues ({said}): \
         `ethtool -L` evens them out, or make the pair with equal numrxqueues and numtxqueues"
    )]
    TooFewQueues { interface: String, said: String },
    /// The process may not attach programs.
    #[error("not permitted to attach an XDP program to {interface}: {}", advice())]
    NotPermitted { interface: String },
    /// The driver requires another change first.
    #[error("the driver of {interface} takes no XDP program as it is set now: {said}{}", hint(.interface, .said))]
    Setting { interface: String, said: String },
    /// The kernel or the driver refused for another reason.
    #[error("attaching to {interface}: {reason}")]
    Refused { interface: String, reason: String },
}

impl AttachError {
    /// An error number means different things for different drivers, so a driver's message counts more.
    pub(crate) fn new(interface: &str, error: &(dyn Error + 'static), said: Option<String>) -> AttachError {
        let interface = interface.to_owned();
        let number = root_cause(error).raw_os_error().unwrap_or_default();
        match (number, said) {
            (libc::ENODEV, _) => AttachError::NoSuchInterface { interface },
            (libc::EPERM | libc::EACCES, _) => AttachError::NotPermitted { interface },
            (libc::EMFILE | libc::ENFILE, _) => {
                let reason = format!("no file descriptor left: {MORE_FILES}");
                AttachError::Refused { interface, reason }
            }
            (_, Some(said)) if is_about(&said, &MTU) => {
                AttachError::MtuTooLarge { interface, most: limit(&said), said }
            }
            (libc::ERANGE | libc::EFBIG, said) => {
                AttachError::MtuTooLarge { interface, said: said.unwrap_or_else(|| chain(error)), most: None }
            }
            (libc::EBUSY | libc::EEXIST, said) if said.as_ref().is_none_or(|said| is_about(said, &TAKEN)) => {
                AttachError::Occupied { interface }
            }
            (libc::EOPNOTSUPP, said) if said.as_ref().is_none_or(|said| is_about(said, &NO_XDP)) => {
                AttachError::NoNativeMode { interface }
            }
            (libc::ENOSPC, said) => AttachError::TooFewQueues { interface, said: said.unwrap_or_else(|| chain(error)) },
            (_, Some(said)) => AttachError::Setting { interface, said },
            (_, None) => AttachError::Refused { interface, reason: chain(error) },
        }
    }
}

/// Parts of drivers' messages about frames that are too long.
const MTU: [&str; 3] = ["mtu", "frame size", "jumbo"];
/// Part of the kernel's message that a program is attached already.
const TAKEN: [&str; 3] = ["already", "active", "exist"];
/// Part of the kernel's message that a driver has no XDP.
const NO_XDP: [&str; 1] = ["does not support xdp"];
/// Parts of drivers' messages before the largest MTU.
const LIMIT: [&str; 4] = ["larger than", "less than", "maximum", "at most"];
/// No limit is smaller. Smaller numbers are something else.
const LEAST_LIMIT: u32 = 1000;

fn is_about(said: &str, words: &[&str]) -> bool {
    let said = said.to_lowercase();
    words.iter().any(|word| said.contains(word))
}

/// The largest MTU in a driver's message. The present MTU, which is larger, may be in it too.
fn limit(said: &str) -> Option<u32> {
    let numbers = said.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    let limits = numbers.filter(|&number| number >= LEAST_LIMIT && is_about(said, &LIMIT));
    limits.min()
}

/// The command for the most frequent requirement of drivers.
fn hint(interface: &str, said: &str) -> String {
    let command = match said {
        _ if is_about(said, &["gro_hw", "gro-hw", "guest_tso", "implementing lro"]) => {
            format!("ethtool -K {interface} rx-gro-hw off")
        }
        _ if is_about(said, &["lro"]) => format!("ethtool -K {interface} lro off"),
        _ if is_about(said, &["queue", "channel", "ring"]) => format!("ethtool -L {interface} combined 1"),
        _ => return String::new(),
    };
    format!("; perhaps `{command}`")
}

/// Why a socket could not be added to steering's table.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum SocketError {
    /// The index is beyond the table.
    #[error("there is no socket {index}: a program has {count} of them")]
    NoSuchIndex { index: u32, count: u32 },
    /// The queue's number does not fit a byte.
    #[error("steering knows receive queues 0 to 255, not {0}; `ethtool -L` changes how many there are")]
    NoSuchQueue(u32),
    /// It is not an AF_XDP socket.
    #[error("not an AF_XDP socket")]
    NotXdp,
    /// The kernel refused for another reason.
    #[error("registering a socket: {0}")]
    Refused(io::Error),
}

impl SocketError {
    pub(crate) fn new(source: io::Error) -> SocketError {
        match source.raw_os_error().unwrap_or_default() {
            libc::EOPNOTSUPP | libc::ENOTSOCK | libc::EBADF => SocketError::NotXdp,
            _ => SocketError::Refused(source),
        }
    }
}

/// The counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("reading the program's counters: {0}")]
pub struct CountersError(pub(crate) io::Error);

/// The remedy for missing rights.
fn advice() -> String {
    let perfmon = if Kernel::running().needs_perfmon() { ", on this kernel CAP_PERFMON," } else { "" };
    format!(
        "run as root, or give the program what it needs (CAP_BPF, CAP_NET_ADMIN{perfmon} and CAP_NET_RAW and CAP_IPC_LOCK \
         for its sockets): {}",
        setcap()
    )
}

/// The command that grants this program all capabilities that it needs with its sockets, those that it has included:
/// `setcap` replaces the old set. CAP_IPC_LOCK is one of them, because the usual limit of locked memory is too low.
pub fn setcap() -> String {
    let program = env::current_exe().map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string());
    let perfmon = if Kernel::running().needs_perfmon() { ",cap_perfmon" } else { "" };
    format!("`sudo setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock{perfmon}=ep {program}`")
}

/// The operating system's error below a library's.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> io::Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        cause = error.source();
    }
    io::Error::other(error.to_string())
}

/// The messages of all errors of the chain, from the library's to the system's.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // A transparent error repeats its source.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attach_error(number: i32) -> AttachError {
        said(number, None)
    }

    fn said(number: i32, said: Option<&str>) -> AttachError {
        let io_error = io::Error::from_raw_os_error(number);
        let error = aya::sys::SyscallError { call: "bpf_link_create", io_error };
        AttachError::new("eth1", &aya::programs::ProgramError::from(error), said.map(str::to_owned))
    }

    /// Messages of drivers in 7.3, each with its error number.
    #[test]
    fn a_drivers_sentence_counts_more_than_its_number() {
        for (number, text, advice) in [
            (
                libc::EOPNOTSUPP,
                "MTU 4000 too large for XDP",
                "(MTU 4000 too large for XDP): `ip link set dev eth1 mtu 1500`",
            ),
            (libc::EINVAL, "The RX buffer size is too small for the frame size", "eth1 mtu 1500`"),
            (libc::EOPNOTSUPP, "Jumbo frames not supported", "eth1 mtu 1500`"),
            (libc::EINVAL, "MTU 9000 larger than 3502 without XDP frag support", "eth1 mtu 3502`"),
            (
                libc::EINVAL,
                "the current MTU (9001) is larger than the maximum allowed MTU (3498) while xdp is on",
                "mtu 3498`",
            ),
            (libc::ERANGE, "Peer MTU is too large to set XDP", "(Peer MTU is too large to set XDP): `ip link"),
            (libc::EOPNOTSUPP, "Underlying driver does not support XDP in native mode", "does not run XDP programs"),
            (libc::EOPNOTSUPP, "Can't set XDP while host is implementing GRO_HW/CSUM", "rx-gro-hw off`"),
            (
                libc::EINVAL,
                "can't set XDP while LRO is on, disable LRO first",
                "LRO first; perhaps `ethtool -K eth1 lro off`",
            ),
            (libc::EBUSY, "XDP program already attached", "another XDP program is attached"),
            (libc::EBUSY, "Cannot change XDP program while resetting", "as it is set now: Cannot change"),
            (libc::EINVAL, "something new", "takes no XDP program as it is set now: something new"),
        ] {
            let error = said(number, Some(text)).to_string();
            assert!(error.contains(advice), "{text}: {error}");
        }
    }

    #[test]
    fn each_errno_of_attaching_has_its_advice() {
        for (number, advice) in [
            (libc::ENODEV, "`ip link` lists"),
            (libc::EBUSY, "`ip link set dev eth1 xdp off` removes it"),
            (libc::EBUSY, "`ip link set dev eth1 xdpgeneric off` where it is shown as xdpgeneric"),
            (libc::EEXIST, "`ip link show dev eth1` shows it"),
            (libc::EOPNOTSUPP, "ask for the generic mode"),
            (libc::ERANGE, "`ip link set dev eth1 mtu 1500`"),
            (libc::ENOSPC, "`ethtool -L`"),
            (libc::EPERM, "`sudo setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock"),
        ] {
            let text = attach_error(number).to_string();
            assert!(text.contains(advice) && text.contains("eth1"), "{text}");
        }
    }

    #[test]
    fn another_errno_is_told_with_all_that_is_known() {
        let text = attach_error(libc::EINVAL).to_string();
        assert_eq!(text, "attaching to eth1: `bpf_link_create` failed: Invalid argument (os error 22)");
    }
}
