//! **AF_XDP: frames go between the NIC's queue and our memory, past the kernel's network stack.**
//!
//! An AF_XDP socket is bound to one receive queue of one interface. The socket shares two things with the kernel: the
//! *UMEM*, memory of ours that is cut into chunks of one frame each, and four rings of chunk addresses. An XDP program
//! runs in the driver's receive path. It redirects our frames to the socket and passes all others to the kernel's stack
//! ([`am_bpf`]).
//!
//! ```text
//!  receive      user space     each(Frame) ◀── rx.rs             rx.rs  ◀── Pool::take
//!                                                 ▲                 │
//!                ring, direction              rx ring, ▲        fill ring, ▼
//!                                                 │                 │
//!               kernel          program: Socket ──▶ copied to a fill buffer (zero-copy: the NIC
//!                                  ▲                                      wrote it there itself)
//!               NIC             frame
//!
//!  send         user space     send(Frame) ──▶ tx.rs            tx.rs ──▶ Pool
//!                                                 │                 ▲
//!                ring, direction              tx ring, ▼     completion ring, ▲
//!                                                 │    flush(): one doorbell │
//!               kernel                         copied into a buffer of its own, or
//!               NIC                            read by the NIC, which then reports it sent
//! ```
//!
//! | ring | from, to | an entry says | bounded by |
//! | --- | --- | --- | --- |
//! | fill | us, kernel | this chunk is empty, receive into it | [`Rings::fill`]; kept full at all times |
//! | rx | kernel, us | this chunk holds a received frame | [`Rings::rx`]; full: the kernel drops |
//! | tx | us, kernel | send this frame | [`Rings::tx`]; full: [`send`] refuses the frame |
//! | completion | kernel, us | this frame was sent, the chunk is free | [`Rings::completion`]; never more than were sent |
//!
//! # Frame ownership
//!
//! `ring.rs` has the rings, and the owner of a chunk at each step. One table (`frames.rs`) translates between handles
//! and addresses. It counts how often the kernel holds each chunk. So it rejects an address that the kernel was never
//! given, and closing returns every frame to the pool.
//!
//! # Doorbells
//!
//! Sending costs one `sendto` per [`flush`], if the kernel asks for it. In copy mode it always asks: the call copies
//! the frames. On a veth the call also runs the other end's whole receive path, XDP program included, on the sender's
//! core. So a frame over a veth costs its sender microseconds, and its receiver no kernel time. Receiving needs no
//! system call, except with [`BusyPoll`], or where the kernel has run out of buffers in zero-copy mode.
//!
//! # Long frames
//!
//! A chunk is a page at most. Where the MTU is larger, a frame takes several chunks. They have their own code
//! (`sg.rs`), so the usual path stays short.
//!
//! # Several nodes on one interface
//!
//! Each node has its own queue, address and steering program (`siblings.rs`). Where the driver
//! supports it, rules of the NIC steer a node's frames to its queue (`rules.rs`). A node whose frames arrive on other
//! queues reports that (`rx_watch.rs`).
//!
//! # Queues of other processes
//!
//! A transport lends a queue to another process ([`Command::LendQueue`](am_transport::Command::LendQueue), `lend.rs`), which needs
//! no rights to use it ([`open_given`]). It works the queue by the same code as a node.
//!
//! # When the interface goes down
//!
//! Frames wait in the ring, and `link_errors` counts the doorbells that failed. Traffic goes on when the interface is
//! up again, or has another name. The socket does not survive the removal of its interface: from then on calls do
//! nothing, and are counted. When an interface of the same name and address appears (a driver was bound to its
//! NIC again), the node continues on it (`reopen.rs`).
//!
//! Read first: [`open()`], then `ring.rs`, `tx.rs`, `rx.rs` and `frames.rs`. `examples/pingpong.rs` measures this crate alone.
//!
//! ```no_run
//! use am_afxdp::{XdpOptions, open};
//! use am_transport::{Transport, TransportExt};
//! use am_wire::{Buffer, Flow};
//!
//! let mut eth1 = open(&XdpOptions::new("eth1"))?;
//! println!("{}", eth1.mode()); // "mlx5_core zero-copy", "veth copy", ...
//! eth1.steer(Flow::new(7).unwrap(), true);
//! eth1.receive(64, &mut |frame| println!("{} bytes", frame.bytes().len()));
//! # Ok::<(), am_afxdp::XdpOpenError>(())
//! ```
//!
//! [`send`]: am_transport::Transport::send
//! [`flush`]: am_transport::Transport::flush
#![allow(unsafe_code, reason = "memory that the kernel shares")]

mod addresses;
mod attach;
mod bind;
mod busy_poll;
mod bypass;
mod carrier;
mod chunk_layout;
mod close;
mod errors;
mod frames;
mod given;
mod given_memory;
mod holders;
mod ifreq;
mod interface;
mod lend;
mod loader_files;
mod mailbox;
mod mode;
mod ntuple;
mod open;
mod options;
mod path;
mod plan;
mod prefetch;
pub mod raw;
mod reopen;
mod rights;
mod ring;
mod rules;
mod rx;
mod rx_watch;
mod sg;
mod siblings;
mod sockopt;
mod stats;
#[cfg(test)]
mod tests;
mod transport;
mod tx;
mod umem;
mod xdp;

pub use busy_poll::{BusyPoll, Defer};
pub use chunk_layout::{MAX_MTU, MAX_SINGLE_CHUNK_MTU, MAX_ZERO_COPY_MTU};
pub use errors::{XdpOpenError, XdpOptionsError};
pub use given::open_given;
pub use holders::Holders;
pub use interface::Interface;
pub use mode::Mode;
pub use open::open;
pub use options::{Attach, Copying, HugePages, MultiBuffer, Rings, XdpOptions};
pub use rights::Missing;
pub use xdp::Xdp;
