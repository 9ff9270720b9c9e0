//! Our active messages. A data message is a request, in a latency measurement a request and its reply, in a bulk
//! measurement a put.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use am_api::{Builder, Connection, Endpoint, HandlerId, Idle, Node, NotOpen, Request, RequestError, Transport};
use am_transport::trace::Trace;
use am_wire::bulk::Segment;

use super::lossy::{self, LossSetting};
use super::transfers::Transfers;
use crate::channel::{Arrived, Channel, ChannelInfo, ControlMessage, SpinWait, Timeouts};
use crate::content::Content;
use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Batching;
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::watch::Watch;

pub(crate) const TRACING: &str = "writing the file of --trace";

const ENDPOINT: &str = "am-bench";

const DATA: HandlerId = HandlerId(0);
const CONTROL: HandlerId = HandlerId(1);
const REGION: HandlerId = HandlerId(2);

/// Messages with one doorbell when they are coalesced: two full frames of the smallest messages. Any number in between
/// would end with a nearly empty frame.
pub(crate) const COALESCED_BATCH: usize = 2 * 62;

/// The window for coalesced messages. The default of 128 messages is two frames, so the sender would wait for the first
/// while the second is on its way.
const WINDOW: u16 = am_api::WINDOW as u16;

/// The longest wait of one poll; then the caller checks for reasons to stop.
const MAX_WAIT: Duration = Duration::from_micros(1);

/// The state of one side's handlers.
#[derive(Default)]
struct State {
    arrived: Arrived,
    content: Content,
    echo: bool,
    /// The other side, known once it has sent a control message.
    other: Option<Connection>,
    controls: VecDeque<ControlMessage>,
    transfers: Transfers,
}

pub(crate) struct Am {
    state: State,
    endpoint: Endpoint<State>,
    node: Node,
    info: ChannelInfo,
    coalesce: bool,
    /// Whether a whole batch was sent. The sender has the next one ready, and must not wait for arrivals.
    has_more: bool,
    is_near: bool,
    loss: Option<LossSetting>,
    /// The error that ended the trace, if there is a trace.
    trace: Option<Arc<OnceLock<io::Error>>>,
}

/// A node that waits as `idle` says.
pub fn node(idle: Idle, name: &str, how: DriverOptions, transport: Box<dyn Transport>) -> Result<Node, Error> {
    let builder = as_asked(Node::builder(name), how).idle(idle);
    let builder = if how.coalesce { builder.window(WINDOW) } else { builder };
    builder.open_on(transport).map_err(facility)
}

/// A node with the framing and the coalescing that are asked for.
pub(crate) fn as_asked(builder: Builder, how: DriverOptions) -> Builder {
    let builder = builder.coalesce(how.coalesce);
    how.framing.fixed().into_iter().fold(builder, Builder::framing)
}

/// Connect to this endpoint of the peer, with a `turn` of the loop after each look. The peer may not be there yet, so
/// try again.
pub(crate) fn connect<S>(
    endpoint: &mut Endpoint<S>,
    peer: &str,
    name: &str,
    mut turn: impl FnMut(&mut Endpoint<S>) -> Result<(), Error>,
) -> Result<Connection, Error> {
    let mut to = endpoint.connect(peer, name).map_err(facility)?;
    loop {
        match endpoint.ready(to) {
            Ok(()) => return Ok(to),
            Err(NotOpen::Connecting) => {}
            Err(_) => {
                endpoint.close(to);
                to = endpoint.connect(peer, name).map_err(facility)?;
            }
        }
        turn(endpoint)?;
    }
}

