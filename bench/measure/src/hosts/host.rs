//! One host: a node, its endpoints, and the requests that it sends.

use std::mem;
use std::time::{Duration, Instant};

use am_api::{Address, Builder, Connection, Endpoint, EndpointSet, HandlerId, Node, NotOpen, Request, Transport};

use super::{HostPlan, Tally};
use crate::channel::Arrived;
use crate::content::Content;
use crate::drivers::am::{as_asked, facility};
use crate::error::Error;
use crate::plan::DriverOptions;

const WORK: HandlerId = HandlerId(0);
/// Words of a request and of a reply: when it was sent, and to which target. Four words of 32 bits in the paper.
pub const WORD_BYTES: usize = 16;

/// The time of a host.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostClock {
    /// The machine's, since then.
    Machine(Instant),
    /// Nanoseconds of virtual time.
    Virtual(u64),
}

impl HostClock {
    pub(super) fn now(&self) -> u64 {
        match self {
            HostClock::Machine(begin) => begin.elapsed().as_nanos() as u64,
            HostClock::Virtual(now) => *now,
        }
    }
}

/// The state of its handlers.
struct State {
    clock: HostClock,
    content: Content,
    arrived: Arrived,
    in_flight: Vec<u32>,
    tally: Tally,
}

/// The endpoints of a host.
enum Endpoints {
    One(Endpoint<State>),
    /// Polled together, by weighted visits. Such a host only answers.
    Several(EndpointSet<State>),
}

pub(super) struct Host {
    node: Node,
    endpoints: Endpoints,
    state: State,
    plan: HostPlan,
    /// To the targets that it reached so far.
    to: Vec<Connection>,
    /// An open attempt to reach the next one.
    next: Option<Connection>,
    counting_since: u64,
}

/// Settings of a node for this plan. `peers` are known without discovery.
pub(super) fn builder(plan: &HostPlan, how: DriverOptions, peers: &[(String, Address)]) -> Builder {
    let builder = plan.member.as_ref().map_or_else(|| Node::builder(&plan.name), |member| member.builder());
    peers.iter().fold(as_asked(builder, how), |builder, (name, address)| builder.peer(name, *address))
}

impl Host {
    pub(super) fn open(
        builder: Builder,
        plan: HostPlan,
        transport: Box<dyn Transport>,
        clock: HostClock,
    ) -> Result<Host, Error> {
        let node = builder.open_on(transport).map_err(facility)?;
        let endpoint = |name: &String| {
            let mut endpoint: Endpoint<State> = node.endpoint(name).map_err(facility)?;
            endpoint.on_request(WORK, |state, Request { message, token }| {
                state.content.count(message.payload(), &mut state.arrived);
                // Fails only if the sender is gone.
                let _ = token.reply(WORK, message.words(), &[]);
            });
            endpoint.on_reply(WORK, |state, reply| {
                state.settle(reply.word(1));
                state.tally.answered += 1;
                let time = state.clock.now().saturating_sub(reply.word(0));
                state.tally.round_trips.saturating_record(time);
                state.tally.wrong += u64::from(!reply.payload().is_empty());
            });
            endpoint.on_returned(|state, returned| {
                state.settle(returned.message.word(1));
                state.tally.returned += 1;
            });
            Ok::<_, Error>(endpoint)
        };
        let endpoints = match plan.endpoints.as_slice() {
            [one] => Endpoints::One(endpoint(one)?),
            several => {
                let mut set = EndpointSet::new(&node);
                for name in several {
                    set.insert(endpoint(name)?).unwrap_or_else(|_| unreachable!("it is of this node"));
                }
                Endpoints::Several(set)
            }
        };
        let content = Content::of(plan.size.saturating_sub(WORD_BYTES));
        let in_flight = vec![0; plan.targets.len()];
        let state = State { clock, content, arrived: Arrived::default(), in_flight, tally: Tally::default() };
        Ok(Host { node, endpoints, state, plan, to: Vec::new(), next: None, counting_since: 0 })
    }

