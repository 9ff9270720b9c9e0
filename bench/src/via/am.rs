//! Our active messages: one request a data message; in a latency measurement,
//! its reply; in a bulk measurement, a put.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use am_api::{
    Connection, Endpoint, HandlerId, Idle, Message, Node, NotOpen, Request, RequestError, Transfer, Transport,
};
use am_transport::trace::Trace;
use am_wire::bulk::Segment;

use super::lossy::{self, Knob};
use super::transfers::{Told, Transfers};
use crate::batching::Batching;
use crate::content::Content;
use crate::error::Error;
use crate::loss::Loss;
use crate::measure::{Arrived, Note, Pace, Patience, Port};
use crate::plan::{How, Place};
use crate::side::Side;
use crate::via::Via;
use crate::watch::Watch;

/// The endpoint's name, on both sides.
const ENDPOINT: &str = "am-bench";

const DATA: HandlerId = HandlerId(0);
const NOTE: HandlerId = HandlerId(1);
const REGION: HandlerId = HandlerId(2);

/// With bundles a doorbell is for more messages than there are frames in a batch: two full bundles of
/// the smallest. A number between would end with a frame that is nearly empty.
pub(crate) const BUNDLED: usize = 2 * 62;

/// The window then: of the 128 messages that there are otherwise, two bundles take all, and
/// their sender waits for the first while the second is on its way.
const WINDOW: u16 = am_api::WINDOW as u16;

/// So long at most until the caller looks at the world.
const A_WHILE: Duration = Duration::from_micros(1);

/// What the handlers of one side work on.
#[derive(Default)]
struct State {
    arrived: Arrived,
    content: Content,
    echo: bool,
    /// The other side, known from what it says.
    other: Option<Connection>,
    notes: VecDeque<Note>,
    told: Told,
}

/// One side of the via.
pub(crate) struct Am {
    state: State,
    endpoint: Endpoint<State>,
    node: Node,
    bundles: bool,
    mode: String,
    xdp: Option<&'static str>,
    framing: &'static str,
    largest: usize,
    /// A whole batch was sent: who sends has the next one ready, and does not
    /// want to wait for what may arrive.
    has_more: bool,
    /// This side connected.
    is_near: bool,
    /// Data messages are transfers.
    transfers: Option<Transfers>,
    /// Frames that arrive are lost as it says.
    loss: Option<Knob>,
}

/// A node whose messages go so.
///
/// # Errors
/// The transport cannot carry a node.
pub(crate) fn node(name: &str, how: How, transport: Box<dyn Transport>) -> Result<Node, Error> {
    node_that(Idle::spinning(), name, how, transport)
}

/// The same, for what is not measured: it waits as it is told.
///
/// # Errors
/// As [`node`].
pub(crate) fn node_that(idle: Idle, name: &str, how: How, transport: Box<dyn Transport>) -> Result<Node, Error> {
    let builder = Node::builder(name).idle(idle).coalesce(how.bundles);
    let builder = if how.bundles { builder.window(WINDOW) } else { builder };
    let builder = match how.framing.fixed() {
        Some(framing) => builder.framing(framing),
        None => builder,
    };
    builder.open_on(transport).map_err(facility)
}

impl Am {
    /// One side of nodes on this transport; this one is called `name`.
    ///
    /// # Errors
    /// The transport cannot carry a node, or the peer does not answer.
    pub(crate) fn over(
        transport: impl Transport + 'static,
        side: Side,
        name: &str,
        peer: &Place,
        how: How,
        watch: &Watch,
    ) -> Result<Am, Error> {
        let transport: Box<dyn Transport> = match how.trace {
            // In one process both sides know of the file.
            Some(file) if side == Side::Near => {
                Box::new(Trace::append(transport, file).map_err(Error::system("writing what --trace names"))?)
            }
            _ => Box::new(transport),
        };
        let (transport, loss) = lossy::over(transport, how.lossy);
        let node = node(name, how, transport)?;
        let am = match side {
            Side::Near => Am::near(node, how, &peer.name, watch)?,
            Side::Far => Am::far(node)?,
        };
        Ok(am.losing(loss))
    }