impl Am {
    /// One side, with a node called `name` on this transport, whose XDP program runs at `xdp`.
    pub(crate) fn over(
        (transport, xdp): (Box<dyn Transport>, Option<&'static str>),
        side: Side,
        name: &str,
        peer: &SideInfo,
        how: DriverOptions,
        watch: &Watch,
    ) -> Result<Am, Error> {
        let (transport, trace): (Box<dyn Transport>, _) = match how.trace {
            // If both sides are in one process, they share the file.
            Some(file) if side == Side::Near => {
                let traced = Trace::append(transport, file).map_err(Error::system(TRACING))?;
                let error = traced.error();
                (Box::new(traced), Some(error))
            }
            _ => (transport, None),
        };
        let (transport, loss) = lossy::over(transport, how.lossy);
        let am = Am { loss, trace, ..Am::listening(node(Idle::spinning(), name, how, transport)?)? };
        match side {
            Side::Near => am.connected(how, xdp, &peer.name, watch),
            Side::Far => Ok(am),
        }
    }

    /// The side that is connected to.
    fn listening(node: Node) -> Result<Am, Error> {
        let mut endpoint: Endpoint<State> = node.endpoint(ENDPOINT).map_err(facility)?;
        endpoint.on_request(DATA, |state, Request { message, token }| {
            state.content.count(message.payload(), &mut state.arrived);
            if state.echo {
                // Fails only if the other side is gone, which its silence shows.
                let _ = token.reply(DATA, &[], message.payload());
            }
        });
        endpoint.on_request(CONTROL, |state, Request { message, .. }| {
            state.other = Some(message.from());
            state.controls.extend(ControlMessage::from_words([0, 1, 2, 3].map(|at| message.word(at))));
        });
        endpoint.on_request(REGION, |state, Request { message: region, .. }| {
            state.transfers.on_region([region.word(0), region.word(1)])
        });
        endpoint.on_reply(DATA, |state, message| state.content.count(message.payload(), &mut state.arrived));
        endpoint.on_transfer(|state, transfer| {
            if let Some(is_right) = state.transfers.over(&transfer) {
                state.arrived.messages += 1;
                state.arrived.bytes += transfer.length;
                state.arrived.wrong += u64::from(!is_right);
                state.transfers.pending_echoes += usize::from(state.echo);
            }
        });
        let state = State { controls: VecDeque::with_capacity(16), ..State::default() };
        // The near side fills in the rest, because it reports.
        Ok(Am {
            state,
            endpoint,
            node,
            info: ChannelInfo::new("", 0),
            coalesce: false,
            has_more: false,
            is_near: false,
            loss: None,
            trace: None,
        })
    }

    /// The side that connects.
    fn connected(
        mut self,
        how: DriverOptions,
        xdp: Option<&'static str>,
        peer: &str,
        watch: &Watch,
    ) -> Result<Am, Error> {
        let mut wait = SpinWait::new(watch, Driver::Am, "connecting", Timeouts::default().open);
        let state = &mut self.state;
        let to = connect(&mut self.endpoint, peer, ENDPOINT, |endpoint| {
            endpoint.poll(state);
            wait.idle().map(drop)
        });
        let to = to.map_err(|why| why.after(self.problem()))?;
        (self.coalesce, self.is_near, self.state.other) = (how.coalesce, true, Some(to));
        let batching = if how.coalesce { Batching::Shared } else { Batching::Bursts };
        if let Some(how) = self.endpoint.describe(to) {
            let segment = Some(how.max_body.saturating_sub(Segment::BYTES));
            let info = ChannelInfo::new(how.mode, how.max_body);
            self.info = ChannelInfo { xdp, framing: how.framing.name(), batching, segment, ..info };
        }
        Ok(self)
    }
}

/// What a node or a transport cannot do here.
pub fn facility(error: impl std::error::Error) -> Error {
    Error::Facility(error.to_string())
}

/// `None` if there is no room now.
fn settle(result: Result<(), RequestError>) -> Result<Option<()>, Error> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(error) if error.is_temporary() => Ok(None),
        Err(error) => Err(Error::Lost(error.to_string())),
    }
}

impl Channel for Am {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn frames_sent(&self) -> Option<u64> {
        if !self.coalesce {
            return None;
        }
        let counters = self.node.counters();
        let messages = ["requests_sent", "replies_sent", "retransmitted"].map(|name| counters.get(name));
        Some(messages.iter().sum::<u64>() - counters.get("bundled_sent") + counters.get("bundles_sent"))
    }

    fn trace_error(&self) -> Option<Error> {
        let error = self.trace.as_ref()?.get()?;
        Some(Error::system(TRACING)(io::Error::new(error.kind(), error.to_string())))
    }

    fn problem(&self) -> Option<String> {
        self.node.health().err().map(|problem| problem.to_string())
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.state.content = Content::of(size);
        self.state.transfers.none();
        Ok(())
    }

    fn transfer(&mut self, size: usize, is_echoed: bool) -> Result<(), Error> {
        match is_echoed {
            true => self.state.transfers.echoed(&self.endpoint, size),
            false => self.state.transfers.one_way(&self.endpoint, size, self.is_near),
        }
        Ok(())
    }

    fn lose(&mut self, loss: Loss) -> bool {
        match &self.loss {
            Some(setting) => setting.set(loss),
            None => return loss == Loss::NONE,
        }
        true
    }

    fn echo(&mut self, on: bool) {
        self.state.echo = on;
    }

    /// With one doorbell, as [`raw`](super::raw) does.
    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let Some(to) = self.state.other else { return Ok(0) };
        let transfers = &mut self.state.transfers;
        if !transfers.begun.is_empty() {
            let begun = transfers.begin(&self.endpoint, to, count)?;
            self.has_more = transfers.is_busy();
            return Ok(begun);
        }
        let count = if self.coalesce && count > 1 { COALESCED_BATCH } else { count };
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
    fn keep_sending(&mut self) {
        self.has_more = true;
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<Arrived, Error> {
        // Tell the other side once where its transfers go.
        if let Some(to) = self.state.other {
            self.state.transfers.announce(|words| settle(self.endpoint.try_request(to, REGION, words, &[])))?;
        }
        if mem::take(&mut self.has_more) {
            self.endpoint.poll(&mut self.state);
        } else {
            self.endpoint.wait(&mut self.state, MAX_WAIT);
        }
        // Send back as many transfers as have arrived.
        let transfers = &mut self.state.transfers;
        if let Some(to) = self.state.other
            && transfers.pending_echoes > 0
        {
            transfers.pending_echoes -= transfers.begin(&self.endpoint, to, transfers.pending_echoes)?;
        }
        let control = self.state.controls.pop_front();
        Ok(Arrived { control, ..mem::take(&mut self.state.arrived) })
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        let Some(to) = self.state.other else { return Ok(()) };
        settle(self.endpoint.try_request(to, CONTROL, &control.to_words(), &[])).map(drop)
    }
}

#[cfg(test)]
pub(super) mod tests;
