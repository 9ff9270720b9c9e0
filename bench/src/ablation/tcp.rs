//! The last row: a kernel TCP socket that spins. One message alone costs a write; many at once go with one, as a program
//! sends them that corks its socket.
//!
//! A message's first byte says whether it is data, which has the length that
//! both sides know, or a note.

use std::io::ErrorKind::{ConnectionRefused, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::batching::Batching;
use crate::content::Content;
use crate::error::Error;
use crate::measure::{Arrived, Note, Pace, Patience, Port};
use crate::plan::Place;
use crate::side::Side;
use crate::via::Via;
use crate::via::sleeping::Wakes;
use crate::via::udp::addresses;
use crate::watch::Watch;

use super::Row;
use super::gather::Gather;

/// The first byte of a note; data begins with 0.
const NOTE: u8 = 0xff;
const NOTE_BYTES: usize = 1 + Note::BYTES;
/// IPv4 and TCP, with the time stamps that each segment carries.
pub(crate) const HEADERS: usize = 20 + 20 + 12;
/// The longest data message: as long as the longest that `compare` sends.
const LONGEST: usize = 1 << 20;
/// Read at once.
const READ: usize = 256 << 10;

/// Bytes of one write, about.
const CORKED: usize = 256 << 10;

/// One side of the row.
pub(crate) struct Tcp {
    stream: Option<TcpStream>,
    /// Until the near side has come.
    listener: Option<TcpListener>,
    gather: Gather,
    mode: String,
    largest: usize,
    content: Content,
    echo: bool,
    /// As many messages as go with one write.
    batch: Vec<u8>,
    /// Begun and not yet taken by the kernel.
    rest: Vec<u8>,
    input: Vec<u8>,
    /// What has come and is not yet looked at: this part of the input.
    unread: (usize, usize),
    /// A part of a data message has come.
    amid: bool,
}

impl Tcp {
    /// The far side listens, the near side connects as soon as it does.
    pub(crate) fn open(
        (side, gather): (Side, Gather),
        interface: &str,
        mtu: usize,
        (here, peer): (&Place, &Place),
        mode: String,
        watch: &Watch,
    ) -> Result<Tcp, Error> {
        let (own, other) = addresses(interface, here, peer)?;
        let (stream, listener) = match side {
            Side::Near => (Some(connect(other, gather, watch)?), None),
            Side::Far => (None, Some(listen(own)?)),
        };
        Ok(Tcp {
            stream,
            listener,
            gather,
            mode,
            largest: mtu.saturating_sub(HEADERS),
            content: Content::default(),
            echo: false,
            batch: Vec::new(),
            rest: Vec::new(),
            input: vec![0; READ],
            unread: (0, 0),
            amid: false,
        })
    }

    /// Whether there is somebody to talk to.
    fn accept(&mut self) -> Result<bool, Error> {
        if let Some(listener) = &self.listener
            && let Some((stream, _)) = settle(listener.accept())?
        {
            self.stream = Some(spinning(stream, self.gather)?);
            self.listener = None;
        }
        Ok(self.stream.is_some())
    }

    /// Whether the whole of it will go: a part that has gone is followed by its rest.
    fn put(&mut self, message: Message) -> Result<bool, Error> {
        if !self.finish()? {
            return Ok(false);
        }
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let bytes = match &message {
            Message::Data(count) => &self.batch[..count * self.content.bytes().len()],
            Message::Note(bytes) => &bytes[..],
        };
        let Some(sent) = settle(stream.write(bytes))? else { return Ok(false) };
        self.rest.extend_from_slice(&bytes[sent..]);
        Ok(true)
    }

    /// So many data messages, with as few writes as there are batches in them.
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

    /// What was begun goes before anything else.
    fn finish(&mut self) -> Result<bool, Error> {
        if let Some(stream) = &mut self.stream
            && !self.rest.is_empty()
            && let Some(sent) = settle(stream.write(&self.rest))?
        {
            self.rest.drain(..sent);
        }
        Ok(self.rest.is_empty())
    }

    /// More input, behind what is not yet looked at.
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

    /// The next message of the input, where it is whole.
    fn next(&mut self) -> Option<Arrival> {
        let (from, to) = self.unread;
        let input = &self.input[from..to];
        if !self.amid && *input.first()? == NOTE {
            let note = Note::from_bytes(&input.get(..NOTE_BYTES)?[1..]);
            self.unread.0 += NOTE_BYTES;
            return Some(Arrival::Note(note));
        }
        let taken = self.content.missing().min(input.len());
        self.content.piece(&input[..taken]);
        self.unread.0 += taken;
        self.amid = self.content.missing() > 0;
        (taken > 0 && !self.amid).then_some(Arrival::Data)
    }
}

enum Message {
    /// So many in a row.
    Data(usize),
    Note([u8; NOTE_BYTES]),
}

enum Arrival {
    Data,
    Note(Option<Note>),
}

fn note_bytes(note: Note) -> [u8; NOTE_BYTES] {
    let mut bytes = [NOTE; NOTE_BYTES];
    bytes[1..].copy_from_slice(&note.to_bytes());
    bytes
}

fn listen(own: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(own).map_err(Error::system("listening on TCP port 34997"))?;
    listener.set_nonblocking(true).map_err(Error::system("making a TCP socket non-blocking"))?;
    Ok(listener)
}

fn connect(other: SocketAddr, gather: Gather, watch: &Watch) -> Result<TcpStream, Error> {
    let mut pace = Pace::new(watch, Via::Row(Row::Tcp), "connecting", Patience::default().open);
    loop {
        match TcpStream::connect(other) {
            Ok(stream) => return spinning(stream, gather),
            // The far side may need a while to open.
            Err(e) if e.kind() == ConnectionRefused => pace.idle()?,
            Err(source) => return Err(Error::System { doing: "connecting a TCP socket", source }),
        };
    }
}

fn spinning(stream: TcpStream, gather: Gather) -> Result<TcpStream, Error> {
    let options = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(gather != Gather::Kernel));
    options.map(|()| stream).map_err(Error::system("setting options of a TCP socket"))
}

