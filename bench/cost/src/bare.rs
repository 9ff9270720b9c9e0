//! The same trips without `am-api`: two engines, no handler table, token, event or endpoint object. The difference is what
//! these cost (AM-II compares itself with single-program active messages in this way).

use am_engine::{Engine, PollScope};
use am_proto::{Config, Core, Delivery, EndpointId, FlowId, FlowState, FramingChoice, Time};
use am_ring::Frame;
use am_transport::Transport;
use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::{Class, Framing};

use crate::Error;
use crate::marks::{Mode, Step, TOGETHER, announce, enter};
use crate::over::open_loopback;
use crate::trips::PAYLOAD;

/// Time between two trips, in nanoseconds.
const TICK: u64 = 5_000;

struct Side {
    /// Not on the stack, whose cache lines are not counted.
    engine: Box<Engine>,
    transport: Box<dyn Transport>,
    endpoint: EndpointId,
    /// Messages that were handled.
    handled: u64,
}

impl Side {
    fn open(name: Name, transport: Box<dyn Transport>) -> Result<Side, Error> {
        let caps = transport.caps();
        let mut config = Config::new(NodeId::of(&name), Incarnation(1), name, caps.address).reliable();
        let frames = caps.pool.available() / 2 - 1;
        config.framing = FramingChoice::Fixed(Framing::Split);
        (config.receive_frames, config.send_frames) = (frames, frames);
        let mut core = Core::new(config, Time::default());
        let endpoint = core.add_endpoint(name, 0)?;
        let engine = Box::new(Engine::new(core, caps.pool.clone()));
        Ok(Side { engine, transport, endpoint, handled: 0 })
    }

    fn send(&mut self, flow: FlowId, class: Class, payload: &[u8]) -> Result<(), Error> {
        let write = |place: &mut [u8]| place.copy_from_slice(payload);
        if let Some(place) = self.engine.core_mut().append(flow, class, 0, 0, payload.len()) {
            place.copy_from_slice(payload);
            return Ok(());
        }
        let frame = self.engine.pool().take().ok_or("no frame")?;
        let sent = self.engine.core_mut().send(flow, class, 0, 0, frame, payload.len(), write);
        sent.map_err(|(error, _)| error.into())
    }

    fn exhale(&mut self, now: Time) {
        self.engine.exhale(|| now, &mut *self.transport);
    }

    fn turn(&mut self, now: Time) -> Result<(), Error> {
        self.engine.inhale(PollScope::Everything, || now, &mut *self.transport);
        while self.engine.core_mut().poll_event().is_some() {}
        // By reference, as in am-api: each move of a delivery costs.
        while let Some(first) = &mut self.next() {
            self.serve(first)?;
        }
        self.exhale(now);
        Ok(())
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Delivery<Frame>> {
        let (core, endpoint) = (self.engine.core_mut(), self.endpoint);
        if let Some(reply) = core.poll_reply(endpoint) {
            return Some(reply);
        }
        core.poll_request(endpoint)
    }

    /// Handle a message, and those behind it in its frame.
    #[inline(always)]
    fn serve(&mut self, message: &mut Delivery<Frame>) -> Result<(), Error> {
        let (flow, class, behind) = (message.flow, message.class, message.behind());
        loop {
            if class == Class::Request {
                self.send(flow, Class::Reply, message.payload())?;
            }
            self.handled += 1;
            let is_next = message.behind() > 0
                && match class {
                    Class::Request => self.engine.core_mut().next_request(message),
                    Class::Reply => message.next_in_frame(),
                };
            if !is_next {
                break;
            }
        }
        let handled = behind - message.behind();
        self.engine.core_mut().release(flow, class, 1 + handled);
        if behind > 0 {
            self.engine.core_mut().keep_behind(self.endpoint, handled, message);
        }
        Ok(())
    }

    fn turn_until(&mut self, handled: u64, now: Time) -> Result<(), Error> {
        for _ in 0..TOGETHER {
            self.turn(now)?;
            if self.handled >= handled {
                break;
            }
        }
        Ok(())
    }
}

pub(crate) fn run() -> Result<(), Error> {
    let [left, right] = <[_; 2]>::try_from(open_loopback(2)?).map_err(|_| "a wire has two ends")?;
    let [alpha, beta] = ["alpha", "beta"].map(|name| Name::new(name).ok_or("not a name"));
    let (name, mut alpha, mut beta) = (beta?, Side::open(alpha?, left)?, Side::open(beta?, right)?);
    let mut now = Time::default();
    let to = alpha.engine.core_mut().connect(now, alpha.endpoint, (name, name, 0), true)?;
    while !matches!(alpha.engine.core().state(to), FlowState::Open { .. }) {
        now.0 += TICK;
        alpha.turn(now)?;
        beta.turn(now)?;
    }
    announce()?;
    for messages in Mode::now().trips() {
        now.0 += TICK;
        trip([&mut alpha, &mut beta], to, messages, now)?;
    }
    Ok(())
}

fn trip([alpha, beta]: [&mut Side; 2], to: FlowId, messages: u64, now: Time) -> Result<(), Error> {
    let before = (alpha.handled, beta.handled);
    enter(Step::Request as u8);
    let asked = (0..messages).try_for_each(|_| alpha.send(to, Class::Request, &PAYLOAD));
    enter(Step::Leave as u8);
    alpha.exhale(now);
    enter(Step::Serve as u8);
    let served = beta.turn_until(before.1 + messages, now);
    enter(Step::Answer as u8);
    let answered = alpha.turn_until(before.0 + messages, now);
    let mut idle = Ok(());
    if Mode::now().has_idle_turns(messages) {
        enter(Step::Idle as u8);
        idle = beta.turn(now).and_then(|()| alpha.turn(now));
    }
    enter(Step::Outside as u8);
    asked.and(served).and(answered).and(idle)?;
    if (alpha.handled, beta.handled) != (before.0 + messages, before.1 + messages) {
        return Err("not all that was sent was handled".into());
    }
    Ok(())
}
