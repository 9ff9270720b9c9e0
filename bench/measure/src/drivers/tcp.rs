//! A kernel TCP socket that spins. A single message costs one write. A batch goes with one write, as from a program
//! that corks its socket.
//!
//! The first byte of a message tells data, whose length both sides know, from a control message.

use std::io::ErrorKind::{ConnectionRefused, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::channel::{Arrived, BATCH, Channel, ChannelInfo, ControlMessage, SpinWait, Timeouts};
use crate::content::Content;
use crate::driver::Driver;
use crate::drivers::am::COALESCED_BATCH;
use crate::drivers::udp::addresses;
use crate::error::Error;
use crate::plan::Batching;
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::watch::Watch;

/// Which part joins the messages of a batch into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBatching {
    /// The kernel: one write a message, which may wait until they fill a segment (Nagle's algorithm).
    Kernel,
    /// The sender: one write a batch.
    Sender,
    /// The sender: one write for as many messages as `am` coalesces with one doorbell.
    Coalesced,
}

impl WriteBatching {
    /// The same as `am` does.
    pub(crate) fn like_ours(how: DriverOptions) -> WriteBatching {
        if how.coalesce { WriteBatching::Coalesced } else { WriteBatching::Sender }
    }
}

/// The headers of IPv4 and TCP, with the time stamps that each segment carries.
pub const IP_TCP_HEADERS: usize = 20 + 20 + 12;
/// The longest data message: the longest that `compare` sends.
const MAX_MESSAGE: usize = 1 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// About as many bytes as one write has.
const WRITE_BYTES: usize = 256 << 10;

/// One side of the driver.
pub(crate) struct Tcp {
    stream: Option<TcpStream>,
    /// Present until the near side has connected.
    listener: Option<TcpListener>,
    write_batching: WriteBatching,
    info: ChannelInfo,
    content: Content,
    echo: bool,
    /// The messages of one write.
    batch: Vec<u8>,
    /// The part of a message that the kernel has not taken yet.
    rest: Vec<u8>,
    input: Vec<u8>,
    /// The range of `input` that is not parsed yet.
    unread: (usize, usize),
    /// Whether a part of a data message has arrived.
    amid: bool,
}

impl Tcp {
    /// The far side listens. The near side connects once it does.
    pub(crate) fn open(
        (side, write_batching): (Side, WriteBatching),
        interface: &str,
        mtu: usize,
        (here, peer): (&SideInfo, &SideInfo),
        mode: String,
        watch: &Watch,
    ) -> Result<Tcp, Error> {
        let (own, other) = addresses(interface, here, peer)?;
        let (stream, listener) = match side {
            Side::Near => (Some(connect(other, write_batching, watch)?), None),
            Side::Far => {
                let listener = TcpListener::bind(own).map_err(Error::system("listening on TCP port 34997"))?;
                listener.set_nonblocking(true).map_err(Error::system("making a TCP socket non-blocking"))?;
                (None, Some(listener))
            }
        };
        let mut info = ChannelInfo::new(mode, mtu.saturating_sub(IP_TCP_HEADERS));
        info.batching = if write_batching == WriteBatching::Sender { Batching::Bursts } else { Batching::Shared };
        info.layout.most = MAX_MESSAGE;
        Ok(Tcp {
            stream,
            listener,
            write_batching,
            info,
            content: Content::default(),
            echo: false,
            batch: Vec::new(),
            rest: Vec::new(),
            input: vec![0; READ_BYTES],
            unread: (0, 0),
            amid: false,
        })
    }

    /// Whether the near side has connected.
    fn accept(&mut self) -> Result<bool, Error> {
        if let Some(listener) = &self.listener
            && let Some((stream, _)) = settle(listener.accept())?
        {
            self.stream = Some(spinning(stream, self.write_batching)?);
            self.listener = None;
        }
        Ok(self.stream.is_some())
    }

    /// Send up to `count` data messages, a batch with each write.
    fn several(&mut self, count: usize) -> Result<usize, Error> {
        let size = self.content.bytes().len();
        let most = self.batch.len() / size.max(1);
        let mut sent = 0;
        while sent < count {
            let next = (count - sent).min(most);
            if !write(&mut self.stream, &mut self.rest, &self.batch[..next * size])? {
                break;
            }
            sent += next;
        }
        Ok(sent)
    }

