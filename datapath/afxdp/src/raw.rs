//! **Bare AF_XDP**: the baseline that benches compare this crate, and everything above it, with.
//!
//! The socket is opened in the same way, and then used through its rings directly (`ring.rs`): no pool, no
//! handles, no protocol, no copy. The frames to send are written once and sent again and again. Received frames are read
//! in place and go straight back, to the fill ring or, as an echo, to the TX ring. This is the most that AF_XDP achieves
//! on the machine, so the code takes every liberty that a program with one purpose may take.
//!
//! The place of a chunk in the memory says what it is for. So nothing counts what the kernel owns:
//!
//! ```text
//!  chunks   0 ... rx_chunks           │ ... + TX_CHUNKS     │ ... + CONTROL_CHUNKS
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
use libc::xdp_desc;
use nix::errno::Errno;

use crate::XdpOpenError;
use crate::attach::socket_error;
use crate::chunk_layout::{ChunkLayout, HEADROOM, MAX_ZERO_COPY_MTU};
use crate::close::CloseOnDrop;
use crate::errors::XdpOptionsError;
use crate::mode::Mode;
use crate::open::{BoundQueue, bind_queue, check};
use crate::options::{Attach, Rings, XdpOptions};
use crate::ring::{RxRings, SocketRings, TxRings};
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
/// [`Raw::write`] asks the kernel at most this many times to finish sending.
const MAX_TURNS: usize = 1_000_000;
/// Of the calls that receive nothing, one in this many looks after frames that are being sent.
const TAIL_INTERVAL: u32 = 1024;

/// One queue of an interface. The caller works its rings directly.
pub struct Raw {
    // Fields are dropped in this order, for the reasons given at `Xdp`.
    _program: (Attachment, am_bpf::Raw),
    receiving: RxRings,
    sending: TxRings,
    _socket: CloseOnDrop,
    memory: Memory,
    /// Chunks to receive into.
    rx_chunks: usize,
    /// The most pieces of a frame.
    max_pieces: usize,
    /// The pieces of the written frame.
    pieces: usize,
    /// The entry of each chunk to send, with the length of its piece.
    written: Vec<xdp_desc>,
    /// Pieces that are written and free to send. The last used is on top, because it is still in the cache.
    outgoing: Vec<xdp_desc>,
    /// Addresses of free chunks for control frames.
    control_chunks: Vec<u64>,
    /// Set between the pieces of a received frame: whether the frame is to be echoed.
    echo_current: Option<bool>,
    echoes: Vec<xdp_desc>,
    /// Chunks given to the kernel to send and not yet completed.
    in_flight: usize,
    idle: u32,
    mode: Mode,
}

impl Raw {
    /// Open a queue of an interface of the calling thread's network namespace. From then on all frames of the network's
    /// hidden EtherType arrive here. `attach` says where the XDP program runs.
    ///
    /// # Errors
    /// As [`crate::open()`].
    pub fn open(interface: &str, attach: Attach) -> Result<Raw, XdpOpenError> {
        let options = XdpOptions { attach, ..XdpOptions::new(interface) };
        let interface = check(&options)?;
        // The mode is not known yet, and a ring that is too large does no harm.
        let most = rx_chunks(interface.mtu <= MAX_ZERO_COPY_MTU) as u32;
        // The kernel publishes that it took chunks out of the fill ring only after it has delivered them. Until then the
        // ring needs room for both.
        let rings = Rings { rx: options.rings.rx.max(most), fill: 2 * most, ..options.rings };
        let options = XdpOptions { rings, ..options };
        let BoundQueue { memory, mut rings, mut mode, socket, .. } = bind_queue(&options, &interface, count, None)?;
        let layout = memory.layout;
        let rx_chunks = rx_chunks(layout.is_single_chunk());
        let start = |chunk: usize| (chunk * layout.chunk + HEADROOM) as u64;
        let fill = &mut rings.receiving.fill;
        (0..rx_chunks).for_each(|chunk| fill.write(start(chunk)));
        fill.publish();
        // Load the program, give it the socket, attach it.
        let mut program = am_bpf::Raw::load(options.ethertype.hidden())?;
        program.set_socket(options.queue, &rings.fd()).map_err(socket_error)?;
        let attachment = crate::attach::attach(&options, &interface, |mode| program.attach(&interface.name, mode))?;
        mode.attach = attachment.mode();
        let SocketRings { receiving, sending } = rings;
        let to_send = (rx_chunks..).map(start);
        let written: Vec<_> =
            to_send.clone().take(TX_CHUNKS).map(|addr| xdp_desc { addr, len: 0, options: 0 }).collect();
        Ok(Raw {
            mode,
            _program: (attachment, program),
            receiving,
            sending,
            _socket: socket,
            memory,
            rx_chunks,
            max_pieces: layout.rx_chunks(),
            pieces: 1,
            outgoing: written.clone(),
            written,
            control_chunks: to_send.skip(TX_CHUNKS).take(CONTROL_CHUNKS).collect(),
            echo_current: None,
            echoes: Vec::with_capacity(2 * BATCH * layout.rx_chunks()),
            in_flight: 0,
            idle: 0,
        })
    }

