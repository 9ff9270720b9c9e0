//! Why an interface could not be opened, and what to do about it.

use std::io;

use am_bpf::{AttachError, LoadError, NodeSwitch, ShareError, setcap};
use am_transport::memory::NoMemory;

use crate::holders::Holders;
use crate::rights::Missing;

/// The oldest supported kernel. It needs `bpf_link` for XDP (5.9), every field of `XDP_STATISTICS` (5.9), shared memory
/// for maps (5.5) and need_wakeup (5.4). 5.10 is the oldest long-term kernel with all of them.
pub(crate) const OLDEST_KERNEL: (u32, u32) = (5, 10);

/// Well above any NIC's ring size. It keeps a typing error from locking all memory.
pub(crate) const MAX_RING_ENTRIES: u32 = 1 << 15;

/// Options that contradict each other.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum XdpOptionsError {
    /// A ring's size.
    #[error("{ring} ring of {entries} entries: a ring has a power of two of them, at most {MAX_RING_ENTRIES}")]
    Ring { ring: &'static str, entries: u32 },
    /// Too few frames.
    #[error(
        "frames={frames} are too few: the fill ring takes half of {least}, and sending needs some too; ask for at least {least}"
    )]
    Frames { frames: u32, least: u32 },
    /// Zero-copy on the generic receive path, which always copies.
    #[error(
        "attach=generic with copy=never: the generic receive path copies every frame; \
         leave copy=never out, or take attach=native, which a driver with zero-copy has"
    )]
    GenericCopies,
    /// Rings too small for one long frame.
    #[error(
        "a frame of this MTU takes {pieces} entries of a ring: ask for rings of at least as many, or lower the MTU"
    )]
    Pieces { pieces: usize },
}

am_transport::debug_as_display!(XdpOptionsError);

