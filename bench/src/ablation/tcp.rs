//! A kernel TCP socket that spins. A single message costs one write. A batch goes with one write, as from a program
//! that corks its socket.
//!
//! The first byte of a message tells data, whose length both sides know, from a control message.

use std::io::ErrorKind::{ConnectionRefused, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::batching::Batching;
use crate::content::Content;
use crate::driver::Driver;
use crate::driver::am::COALESCED_BATCH;
use crate::driver::sleeping::Pollable;
use crate::driver::udp::addresses;
use crate::error::Error;
use crate::measure::{Arrived, BATCH, Channel, ChannelInfo, ControlMessage, SpinWait, Timeouts};
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::watch::Watch;

use super::Row;

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

    /// The limit of messages in one write.
    const fn most(self) -> usize {
        match self {
            WriteBatching::Kernel => 1,
            WriteBatching::Sender => BATCH,
            WriteBatching::Coalesced => COALESCED_BATCH,
        }
    }

    /// How many messages to send when the caller asks for `asked`.
    fn count(self, asked: usize) -> usize {
        if self == WriteBatching::Coalesced && asked > 1 { COALESCED_BATCH } else { asked }
    }

    /// The batching to report.
    const fn batching(self) -> Batching {
        match self {
            WriteBatching::Sender => Batching::Bursts,
            WriteBatching::Kernel | WriteBatching::Coalesced => Batching::Shared,
        }
    }
}

/// The first byte of a control message; data begins with 0.
const CONTROL: u8 = 0xff;
const CONTROL_BYTES: usize = 1 + ControlMessage::BYTES;
/// The headers of IPv4 and TCP, with the time stamps that each segment carries.
pub(crate) const IP_TCP_HEADERS: usize = 20 + 20 + 12;
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
    mode: String,
    largest: usize,
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
            Side::Far => (None, Some(listen(own)?)),
        };
        Ok(Tcp {
            stream,
            listener,
            write_batching,
            mode,
            largest: mtu.saturating_sub(IP_TCP_HEADERS),
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

    /// Send a message; `false` if there is no room. If the kernel takes a part, the rest is sent before anything else.
    fn put(&mut self, message: Message) -> Result<bool, Error> {
        if !self.finish()? {
            return Ok(false);
        }
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let bytes = match &message {
            Message::Data(count) => &self.batch[..count * self.content.bytes().len()],
            Message::ControlMessage(bytes) => &bytes[..],
        };
        let Some(sent) = settle(stream.write(bytes))? else { return Ok(false) };
        self.rest.extend_from_slice(&bytes[sent..]);
        Ok(true)
    }

    /// Send up to `count` data messages, a batch with each write.
    fn several(&mut self, count: usize) -> Result<usize, Error> {
        let most = self.batch.len() / self.content.bytes().len().max(1);
        let mut sent = 0;
        while sent < count {
            let next = (count - sent).min(most);
            if !self.put(Message::Data(next))? {
                break;
            }
            sent += next;
        }
        Ok(sent)
    }

    /// Send the rest of a message that has begun.
    fn finish(&mut self) -> Result<bool, Error> {
        if let Some(stream) = &mut self.stream
            && !self.rest.is_empty()
            && let Some(sent) = settle(stream.write(&self.rest))?
        {
            self.rest.drain(..sent);
        }
        Ok(self.rest.is_empty())
    }

    /// Read more input, behind the part that is not parsed yet.
    fn read(&mut self) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let (from, to) = self.unread;
        self.input.copy_within(from..to, 0);
        self.unread = (0, to - from);
        match settle(stream.read(&mut self.input[to - from..]))? {
            Some(0) => Err(Error::Lost("it has closed its TCP connection".to_owned())),
            Some(more) => {
                self.unread.1 += more;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The next complete message of the input.
    fn next(&mut self) -> Option<Arrival> {
        let (from, to) = self.unread;
        let input = &self.input[from..to];
        if !self.amid && *input.first()? == CONTROL {
            let control = ControlMessage::from_bytes(&input.get(..CONTROL_BYTES)?[1..]);
            self.unread.0 += CONTROL_BYTES;
            return Some(Arrival::ControlMessage(control));
        }
        let taken = self.content.missing().min(input.len());
        self.content.piece(&input[..taken]);
        self.unread.0 += taken;
        self.amid = self.content.missing() > 0;
        (taken > 0 && !self.amid).then_some(Arrival::Data)
    }
}

enum Message {
    /// This many, back to back.
    Data(usize),
    ControlMessage([u8; CONTROL_BYTES]),
}

enum Arrival {
    Data,
    ControlMessage(Option<ControlMessage>),
}

fn control_bytes(control: ControlMessage) -> [u8; CONTROL_BYTES] {
    let mut bytes = [CONTROL; CONTROL_BYTES];
    bytes[1..].copy_from_slice(&control.to_bytes());
    bytes
}

fn listen(own: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(own).map_err(Error::system("listening on TCP port 34997"))?;
    listener.set_nonblocking(true).map_err(Error::system("making a TCP socket non-blocking"))?;
    Ok(listener)
}

fn connect(other: SocketAddr, write_batching: WriteBatching, watch: &Watch) -> Result<TcpStream, Error> {
    let mut wait = SpinWait::new(watch, Driver::Row(Row::Tcp), "connecting", Timeouts::default().open);
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

impl Pollable for Tcp {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let stream = self.stream.as_ref().map(AsFd::as_fd);
        stream.or_else(|| self.listener.as_ref().map(AsFd::as_fd))
    }

    fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }
}

impl Channel for Tcp {
    fn info(&self) -> ChannelInfo<'_> {
        let mut info = ChannelInfo::new(&self.mode, self.largest);
        (info.batching, info.layout.most) = (self.write_batching.batching(), MAX_MESSAGE);
        info
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > MAX_MESSAGE {
            return Err(Error::TooLarge { driver: Driver::Row(Row::Tcp), size, most: MAX_MESSAGE });
        }
        self.content = Content::of(size);
        self.batch = self.content.bytes().repeat((WRITE_BYTES / size.max(1)).clamp(1, self.write_batching.most()));
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    fn send(&mut self, count: usize) -> Result<usize, Error> {
        self.several(self.write_batching.count(count))
    }

    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        if !self.accept()? {
            return Ok(arrived);
        }
        self.finish()?;
        self.read()?;
        while arrived.messages < budget as u64 && arrived.control.is_none() {
            match self.next() {
                None => break,
                Some(Arrival::ControlMessage(control)) => arrived.control = control,
                Some(Arrival::Data) => self.content.end(&mut arrived),
            }
        }
        if self.echo {
            self.several(arrived.messages as usize)?;
        }
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.put(Message::ControlMessage(control_bytes(control))).map(drop)
    }

    /// TCP has its own flow control, and loses nothing.
    fn window(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests;