    /// The mode that the kernel granted.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The longest frame, from the destination address on.
    pub fn max_frame(&self) -> usize {
        self.memory.layout.max_frame
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
        if frame.len() > self.memory.layout.max_frame {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for turn in 0.. {
            if self.in_flight == 0 {
                break;
            }
            if turn == MAX_TURNS {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.doorbell()?;
            self.reap();
        }
        let room = self.memory.layout.chunk - HEADROOM;
        self.pieces = frame.len().div_ceil(room).max(1);
        let written = &mut self.written[..TX_CHUNKS / self.pieces * self.pieces];
        for (at, entry) in written.iter_mut().enumerate() {
            let rest = &frame[at % self.pieces * room..];
            entry.len = rest.len().min(room) as u32;
            entry.options = if rest.len() > room { libc::XDP_PKT_CONTD } else { 0 };
            // SAFETY: a chunk for frames to send, which are all sent.
            unsafe { self.memory.bytes(entry) }.copy_from_slice(&rest[..entry.len as usize]);
        }
        self.outgoing.clear();
        self.outgoing.extend_from_slice(written);
        Ok(())
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

    /// As [`send`](Raw::send), but first `fill` gets each frame, and may change its bytes. A frame may be in several pieces:
    /// `fill` gets where each begins in the frame, and its bytes. The length stays.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(usize, &mut [u8])) -> io::Result<usize> {
        let from = self.first_to_send(count);
        for frame in self.outgoing[from..].chunks_exact(self.pieces) {
            let mut begin = 0;
            for entry in frame {
                // SAFETY: its chunk is on the stack, so in no ring.
                fill(begin, unsafe { self.memory.bytes(entry) });
                begin += entry.len as usize;
            }
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
        let queued = self.sending.tx.write_all(&self.outgoing[from..]);
        self.outgoing.drain(from..from + queued);
        self.in_flight += queued;
        self.doorbell()?;
        self.reap();
        Ok(queued / self.pieces)
    }

    /// Send a control frame. False if there is no room now.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::InvalidInput`] for a frame that is longer than a chunk.
    pub fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
        if frame.len() > self.memory.layout.max_frame.min(self.memory.layout.chunk - HEADROOM) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.reap();
        let Some(addr) = self.control_chunks.pop() else { return Ok(false) };
        let entry = xdp_desc { addr, len: frame.len() as u32, options: 0 };
        // SAFETY: the chunk was on the stack, so in no ring, and the frame is no longer than it.
        unsafe { self.memory.bytes(&entry) }.copy_from_slice(frame);
        if self.sending.tx.write_all(&[entry]) == 0 {
            self.control_chunks.push(addr);
            return Ok(false);
        }
        self.in_flight += 1;
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
        let most = budget.min(BATCH) * self.max_pieces;
        if most.min(self.receiving.rx.available()) == 0 {
            // Frames that the kernel did not send at the first doorbell need another one. So does a NIC that ran out of
            // buffers.
            self.idle = self.idle.wrapping_add(1);
            if self.idle.is_multiple_of(TAIL_INTERVAL) {
                if self.in_flight > 0 {
                    self.doorbell()?;
                    self.reap();
                }
                self.wake_fill();
            }
            return Ok(0);
        }
        let mut frames = 0;
        for piece in self.receiving.rx.drain(most) {
            let more = piece.options & libc::XDP_PKT_CONTD != 0;
            // SAFETY: the chunk has just come out of the ring, so only we access it. The kernel returns only chunks of this
            // memory.
            let says = each(unsafe { self.memory.bytes(&piece) }, more);
            let echo = self.echo_current.unwrap_or(says);
            frames += usize::from(self.echo_current.is_none());
            self.echo_current = more.then_some(echo);
            if echo {
                self.echoes.push(piece);
            } else {
                // The ring has room for all chunks.
                self.receiving.fill.write(piece.addr);
            }
        }
        // An echo waits until all of its pieces have arrived. Where it finds no room it is lost, as on a wire.
        if !self.echoes.is_empty() && self.echo_current.is_none() {
            let queued = self.sending.tx.write_all(&self.echoes);
            self.in_flight += queued;
            self.echoes[queued..].iter().for_each(|piece| self.receiving.fill.write(piece.addr));
            self.echoes.clear();
            self.doorbell()?;
            self.reap();
        }
        self.receiving.fill.publish();
        self.wake_fill();
        Ok(frames)
    }

    /// Take sent chunks back.
    #[inline]
    fn reap(&mut self) {
        for address in self.sending.completion.drain(usize::MAX) {
            self.in_flight = self.in_flight.saturating_sub(1);
            let chunk = address as usize / self.memory.layout.chunk;
            if chunk < self.rx_chunks {
                // An echo. The ring has room for all chunks.
                self.receiving.fill.write(address);
            } else if let Some(entry) = self.written.get(chunk - self.rx_chunks) {
                self.outgoing.push(*entry);
            } else {
                self.control_chunks.push(address);
            }
        }
        self.receiving.fill.publish();
    }

    #[inline]
    fn doorbell(&self) -> io::Result<()> {
        if !self.sending.tx.needs_wakeup() {
            return Ok(());
        }
        match self.sending.wake() {
            // The next doorbell is for what was not sent.
            Ok(()) | Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EBUSY | Errno::ENETDOWN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn wake_fill(&self) {
        if self.mode.zero_copy && self.receiving.fill.needs_wakeup() {
            self.receiving.wake();
        }
    }
}

fn rx_chunks(is_single_chunk: bool) -> usize {
    if is_single_chunk { RX_CHUNKS } else { RX_CHUNKS_OF_LONG_FRAMES }
}

/// As many chunks as are used.
fn count(_: &XdpOptions, cut: &ChunkLayout) -> Result<u32, XdpOptionsError> {
    Ok(((rx_chunks(cut.is_single_chunk()) + TX_CHUNKS + CONTROL_CHUNKS) as u32).next_power_of_two())
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("mode", &self.mode).finish_non_exhaustive()
    }
}
