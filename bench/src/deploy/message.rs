//! Sends a plan as a request, and its answer as the reply.

use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, HandlerId, Message, NotOpen, Request, RequestError};

use crate::driver::am::facility;
use crate::error::Error;
use crate::out::status;
use crate::plan::{Answer, DriverOptions, Plan, SideInfo};
use crate::serve::answer;
use crate::session::{LocatedLink, PlanChannel};
use crate::watch::Watch;

use super::ANSWER_TIMEOUT;
use super::any_link::AnyLink;

const ENDPOINT: &str = "am-bench-plans";
const PLAN: HandlerId = HandlerId(0);
/// How often a waiting side checks whether to go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// A present peer answers within this time. After it, the user is told what is waited for.
const NOTICE_DELAY: Duration = Duration::from_millis(700);
/// How often a listening side checks its interface.
const INTERFACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the far side stays after its answer, in case the answer is lost.
const CONFIRM_TIME: Duration = Duration::from_millis(500);

/// The near side.
#[derive(Debug)]
pub(crate) struct PlanSender<'a> {
    pub(crate) link: AnyLink,
    pub(crate) peer: &'a str,
}

/// The wait for the peer's answer.
struct AnswerWait {
    since: Instant,
    /// Whether the user was told.
    said: bool,
}

impl PlanChannel for PlanSender<'_> {
    fn ask(&mut self, plan: &Plan, watch: &Watch) -> Result<SideInfo, Error> {
        let node = self.link.node(plan.how, watch)?;
        let mut endpoint: Endpoint<Option<Answer>> = node.endpoint(ENDPOINT).map_err(facility)?;
        self.ask_by(&mut endpoint, plan, watch).map_err(|error| match error {
            Error::PeerUnknown { name, on, waited, .. } => {
                node.health().err().into_iter().for_each(|problem| status(&problem.to_string()));
                let other_nodes = node.peers().iter().map(|peer| peer.name.to_string()).collect();
                Error::PeerUnknown { name, on, waited, other_nodes }
            }
            other => other,
        })
    }
}

impl PlanSender<'_> {
    fn ask_by(&self, endpoint: &mut Endpoint<Option<Answer>>, plan: &Plan, watch: &Watch) -> Result<SideInfo, Error> {
        endpoint.on_reply(PLAN, |answer, reply| *answer = Some(parse(&reply)));
        let payload = serde_json::to_vec(plan).map_err(facility)?;
        let waiting = &mut AnswerWait { since: Instant::now(), said: false };
        let mut answer = None;
        let to = self.connect(endpoint, &mut answer, waiting, watch)?;
        self.request(endpoint, &mut answer, to, &payload, waiting, watch)?;
        while answer.is_none() {
            endpoint.wait(&mut answer, CHECK_INTERVAL);
            self.check(waiting, watch)?;
        }
        answer.ok_or_else(|| self.unknown())?.into_place()
    }

    fn connect(
        &self,
        endpoint: &mut Endpoint<Option<Answer>>,
        answer: &mut Option<Answer>,
        waiting: &mut AnswerWait,
        watch: &Watch,
    ) -> Result<Connection, Error> {
        let mut to = endpoint.connect(self.peer, ENDPOINT).map_err(facility)?;
        loop {
            match endpoint.ready(to) {
                Ok(()) => return Ok(to),
                Err(NotOpen::Connecting) => {}
                // The peer may be busy with another near side, or not be there yet.
                Err(_) => {
                    endpoint.close(to);
                    to = endpoint.connect(self.peer, ENDPOINT).map_err(facility)?;
                }
            }
            endpoint.wait(answer, CHECK_INTERVAL);
            self.check(waiting, watch)?;
        }
    }

    fn request(
        &self,
        endpoint: &mut Endpoint<Option<Answer>>,
        answer: &mut Option<Answer>,
        to: Connection,
        payload: &[u8],
        waiting: &mut AnswerWait,
        watch: &Watch,
    ) -> Result<(), Error> {
        loop {
            match endpoint.try_request(to, PLAN, &[], payload) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_temporary() => {}
                Err(RequestError::Dead(_)) => return Err(self.unknown()),
                Err(error) => return Err(facility(error)),
            }
            endpoint.wait(answer, CHECK_INTERVAL);
            self.check(waiting, watch)?;
        }
    }

    fn check(&self, waiting: &mut AnswerWait, watch: &Watch) -> Result<(), Error> {
        watch.check()?;
        let waited = waiting.since.elapsed();
        if waited > NOTICE_DELAY && !std::mem::replace(&mut waiting.said, true) {
            status(&format!("waiting for {} on {}, {} s at most", self.peer, self.link.on(), ANSWER_TIMEOUT.as_secs()));
        }
        if waited > ANSWER_TIMEOUT { Err(self.unknown()) } else { Ok(()) }
    }

    fn unknown(&self) -> Error {
        Error::PeerUnknown {
            name: self.peer.to_owned(),
            on: self.link.on(),
            waited: ANSWER_TIMEOUT,
            other_nodes: Vec::new(),
        }
    }
}

