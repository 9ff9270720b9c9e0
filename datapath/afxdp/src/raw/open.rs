//! Opens bare AF_XDP in the same steps, and with the same settings, as [`crate::open`].

use xsk_rs::FrameDesc;

use crate::bind::{Bound, borrow};
use crate::close::CloseOnDrop;
use crate::cut::{Cut, ZERO_COPY_MTU};
use crate::errors::OptionsError;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::options::{Attach, Options, Program, Rings};
use crate::plan::memory_and_socket;
use crate::program::Attached;
use crate::umem::Memory;
use crate::{OpenError, kernel, rights, sockopt};

use super::{ARRIVALS, BATCH, MANY_ARRIVALS, NOTES, OUTGOING, Raw};

impl Raw {
    /// Open a queue of an interface of the calling thread's network namespace. From then on all frames of the network's
    /// hidden EtherType arrive here. `attach` says where the XDP program runs.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(interface: &str, attach: Attach) -> Result<Raw, OpenError> {
        kernel::check().map_err(|found| OpenError::KernelTooOld { found })?;
        rights::check().map_err(OpenError::Rights)?;
        let interface = Interface::find(interface)?;
        let options = options(&interface, attach);
        interface.check_queue(options.queue)?;
        let (memory, bound, mut mode, socket) = bound(&options, &interface)?;
        let Memory { umem, descriptors, cut, .. } = memory;
        let arrivals = arrivals(cut.is_one_each());

        let Bound { rx, tx, mut fill, done, .. } = bound;
        // SAFETY: chunks of this socket's UMEM, which are not in use yet.
        unsafe { fill.produce(&descriptors[..arrivals]) };
        let program = Attached::new(&options, &interface, &borrow(&rx))?;
        mode.attach = program.mode();
        Ok(Raw {
            mode,
            _program: program,
            rx,
            tx,
            fill,
            done,
            _socket: socket,
            umem,
            chunk: cut.chunk,
            arrivals,
            most_pieces: cut.landings(),
            pieces: 1,
            outgoing: descriptors[arrivals..][..OUTGOING].to_vec(),
            notes: descriptors[arrivals + OUTGOING..][..NOTES].to_vec(),
            chunks: descriptors,
            arrived: vec![FrameDesc::default(); BATCH * cut.landings()],
            amid: None,
            echoes: Vec::with_capacity(2 * BATCH * cut.landings()),
            sending: 0,
            idle: 0,
            max_frame: cut.longest,
        })
    }
}

/// Steps 2 to 4 of [`crate::open`].
fn bound(options: &Options, interface: &Interface) -> Result<(Memory, Bound, Mode, CloseOnDrop), OpenError> {
    let ((memory, bound), tried) = memory_and_socket(options, interface, count)?;
    let mut mode = Mode::of(&bound, interface, &memory, tried)?;
    let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
    let socket = CloseOnDrop::new(&bound, memory.umem.clone(), writer)?;
    sockopt::enlarge_send_buffer(bound.fd(), options.rings.tx, &mut mode.notes);
    Ok((memory, bound, mode, socket))
}

/// The default options, with another program and rings that are large enough.
fn options(interface: &Interface, attach: Attach) -> Options {
    let mut rings = Rings::default();
    // The mode is not known yet, and a ring that is too large does no harm.
    let arrivals = arrivals(interface.mtu <= ZERO_COPY_MTU) as u32;
    rings.rx = rings.rx.max(arrivals);
    // The kernel publishes that it took chunks out of the fill ring only after it has delivered them. Until then the
    // ring needs room for both.
    rings.fill = 2 * arrivals;
    Options { program: Program::Raw, attach, rings, ..Options::new(&interface.name) }
}

fn arrivals(is_one_each: bool) -> usize {
    if is_one_each { ARRIVALS } else { MANY_ARRIVALS }
}

/// As many chunks as are used.
fn count(_: &Options, cut: &Cut) -> Result<u32, OptionsError> {
    Ok(((arrivals(cut.is_one_each()) + OUTGOING + NOTES) as u32).next_power_of_two())
}