    /// Read more input, behind the part that is not parsed yet.
    fn read(&mut self) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let (from, to) = self.unread;
        self.input.copy_within(from..to, 0);
        let more = settle(stream.read(&mut self.input[to - from..]))?;
        self.unread = (0, to - from + more.unwrap_or(0));
        if more == Some(0) { Err(Error::Lost("it has closed its TCP connection".to_owned())) } else { Ok(()) }
    }

    /// Count the next message of the input; `false` if it is not complete.
    fn next(&mut self, arrived: &mut Arrived) -> bool {
        let input = &self.input[self.unread.0..self.unread.1];
        let Some(first) = input.first() else { return false };
        if !self.amid && *first == ControlMessage::MARK {
            let Some(control) = input.get(..ControlMessage::MARKED_BYTES) else { return false };
            arrived.control = ControlMessage::from_marked(control);
            self.unread.0 += control.len();
            return true;
        }
        let taken = self.content.missing().min(input.len());
        self.content.piece(&input[..taken]);
        self.unread.0 += taken;
        self.amid = self.content.missing() > 0;
        let is_whole = taken > 0 && !self.amid;
        if is_whole {
            self.content.end(arrived);
        }
        is_whole
    }
}

/// Send what the kernel has not taken yet, and then these bytes; `false` if there is no room for any of them. If the
/// kernel takes a part, the rest is sent before anything else.
fn write(stream: &mut Option<TcpStream>, rest: &mut Vec<u8>, bytes: &[u8]) -> Result<bool, Error> {
    let Some(stream) = stream else { return Ok(false) };
    if !rest.is_empty()
        && let Some(sent) = settle(stream.write(rest))?
    {
        rest.drain(..sent);
    }
    if !rest.is_empty() || bytes.is_empty() {
        return Ok(rest.is_empty());
    }
    let Some(sent) = settle(stream.write(bytes))? else { return Ok(false) };
    rest.extend_from_slice(&bytes[sent..]);
    Ok(true)
}

fn connect(other: SocketAddr, write_batching: WriteBatching, watch: &Watch) -> Result<TcpStream, Error> {
    let mut wait = SpinWait::new(watch, Driver::Tcp, "connecting", Timeouts::default().open);
    loop {
        match TcpStream::connect(other) {
            Ok(stream) => return spinning(stream, write_batching),
            // The far side may need time to open.
            Err(e) if e.kind() == ConnectionRefused => wait.idle()?,
            Err(source) => return Err(Error::System { doing: "connecting a TCP socket", source }),
        };
    }
}

fn spinning(stream: TcpStream, write_batching: WriteBatching) -> Result<TcpStream, Error> {
    let options =
        stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(write_batching != WriteBatching::Kernel));
    options.map(|()| stream).map_err(Error::system("setting options of a TCP socket"))
}

/// `None` if there is nothing to read, or no room.
fn settle<T>(result: io::Result<T>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == WouldBlock => Ok(None),
        Err(e) => Err(Error::Lost(format!("its TCP connection: {e}"))),
    }
}

impl Channel for Tcp {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let stream = self.stream.as_ref().map(AsFd::as_fd);
        stream.or_else(|| self.listener.as_ref().map(AsFd::as_fd))
    }

    fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.content = Content::of(size);
        // The limit of messages in one write.
        let most = match self.write_batching {
            WriteBatching::Kernel => 1,
            WriteBatching::Sender => BATCH,
            WriteBatching::Coalesced => COALESCED_BATCH,
        };
        self.batch = self.content.bytes().repeat((WRITE_BYTES / size.max(1)).clamp(1, most));
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let is_coalesced = self.write_batching == WriteBatching::Coalesced && count > 1;
        self.several(if is_coalesced { COALESCED_BATCH } else { count })
    }

    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        if !self.accept()? {
            return Ok(arrived);
        }
        write(&mut self.stream, &mut self.rest, &[])?;
        self.read()?;
        while arrived.messages < budget as u64 && arrived.control.is_none() && self.next(&mut arrived) {}
        if self.echo {
            self.several(arrived.messages as usize)?;
        }
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        write(&mut self.stream, &mut self.rest, &control.marked()).map(drop)
    }
}

#[cfg(test)]
pub(super) mod tests;