/// Why an interface could not be opened. A failed attempt leaves nothing behind.
#[derive(thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum XdpOpenError {
    /// Options that contradict each other.
    #[error(transparent)]
    Options(#[from] XdpOptionsError),
    /// The kernel is too old.
    #[error(
        "kernel {found} is too old: AF_XDP as it is used here needs {}.{} or newer; the transport `udp` works on any",
        OLDEST_KERNEL.0,
        OLDEST_KERNEL.1
    )]
    KernelTooOld { found: String },
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP: it was built without CONFIG_XDP_SOCKETS; the transport `udp` works on any")]
    NoAfXdp,
    /// The process lacks capabilities.
    #[error("not permitted: missing {0}")]
    Rights(Missing),
    /// There is no interface of that name in this network namespace.
    #[error("no interface {interface} here; there are: {}", .have.join(", "))]
    NoSuchInterface { interface: String, have: Vec<String> },
    /// The interface is not Ethernet.
    #[error(
        "{interface} is no Ethernet interface: active messages need one, `ip -brief link` lists those with an address"
    )]
    NotEthernet { interface: String },
    /// The interface is down.
    #[error("{interface} is down: `ip link set dev {interface} up`")]
    Down { interface: String },
    /// The interface has fewer receive queues.
    #[error("{interface} has no queue {queue}: it has queues 0 to {}; `ethtool -L {interface}` changes how many", .have - 1)]
    NoSuchQueue { interface: String, queue: u32, have: u32 },
    /// The MTU is larger than a frame can be here.
    #[error(
        "the MTU of {interface} is {mtu}, and the kernel carries at most {most} in one frame: \
         `ip link set dev {interface} mtu {most}`, and the same at the other ends"
    )]
    Mtu { interface: String, mtu: u32, most: u32 },
    /// Another AF_XDP socket has the queue.
    #[error(
        "queue {queue} of {interface} is in use by another AF_XDP socket, {}",
        if holders.is_empty() { "and no process here has one: the kernel has not released it yet, or a container has it; \
            try again, or take another queue".to_owned() }
        else if *.is_ours { format!("probably that of process {holders}; the nodes of one interface have to be in one \
            process: open this one there, or take another interface") }
        else { format!("probably that of process {holders}; end that process, or take another queue") }
    )]
    Busy { interface: String, queue: u32, holders: Holders, is_ours: bool },
    /// Zero-copy was required, and the driver lacks it.
    #[error(
        "the driver {driver} of {interface} does not do zero-copy on queue {queue} ({source}): \
         let the kernel copy, or use a NIC whose driver can"
    )]
    NoZeroCopy { interface: String, queue: u32, driver: String, source: io::Error },
    /// The frames are longer than a NIC is certain to write into one chunk.
    #[error(
        "at an MTU of {mtu} a NIC may cut the frames of {interface}, as it may fill only 3 KiB of a chunk: \
         `ip link set dev {interface} mtu {most}`, and the same at the other ends, or allow frames of several chunks"
    )]
    ZeroCopyMtu { interface: String, mtu: u32, most: u32 },
    /// Huge pages were required, and there are too few.
    #[error(
        "too few huge pages for {bytes} bytes ({source}): \
         `sysctl -w vm.nr_hugepages={pages}` makes enough, or leave huge pages optional"
    )]
    HugePages { bytes: usize, pages: usize, source: io::Error },
    /// More locked memory than this process may have.
    #[error(
        "{bytes} bytes of frames are more locked memory than the limit allows: `sudo prlimit --pid $$ --memlock=unlimited` \
         in the shell that starts the program, or once {}, LimitMEMLOCK=infinity in the systemd unit, or fewer frames, \
         as in `frames=4096`",
        setcap()
    )]
    LockedMemory { bytes: usize },
    /// The frames need more memory than the system has.
    #[error("{0}: lower `frames=`")]
    Frames(#[from] NoMemory),
    /// The kernel is out of memory.
    #[error(
        "no memory for {what}: see what `ulimit -v` and `ulimit -d` say, or ask for fewer frames (`frames=`) or smaller rings"
    )]
    Memory { what: String },
    /// This process has the most nodes that one interface can have.
    #[error(
        "this process has {} nodes on {interface} already: open the next one on another interface",
        NodeSwitch::NODES
    )]
    TooManyNodes { interface: String },
    /// The kernel refused one more node.
    #[error(transparent)]
    NodeSwitch(#[from] ShareError),
    /// The XDP program was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The XDP program was not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Another process has a foreign XDP program on the interface.
    #[error(
        "process {holders} has an XDP program of another kind on {interface}: end that process, or take another interface"
    )]
    Occupied { interface: String, holders: Holders },
    /// The driver runs no XDP program at this MTU.
    #[error(
        "the driver {driver} of {interface} runs no XDP program at an MTU of {mtu} ({said}): \
         `ip link set dev {interface} mtu {most}`, and the same at the other ends"
    )]
    AttachMtu { interface: String, driver: String, mtu: u32, most: u32, said: String },
    /// The process or the system has no descriptor left.
    #[error(
        "{doing}: {source}: each node takes some descriptors; `ulimit -n` says how many a process may have, and raises it"
    )]
    Descriptors { doing: String, source: io::Error },
    /// The kernel refused for another reason.
    #[error("{doing}: {source}")]
    System { doing: String, source: io::Error },
}

am_transport::debug_as_display!(XdpOpenError);

impl XdpOpenError {
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> XdpOpenError {
        let (doing, source) = (doing.into(), source.into());
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => XdpOpenError::Descriptors { doing, source },
            _ => XdpOpenError::System { doing, source },
        }
    }

    /// Whether the kernel lacks a feature that was asked of a socket.
    pub(crate) fn is_unsupported(&self) -> bool {
        let XdpOpenError::System { source, .. } = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }

    /// Whether less memory would help.
    pub(crate) fn is_lack_of_memory(&self) -> bool {
        use XdpOpenError::{Frames, HugePages, LockedMemory, Memory};
        matches!(self, Frames(_) | HugePages { .. } | LockedMemory { .. } | Memory { .. })
    }
}

/// The system's error inside an error of xsk-rs, which keeps it as its source.
pub(crate) fn system_error(error: &dyn std::error::Error) -> io::Error {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match source.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::other(error.to_string()),
    }
}
