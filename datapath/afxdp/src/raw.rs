//! **Bare AF_XDP**: the baseline that benches compare this crate, and everything above it, with.
//!
//! The socket is opened in the same way, and then used through xsk-rs's rings directly: no pool, no handles, no
//! protocol, no copy. The frames to send are written once and sent again and again. Received frames are read in place
//! and go straight back, to the fill ring or, as an echo, to the TX ring. This is the most that AF_XDP achieves on the
//! machine, so the code takes every liberty that a program with one purpose may take.
//!
//! ```text
//!  chunks   0 ... ARRIVALS            │ ... + OUTGOING      │ ... + NOTES
//!           received frames           │ one frame, written  │ control frames
//!                                     │ into each           │
//!   fill ◀──┬── read in place ◀── rx  │                     │
//!           └── echo ──▶ tx ──▶ done  │ stack ──▶ tx        │ stack ──▶ tx
//!                └──────▶ fill        │   ▲── done ◀──┘     │   ▲── done ◀──┘
//! ```
//!
//! A frame longer than a chunk takes several, one after the other: its *pieces*. All but the last are marked as
//! continued.
//!
//! This is not a [`Transport`](am_transport::Transport), and not for applications.

use std::fmt;
use std::io;

use am_bpf::Attachment;
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, TxQueue, Umem};

use crate::XdpOpenError;
use crate::attach::{attach, socket_error};
use crate::bind::{Bound, rx_fd};
use crate::chunk_layout::{ChunkLayout, HEADROOM, MAX_ZERO_COPY_MTU};
use crate::close::CloseOnDrop;
use crate::errors::XdpOptionsError;
use crate::interface::Interface;
use crate::mode::Mode;
use crate::open::{BoundQueue, bind_queue, check};
use crate::options::{Attach, Rings, XdpOptions};
use crate::umem::Memory;

/// The most frames that are given to the kernel with one doorbell, or received in one call.
pub const BATCH: usize = 64;

/// Chunks to receive into: half as many as the fill ring has entries.
const RX_CHUNKS: usize = 1024;
/// Chunks to receive into where a frame takes several.
const RX_CHUNKS_OF_LONG_FRAMES: usize = 4096;
/// Chunks with the frame to send. Few, so that they stay in the cache.
const TX_CHUNKS: usize = 1024;
/// Chunks for control frames.
const CONTROL_CHUNKS: usize = 16;
/// Of the calls that receive nothing, one in this many looks after frames that are being sent.
const TAIL_INTERVAL: u32 = 1024;

/// One queue of an interface. The caller works its rings directly.
pub struct Raw {
    // Fields are dropped in this order, for the reasons given at `Xdp`.
    _program: (Attachment, am_bpf::Raw),
    rx: RxQueue,
    tx: TxQueue,
    fill: FillQueue,
    completion: CompQueue,
    _socket: CloseOnDrop,
    umem: Umem,
    layout: ChunkLayout,
    /// Chunks to receive into.
    rx_chunks: usize,
    /// The most pieces of a frame.
    max_pieces: usize,
    /// The pieces of the written frame.
    pieces: usize,
    /// The descriptor of each chunk, with the length that it is sent with.
    chunks: Vec<FrameDesc>,
    /// Pieces that are written and free to send. The last used is on top, because it is still in the cache.
    outgoing: Vec<FrameDesc>,
    control_chunks: Vec<FrameDesc>,
    arrived: Vec<FrameDesc>,
    /// Set between the pieces of a received frame: whether the frame is to be echoed.
    echo_current: Option<bool>,
    echoes: Vec<FrameDesc>,
    /// Chunks given to the kernel and not yet completed.
    sending: usize,
    idle: u32,
    mode: Mode,
}

