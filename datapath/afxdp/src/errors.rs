//! Why an interface could not be opened, and what to do about it.

use std::io;

use am_bpf::{AttachError, LoadError, Share, ShareError};
use am_transport::memory::NoMemory;

use crate::holders::Holders;
use crate::kernel::NEEDED;
use crate::rights::{Missing, setcap};

/// Well above what any NIC has; keeps a typing error from locking all memory.
pub(crate) const MOST_ENTRIES: u32 = 1 << 15;

/// Options that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A ring's size.
    #[error("{ring} ring of {entries} entries: a ring has a power of two of them, at most {MOST_ENTRIES}")]
    Ring {
        /// Which one.
        ring: &'static str,
        /// What was asked for.
        entries: u32,
    },
    /// Too few frames.
    #[error(
        "frames={frames} are too few: the fill ring takes half of {least}, and sending needs some too; ask for at least {least}"
    )]
    Frames {
        /// What was asked for.
        frames: u32,
        /// What is needed.
        least: u32,
    },
    /// Zero-copy where there is none.
    #[error(
        "attach=generic with copy=never: the generic receive path copies every frame; \
         leave copy=never out, or take attach=native, which a driver with zero-copy has"
    )]
    GenericCopies,
    /// Rings that a long frame does not fit.
    #[error(
        "a frame of this MTU takes {pieces} entries of a ring: ask for rings of at least as many, or lower the MTU"
    )]
    Pieces {
        /// Entries that the longest frame takes.
        pieces: usize,
    },
}