/// `None` where there is nothing, or no room.
fn settle<T>(result: io::Result<T>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == WouldBlock => Ok(None),
        Err(e) => Err(Error::Lost(format!("its TCP connection: {e}"))),
    }
}

impl Wakes for Tcp {
    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        let stream = self.stream.as_ref().map(AsFd::as_fd);
        stream.or_else(|| self.listener.as_ref().map(AsFd::as_fd))
    }

    fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }
}

impl Port for Tcp {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn most(&self) -> usize {
        LONGEST
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > LONGEST {
            return Err(Error::TooLarge { via: Via::Row(Row::Tcp), size, most: LONGEST });
        }
        self.content = Content::of(size);
        self.batch = self.content.bytes().repeat((CORKED / size.max(1)).clamp(1, self.gather.most()));
        Ok(())
    }

    fn batching(&self) -> Batching {
        self.gather.batching()
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    fn send(&mut self, count: usize) -> Result<usize, Error> {
        self.several(self.gather.count(count))
    }

    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        if !self.accept()? {
            return Ok(arrived);
        }
        self.finish()?;
        self.read()?;
        while arrived.messages < budget as u64 && arrived.note.is_none() {
            match self.next() {
                None => break,
                Some(Arrival::Note(note)) => arrived.note = note,
                Some(Arrival::Data) => self.content.end(&mut arrived),
            }
        }
        if self.echo {
            self.several(arrived.messages as usize)?;
        }
        Ok(arrived)
    }

    fn tell(&mut self, note: Note) -> Result<(), Error> {
        self.put(Message::Note(note_bytes(note))).map(drop)
    }

    /// It has flow control of its own, and loses nothing.
    fn window(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests;
