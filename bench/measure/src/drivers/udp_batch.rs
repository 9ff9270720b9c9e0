//! Many datagrams with one system call, as in a program that wants the most from UDP: `sendmmsg` of runs that the
//! kernel cuts into datagrams (GSO), and `recvmmsg` of runs that it has merged (GRO).

use std::array;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, sendmmsg, setsockopt, sockopt};
use quinn_udp::{RecvMeta, UdpSocketState};

use crate::channel::BATCH;

/// Bytes of the longest run. One more datagram would exceed an IP packet.
const MAX_RUN_BYTES: usize = 65_507;
/// Room for a run that the kernel has merged.
const RUN_BUFFER: usize = 1 << 16;
/// The most runs of one receive.
const MAX_RUNS: usize = 16;

#[derive(Debug)]
pub(super) struct GsoSender {
    run: Vec<u8>,
    size: u16,
    /// Messages of a run: one if the kernel does not cut.
    per_run: usize,
    cut: MultiHeaders<()>,
    whole: MultiHeaders<()>,
}

impl GsoSender {
    pub(super) fn new() -> GsoSender {
        let cut = MultiHeaders::preallocate(BATCH, Some(cmsg_space!(u16)));
        GsoSender { run: Vec::new(), size: 0, per_run: 1, cut, whole: MultiHeaders::preallocate(BATCH, None) }
    }

    /// Send this message from now on. If it `fits` one frame, the kernel may cut it off a run.
    pub(super) fn prepare(&mut self, message: &[u8], fits: bool) {
        self.size = u16::try_from(message.len()).unwrap_or(u16::MAX);
        self.per_run = if fits { (MAX_RUN_BYTES / message.len().max(1)).clamp(1, BATCH) } else { 1 };
        self.run = message.repeat(self.per_run);
    }

    /// Send up to `count` messages, at most a batch. Returns how many had room.
    pub(super) fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<usize> {
        let count = count.min(BATCH);
        match self.call(socket, count) {
            // The device or the path takes no runs.
            Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE) if self.per_run > 1 => {
                self.per_run = 1;
                Ok(self.call(socket, count)?)
            }
            other => Ok(other?),
        }
    }

    fn call(&mut self, socket: &UdpSocket, count: usize) -> Result<usize, Errno> {
        let GsoSender { run, size, per_run, cut, whole } = self;
        let message = usize::from(*size);
        let of_run = |nth: usize| count.saturating_sub(nth * *per_run).min(*per_run);
        let runs: [[IoSlice<'_>; 1]; BATCH] = array::from_fn(|nth| [IoSlice::new(&run[..of_run(nth) * message])]);
        let control = [ControlMessage::UdpGsoSegments(size)];
        let (headers, controls) = if *per_run > 1 { (cut, &control[..]) } else { (whole, &[][..]) };
        let runs = &runs[..count.div_ceil(*per_run)];
        let none = [None::<()>; BATCH];
        let sent = sendmmsg(socket.as_raw_fd(), headers, runs, none, controls, MsgFlags::MSG_DONTWAIT)?.count();
        Ok((sent * *per_run).min(count))
    }
}

#[derive(Debug)]
pub(super) struct GroReceiver {
    state: UdpSocketState,
    memory: Vec<u8>,
    metas: [RecvMeta; MAX_RUNS],
}

impl GroReceiver {
    pub(super) fn new() -> io::Result<GroReceiver> {
        // Its constructor sets options that a bare socket does not need, so it gets another socket. It keeps only facts
        // about the kernel. Where `lo` is down, 127.0.0.1 is no address.
        let state = UdpSocketState::new((&UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?).into())?;
        Ok(GroReceiver {
            state,
            memory: vec![0; MAX_RUNS * RUN_BUFFER],
            metas: array::from_fn(|_| RecvMeta::default()),
        })
    }

    /// Switch merging on or off. Without it the kernel hands over single datagrams.
    pub(super) fn merge(socket: &UdpSocket, on: bool) {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &on);
    }

    /// Receive once; `each` gets every datagram.
    pub(super) fn receive(&mut self, socket: &UdpSocket, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut rooms = self.memory.chunks_exact_mut(RUN_BUFFER);
        let mut buffers: [_; MAX_RUNS] = array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        let runs = self.state.recv(socket.into(), &mut buffers, &mut self.metas)?;
        for (meta, run) in self.metas[..runs].iter().zip(self.memory.chunks_exact(RUN_BUFFER)) {
            run[..meta.len].chunks(meta.stride.max(1)).for_each(&mut *each);
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    fn looked(receiver: &mut GroReceiver, socket: &UdpSocket) -> (usize, Vec<Vec<u8>>) {
        let mut all = Vec::new();
        let runs = receiver.receive(socket, &mut |datagram| all.push(datagram.to_vec())).unwrap();
        (runs, all)
    }

    /// Loopback delivers before the call returns, and hands over whole runs.
    #[test]
    fn a_batch_goes_with_one_call_and_comes_with_one_look() {
        let ((near, far), mut sender, mut receiver) = (pair(), GsoSender::new(), GroReceiver::new().unwrap());
        for (size, count, merged) in [(16, 32, 1), (1472, 32, 1), (9000, 20, 3), (9000, 1, 1)] {
            let message: Vec<u8> = (0..size).map(|at| at as u8).collect();
            sender.prepare(&message, true);
            for gro in [true, false] {
                GroReceiver::merge(&far, gro);
                assert_eq!(sender.send(&near, count).unwrap(), count);
                let (mut runs, mut all) = looked(&mut receiver, &far);
                while all.len() < count {
                    let (more, rest) = looked(&mut receiver, &far);
                    runs += more;
                    all.extend(rest);
                }
                assert_eq!((all.len(), runs), (count, if gro { merged } else { count }), "{size}");
                assert!(all.iter().all(|datagram| *datagram == message), "{size}");
            }
        }
    }
}