/// Why an interface could not be opened. Nothing of the attempt is left.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Options that contradict each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The kernel lacks what we cannot do without.
    #[error(
        "kernel {found} is too old: AF_XDP as it is used here needs {}.{} or newer; the transport `udp` works on any",
        NEEDED.0,
        NEEDED.1
    )]
    KernelTooOld {
        /// What it calls itself.
        found: String,
    },
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP: it was built without CONFIG_XDP_SOCKETS; the transport `udp` works on any")]
    NoAfXdp,
    /// The process may not do what is needed.
    #[error("not permitted: missing {0}")]
    Rights(Missing),
    /// There is no interface of that name in this network namespace.
    #[error("no interface {interface} here; there are: {}", .have.join(", "))]
    NoSuchInterface {
        /// The name that was asked for.
        interface: String,
        /// Those that there are.
        have: Vec<String>,
    },
    /// It is not an Ethernet interface.
    #[error(
        "{interface} is no Ethernet interface: active messages need one, `ip -brief link` lists those with an address"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
    },
    /// It is switched off.
    #[error("{interface} is down: `ip link set dev {interface} up`")]
    Down {
        /// The interface.
        interface: String,
    },
    /// It has fewer receive queues.
    #[error("{interface} has no queue {queue}: it has queues 0 to {}; `ethtool -L {interface}` changes how many", .have - 1)]
    NoSuchQueue {
        /// The interface.
        interface: String,
        /// The queue that was asked for.
        queue: u32,
        /// How many there are.
        have: u32,
    },
    /// A frame of the interface is longer than any of ours.
    #[error(
        "the MTU of {interface} is {mtu}, and the kernel carries at most {most} in one frame: \
         `ip link set dev {interface} mtu {most}`, and the same at the other ends"
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
        /// The largest that works.
        most: u32,
    },
    /// Another AF_XDP socket has the queue.
    #[error(
        "queue {queue} of {interface} is in use by another AF_XDP socket, probably that of process {holders}; {}",
        if *.is_ours { "the nodes of one interface have to be in one process: open this one there, or take another interface" }
        else { "end that process, or take another queue" }
    )]
    Busy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// Who it may be.
        holders: Holders,
        /// Another process has nodes of ours on the interface.
        is_ours: bool,
    },
    /// Zero-copy or nothing was asked for, and it is nothing.
    #[error(
        "the driver {driver} of {interface} does not do zero-copy on queue {queue} ({source}): \
         let the kernel copy, or use a NIC whose driver can"
    )]
    NoZeroCopy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// Its driver.
        driver: String,
        /// The kernel's word.
        source: io::Error,
    },
    /// Its frames are longer than what a NIC surely writes into a chunk as a whole.
    #[error(
        "at an MTU of {mtu} a NIC may cut the frames of {interface}, as it may fill only 3 KiB of a chunk: \
         `ip link set dev {interface} mtu {most}`, and the same at the other ends, or let frames be in several chunks"
    )]
    ZeroCopyMtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
        /// The largest that works.
        most: u32,
    },
    /// There are no huge pages, and they were required.
    #[error(
        "{bytes} bytes in huge pages are not to be had ({source}): \
         `sysctl -w vm.nr_hugepages={pages}` makes enough, or leave huge pages optional"
    )]
    HugePages {
        /// What was asked for.
        bytes: usize,
        /// Huge pages that this takes.
        pages: usize,
        /// The kernel's word.
        source: io::Error,
    },
    /// More locked memory than this process may have.
    #[error(
        "{bytes} bytes of frames are more locked memory than the limit allows: `sudo prlimit --pid $$ --memlock=unlimited` \
         in the shell that starts the program, or once {}, LimitMEMLOCK=infinity in the systemd unit, or fewer frames, \
         as in `frames=4096`",
        setcap()
    )]
    LockedMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// Frames take more memory than there is.
    #[error("{0}: lower `frames=`")]
    Frames(#[from] NoMemory),
    /// The system has no more memory.
    #[error("no memory for {what}: see what `ulimit -v` says, or ask for fewer frames (`frames=`) or smaller rings")]
    Memory {
        /// For what.
        what: String,
    },
    /// As many nodes of this process as one interface takes.
    #[error("this process has {} nodes on {interface} already: open the next one on another interface", Share::NODES)]
    TooManyNodes {
        /// The interface.
        interface: String,
    },
    /// The kernel refused one more of them.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The XDP program was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The XDP program was not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Another process has a program on the interface that is none of ours.
    #[error(
        "process {holders} has an XDP program of another kind on {interface}: end that process, or take another interface"
    )]
    Occupied {
        /// The interface.
        interface: String,
        /// Which process it is.
        holders: Holders,
    },
    /// The driver takes no XDP program at this MTU.
    #[error(
        "the driver {driver} of {interface} runs no XDP program at an MTU of {mtu} ({said}): \
         `ip link set dev {interface} mtu {most}`, and the same at the other ends"
    )]
    AttachMtu {
        /// The interface.
        interface: String,
        /// Its driver.
        driver: String,
        /// Its MTU.
        mtu: u32,
        /// One that works.
        most: u32,
        /// What the driver says.
        said: String,
    },
    /// The process, or the system, has as many open files as it may have.
    #[error(
        "{doing}: {source}: each node takes some descriptors; `ulimit -n` says how many a process may have, and raises it"
    )]
    Descriptors {
        /// What was refused.
        doing: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The kernel refused for another reason.
    #[error("{doing}: {source}")]
    System {
        /// What was refused.
        doing: String,
        /// Why.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> OpenError {
        let (doing, source) = (doing.into(), source.into());
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => OpenError::Descriptors { doing, source },
            _ => OpenError::System { doing, source },
        }
    }
}

impl OpenError {
    /// The kernel does not know or not do what was asked of a socket.
    pub(crate) fn is_refusal(&self) -> bool {
        let OpenError::System { source, .. } = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }

    /// With less memory it would do.
    pub(crate) fn is_about_memory(&self) -> bool {
        use OpenError::{Frames, HugePages, LockedMemory, Memory};
        matches!(self, Frames(_) | HugePages { .. } | LockedMemory { .. } | Memory { .. })
    }
}

/// The system's error behind one of xsk-rs's, which are texts around it.
pub(crate) fn system_error(error: &dyn std::error::Error) -> io::Error {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match source.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::other(error.to_string()),
    }
}
