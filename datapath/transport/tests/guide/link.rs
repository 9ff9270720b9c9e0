//! A transport on one page: frames through a pair of UNIX sockets.

use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected, WouldBlock};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use am_ring::{Frame, Layout, Own, Pool};
use am_transport::{Caps, Command, Notice, PeerAddressError, Steering, Transport};
use am_wire::{Address, Buffer, EtherType};

/// One end of the link.
pub(crate) struct Link {
    caps: Caps,
    socket: UnixDatagram,
    steering: Steering,
    count: Count,
    link_error: Option<&'static str>,
}

#[derive(Default)]
struct Count {
    sent: u64,
    received: u64,
    full: u64,
    no_frame: u64,
    lost_too_long: u64,
    lost_cut: u64,
}

const MAX_FRAME: usize = 1514;

impl Link {
    /// Open an end, on the thread that will use it: its pool stays there.
    pub(crate) fn open(socket: UnixDatagram, number: u64) -> std::io::Result<Link> {
        socket.set_nonblocking(true)?;
        let layout = Layout { frames: 512, stride: MAX_FRAME.next_multiple_of(128), headroom: 0 };
        let caps = Caps {
            name: format!("link:{number}"),
            mode: "UNIX sockets".into(),
            address: Address::from_u64(2 << 40 | number),
            max_frame: MAX_FRAME,
            reliable: true,
            ordered: true,
            hears_all: true,
            pool: Pool::heap(layout).map_err(std::io::Error::other)?,
            wake: Some(vec![Arc::new(Own::new(socket.try_clone()?.into()))]),
            wakes_by_level: true,
            out_of_band: None,
        };
        let steering = Steering::new(EtherType::DEFAULT, caps.address);
        Ok(Link { caps, socket, steering, count: Count::default(), link_error: None })
    }
}

impl Transport for Link {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut taken = 0;
        // Frames that steering drops count against the budget too, so a flood of them does not keep the node here.
        for _ in 0..budget {
            let Some(mut frame) = self.caps.pool.take() else {
                // The frame stays in the socket's queue. When that is full, the sender's `send` returns false.
                self.count.no_frame += 1;
                break;
            };
            let Some(len) = frame.space().and_then(|space| self.socket.recv(space).ok()) else { break };
            frame.set_len(len);
            if len > self.caps.max_frame {
                self.count.lost_too_long += 1;
            } else if self.steering.admits(frame.bytes()) {
                taken += 1;
                each(frame);
            }
        }
        self.count.received += taken as u64;
        taken
    }

    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        if frame.bytes().len() > self.caps.max_frame {
            self.count.lost_too_long += 1;
            return true;
        }
        match self.socket.send(frame.bytes()) {
            Ok(_) => self.count.sent += 1,
            Err(error) if error.kind() == WouldBlock => {
                self.count.full += 1;
                return false;
            }
            Err(error) => {
                self.count.lost_cut += 1;
                if matches!(error.kind(), ConnectionRefused | ConnectionReset | NotConnected) {
                    self.link_error = Some("the other end was closed");
                }
            }
        }
        true
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.steering.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.steering.notices(each);
        self.link_error.into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("link_sent", self.count.sent);
        each("link_received", self.count.received);
        each("link_full", self.count.full);
        each("link_no_frame", self.count.no_frame);
        each("link_lost_too_long", self.count.lost_too_long);
        each("link_lost_cut", self.count.lost_cut);
        self.steering.counters(each);
    }
}
