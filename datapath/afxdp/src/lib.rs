//! **AF_XDP: frames between the NIC's queue and our memory, past the kernel's
//! network stack.**
//!
//! An AF_XDP socket is bound to one receive queue of one interface. It shares a
//! piece of our memory (the *UMEM*, cut into chunks of one frame each) with the
//! kernel, and four rings of chunk addresses. An XDP program, which sees each
//! frame in the driver's receive path, redirects ours to the socket and passes
//! all others to the kernel's stack ([`bpf`]).
//!
//! ```text
//!  receive      user space     each(Frame) ◀── returned()        blank() ◀── Pool::take
//!                                                 ▲                 │
//!                ring, direction              rx ring, ▲        fill ring, ▼
//!                                                 │                 │
//!               kernel          program: Socket ──▶ copied into a blank  (zero-copy: the NIC
//!                                  ▲                                      wrote it there itself)
//!               NIC             frame
//!
//!  send         user space     send(Frame) ──▶ outgoing()       returned() ──▶ Pool
//!                                                 │                 ▲
//!                ring, direction              tx ring, ▼     completion ring, ▲
//!                                                 │    flush(): one doorbell │
//!               kernel                         copied into a buffer of its own, or
//!               NIC                            read by the NIC, which then says: sent
//! ```
//!
//! | ring | from, to | an entry says | bounded by |
//! | --- | --- | --- | --- |
//! | fill | us, kernel | this chunk is empty: fill it | [`Rings::fill`]; kept full at all times |
//! | rx | kernel, us | in this chunk a frame has arrived | [`Rings::rx`]; full: the kernel drops |
//! | tx | us, kernel | send this frame | [`Rings::tx`]; full: [`send`] gives the frame back |
//! | completion | kernel, us | it was sent, the chunk is yours | as many as were sent |
//!
//! # Who owns a frame when
//!
//! | from | until | owner | who may touch the bytes |
//! | --- | --- | --- | --- |
//! | `Pool::take` | [`send`] | the program | the program |
//! | [`send`] | it is out of the completion ring | the kernel | nobody; other handles on it (the retransmit queue's) may read |
//! | into the fill ring | out of the rx ring | the kernel | the kernel |
//! | `each` | the frame is dropped | the program | the program |
//!
//! One table (`frames.rs`) crosses the border between handles and addresses, and
//! counts how often the kernel has each chunk: an address is believed only if
//! it was given, and closing brings all of them home.
//!
//! # Doorbells
//!
//! Sending costs one `sendto` per [`flush`], and only where the kernel says that
//! it waits for one. In copy mode it always does: in that call it copies, and
//! on a veth also runs the other end's whole receive path, XDP program included,
//! on our core. That is why a frame over veth costs its sender microseconds and
//! its receiver nothing. Receiving costs no call, except with [`BusyPoll`].
//!
//! # Long frames
//!
//! A chunk is a page at most. Where the MTU is larger, frames are in several chunks,
//! on a path of their own (`sg/`), so that the path of all others stays as short as it is.
//!
//! # Several nodes on one interface
//!
//! Each has a queue, an address and a steering program of its own (`siblings.rs`). A node on a queue that nothing is
//! steered to says so (`watch.rs`); rules of the NIC steer to it where the driver takes them (`rules.rs`).
//!
//! # When the interface goes down
//!
//! Frames wait in the ring, `link_errors` counts the doorbells that failed, and
//! it all goes on when the interface is up again. One that is renamed is followed.
//! When it is gone, so is the socket: everything fails quietly and is counted, until one of its name and
//! address is there (a driver bound to its NIC again), on which the node goes on (`reopen.rs`).
//!
//! Read first: [`open()`], step by step; `tx.rs`; `rx.rs`; `frames.rs`. Then
//! `examples/pingpong.rs`, which measures this crate and nothing else.
//!
//! ```no_run
//! use am_afxdp::{Options, open};
//! use am_transport::Transport;
//! use am_wire::{Buffer, Flow};
//!
//! let mut eth1 = open(&Options::new("eth1"))?;
//! println!("{}", eth1.mode()); // "mlx5_core zero-copy", "veth copy", ...
//! eth1.steer(Flow::new(7).unwrap(), true);
//! eth1.receive(64, &mut |frame| println!("{} bytes", frame.bytes().len()));
//! # Ok::<(), am_afxdp::OpenError>(())
//! ```
//!
//! [`send`]: am_transport::Transport::send
//! [`flush`]: am_transport::Transport::flush
#![allow(unsafe_code, reason = "memory that the kernel shares")]

mod anew;
mod attach;
mod bind;
mod busy_poll;
mod bypass;
mod carrier;
mod close;
mod cut;
mod doorbell;
mod errors;
mod expected;
mod frames;
mod holders;
mod ifreq;
mod interface;
mod kernel;
mod listening;
mod mailbox;
mod mode;
mod ntuple;
mod open;
mod options;
mod plan;
mod program;
pub mod raw;
mod reopen;
mod rights;
mod rules;
mod rx;
mod send_room;
mod sg;
mod siblings;
mod sockopt;
mod stats;
mod tx;
mod umem;
mod vlan;
mod watch;
mod xdp;

pub use busy_poll::{BusyPoll, Defer};
pub use cut::{MOST_MTU, ONE_CHUNK_MTU, ZERO_COPY_MTU};
pub use errors::{OpenError, OptionsError};
pub use holders::Holders;
pub use interface::Interface;
pub use mode::Mode;
pub use open::open;
pub use options::{Attach, Copying, HugePages, MultiBuffer, Options, Program, Rings};
pub use rights::Missing;
pub use xdp::Xdp;
