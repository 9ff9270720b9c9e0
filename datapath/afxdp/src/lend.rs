//! Queues of the interface that other processes have. The socket is opened, bound and steered here, and needs this process's
//! rights. The other process gets its descriptor, and that of the memory. It maps the rings ([`given`](crate::given)).
//!
//! The kernel takes a closed socket out of the steering program's table and frees its queue a little later. So a process that
//! is killed leaves nothing behind, and a queue that nobody was lent may soon be free.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use am_bpf::Kernel;
use am_ring::Mapping;
use am_transport::{LentQueue, QueueShape};
use am_wire::Address;
use libc::{sockaddr_xdp, xdp_umem_reg};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::chunk_layout::{ChunkLayout, Writer};
use crate::interface::Interface;
use crate::options::{Attach, Copying, MultiBuffer, XdpOptions};
use crate::rules::InstalledRules;
use crate::siblings::InterfaceNode;
use crate::sockopt;

/// Entries of each ring. A process that receives nothing for long loses more frames than these.
const ENTRIES: u32 = 1024;

/// Chunks of the memory: a filled receive ring, a filled transmit ring, and as many for the program.
const CHUNKS: u32 = 4 * ENTRIES;

/// The largest number of a queue that the steering program's table can have.
const MAX_QUEUE: u32 = 255;

/// The queues that other processes have.
#[derive(Default)]
pub(crate) struct LentQueues {
    lent: Vec<Lent>,
    /// Where the search for a free queue starts: the one that was free for longest.
    next: u32,
    /// A socket that found its queue in use. To make one with its memory takes 10 ms, to bind it 0.1 ms.
    spare: Option<LentQueue>,
}

struct Lent {
    to: Address,
    queue: u32,
    /// The socket's index in the steering program.
    index: u8,
    _rules: InstalledRules,
}

/// Why no queue can be lent.
pub(crate) struct NoQueue {
    pub(crate) why: String,
    /// Whether the kernel may still be releasing one.
    pub(crate) may_come: bool,
}

impl<T: Into<String>> From<T> for NoQueue {
    fn from(why: T) -> NoQueue {
        NoQueue { why: why.into(), may_come: false }
    }
}

