//! Frames without a protocol between two threads, over the loopback transport or a simulated NIC.

use std::collections::VecDeque;
use std::ops::Range;

use am_ring::Frame;
use am_transport::Transport;
use am_transport::loopback::{Loopback, Plug};
use am_wire::frame::{ETHERNET, Link, SMALLEST, emit};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

use crate::content::Content;
use crate::error::Error;
use crate::measure::{Arrived, BATCH, Note, Port};
use crate::via::Via;

/// Steering admits only frames with our header: one for data, and one for control messages.
const DATA: u16 = 1;
const NOTES: u16 = 2;

/// The bytes of a `bare` frame with version, kind and flow.
pub(crate) const SAME: Range<usize> = 6..9;

/// One side of the driver.
pub(crate) struct Memory<T = Loopback> {
    transport: T,
    to: Address,
    window: Option<u64>,
    mode: String,
    largest: usize,
    content: Content,
    echo: bool,
    /// Control messages received and not yet handed over.
    heard: VecDeque<Note>,
    /// The first bytes of a data frame and of a control message; the rest is payload.
    data: [u8; ETHERNET],
    notes: [u8; ETHERNET],
}

impl Memory {
    /// This end of a wire in memory. A full queue refuses frames, and nothing is lost.
    pub(crate) fn open(plug: Plug, to: Address) -> Result<Memory, Error> {
        let transport = plug.open().map_err(|e| Error::Facility(e.to_string()))?;
        Ok(Memory::over(transport, to, None))
    }
}

impl<T: Transport> Memory<T> {
    /// Over this transport to `to`. The window limits messages in flight if the transport may lose them.
    pub(crate) fn over(mut transport: T, to: Address, window: Option<u64>) -> Memory<T> {
        for flow in [DATA, NOTES] {
            transport.steer(flow_of(flow), true);
        }
        let from = transport.caps().address;
        let (mode, largest) = (transport.caps().mode.clone(), transport.caps().max_frame - ETHERNET);
        let (data, notes) = (head(DATA, from, to, 0), head(NOTES, from, to, Note::BYTES));
        Memory {
            transport,
            to,
            window,
            mode,
            largest,
            content: Content::default(),
            echo: false,
            heard: VecDeque::with_capacity(BATCH),
            data,
            notes,
        }
    }

    fn data(&mut self, count: usize) -> usize {
        let Memory { transport, to, data, content, .. } = self;
        let sent = (0..count).take_while(|_| send(transport, *to, data, content.bytes())).count();
        transport.flush();
        sent
    }
}

/// `false` if there is no room now.
#[inline]
fn send(transport: &mut impl Transport, to: Address, head: &[u8; ETHERNET], payload: &[u8]) -> bool {
    let Some(mut frame) = transport.caps().pool.take() else { return false };
    if let Some(space) = frame.space() {
        space[..ETHERNET].copy_from_slice(head);
        space[ETHERNET..][..payload.len()].copy_from_slice(payload);
    }
    frame.set_len((ETHERNET + payload.len()).max(SMALLEST));
    transport.send(to, frame).is_ok()
}

pub(crate) fn flow_of(id: u16) -> Flow {
    Flow::new(id).unwrap_or(Flow::NODE)
}

/// The first bytes of a frame with this payload.
pub(crate) fn head(flow: u16, from: Address, to: Address, payload: usize) -> [u8; ETHERNET] {
    let header = Header { kind: Kind::Request, flow: flow_of(flow), nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = Link { to, from, ethertype: EtherType::DEFAULT };
    // The body fills the frame, so no trailer is written into it.
    let body = payload.max(SMALLEST - ETHERNET);
    let mut frame = vec![0; ETHERNET + body];
    let written = emit(&mut frame, Framing::Bare, &link, &header, body, None);
    debug_assert!(written.is_ok());
    let mut head = [0; ETHERNET];
    head.copy_from_slice(&frame[..ETHERNET]);
    head
}

impl<T: Transport> Port for Memory<T> {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > self.largest {
            return Err(Error::TooLarge { via: Via::Raw, size, most: self.largest });
        }
        self.content = Content::of(size);
        self.data = head(DATA, self.transport.caps().address, self.to, size);
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        Ok(self.data(count))
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        // An arriving frame has the sender's header; version, kind and flow are the same in ours.
        let Memory { transport, content, heard, .. } = self;
        let (data, notes) = (&self.data[SAME], &self.notes[SAME]);
        transport.receive(budget, &mut |frame: Frame| match frame.bytes() {
            bytes if bytes[SAME] == *data => content.count(content.payload(bytes), &mut arrived),
            bytes if bytes[SAME] == *notes => {
                heard.extend(Note::from_bytes(&bytes[ETHERNET..]));
            }
            _ => {}
        });
        arrived.note = self.heard.pop_front();
        if self.echo && arrived.messages > 0 {
            self.data(arrived.messages as usize);
        }
        Ok(arrived)
    }

    fn tell(&mut self, note: Note) -> Result<(), Error> {
        send(&mut self.transport, self.to, &self.notes, &note.to_bytes());
        self.transport.flush();
        Ok(())
    }

    fn window(&self) -> Option<u64> {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use am_transport::loopback::wire;

    use super::*;

    fn pair() -> (Memory, Memory) {
        let [near, far]: [Plug; 2] = wire(2).try_into().unwrap();
        let (here, there) = (near.address(), far.address());
        let mut ports = (Memory::open(near, there).unwrap(), Memory::open(far, here).unwrap());
        ports.0.prepare(16).unwrap();
        ports.1.prepare(16).unwrap();
        ports
    }

    #[test]
    fn no_note_overtakes_another() {
        let (mut near, mut far) = pair();
        assert_eq!(near.send(3).unwrap(), 3);
        let notes = [Note::Stop { step: 1 }, Note::HowMany { step: 2, sent: 3 }, Note::End];
        for note in notes {
            near.tell(note).unwrap();
        }
        let first = far.receive(BATCH).unwrap();
        assert_eq!(first, Arrived { messages: 3, bytes: 48, wrong: 0, note: Some(notes[0]) });
        assert_eq!(far.receive(BATCH).unwrap().note, Some(notes[1]));
        assert_eq!(far.receive(BATCH).unwrap().note, Some(notes[2]));
        assert_eq!(far.receive(BATCH).unwrap(), Arrived::default());
    }

    #[test]
    fn what_arrives_is_sent_back_where_that_is_wanted() {
        let (mut near, mut far) = pair();
        near.send(2).unwrap();
        far.echo(true);
        far.receive(BATCH).unwrap();
        assert_eq!(near.receive(BATCH).unwrap().messages, 2);
    }

    #[test]
    fn other_content_and_another_length_are_wrong() {
        let (mut near, mut far) = pair();
        near.content = Content::made(16);
        near.send(1).unwrap();
        assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 1, bytes: 16, wrong: 1, note: None });
        near.prepare(100).unwrap();
        near.send(2).unwrap();
        assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 2, bytes: 200, wrong: 2, note: None });
    }

    #[test]
    fn a_full_queue_says_so_and_loses_nothing() {
        let (mut near, mut far) = pair();
        let mut sent = 0;
        loop {
            match near.send(BATCH).unwrap() {
                0 => break,
                more => sent += more,
            }
        }
        let mut arrived = 0;
        while let Arrived { messages: more @ 1.., .. } = far.receive(BATCH).unwrap() {
            arrived += more as usize;
        }
        assert_eq!(arrived, sent);
        assert!(near.prepare(1501).is_err());
    }
}
