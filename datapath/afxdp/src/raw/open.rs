//! Opened as [`crate::open`] opens a transport, with the same settings.

use xsk_rs::FrameDesc;

use crate::bind::{Bound, borrow};
use crate::close::CloseOnDrop;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::options::{Attach, Options, Program, Rings};
use crate::program::Attached;
use crate::umem::Memory;
use crate::{OpenError, kernel, rights, send_room};

use super::{ARRIVALS, BATCH, NOTES, OUTGOING, Raw};

impl Raw {
    /// Open a queue of an interface of the calling thread's network namespace:
    /// all frames of the network's hidden EtherType come here from now on, by a
    /// program that runs where `attach` says.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(interface: &str, attach: Attach) -> Result<Raw, OpenError> {
        let options = options(interface, attach);
        kernel::check()?;
        rights::check()?;
        let interface = Interface::find(&options.interface)?;
        interface.check_queue(options.queue)?;
        let Memory { umem, descriptors, chunk, huge } = Memory::new(&options, &interface)?;

        let bound = Bound::new(&options, &interface, &umem)?;
        let mut mode = Mode::of(&bound, &interface, huge)?;
        let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
        let socket = CloseOnDrop::new(&bound, umem.clone(), writer)?;
        send_room::enlarge(bound.fd(), options.rings.tx, &mut mode.notes);

        let Bound { rx, tx, mut fill, done, .. } = bound;
        // SAFETY: chunks of this socket's UMEM, which nobody uses yet.
        unsafe { fill.produce(&descriptors[..ARRIVALS]) };
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
            chunk,
            outgoing: descriptors[ARRIVALS..][..OUTGOING].to_vec(),
            notes: descriptors[ARRIVALS + OUTGOING..][..NOTES].to_vec(),
            chunks: descriptors,
            arrived: [FrameDesc::default(); BATCH],
            echoes: Vec::with_capacity(BATCH),
            sending: 0,
            idle: 0,
            max_frame: interface.max_frame(),
        })
    }
}

/// As usual, but for the program, and for no more frames than there is use for.
fn options(interface: &str, attach: Attach) -> Options {
    let frames = (ARRIVALS + OUTGOING + NOTES) as u32;
    // The kernel says that it took chunks out of the fill ring only after it has
    // handed them over filled: in between the ring needs room for them twice.
    let rings = Rings { fill: 2 * ARRIVALS as u32, ..Rings::default() };
    Options { program: Program::Raw, attach, frames: frames.next_power_of_two(), rings, ..Options::new(interface) }
}