    /// The side that is connected to.
    pub(crate) fn far(node: Node) -> Result<Am, Error> {
        let mut endpoint = node.endpoint(ENDPOINT).map_err(facility)?;
        endpoint.on_request(DATA, on_data);
        endpoint.on_request(NOTE, on_note);
        endpoint.on_request(REGION, |state, Request { message: region, .. }| {
            state.told.on_region([region.word(0), region.word(1)])
        });
        endpoint.on_reply(DATA, on_echo);
        endpoint.on_transfer(on_transfer);
        let state = State { notes: VecDeque::with_capacity(16), ..State::default() };
        // The rest is the near side's to know, which is the side that reports.
        Ok(Am {
            state,
            endpoint,
            node,
            bundles: false,
            mode: String::new(),
            xdp: None,
            framing: "none",
            largest: 0,
            has_more: false,
            is_near: false,
            transfers: None,
            loss: None,
        })
    }

    /// The same, over a transport that loses as this says.
    pub(crate) fn losing(self, loss: Option<Knob>) -> Am {
        Am { loss, ..self }
    }

    /// The same, with where the XDP program below it runs.
    pub(crate) fn by_xdp(self, at: &'static str) -> Am {
        Am { xdp: Some(at), ..self }
    }

    /// The side that connects.
    pub(crate) fn near(node: Node, how: How, peer: &str, watch: &Watch) -> Result<Am, Error> {
        let mut am = Am { bundles: how.bundles, is_near: true, ..Am::far(node)? };
        let to = am.connect(peer, watch)?;
        if let Some(how) = am.endpoint.describe(to) {
            (am.mode, am.framing, am.largest) = (how.mode, how.framing.name(), how.max_body);
        }
        am.state.other = Some(to);
        Ok(am)
    }

    /// Where transfers go, once.
    #[inline]
    fn tell_region(&mut self) -> Result<(), Error> {
        let (Some(transfers), Some(to)) = (&mut self.transfers, self.state.other) else { return Ok(()) };
        if let Some(words) = transfers.untold(&self.state.told)
            && settle(self.endpoint.try_request(to, REGION, &words, &[]))?.is_some()
        {
            transfers.was_told();
        }
        Ok(())
    }

    /// Send back as many transfers as have come.
    #[inline]
    fn pay(&mut self) -> Result<(), Error> {
        if let (Some(transfers), Some(to)) = (&self.transfers, self.state.other)
            && self.state.told.owed > 0
        {
            let owed = self.state.told.owed;
            let paid = transfers.begin(&self.endpoint, &mut self.state.told, to, owed)?;
            self.state.told.owed -= paid;
        }
        Ok(())
    }

    /// Ask until there is an answer: the far side may need a while to open.
    fn connect(&mut self, peer: &str, watch: &Watch) -> Result<Connection, Error> {
        let mut pace = Pace::new(watch, Via::Am, "connecting", Patience::default().open);
        let mut to = self.endpoint.connect(peer, ENDPOINT).map_err(facility)?;
        loop {
            match self.endpoint.ready(to) {
                Ok(()) => return Ok(to),
                Err(NotOpen::Connecting) => {}
                Err(_) => {
                    self.endpoint.close(to);
                    to = self.endpoint.connect(peer, ENDPOINT).map_err(facility)?;
                }
            }
            self.endpoint.poll(&mut self.state);
            pace.idle()?;
        }
    }
}

/// What stands in the way of a node.
pub(crate) fn facility(error: impl std::error::Error) -> Error {
    Error::Facility(error.to_string())
}

fn on_data(state: &mut State, Request { message, token }: Request<'_, State>) {
    count(state, &message);
    if state.echo {
        // Refused only where the other side is gone, which shows by its silence.
        let _ = token.reply(DATA, &[], message.payload());
    }
}

fn on_echo(state: &mut State, message: Message<'_, State>) {
    count(state, &message);
}

