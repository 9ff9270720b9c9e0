use std::env;
use std::error::Error;
use std::io;

/// Why a program could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel lacks what we cannot do without.
    #[error("kernel {found} is too old: XDP through a bpf_link needs 5.9 or newer")]
    KernelTooOld {
        /// What it calls itself.
        found: String,
    },
    /// The process may not load programs.
    #[error("not permitted to load an XDP program: {}", advice())]
    NotPermitted,
    /// Kernels before 5.11 count programs as locked memory.
    #[error(
        "kernel {release} wants more locked memory than the limit allows: \
         run `ulimit -l unlimited`, or set LimitMEMLOCK=infinity in the systemd unit"
    )]
    LockedMemory {
        /// The kernel's release.
        release: String,
    },
    /// The process has no file descriptor left for programs and maps.
    #[error(
        "no file descriptor left to load the XDP program with: a larger `ulimit -n`, or LimitNOFILE= in the systemd unit"
    )]
    OpenFiles,
    /// The kernel's verifier does not accept the program: a bug of ours, or of
    /// a kernel that we have not met.
    #[error("kernel {release} rejects the program; please report this with its verifier's log:\n{log}")]
    Rejected {
        /// The kernel's release.
        release: String,
        /// What the verifier said.
        log: String,
    },
    /// The kernel refused for another reason.
    #[error("kernel {release} does not load the program: {source}")]
    Refused {
        /// The kernel's release.
        release: String,
        /// Why.
        source: io::Error,
    },
    /// The compiled program is not what this loader expects.
    #[error("the compiled program cannot be loaded: {0}")]
    Object(String),
}

/// Why a program could not be attached to an interface.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No such interface in this network namespace.
    #[error("no interface {interface} here: `ip link` lists those there are")]
    NoSuchInterface {
        /// The name that was asked for.
        interface: String,
    },
    /// There is an XDP program already, ours or another's.
    #[error(
        "another XDP program is attached to {interface}: `ip link show dev {interface}` shows it; \
         `ip link set dev {interface} xdp off` removes it, `ip link set dev {interface} xdpgeneric off` where it is \
         shown as xdpgeneric, or, where a process holds it, that process's end (`bpftool link` names it)"
    )]
    Occupied {
        /// The interface.
        interface: String,
    },
    /// The interface's driver has no XDP.
    #[error(
        "the driver of {interface} does not run XDP programs: take another interface \
         (of a bridge, a bond or a VLAN, the one beneath), or ask for the generic mode, which is slower"
    )]
    NoNativeMode {
        /// The interface.
        interface: String,
    },
    /// The MTU is more than the driver can give to an XDP program.
    #[error("the MTU of {interface} is too large for XDP: `ip link set dev {interface} mtu 1500`")]
    MtuTooLarge {
        /// The interface.
        interface: String,
    },
    /// A veth needs as many receive queues as its peer has transmit queues.
    #[error(
        "{interface} has fewer receive queues than its peer has transmit queues: \
         `ethtool -L` evens them out, or make the pair with equal numrxqueues and numtxqueues"
    )]
    TooFewQueues {
        /// The interface.
        interface: String,
    },
    /// The process may not attach programs.
    #[error("not permitted to attach an XDP program to {interface}: {}", advice())]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// The kernel or the driver refused for another reason.
    #[error("attaching to {interface}: {reason}")]
    Refused {
        /// The interface.
        interface: String,
        /// Why, with what the driver said where it said something.
        reason: String,
    },
}

impl AttachError {
    pub(crate) fn new(interface: &str, error: &(dyn Error + 'static)) -> AttachError {
        let interface = interface.to_owned();
        match root_cause(error).raw_os_error().unwrap_or_default() {
            libc::ENODEV => AttachError::NoSuchInterface { interface },
            libc::EBUSY | libc::EEXIST => AttachError::Occupied { interface },
            libc::EOPNOTSUPP => AttachError::NoNativeMode { interface },
            libc::ERANGE | libc::EFBIG => AttachError::MtuTooLarge { interface },
            libc::ENOSPC => AttachError::TooFewQueues { interface },
            libc::EPERM | libc::EACCES => AttachError::NotPermitted { interface },
            _ => AttachError::Refused { interface, reason: chain(error) },
        }
    }
}

/// Why a socket could not be put into steering's table.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The index is beyond the table.
    #[error("there is no socket {index}: a program has {count} of them")]
    NoSuchIndex {
        /// What was asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// The table has a byte for the queue.
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

/// What to do about missing rights.
fn advice() -> String {
    let program = env::current_exe().map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string());
    format!(
        "run as root, or give the program what it needs (CAP_BPF, CAP_NET_ADMIN, and CAP_NET_RAW and CAP_IPC_LOCK for its sockets): \
         `sudo setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock=ep {program}`"
    )
}

/// The system's error at the bottom of a library's.
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

/// What every error of the chain says, from the library's down to the system's.
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
        let io_error = io::Error::from_raw_os_error(number);
        let error = aya::sys::SyscallError { call: "bpf_link_create", io_error };
        AttachError::new("eth1", &aya::programs::ProgramError::from(error))
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
            (libc::EPERM, "sudo setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock=ep"),
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