impl Raw {
    /// Open a queue of an interface of the calling thread's network namespace. From then on all frames of the network's
    /// hidden EtherType arrive here. `attach` says where the XDP program runs.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(interface: &str, attach: Attach) -> Result<Raw, XdpOpenError> {
        let options = XdpOptions { attach, ..XdpOptions::new(interface) };
        let interface = check(&options)?;
        let options = XdpOptions { rings: rings(&interface), ..options };
        let BoundQueue { memory, bound, mut mode, socket, .. } = bind_queue(&options, &interface, count, None)?;
        let Memory { umem, descriptors, layout: cut, .. } = memory;
        let arrivals = rx_chunks(cut.is_single_chunk());
        let Bound { rx, tx, mut fill, completion } = bound;
        // SAFETY: chunks of this socket's UMEM, which are not in use yet.
        unsafe { fill.produce(&descriptors[..arrivals]) };
        let program = start(&options, &interface, &rx)?;
        mode.attach = program.0.mode();
        Ok(Raw {
            mode,
            _program: program,
            rx,
            tx,
            fill,
            completion,
            _socket: socket,
            umem,
            layout: cut,
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
        })
    }

    /// The mode that the kernel granted.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The longest frame, from the destination address on.
    pub fn max_frame(&self) -> usize {
        self.layout.max_frame
    }

    /// The most frames that may be in flight to this end while it does not receive.
    pub fn depth(&self) -> usize {
        self.rx_chunks / self.max_pieces
    }

    /// Set the frame that [`send`](Raw::send) sends. Waits until earlier frames are sent.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::TimedOut`] if the kernel does not finish; [`io::ErrorKind::InvalidInput`] for a
    /// frame that is too long.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.len() > self.layout.max_frame {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.wait_until_sent()?;
        self.pieces = frame.len().div_ceil(self.layout.chunk - HEADROOM).max(1);
        let places = &mut self.chunks[self.rx_chunks..][..TX_CHUNKS / self.pieces * self.pieces];
        for places in places.chunks_mut(self.pieces) {
            write(&self.umem, places, frame);
        }
        self.outgoing.clear();
        self.outgoing.extend_from_slice(places);
        Ok(())
    }

    fn wait_until_sent(&mut self) -> io::Result<()> {
        const TURNS: usize = 1_000_000;
        for _ in 0..TURNS {
            if self.sending == 0 {
                return Ok(());
            }
            self.doorbell()?;
            self.reap();
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Send the written frame up to `count` times, with one doorbell. Returns how many fitted.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn send(&mut self, count: usize) -> io::Result<usize> {
        let from = self.first_to_send(count);
        self.submit(from)
    }

    /// As [`send`](Raw::send), but first `fill` gets each frame, or its first piece, and may change its bytes. The
    /// length stays.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let from = self.first_to_send(count);
        for place in self.outgoing[from..].iter_mut().step_by(self.pieces) {
            // SAFETY: a chunk of this UMEM that is on the stack, so in no ring; this is the only view of it.
            fill(unsafe { self.umem.data_mut(place) }.contents_mut());
        }
        self.submit(from)
    }

    /// The index on the stack of the first of up to `count` frames to send.
    #[inline]
    fn first_to_send(&mut self, count: usize) -> usize {
        let count = count.min(BATCH) * self.pieces;
        if self.outgoing.len() < count {
            self.reap();
        }
        self.outgoing.len().saturating_sub(count)
    }

    /// Send the frames from this index on.
    #[inline]
    fn submit(&mut self, from: usize) -> io::Result<usize> {
        // SAFETY: chunks of this UMEM. Those on the stack are in no ring.
        let queued = unsafe { self.tx.produce(&self.outgoing[from..]) };
        self.outgoing.drain(from..from + queued);
        self.sending += queued;
        self.doorbell()?;
        self.reap();
        Ok(queued / self.pieces)
    }

    /// Send a control frame. False if there is no room now.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::InvalidInput`] for a frame that is longer than a chunk.
    pub fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
        if frame.len() > self.layout.max_frame.min(self.layout.chunk - HEADROOM) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.reap();
        let Some(mut place) = self.control_chunks.pop() else { return Ok(false) };
        write(&self.umem, std::slice::from_mut(&mut place), frame);
        // SAFETY: a chunk of this UMEM that was on the stack, so in no ring.
        if unsafe { self.tx.produce_one(&place) } == 0 {
            self.control_chunks.push(place);
            return Ok(false);
        }
        self.sending += 1;
        self.doorbell()?;
        Ok(true)
    }

    /// Receive frames, at most `budget` or [`BATCH`]. A frame for which `each` returns true is sent back as it is then.
    /// Returns the number of frames.
    ///
    /// `each` is called for each piece, and told whether more of the frame follow. Its answer for the first piece
    /// counts for the frame. At most as many pieces are received as `budget` of the longest frames have.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize> {
        // SAFETY: this ring returns chunks of this UMEM only.
        let count = unsafe { self.rx.consume(&mut self.arrived[..budget.min(BATCH) * self.max_pieces]) };
        if count == 0 {
            return self.tail().map(|()| 0);
        }
        let (mut done_with, mut frames) = (0, 0);
        for at in 0..count {
            let more = self.arrived[at].has_more_frames();
            // SAFETY: the chunk has just come out of the ring, so only we access it.
            let says = unsafe { each(self.umem.data_mut(&mut self.arrived[at]).contents_mut(), more) };
            let echo = self.echo_current.unwrap_or(says);
            frames += usize::from(self.echo_current.is_none());
            self.echo_current = more.then_some(echo);
            if echo {
                self.echoes.push(self.arrived[at]);
            } else {
                self.arrived[done_with] = self.arrived[at];
                done_with += 1;
            }
        }
        // An echo waits until all of its pieces have arrived.
        if !self.echoes.is_empty() && self.echo_current.is_none() {
            self.send_echoes()?;
        }
        // SAFETY: ours, as above. The ring has room for all chunks.
        unsafe { self.fill.produce(&self.arrived[..done_with]) };
        self.wake_fill()?;
        Ok(frames)
    }

    fn send_echoes(&mut self) -> io::Result<()> {
        // SAFETY: ours since they arrived, and in no other ring.
        let queued = unsafe { self.tx.produce(&self.echoes) };
        self.sending += queued;
        // SAFETY: as above. Frames that find no room are lost, as on a wire.
        unsafe { self.fill.produce(&self.echoes[queued..]) };
        self.echoes.clear();
        self.doorbell()?;
        self.reap();
        Ok(())
    }

    /// Take sent chunks back.
    #[inline]
    fn reap(&mut self) {
        loop {
            let mut done = [FrameDesc::default(); BATCH];
            // SAFETY: this ring returns chunks of this UMEM only.
            let count = unsafe { self.completion.consume(&mut done) };
            for place in &done[..count] {
                self.take_back(place);
            }
            self.sending -= count.min(self.sending);
            if count < BATCH {
                return;
            }
        }
    }

    #[inline]
    fn take_back(&mut self, place: &FrameDesc) {
        let chunk = place.addr() / self.layout.chunk;
        if chunk < self.rx_chunks {
            // SAFETY: sent, so ours again; the ring has room for all chunks.
            unsafe { self.fill.produce_one(&self.chunks[chunk]) };
        } else if chunk < self.rx_chunks + TX_CHUNKS {
            self.outgoing.push(self.chunks[chunk]);
        } else {
            self.control_chunks.push(self.chunks[chunk]);
        }
    }

    #[inline]
    fn doorbell(&self) -> io::Result<()> {
        if self.tx.needs_wakeup() { self.tx.wakeup() } else { Ok(()) }
    }

    #[inline]
    fn wake_fill(&mut self) -> io::Result<()> {
        if self.mode.zero_copy && self.fill.needs_wakeup() {
            self.fill.wakeup(self.rx.fd_mut(), 0)?;
        }
        Ok(())
    }

    /// Frames that the kernel did not send at the first doorbell need another one. So does a NIC that ran out of
    /// buffers.
    #[inline]
    fn tail(&mut self) -> io::Result<()> {
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(TAIL_INTERVAL) {
            if self.sending > 0 {
                self.doorbell()?;
                self.reap();
            }
            self.wake_fill()?;
        }
        Ok(())
    }
}