#[inline]
fn count(state: &mut State, message: &Message<'_, State>) {
    state.content.count(message.payload(), &mut state.arrived);
}

fn on_transfer(state: &mut State, transfer: Transfer<'_, State>) {
    if let Some(is_right) = state.told.over(&transfer) {
        state.arrived.messages += 1;
        state.arrived.bytes += transfer.length;
        state.arrived.wrong += u64::from(!is_right);
        state.told.owed += usize::from(state.echo);
    }
}

fn on_note(state: &mut State, Request { message, .. }: Request<'_, State>) {
    state.other = Some(message.from());
    let words = [0, 1, 2, 3].map(|at| message.word(at));
    state.notes.extend(Note::from_words(words));
}

/// `None` where there is no room now.
fn settle(result: Result<(), RequestError>) -> Result<Option<()>, Error> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(error) if error.is_temporary() => Ok(None),
        Err(error) => Err(Error::Lost(error.to_string())),
    }
}

impl Port for Am {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn xdp(&self) -> Option<&'static str> {
        self.xdp
    }

    fn framing(&self) -> &'static str {
        self.framing
    }

    fn batching(&self) -> Batching {
        if self.bundles { Batching::Shared } else { Batching::Bursts }
    }

    fn frames_sent(&self) -> Option<u64> {
        if !self.bundles {
            return None;
        }
        let counters = self.node.counters();
        let messages = ["requests_sent", "replies_sent", "retransmitted"].map(|name| counters.get(name));
        Some(messages.iter().sum::<u64>() - counters.get("bundled_sent") + counters.get("bundles_sent"))
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.state.content = Content::of(size);
        self.transfers = None;
        Ok(())
    }

    fn segment(&self) -> Option<usize> {
        Some(self.largest.saturating_sub(Segment::BYTES))
    }

    fn transfer(&mut self, size: usize) -> Result<(), Error> {
        // What was there goes first: it may be large.
        self.transfers = None;
        let Am { state, endpoint, .. } = self;
        self.transfers = Some(Transfers::one_way(endpoint, &mut state.told, size, self.is_near));
        Ok(())
    }

    fn volley(&mut self, size: usize) -> Result<(), Error> {
        self.transfers = None;
        let Am { state, endpoint, .. } = self;
        self.transfers = Some(Transfers::to_and_fro(endpoint, &mut state.told, size));
        Ok(())
    }

    fn lose(&mut self, loss: Loss) -> bool {
        match &self.loss {
            Some(knob) => knob.set(loss),
            None => return loss == Loss::NONE,
        }
        true
    }

    fn echo(&mut self, on: bool) {
        self.state.echo = on;
    }

    /// With one doorbell, as [`Raw`](super::raw) does.
    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let Some(to) = self.state.other else { return Ok(0) };
        if let Some(transfers) = &self.transfers {
            let begun = transfers.begin(&self.endpoint, &mut self.state.told, to, count)?;
            self.has_more = self.state.told.is_busy();
            return Ok(begun);
        }
        let count = if self.bundles && count > 1 { BUNDLED } else { count };
        let mut sent = 0;
        while sent < count && settle(self.endpoint.try_request(to, DATA, &[], self.state.content.bytes()))?.is_some() {
            sent += 1;
        }
        if sent > 0 {
            self.endpoint.flush();
        }
        self.has_more = count > 1 && sent == count;
        Ok(sent)
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<Arrived, Error> {
        self.tell_region()?;
        if mem::take(&mut self.has_more) {
            self.endpoint.poll(&mut self.state);
        } else {
            self.endpoint.wait(&mut self.state, A_WHILE);
        }
        self.pay()?;
        let note = self.state.notes.pop_front();
        Ok(Arrived { note, ..mem::take(&mut self.state.arrived) })
    }

    fn tell(&mut self, note: Note) -> Result<(), Error> {
        let Some(to) = self.state.other else { return Ok(()) };
        settle(self.endpoint.try_request(to, NOTE, &note.to_words(), &[])).map(drop)
    }

    /// Credits are the window, and nothing is lost.
    fn window(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests;
