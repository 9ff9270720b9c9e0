//! Measurements between two machines that share only a network segment.
//!
//! The plan is a request, and the answer is its reply. Then both sides close their nodes, so that each driver has the
//! wire to itself. The far side listens again when the plan is finished or the near side has failed.

use std::mem;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::{ConnectionChange, Endpoint, HandlerId, Message, Node, Request, RequestError};

use crate::deploy::link::NamedLink;
use crate::drivers::am::{connect, facility};
use crate::error::Error;
use crate::out::status;
use crate::plan::{Answer, DriverOptions, Plan, SideInfo};
use crate::report::rounds;
use crate::session::{Link, Order, PlanChannel, Session, Setup, follow, run};
use crate::watch::Watch;

use super::ANSWER_TIMEOUT;
use super::veth::check_interface;

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
/// How often the far side tries to serve again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Measure against the peer. Without IP addresses on the wire, kernel UDP is left out unless the user named it.
pub(crate) fn measure(setup: Setup<'_>, mut link: NamedLink, peer: &str) -> Result<Session, Error> {
    let order = setup.order;
    let mut attempt = |order: &Order| {
        if let Some(interface) = link.interface()? {
            check_interface(&interface, &order.drivers)?;
        }
        let here = link.here()?;
        if order.drivers.iter().any(|driver| driver.is_kernel()) && here.ipv4.is_none() && here.ipv6.is_none() {
            // Only the near side's reasons are known yet.
            return Err(Error::NoIp(here.why_no_ip(&here)));
        }
        run(Setup { order, ..setup }, &mut PlanSender { link: link.clone(), peer }, &mut link)
    };
    match attempt(order) {
        Err(error @ Error::NoIp(_)) if order.may_skip_udp => {
            status(&format!("without udp: {error}"));
            let drivers = order.drivers.iter().copied().filter(|driver| !driver.is_kernel()).collect();
            attempt(&Order { drivers, ..order.clone() })
        }
        other => other,
    }
}

struct PlanSender<'a> {
    link: NamedLink,
    peer: &'a str,
}

impl PlanChannel for PlanSender<'_> {
    fn ask(&mut self, plan: &Plan, watch: &Watch) -> Result<SideInfo, Error> {
        let node = self.link.node(plan.how, watch)?;
        let mut endpoint: Endpoint<Option<Answer>> = node.endpoint(ENDPOINT).map_err(facility)?;
        endpoint.on_reply(PLAN, |answer, reply| {
            let parsed = serde_json::from_slice(reply.payload());
            let bad = |error| Answer::Refused(format!("its answer cannot be parsed: {error}"));
            *answer = Some(parsed.unwrap_or_else(bad));
        });
        let payload = serde_json::to_vec(plan).map_err(facility)?;
        let (begin, mut is_said, mut answer) = (Instant::now(), false, None);
        let mut wait = |endpoint: &mut Endpoint<_>, answer: &mut Option<Answer>| {
            endpoint.wait(answer, CHECK_INTERVAL);
            watch.check()?;
            let waited = begin.elapsed();
            if waited > NOTICE_DELAY && !mem::replace(&mut is_said, true) {
                let (on, most) = (self.link.on(), ANSWER_TIMEOUT.as_secs());
                status(&format!("waiting for {} on {on}, {most} s at most", self.peer));
            }
            if waited > ANSWER_TIMEOUT { Err(self.unknown(&node)) } else { Ok(()) }
        };
        // The peer may be busy with another near side, or not be there yet.
        let to = connect(&mut endpoint, self.peer, ENDPOINT, |endpoint| wait(endpoint, &mut answer))?;
        loop {
            match endpoint.try_request(to, PLAN, &[], &payload) {
                Ok(()) => break,
                Err(error) if error.is_temporary() => wait(&mut endpoint, &mut answer)?,
                Err(RequestError::Dead(_)) => return Err(self.unknown(&node)),
                Err(error) => return Err(facility(error)),
            }
        }
        loop {
            if let Some(answer) = answer.take() {
                return answer.into_place();
            }
            wait(&mut endpoint, &mut answer)?;
        }
    }
}

impl PlanSender<'_> {
    fn unknown(&self, node: &Node) -> Error {
        let other_nodes = node.peers().iter().map(|peer| peer.name.to_string()).collect();
        let (name, on) = (self.peer.to_owned(), self.link.on());
        let error = Error::PeerUnknown { name, on, waited: ANSWER_TIMEOUT, other_nodes };
        error.after(node.health().err().map(|problem| problem.to_string()))
    }
}

/// Be the far side until interrupted. An error with one near side is printed, and the next one is served. Once the
/// far side has listened, it waits for an interface that is down, removed or replaced.
///
/// # Errors
/// The interface cannot be used at the start, or [`Error::Interrupted`].
pub fn serve(mut link: NamedLink, options: DriverOptions, watch: &Watch) -> Result<(), Error> {
    let (name, on) = (link.node.clone(), link.on());
    let (mut is_first, mut last_error) = (true, None);
    loop {
        watch.check()?;
        let ready = || {
            if mem::take(&mut is_first) {
                status(&format!("{name} serves on {on} until Ctrl-C"));
            } else if last_error.take().is_some() {
                status(&format!("{name} serves on {on} again"));
            }
        };
        let served = listen(&link, options, watch, ready).map(|plan| {
            status(&format!("{} measures {}", plan.near.name, rounds(plan.rounds)));
            follow(&plan, &mut link, watch)
        });
        match served {
            Ok(Ok(())) => status("done"),
            Ok(Err(error @ Error::Interrupted { .. })) | Err(error @ Error::Interrupted { .. }) => return Err(error),
            Ok(Err(error)) => status(&error.to_string()),
            Err(error) if is_first => return Err(error),
            Err(error) => {
                let previous = last_error.replace(error.to_string());
                if previous != last_error {
                    status(&format!("{error}\n  {name} waits until it can serve again"));
                }
                sleep(RETRY_INTERVAL);
            }
        }
    }
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
fn listen(link: &NamedLink, how: DriverOptions, watch: &Watch, ready: impl FnOnce()) -> Result<Plan, Error> {
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
        let answer = plan.answer(here);
        if let Answer::Accepted(_) = answer {
            self.plan = Some(plan);
        }
        answer
    }
}