impl LentQueues {
    /// Lend a queue that is free to an added address.
    ///
    /// # Errors
    /// Why none can be lent.
    pub(crate) fn lend(
        &mut self,
        to: Address,
        node: &InterfaceNode,
        interface: &Interface,
        options: &XdpOptions,
    ) -> Result<LentQueue, NoQueue> {
        self.take_back(to, node);
        let kernel = Kernel::running();
        if kernel.is_older_than(6, 4) {
            return Err(format!(
                "another process can map a queue's rings from Linux 6.4 on, and this is {}",
                kernel.release
            )
            .into());
        }
        if !node.addresses.added.contains(to) {
            return Err("the address is not served".into());
        }
        let queues = interface.queues.unwrap_or(1).min(MAX_QUEUE + 1);
        let indices = 1..=am_bpf::Steer::LAST_SOCKET;
        let index = indices.into_iter().find(|index| self.lent.iter().all(|lent| lent.index != *index));
        let index = index.ok_or("the steering program's table is full")?;
        let mut refused = NoQueue::from(format!("{} has {queues} queues, and all are in use", interface.name));
        for queue in (0..queues).map(|step| (self.next + step) % queues) {
            if queue == options.queue || self.lent.iter().any(|lent| lent.queue == queue) {
                continue;
            }
            match open(queue, interface, options, &mut self.spare) {
                Ok(lent) => {
                    let rules = steer(&lent, to, index, node, interface, options)?;
                    self.lent.push(Lent { to, queue, index, _rules: rules });
                    self.next = queue + 1;
                    return Ok(lent);
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => refused.may_come = true,
                Err(error) => refused.why = format!("opening queue {queue} of {}: {error}", interface.name),
            }
        }
        Err(refused)
    }

    /// An address has no queue any more. Its process may still have the socket open: then nothing arrives there.
    pub(crate) fn take_back(&mut self, to: Address, node: &InterfaceNode) {
        let before = self.lent.len();
        self.lent.retain(|lent| lent.to != to);
        if self.lent.len() < before {
            // The entry exists, so there is room for it.
            _ = node.steer.add_address(to);
        }
    }

    /// The interface is gone, and with it every queue.
    pub(crate) fn clear(&mut self, node: &InterfaceNode) {
        while let Some(Lent { to, .. }) = self.lent.last() {
            self.take_back(*to, node);
        }
    }
}

/// Have program and NIC steer the frames of an address to its queue.
fn steer(
    lent: &LentQueue,
    to: Address,
    index: u8,
    node: &InterfaceNode,
    interface: &Interface,
    options: &XdpOptions,
) -> Result<InstalledRules, String> {
    let (queue, mut notes) = (lent.shape.queue, Vec::new());
    let rules = InstalledRules::new(interface, queue, to, options.ethertype, &mut notes);
    // On a veth the sender chooses the queue.
    if interface.driver != "veth"
        && let Some(note) = notes.pop()
    {
        return Err(note);
    }
    let said = |error| format!("steering frames to queue {queue}: {error}");
    node.steer.lend(to, index, queue as u8, &lent.socket).map_err(said)?;
    Ok(rules)
}

/// Open a socket of this queue, in zero-copy mode where that works.
fn open(
    queue: u32,
    interface: &Interface,
    options: &XdpOptions,
    spare: &mut Option<LentQueue>,
) -> io::Result<LentQueue> {
    let is_wanted = |writer| match writer {
        Writer::Nic => options.copy != Copying::Copy && options.attach != Attach::Generic,
        Writer::Kernel => options.copy != Copying::ZeroCopy,
    };
    let mut refused = io::Error::other("its frames take several chunks: lower its MTU");
    for writer in [Writer::Nic, Writer::Kernel] {
        let layout = ChunkLayout::new(interface, writer, MultiBuffer::IfNeeded);
        if !layout.is_single_chunk() || !is_wanted(writer) {
            continue;
        }
        let zero_copy = writer == Writer::Nic;
        let shape = QueueShape { queue, chunk: layout.chunk as u32, chunks: CHUNKS, entries: ENTRIES, zero_copy };
        let unbound = match spare.take() {
            Some(spare) if QueueShape { queue, ..spare.shape } == shape => Ok(LentQueue { shape, ..spare }),
            _ => unbound(shape),
        };
        let mode = if zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY } | libc::XDP_USE_NEED_WAKEUP;
        let bound = unbound.and_then(|unbound| match bind(&unbound.socket, interface.index, queue, mode) {
            Ok(()) => Ok(unbound),
            Err(error) => {
                *spare = (error.raw_os_error() == Some(libc::EBUSY)).then_some(unbound);
                Err(error)
            }
        });
        match bound {
            // No mode binds to a queue in use.
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => refused = error,
            done => return done,
        }
    }
    Err(refused)
}

/// A socket with its memory and rings.
fn unbound(shape: QueueShape) -> io::Result<LentQueue> {
    let memory = memory(&shape)?;
    // SAFETY: the call takes numbers only.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nothing else has.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    register(&socket, &memory, &shape)?;
    for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
        sockopt::set(socket.as_fd(), libc::SOL_XDP, ring, ENTRIES)?;
    }
    sockopt::enlarge_send_buffer(socket.as_fd(), ENTRIES, &mut Vec::new());
    Ok(LentQueue { socket, memory, shape })
}

/// Memory of a fixed size: the other process cannot truncate it.
fn memory(shape: &QueueShape) -> io::Result<OwnedFd> {
    let memory = memfd_create(c"amd-queue", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    nix::unistd::ftruncate(&memory, i64::from(shape.chunk) * i64::from(shape.chunks))?;
    let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&memory, FcntlArg::F_ADD_SEALS(fixed))?;
    Ok(memory)
}

/// Register the memory with the kernel, which keeps its pages. It is mapped here only for this call.
fn register(socket: &OwnedFd, memory: &OwnedFd, shape: &QueueShape) -> io::Result<()> {
    let bytes = shape.chunk as usize * shape.chunks as usize;
    let mapping = Mapping::populated(memory, 0, bytes)?;
    // SAFETY: only numbers.
    let mut region = unsafe { std::mem::zeroed::<xdp_umem_reg>() };
    (region.addr, region.len) = (mapping.base().addr().get() as u64, bytes as u64);
    // The frame begins behind the headroom that the kernel adds.
    region.chunk_size = shape.chunk;
    sockopt::set(socket.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, region)
}

fn bind(socket: &OwnedFd, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    // SAFETY: only numbers.
    let mut name = unsafe { std::mem::zeroed::<sockaddr_xdp>() };
    (name.sxdp_family, name.sxdp_ifindex, name.sxdp_queue_id) = (libc::AF_XDP as u16, interface, queue);
    name.sxdp_flags = flags;
    let bytes = size_of::<sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of `name`, which lives across the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), bytes) };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
