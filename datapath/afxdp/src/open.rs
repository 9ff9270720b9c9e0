//! From a name to an open queue, step by step. Each step has its own errors. A failed attempt closes everything that it
//! opened.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use am_ring::Pool;
use am_transport::Caps;
use am_wire::Address;

use crate::bind::Bound;
use crate::busy_poll::{self, SavedSettings};
use crate::bypass::Bypass;
use crate::carrier::Carrier;
use crate::close::CloseOnDrop;
use crate::frames::Frames;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::options::XdpOptions;
use crate::plan::memory_and_socket;
use crate::program::Attached;
use crate::reopen_state::ReopenState;
use crate::rules::{self, InstalledRules};
use crate::rx::Rx;
use crate::rx_watch::RxWatch;
use crate::sg::{self, LongFrames};
use crate::siblings::InterfaceNode;
use crate::tx::Tx;
use crate::umem::Memory;
use crate::xdp::{Path, Pieces, Whole, Xdp};
use crate::{XdpOpenError, kernel, rights, sockopt};

/// Open a queue of an interface of the calling thread's network namespace.
///
/// # Errors
/// See [`XdpOpenError`]: it says what is wrong and what to do.
pub fn open(options: &XdpOptions) -> Result<Xdp, XdpOpenError> {
    // 1. Check the options, the kernel, the rights and the queue.
    options.check()?;
    kernel::check().map_err(|found| XdpOpenError::KernelTooOld { found })?;
    rights::check().map_err(XdpOpenError::Rights)?;
    let interface = Interface::find(&options.interface)?;
    interface.check_queue(options.queue)?;

    // 2. Share memory for frames with the kernel. 3. Bind a socket to the queue, in the best mode that works.
    let ((memory, bound), tried) = memory_and_socket(options, &interface, sg::chunks)?;
    let mut mode = Mode::new(&bound, &interface, &memory, tried)?;
    let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
    let socket = CloseOnDrop::new(&bound, memory.umem.clone(), writer)?;

    // 4. Set the socket's options.
    sockopt::enlarge_send_buffer(bound.fd(), options.rings.tx, &mut mode.notes);
    let deferred = enable_busy_polling(options, bound.fd(), &interface, &mut mode)?;

    // 5. Set up the rings. The NIC needs fill buffers before the first frame arrives.
    let (longest, wake) = (memory.layout.max_frame, socket.wake());
    let (path, pool) = open_path(bound, options, &mode, memory, socket)?;

    // 6. Attach the program that steers frames to the socket. From here on frames arrive.
    let mut program = Attached::new(options, &interface, &*wake)?;
    mode.attach = program.mode();
    let deferred = program.restore_on_close(deferred);
    let own = program.node().map_or(interface.address, InterfaceNode::own_address);
    let steered = install_rules(options, &interface, own, &mut mode);
    let wakes = std::iter::once(wake.clone()).chain(program.node().map(InterfaceNode::wake_fd));
    let caps = caps(options, &interface, &mode, (longest, pool), (own, wakes));

    tracing::info!(interface = interface.name, queue = options.queue, %mode, xdp = mode.attach.name(), mode.multi_buffer, mode.huge_pages, ?mode.notes, "opened");
    let carrier = Carrier::of(&interface, longest);
    let watch = RxWatch::new(&interface.name, options.queue, rules::advice(&interface, options.queue, own));
    let bypass = Bypass::listen(interface.index, own, options.ethertype)
        .map_err(|error| XdpOpenError::system("listening for frames that pass the XDP program", error))?;
    let anew = ReopenState::new(options, interface, wake);
    Ok(Xdp {
        program,
        _rules: steered,
        path,
        _saved_settings: deferred,
        caps,
        mode,
        carrier,
        watch,
        bypass,
        reopen_state: anew,
    })
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

pub(crate) fn enable_busy_polling(
    options: &XdpOptions,
    socket: BorrowedFd<'_>,
    interface: &Interface,
    mode: &mut Mode,
) -> Result<SavedSettings, XdpOpenError> {
    let Some(wanted) = &options.busy_poll else { return Ok(SavedSettings::default()) };
    mode.busy_poll = true;
    busy_poll::enable(wanted, socket, interface, &mut mode.notes)
        .map_err(|error| XdpOpenError::system("switching on busy polling, which needs Linux 5.11 or newer", error))
}

pub(crate) fn open_path(
    bound: Bound,
    options: &XdpOptions,
    mode: &Mode,
    memory: Memory,
    socket: CloseOnDrop,
) -> Result<(Path, Pool), XdpOpenError> {
    let Bound { rx, tx, fill, completion: done, .. } = bound;
    let cut = memory.layout;
    if cut.is_single_chunk() {
        let mut frames = Frames::new(memory)?;
        let mut rx = Rx::new(rx, fill, options.rings.fill, mode.zero_copy, mode.busy_poll);
        rx.refill(&mut frames);
        let tx = Tx::new(tx, done, &options.rings, cut.max_frame);
        let pool = frames.pool().clone();
        return Ok((Path::Whole(Whole { rx, tx, _socket: socket, frames }), pool));
    }
    let (frames, landings) = LongFrames::new(memory, options)?;
    let mut rx = sg::Rx::new((rx, fill), landings, cut.rx_chunks(), (mode.zero_copy, mode.busy_poll));
    rx.refill();
    let tx = sg::Tx::new((tx, done), &options.rings, cut.max_frame, &frames)?;
    let pool = frames.pool().clone();
    Ok((Path::Pieces(Box::new(Pieces { rx, tx, _socket: socket, frames })), pool))
}

fn caps(
    options: &XdpOptions,
    interface: &Interface,
    mode: &Mode,
    (max_frame, pool): (usize, Pool),
    (address, wake): (Address, impl Iterator<Item = Arc<OwnedFd>>),
) -> Caps {
    let name = &interface.name;
    Caps {
        name: if options.queue == 0 { format!("xdp:{name}") } else { format!("xdp:{name},queue={}", options.queue) },
        mode: mode.to_string(),
        address,
        max_frame,
        reliable: false,
        // One queue and one ring keep the order of the wire.
        ordered: true,
        hears_all: true,
        pool,
        wake: Some(wake.collect()),
    }
}