fn parse<S>(reply: &Message<'_, S>) -> Answer {
    serde_json::from_slice(reply.payload())
        .unwrap_or_else(|e| Answer::Refused(format!("its answer cannot be parsed: {e}")))
}

/// What the far side knows while it listens.
#[derive(Default)]
struct Listener {
    plan: Option<Plan>,
    hung_up: bool,
}

/// Wait for a plan that this side can follow, and accept it; refuse all others. `ready` is called once this side
/// listens.
///
/// # Errors
/// The interface cannot be used or has changed; or [`Error::Interrupted`].
pub(crate) fn listen(link: &AnyLink, how: DriverOptions, watch: &Watch, ready: impl FnOnce()) -> Result<Plan, Error> {
    let interface = link.interface()?;
    let node = link.node(how, watch)?;
    let mut endpoint: Endpoint<Listener> = node.endpoint(ENDPOINT).map_err(facility)?;
    let here = link.clone();
    endpoint.on_request(PLAN, move |listening, Request { message: request, token }| {
        let answer = listening.hear(&request, here.here());
        let payload = serde_json::to_vec(&answer).unwrap_or_default();
        // Fails only if the near side is gone.
        let _ = token.reply(PLAN, &[], &payload);
    });
    endpoint.on_connection(|listening, event| listening.hung_up |= matches!(event.change, ConnectionChange::Ended(_)));

    let (mut listening, mut looked, mut known) = (Listener::default(), Instant::now(), None);
    ready();
    loop {
        endpoint.wait(&mut listening, CHECK_INTERVAL);
        watch.check()?;
        if looked.elapsed() > INTERFACE_CHECK_INTERVAL {
            looked = Instant::now();
            // A node that was opened on the earlier interface receives nothing, or not everything.
            if link.interface()? != interface {
                return Err(Error::Facility(format!("the MTU, address or driver of {} has changed", link.on())));
            }
            let problem = node.health().err();
            problem.iter().filter(|_| problem != known).for_each(|problem| status(&problem.to_string()));
            known = problem;
        }
        // The plan stays, so that other near sides are refused meanwhile.
        if let Some(plan) = listening.plan.clone() {
            // The near side closes once it has the answer. Stay until then.
            listening.hung_up = false;
            endpoint.wait_until(&mut listening, CONFIRM_TIME, |listening| listening.hung_up);
            return Ok(plan);
        }
    }
}

impl Listener {
    fn hear(&mut self, request: &Message<'_, Listener>, here: Result<SideInfo, Error>) -> Answer {
        let plan: Plan = match serde_json::from_slice(request.payload()) {
            Ok(plan) => plan,
            Err(error) => return Answer::Refused(format!("it cannot parse the plan: {error}")),
        };
        if self.plan.is_some() {
            return Answer::Refused("it is busy with another near side".to_owned());
        }
        let answer = answer(&plan, here);
        if let Answer::Accepted(_) = answer {
            self.plan = Some(plan);
        }
        answer
    }
}
