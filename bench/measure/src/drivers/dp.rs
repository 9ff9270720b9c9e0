//! Directed Point: a data message is one `write` with a doorbell of its own, and one `read`. An endpoint on each side has
//! an edge to the other's. Control messages share it: their first byte tells them from data.

use std::task::Poll;

use am_api::Node;
use am_dp::{Dp, Dpid, Nid, Nodes, Point, WriteError};

use super::am::facility;
use crate::channel::{Arrived, Channel, ChannelInfo, ControlMessage, SpinWait, Timeouts};
use crate::content::Content;
use crate::driver::Driver;
use crate::error::Error;
use crate::plan::Batching;
use crate::plan::Side;
use crate::watch::Watch;

/// The endpoint of each side.
const DPID: Dpid = Dpid(1);
/// Bytes of a token buffer pool: as many as the binding for C takes by default.
const POOL: usize = 256 << 10;

/// One of two vertices of a graph, and its endpoint.
pub struct Vertex {
    /// The process.
    pub dp: Dp<Vec<u8>>,
    /// Its end of the point-to-point channel.
    pub point: Point,
    peer: Nid,
}

impl Vertex {
    /// The vertex of this side, on a node that has the name of its side.
    pub fn open(node: Node, side: Side, [near, far]: [&str; 2]) -> Result<Vertex, Error> {
        let (own, peer) = match side {
            Side::Near => (Nid(0), Nid(1)),
            Side::Far => (Nid(1), Nid(0)),
        };
        let nodes = Nodes::list([near, far], own).ok_or_else(|| Error::Facility("a graph of two nodes".to_owned()))?;
        let mut dp = Dp::new(node, nodes).map_err(facility)?;
        let point = dp.open(DPID, vec![0; POOL]).map_err(facility)?;
        Ok(Vertex { dp, point, peer })
    }

    /// Make the edge to the other side, with a `turn` of the caller after each look.
    pub fn connect(&mut self, mut turn: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let mut attempt = self.dp.begin_connect(&self.point, self.peer, DPID);
        loop {
            if let Poll::Ready(result) = self.dp.connect_step(&mut attempt) {
                return result.map_err(facility);
            }
            self.dp.poll();
            if let Err(why) = turn() {
                self.dp.give_up(attempt);
                return Err(why);
            }
        }
    }

    /// Whether the message left. Without room it is tried again later.
    #[inline]
    pub fn write(&mut self, message: &[u8]) -> Result<bool, Error> {
        match self.dp.write(&self.point, message) {
            Ok(()) => Ok(true),
            Err(WriteError::Full) => Ok(false),
            Err(error) => Err(Error::Lost(error.to_string())),
        }
    }
}

/// One side of the driver.
pub(crate) struct DpChannel {
    vertex: Vertex,
    info: ChannelInfo,
    content: Content,
    echo: bool,
    /// Messages to send back that have found no room yet.
    pending_echoes: usize,
}

impl DpChannel {
    /// One side, with a node of its own, whose XDP program runs at `xdp`. Both sides connect.
    pub(crate) fn open(
        (node, xdp): (Node, Option<&'static str>),
        side: Side,
        names: [&str; 2],
        watch: &Watch,
    ) -> Result<DpChannel, Error> {
        let mut vertex = Vertex::open(node, side, names)?;
        let mut wait = SpinWait::new(watch, Driver::Dp, "connecting", Timeouts::default().open);
        vertex.connect(|| wait.idle().map(drop))?;
        let how = vertex.dp.describe(&vertex.point);
        let how = how.ok_or_else(|| Error::Lost("its edge has ended".to_owned()))?;
        let info = ChannelInfo::new(how.mode, how.max_body);
        let mut info = ChannelInfo { xdp, framing: how.framing.name(), batching: Batching::Single, ..info };
        info.layout.most = POOL;
        Ok(DpChannel { vertex, info, content: Content::default(), echo: false, pending_echoes: 0 })
    }

    /// Count the next message, if there is one. It stays in the pool while it is looked at.
    #[inline]
    fn next(&mut self, arrived: &mut Arrived) -> Result<bool, Error> {
        let Vertex { dp, point, .. } = &mut self.vertex;
        let Some(place) = dp.read(point).map_err(|why| Error::Lost(why.to_string()))? else { return Ok(false) };
        if let Some(message) = dp.bytes(point, &place) {
            arrived.control = ControlMessage::from_marked(message);
            if arrived.control.is_none() {
                self.content.count(message, arrived);
            }
        }
        dp.fsync(point, 1);
        Ok(true)
    }
}

impl Channel for DpChannel {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.content = Content::of(size);
        self.pending_echoes = 0;
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let mut sent = 0;
        while sent < count && self.vertex.write(self.content.bytes())? {
            sent += 1;
        }
        Ok(sent)
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        let mut echoed = 0;
        while arrived.messages < budget as u64 && arrived.control.is_none() && self.next(&mut arrived)? {
            // Answered before the next is looked for, as a program does: what the layer owes to the sender leaves with it.
            if self.echo && arrived.messages > echoed {
                echoed = arrived.messages;
                self.pending_echoes += 1;
                self.pending_echoes -= self.send(self.pending_echoes)?;
            }
        }
        if self.pending_echoes > 0 {
            self.pending_echoes -= self.send(self.pending_echoes)?;
        }
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.vertex.write(&control.marked()).map(drop)
    }
}
