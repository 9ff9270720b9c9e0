//! From a name to an open queue, step by step. Each step has its own errors. A failed attempt closes everything that it
//! opened.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use am_bpf::Kernel;
use am_ring::{Layout, Own, Pool};
use am_transport::Caps;
use am_wire::Address;

use crate::busy_poll::{self, SavedSettings};
use crate::bypass::Bypass;
use crate::carrier::Carrier;
use crate::chunk_layout::HEADROOM;
use crate::close::CloseOnDrop;
use crate::errors::OLDEST_KERNEL;
use crate::frames::{FrameTable, Frames};
use crate::interface::Interface;
use crate::lend::LentQueues;
use crate::mode::Mode;
use crate::options::XdpOptions;
use crate::path::{Path, Queue};
use crate::plan::memory_and_socket;
use crate::ring::SocketRings;
use crate::rules::{self, InstalledRules};
use crate::rx::Rx;
use crate::rx_watch::{RxWatch, TruncationDetector};
use crate::sg::{self, LongFrames};
use crate::siblings::InterfaceNode;
use crate::tx::Tx;
use crate::umem::{ChunkCount, Memory};
use crate::xdp::Xdp;
use crate::{XdpOpenError, rights, sockopt};

/// Open a queue of an interface of the calling thread's network namespace.
///
/// # Errors
/// See [`XdpOpenError`]: it says what is wrong and what to do.
pub fn open(options: &XdpOptions) -> Result<Xdp, XdpOpenError> {
    let interface = check(options)?;
    let BoundQueue { memory, rings, mut mode, socket, settings } = bind_queue(options, &interface, sg::chunks, None)?;

    // 5. Set up the rings. The NIC needs fill buffers before the first frame arrives.
    let (longest, wake) = (memory.layout.max_frame, socket.wake());
    let (path, pool) = open_path(rings, options, &mode, memory, socket)?;

    // 6. Attach the program that steers frames to the socket. From here on frames arrive.
    let mut node = InterfaceNode::join(options, &interface, &*wake)?;
    mode.attach = node.mode();
    node.saved_settings = settings;
    let (name, queue, own) = (&interface.name, options.queue, node.addresses.own);
    let rules = install_rules(options, &interface, own, &mut mode);

    tracing::info!(interface = name, queue, %mode, xdp = mode.attach.name(), mode.multi_buffer, mode.huge_pages, ?mode.notes, "opened");
    let bypass = Bypass::listen(interface.index, options.ethertype)
        .map_err(|error| XdpOpenError::system("listening for frames that pass the XDP program", error))?;
    let caps = Caps {
        name: if queue == 0 { format!("xdp:{name}") } else { format!("xdp:{name},queue={queue}") },
        mode: mode.to_string(),
        address: own,
        max_frame: longest,
        reliable: false,
        // One queue and one ring keep the order of the wire.
        ordered: true,
        hears_all: true,
        pool,
        wake: Some(vec![wake.clone(), node.mailbox.wake_fd()]),
        wakes_by_level: false,
        out_of_band: Some(bypass.out_of_band()),
    };
    Ok(Xdp {
        node,
        _rules: rules,
        lent: LentQueues::default(),
        path,
        caps,
        mode,
        carrier: Carrier::of(&interface, longest)?,
        watch: RxWatch::new(name, queue, rules::advice(&interface, queue, own)),
        bypass,
        options: options.clone(),
        interface,
        wake,
        max_rx_credit: 0,
        truncation: TruncationDetector::default(),
        next_search: Instant::now(),
    })
}

/// Step 1: check the options, the kernel, the rights and the queue.
pub(crate) fn check(options: &XdpOptions) -> Result<Interface, XdpOpenError> {
    options.check()?;
    let (kernel, (major, minor)) = (Kernel::running(), OLDEST_KERNEL);
    if kernel.is_older_than(major, minor) {
        return Err(XdpOpenError::KernelTooOld { found: kernel.release });
    }
    rights::check().map_err(XdpOpenError::Rights)?;
    let interface = Interface::find(&options.interface)?;
    interface.check_queue(options.queue)?;
    Ok(interface)
}

/// Memory that is shared with the kernel, and a socket that is bound to the queue.
pub(crate) struct BoundQueue {
    pub(crate) memory: Memory,
    pub(crate) rings: SocketRings,
    pub(crate) mode: Mode,
    pub(crate) socket: CloseOnDrop,
    /// Settings of the interface that were changed.
    pub(crate) settings: SavedSettings,
}

/// Steps 2 to 4. `replaced`: the wake descriptor of the socket that the new one replaces.
pub(crate) fn bind_queue(
    options: &XdpOptions,
    interface: &Interface,
    count: ChunkCount,
    replaced: Option<Arc<Own>>,
) -> Result<BoundQueue, XdpOpenError> {
    // 2. Share memory for frames with the kernel. 3. Bind a socket to the queue, in the best mode that works.
    let ((memory, rings), tried) = memory_and_socket(options, interface, count)?;
    let mut mode = Mode::new(rings.fd().as_raw_fd(), interface, &memory, tried)?;
    let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
    let socket = CloseOnDrop::new(&rings, memory.umem.clone(), writer, replaced)?;

    // 4. Set the socket's options.
    sockopt::enlarge_send_buffer(rings.fd(), options.rings.tx, &mut mode.notes);
    mode.busy_poll = options.busy_poll.is_some();
    let settings = options.busy_poll.as_ref().map_or_else(
        || Ok(SavedSettings::default()),
        |wanted| busy_poll::enable(wanted, rings.fd(), interface, &mut mode.notes),
    );
    let settings = settings
        .map_err(|error| XdpOpenError::system("switching on busy polling, which needs Linux 5.11 or newer", error))?;
    Ok(BoundQueue { memory, rings, mode, socket, settings })
}

/// Install rules of the NIC for the node's queue, if they are wanted and the interface has several queues.
pub(crate) fn install_rules(
    options: &XdpOptions,
    interface: &Interface,
    own: Address,
    mode: &mut Mode,
) -> InstalledRules {
    if !options.steer || interface.queues == Some(1) {
        return InstalledRules::none();
    }
    InstalledRules::new(interface, options.queue, own, options.ethertype, &mut mode.notes)
}

pub(crate) fn open_path(
    rings: SocketRings,
    options: &XdpOptions,
    mode: &Mode,
    memory: Memory,
    socket: CloseOnDrop,
) -> Result<(Path, Pool), XdpOpenError> {
    let (cut, SocketRings { receiving, sending }) = (memory.layout, rings);
    let rx = Rx::new(receiving, cut.rx_chunks(), mode.zero_copy, mode.busy_poll);
    if cut.is_single_chunk() {
        let layout = Layout { frames: memory.chunks, stride: cut.chunk, headroom: HEADROOM };
        let frames = Frames::new(memory.into_pool(layout)?);
        let (tx, pool) = (Tx::new(sending, cut.max_frame, usize::MAX), frames.pool().clone());
        return Ok((Path::Whole(Queue::new(rx, tx, socket, frames)), pool));
    }
    let frames = LongFrames::new(memory, options)?;
    let pool = frames.pool().clone();
    // Half of all frames may be on their way, because reception needs some too.
    let tx = Tx::new(sending, cut.max_frame, (pool.layout().frames / 2).max(1));
    Ok((Path::Pieces(Box::new(Queue::new(rx, tx, socket, frames))), pool))
}
