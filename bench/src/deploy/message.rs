//! A plan as an active message, and its answer as the reply.

use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, HandlerId, Message, NotOpen, Request, RequestError};

use crate::error::Error;
use crate::out::note;
use crate::plan::{Answer, How, Place, Plan};
use crate::serve::answer;
use crate::session::{Control, Placed};
use crate::via::am::facility;
use crate::watch::Watch;

use super::ANSWER;
use super::anchor::Anchor;

const ENDPOINT: &str = "am-bench-plans";
const PLAN: HandlerId = HandlerId(0);
/// A side that waits looks so often whether it still should.
const LOOK: Duration = Duration::from_millis(50);
/// A peer that is there has answered in less; for another one the user learns what is waited for.
const LONG: Duration = Duration::from_millis(700);
/// A side that listens looks so often whether its interface is as it was.
const LOOK_AT_INTERFACE: Duration = Duration::from_secs(1);
/// The far side stays so long after its answer, to send it again if need be.
const STAY: Duration = Duration::from_millis(500);

/// The near side.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    /// The way to it.
    pub(crate) link: Anchor,
    /// Who is asked.
    pub(crate) peer: &'a str,
}

/// For the peer's answer.
struct Waiting {
    since: Instant,
    /// The user knows.
    said: bool,
}

impl Control for Asking<'_> {
    fn ask(&mut self, plan: &Plan, watch: &Watch) -> Result<Place, Error> {
        let node = self.link.node(plan.how, watch)?;
        let mut endpoint: Endpoint<Option<Answer>> = node.endpoint(ENDPOINT).map_err(facility)?;
        self.ask_by(&mut endpoint, plan, watch).map_err(|error| match error {
            Error::PeerUnknown { name, on, waited, .. } => {
                node.health().err().into_iter().for_each(|problem| note(&problem.to_string()));
                let heard = node.peers().iter().map(|peer| peer.name.to_string()).collect();
                Error::PeerUnknown { name, on, waited, heard }
            }
            other => other,
        })
    }
}

impl Asking<'_> {
    fn ask_by(&self, endpoint: &mut Endpoint<Option<Answer>>, plan: &Plan, watch: &Watch) -> Result<Place, Error> {
        endpoint.on_reply(PLAN, |answer, reply| *answer = Some(parse(&reply)));
        let payload = serde_json::to_vec(plan).map_err(facility)?;
        let waiting = &mut Waiting { since: Instant::now(), said: false };
        let mut answer = None;
        let to = self.connect(endpoint, &mut answer, waiting, watch)?;
        self.request(endpoint, &mut answer, to, &payload, waiting, watch)?;
        while answer.is_none() {
            endpoint.wait(&mut answer, LOOK);
            self.check(waiting, watch)?;
        }
        answer.ok_or_else(|| self.unknown())?.into_place()
    }

    fn connect(
        &self,
        endpoint: &mut Endpoint<Option<Answer>>,
        answer: &mut Option<Answer>,
        waiting: &mut Waiting,
        watch: &Watch,
    ) -> Result<Connection, Error> {
        let mut to = endpoint.connect(self.peer, ENDPOINT).map_err(facility)?;
        loop {
            match endpoint.ready(to) {
                Ok(()) => return Ok(to),
                Err(NotOpen::Connecting) => {}
                // It may be busy with another, or not be there yet.
                Err(_) => {
                    endpoint.close(to);
                    to = endpoint.connect(self.peer, ENDPOINT).map_err(facility)?;
                }
            }
            endpoint.wait(answer, LOOK);
            self.check(waiting, watch)?;
        }
    }

    fn request(
        &self,
        endpoint: &mut Endpoint<Option<Answer>>,
        answer: &mut Option<Answer>,
        to: Connection,
        payload: &[u8],
        waiting: &mut Waiting,
        watch: &Watch,
    ) -> Result<(), Error> {
        loop {
            match endpoint.try_request(to, PLAN, &[], payload) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_temporary() => {}
                Err(RequestError::Dead(_)) => return Err(self.unknown()),
                Err(error) => return Err(facility(error)),
            }
            endpoint.wait(answer, LOOK);
            self.check(waiting, watch)?;
        }
    }

    fn check(&self, waiting: &mut Waiting, watch: &Watch) -> Result<(), Error> {
        watch.check()?;
        let waited = waiting.since.elapsed();
        if waited > LONG && !std::mem::replace(&mut waiting.said, true) {
            note(&format!("waiting for {} on {}, {} s at most", self.peer, self.link.on(), ANSWER.as_secs()));
        }
        if waited > ANSWER { Err(self.unknown()) } else { Ok(()) }
    }

    fn unknown(&self) -> Error {
        Error::PeerUnknown { name: self.peer.to_owned(), on: self.link.on(), waited: ANSWER, heard: Vec::new() }
    }
}

fn parse<S>(reply: &Message<'_, S>) -> Answer {
    serde_json::from_slice(reply.payload())
        .unwrap_or_else(|e| Answer::Refused(format!("its answer makes no sense: {e}")))
}

/// What the far side knows while it listens.
#[derive(Default)]
struct Listening {
    plan: Option<Plan>,
    hung_up: bool,
}

/// Wait for a plan that can be followed, and accept it; refuse all others.
/// `ready` is called once it listens.
///
/// # Errors
/// The interface cannot be used, or no longer as it is; or [`Error::Interrupted`].
pub(crate) fn listen(link: &Anchor, how: How, watch: &Watch, ready: impl FnOnce()) -> Result<Plan, Error> {
    let interface = link.interface()?;
    let node = link.node(how, watch)?;
    let mut endpoint: Endpoint<Listening> = node.endpoint(ENDPOINT).map_err(facility)?;
    let here = link.clone();
    endpoint.on_request(PLAN, move |listening, Request { message: request, token }| {
        let answer = listening.hear(&request, here.here());
        let payload = serde_json::to_vec(&answer).unwrap_or_default();
        // Refused only where the one who asked is gone.
        let _ = token.reply(PLAN, &[], &payload);
    });
    endpoint.on_connection(|listening, event| listening.hung_up |= matches!(event.change, ConnectionChange::Ended(_)));

    let (mut listening, mut looked, mut known) = (Listening::default(), Instant::now(), None);
    ready();
    loop {
        endpoint.wait(&mut listening, LOOK);
        watch.check()?;
        if looked.elapsed() > LOOK_AT_INTERFACE {
            looked = Instant::now();
            // What was opened on the one before hears nothing, or not all.
            if link.interface()? != interface {
                return Err(Error::Facility(format!("{} has another MTU, address or driver than before", link.on())));
            }
            let problem = node.health().err();
            problem.iter().filter(|_| problem != known).for_each(|problem| note(&problem.to_string()));
            known = problem;
        }
        // It stays, so that whoever else asks meanwhile is refused.
        if let Some(plan) = listening.plan.clone() {
            // The near side hangs up once it has the answer; until then we are there.
            listening.hung_up = false;
            endpoint.wait_until(&mut listening, STAY, |listening| listening.hung_up);
            return Ok(plan);
        }
    }
}

impl Listening {
    fn hear(&mut self, request: &Message<'_, Listening>, here: Result<Place, Error>) -> Answer {
        let plan: Plan = match serde_json::from_slice(request.payload()) {
            Ok(plan) => plan,
            Err(error) => return Answer::Refused(format!("the plan makes no sense to it: {error}")),
        };
        if self.plan.is_some() {
            return Answer::Refused("it is busy with another".to_owned());
        }
        let answer = answer(&plan, here);
        if let Answer::Accepted(_) = answer {
            self.plan = Some(plan);
        }
        answer
    }
}
