//! From a name to an open queue, step by step. Each step has its errors, and
//! whatever a failed attempt had opened is closed when it returns.

use std::os::fd::BorrowedFd;

use transport::Caps;

use crate::bind::Bound;
use crate::busy_poll::{self, Deferred};
use crate::close::CloseOnDrop;
use crate::frames::Frames;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::options::Options;
use crate::program::Attached;
use crate::rx::Rx;
use crate::tx::Tx;
use crate::umem::Memory;
use crate::xdp::Xdp;
use crate::{OpenError, kernel, rights, send_room};

/// Open a queue of an interface of the calling thread's network namespace.
///
/// # Errors
/// What is in the way, and what to do about it: see [`OpenError`].
pub fn open(options: &Options) -> Result<Xdp, OpenError> {
    // 1. Is it possible at all?
    options.check()?;
    kernel::check()?;
    rights::check()?;
    let interface = Interface::find(&options.interface)?;
    interface.check_queue(options.queue)?;

    // 2. Memory for frames, shared with the kernel.
    let memory = Memory::new(options, &interface)?;
    let (umem, huge) = (memory.umem.clone(), memory.huge.clone());
    let mut frames = Frames::new(memory)?;

    // 3. A socket, bound to the queue, in the best mode there is.
    let bound = Bound::new(options, &interface, &umem)?;
    let mut mode = Mode::of(&bound, &interface, huge)?;
    let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
    let socket = CloseOnDrop::new(&bound, umem, writer)?;

    // 4. Its options.
    send_room::enlarge(bound.fd(), options.rings.tx, &mut mode.notes);
    let deferred = busy_polling(options, bound.fd(), &interface, &mut mode)?;

    // 5. Its rings, with blanks for the NIC before the first frame comes.
    let (rx, tx) = rings(bound, options, &mode, &interface, &mut frames);

    // 6. The program that steers frames to it: from here on they come.
    let program = Attached::new(options, &interface, &rx)?;
    mode.attach = program.mode();

    tracing::info!(interface = interface.name, queue = options.queue, %mode, xdp = mode.attach.name(), mode.huge_pages, ?mode.notes, "opened");
    let caps = caps(&interface, &mode, &frames, &socket);
    Ok(Xdp { program, rx, tx, _socket: socket, frames, _deferred: deferred, caps, mode })
}

fn busy_polling(
    options: &Options,
    socket: BorrowedFd<'_>,
    interface: &Interface,
    mode: &mut Mode,
) -> Result<Deferred, OpenError> {
    let Some(wanted) = &options.busy_poll else { return Ok(Deferred::default()) };
    mode.busy_poll = true;
    busy_poll::enable(wanted, socket, interface, &mut mode.notes)
        .map_err(|error| OpenError::system("switching on busy polling, which needs Linux 5.11 or newer", error))
}

fn rings(bound: Bound, options: &Options, mode: &Mode, interface: &Interface, frames: &mut Frames) -> (Rx, Tx) {
    let Bound { rx, tx, fill, done, .. } = bound;
    let mut rx = Rx::new(rx, fill, options.rings.fill, mode.zero_copy, mode.busy_poll);
    rx.refill(frames);
    (rx, Tx::new(tx, done, &options.rings, interface.max_frame()))
}

fn caps(interface: &Interface, mode: &Mode, frames: &Frames, socket: &CloseOnDrop) -> Caps {
    Caps {
        name: format!("xdp:{}", interface.name),
        mode: mode.to_string(),
        address: interface.address,
        max_frame: interface.max_frame(),
        reliable: false,
        // One queue, one ring: in the order of the wire.
        ordered: true,
        pool: frames.pool().clone(),
        wake: Some(socket.wake()),
    }
}