    /// Whether all its targets are reached.
    pub(super) fn is_ready(&self) -> bool {
        self.to.len() == self.plan.targets.len()
    }

    pub(super) fn set_time(&mut self, now: u64) {
        self.state.clock = HostClock::Virtual(now);
    }

    /// Poll the endpoints, or wait at them for so long, and send. Returns whether there was anything to do.
    pub(super) fn turn(&mut self, wait: Option<Duration>) -> Result<bool, Error> {
        let Host { endpoints, state, .. } = self;
        let handled = match (endpoints, wait) {
            (Endpoints::One(endpoint), Some(longest)) => endpoint.wait(state, longest),
            (Endpoints::One(endpoint), None) => endpoint.poll(state),
            (Endpoints::Several(set), Some(longest)) => set.wait(state, longest),
            (Endpoints::Several(set), None) => set.poll(state),
        };
        Ok(self.send()? + handled > 0)
    }

    /// Reach the next target. A target that is not there yet is asked again.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let Some((node, name)) = self.plan.targets.get(self.to.len()) else { return Ok(()) };
        let Endpoints::One(endpoint) = &mut self.endpoints else { return Ok(()) };
        match self.next.map(|to| (to, endpoint.ready(to))) {
            Some((to, Ok(()))) => {
                self.to.push(to);
                self.next = None;
            }
            Some((_, Err(NotOpen::Connecting))) => {}
            failed => {
                failed.iter().for_each(|(to, _)| endpoint.close(*to));
                self.next = Some(endpoint.connect(node, name).map_err(facility)?);
            }
        }
        Ok(())
    }

    /// Send as much as plan and credits allow, with one doorbell. Returns how many requests were sent.
    fn send(&mut self) -> Result<usize, Error> {
        let (Endpoints::One(endpoint), true) = (&self.endpoints, self.is_ready()) else { return Ok(0) };
        let (state, mut sent) = (&mut self.state, 0);
        let now = state.clock.now();
        for (nth, to) in self.to.iter().enumerate() {
            while state.in_flight[nth] < self.plan.outstanding {
                match endpoint.try_request(*to, WORK, &[now, nth as u64], state.content.bytes()) {
                    Ok(()) => {}
                    Err(error) if error.is_temporary() => break,
                    Err(error) => return Err(Error::Lost(format!("{}: {error}", self.plan.name))),
                }
                state.in_flight[nth] += 1;
                sent += 1;
            }
        }
        if sent > 0 {
            endpoint.flush();
        }
        Ok(sent)
    }

    /// How often it served one of several endpoints, and looked at one without messages.
    pub(super) fn visits_and_looks(&self) -> (u64, u64) {
        match &self.endpoints {
            Endpoints::One(_) => (0, 0),
            Endpoints::Several(set) => set.visits_and_looks(),
        }
    }

    /// Begin to count.
    pub(super) fn start_counting(&mut self) {
        self.state.tally = Tally::default();
        self.counting_since = self.state.clock.now();
    }

    /// What was counted since.
    pub(super) fn stop_counting(&mut self) -> Tally {
        let counters = self.node.counters();
        let time = Duration::from_nanos(self.state.clock.now().saturating_sub(self.counting_since));
        let tally = mem::take(&mut self.state.tally);
        Tally {
            time,
            wrong: tally.wrong + self.state.arrived.wrong,
            rejects_sent: counters.get("rejects_sent") + counters.get("xdp_bounced"),
            retransmitted: counters.get("retransmitted"),
            requests: counters.get("requests_received"),
            acks: counters.get("acks_received"),
            ..tally
        }
    }
}

impl State {
    /// A request to this target is no longer in flight.
    fn settle(&mut self, target: u64) {
        if let Some(in_flight) = self.in_flight.get_mut(target as usize) {
            *in_flight = in_flight.saturating_sub(1);
        }
    }
}
