//! Opens bare AF_XDP in the same steps, and with the same settings, as [`crate::open`].

use xsk_rs::FrameDesc;

use crate::bind::{Bound, rx_fd};
use crate::chunk_layout::{ChunkLayout, MAX_ZERO_COPY_MTU};
use crate::close::CloseOnDrop;
use crate::errors::XdpOptionsError;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::options::{Attach, Program, Rings, XdpOptions};
use crate::plan::memory_and_socket;
use crate::program::Attached;
use crate::umem::Memory;
use crate::{XdpOpenError, kernel, rights, sockopt};

use super::{BATCH, CONTROL_CHUNKS, RX_CHUNKS, RX_CHUNKS_OF_LONG_FRAMES, Raw, TX_CHUNKS};

impl Raw {
    /// Open a queue of an interface of the calling thread's network namespace. From then on all frames of the network's
    /// hidden EtherType arrive here. `attach` says where the XDP program runs.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(interface: &str, attach: Attach) -> Result<Raw, XdpOpenError> {
        kernel::check().map_err(|found| XdpOpenError::KernelTooOld { found })?;
        rights::check().map_err(XdpOpenError::Rights)?;
        let interface = Interface::find(interface)?;
        let options = options(&interface, attach);
        interface.check_queue(options.queue)?;
        let (memory, bound, mut mode, socket) = bound(&options, &interface)?;
        let Memory { umem, descriptors, layout: cut, .. } = memory;
        let arrivals = rx_chunks(cut.is_single_chunk());

        let Bound { rx, tx, mut fill, completion: done, .. } = bound;
        // SAFETY: chunks of this socket's UMEM, which are not in use yet.
        unsafe { fill.produce(&descriptors[..arrivals]) };
        let program = Attached::new(&options, &interface, &rx_fd(&rx))?;
        mode.attach = program.mode();
        Ok(Raw {
            mode,
            _program: program,
            rx,
            tx,
            fill,
            completion: done,
            _socket: socket,
            umem,
            chunk: cut.chunk,
            rx_chunks: arrivals,
            max_pieces: cut.rx_chunks(),
            pieces: 1,
            outgoing: descriptors[arrivals..][..TX_CHUNKS].to_vec(),
            control_chunks: descriptors[arrivals + TX_CHUNKS..][..CONTROL_CHUNKS].to_vec(),
            chunks: descriptors,
            arrived: vec![FrameDesc::default(); BATCH * cut.rx_chunks()],
            echo_current: None,
            echoes: Vec::with_capacity(2 * BATCH * cut.rx_chunks()),
            sending: 0,
            idle: 0,
            max_frame: cut.max_frame,
        })
    }
}

/// Steps 2 to 4 of [`crate::open`].
fn bound(options: &XdpOptions, interface: &Interface) -> Result<(Memory, Bound, Mode, CloseOnDrop), XdpOpenError> {
    let ((memory, bound), tried) = memory_and_socket(options, interface, count)?;
    let mut mode = Mode::new(&bound, interface, &memory, tried)?;
    let writer = mode.zero_copy.then(|| (interface.name.clone(), options.queue));
    let socket = CloseOnDrop::new(&bound, memory.umem.clone(), writer)?;
    sockopt::enlarge_send_buffer(bound.fd(), options.rings.tx, &mut mode.notes);
    Ok((memory, bound, mode, socket))
}

/// The default options, with another program and rings that are large enough.
fn options(interface: &Interface, attach: Attach) -> XdpOptions {
    let mut rings = Rings::default();
    // The mode is not known yet, and a ring that is too large does no harm.
    let arrivals = rx_chunks(interface.mtu <= MAX_ZERO_COPY_MTU) as u32;
    rings.rx = rings.rx.max(arrivals);
    // The kernel publishes that it took chunks out of the fill ring only after it has delivered them. Until then the
    // ring needs room for both.
    rings.fill = 2 * arrivals;
    XdpOptions { program: Program::Raw, attach, rings, ..XdpOptions::new(&interface.name) }
}

fn rx_chunks(is_one_each: bool) -> usize {
    if is_one_each { RX_CHUNKS } else { RX_CHUNKS_OF_LONG_FRAMES }
}

/// As many chunks as are used.
fn count(_: &XdpOptions, cut: &ChunkLayout) -> Result<u32, XdpOptionsError> {
    Ok(((rx_chunks(cut.is_single_chunk()) + TX_CHUNKS + CONTROL_CHUNKS) as u32).next_power_of_two())
}