/// Load the program, give it the socket, attach it.
fn start(options: &XdpOptions, interface: &Interface, rx: &RxQueue) -> Result<(Attachment, am_bpf::Raw), XdpOpenError> {
    let mut raw = am_bpf::Raw::load(options.ethertype.hidden())?;
    raw.set_socket(options.queue, &rx_fd(rx)).map_err(socket_error)?;
    Ok((attach(options, interface, |mode| raw.attach(&interface.name, mode))?, raw))
}

/// Rings that are large enough.
fn rings(interface: &Interface) -> Rings {
    let rings = Rings::default();
    // The mode is not known yet, and a ring that is too large does no harm.
    let arrivals = rx_chunks(interface.mtu <= MAX_ZERO_COPY_MTU) as u32;
    // The kernel publishes that it took chunks out of the fill ring only after it has delivered them. Until then the
    // ring needs room for both.
    Rings { rx: rings.rx.max(arrivals), fill: 2 * arrivals, ..rings }
}

fn rx_chunks(is_one_each: bool) -> usize {
    if is_one_each { RX_CHUNKS } else { RX_CHUNKS_OF_LONG_FRAMES }
}

/// As many chunks as are used.
fn count(_: &XdpOptions, cut: &ChunkLayout) -> Result<u32, XdpOptionsError> {
    Ok(((rx_chunks(cut.is_single_chunk()) + TX_CHUNKS + CONTROL_CHUNKS) as u32).next_power_of_two())
}

/// Write a frame into its chunks. There must be enough of them.
fn write(umem: &Umem, places: &mut [FrameDesc], frame: &[u8]) {
    let mut rest = frame;
    for place in places {
        // SAFETY: callers pass chunks of this UMEM that are in no ring, and this
        // is the only view of it.
        let mut data = unsafe { umem.data_mut(place) };
        let (piece, after) = rest.split_at(rest.len().min(data.cursor().buf_len()));
        data.cursor().set_pos(piece.len());
        data.contents_mut().copy_from_slice(piece);
        place.set_options(if after.is_empty() { 0 } else { libc::XDP_PKT_CONTD });
        rest = after;
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("mode", &self.mode).finish_non_exhaustive()
    }
}
