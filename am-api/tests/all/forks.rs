//! A process with a node is forked. The child's copy of the node has no connection and touches nothing: whatever the child does with it,
//! the parent's goes on.
#![allow(unsafe_code, reason = "fork")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use am_api::{
    ConnectError, Endpoint, EndpointError, Events, HandlerId, Node, NotOpen, OwnedMessage, Prepared, Problem,
    ReplyError, RequestError, ReturnReason, Rights, Token,
};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::common::{self, Side, plain, problem_of, until};

const ASK: HandlerId = HandlerId(0);
const KEEP: HandlerId = HandlerId(1);

/// Those of this process that need no rights, and the wire of `AM_TEST_OVER`.
const LINKS: [&str; 8] = ["loopback", "sim", "shm", "udp", "tcp", "both", "amd", "amd-alone"];

fn links() -> Vec<String> {
    std::env::var(common::OVER).map_or_else(|_| LINKS.map(str::to_owned).into(), |which| vec![which])
}

/// How the child is made. `clone` runs no handler of the C library, so the heap stays locked if another thread was using it: such a child
/// may allocate only if its parent has one thread.
#[derive(Clone, Copy, Debug)]
enum By {
    Fork,
    Clone,
}

/// Run this in a child, and wait for it. The child ends without the end of its parent's threads.
fn in_child(by: By, run: impl FnOnce()) {
    let forked = match by {
        // SAFETY: the child allocates, as a child of this C library may.
        By::Fork => unsafe { fork() }.expect("a child"),
        // SAFETY: the child does not allocate, or its parent, a forked child, has one thread.
        By::Clone => match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            0 => ForkResult::Child,
            child => ForkResult::Parent { child: Pid::from_raw(child as i32) },
        },
    };
    match forked {
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)), "what the child asserts holds");
        }
        ForkResult::Child => {
            let failed = catch_unwind(AssertUnwindSafe(run)).is_err();
            // SAFETY: it ends the process.
            unsafe { libc::_exit(i32::from(failed)) }
        }
    }
}

#[derive(Default)]
struct Asked {
    answers: Vec<u64>,
    returned: usize,
    ended: usize,
}

#[derive(Default)]
struct Served {
    requests: usize,
    tokens: Vec<Token>,
    kept: Vec<OwnedMessage>,
}

struct Pair {
    alpha: Side<Asked>,
    beta: Side<Served>,
    to: am_api::Connection,
    last: u64,
}

impl Pair {
    fn over(link: &str) -> Pair {
        let (left, right) = common::pair_over(link);
        let (mut alpha, mut beta) = (Side::open(plain("alpha"), left), Side::<Served>::open(plain("beta"), right));
        alpha.endpoint.on_reply(ASK, |asked: &mut Asked, reply| asked.answers.push(reply.word(0)));
        alpha.endpoint.on_returned(|asked, _| asked.returned += 1);
        alpha.endpoint.on_connection(|asked, event| {
            asked.ended += usize::from(matches!(event.change, am_api::ConnectionChange::Ended(_)));
        });
        beta.endpoint.on_request(ASK, |served: &mut Served, request| {
            served.requests += 1;
            request.token.reply(ASK, &[request.message.word(0)], b"").expect("the connection is open");
        });
        beta.endpoint.on_request(KEEP, |served: &mut Served, request| {
            served.kept.push(request.message.keep());
            served.tokens.push(request.token);
        });
        let to = common::connect(&mut alpha, &mut beta);
        Pair { alpha, beta, to, last: 0 }
    }

    fn send(&mut self) {
        self.last += 1;
        self.alpha
            .endpoint
            .request(&mut self.alpha.state, self.to, ASK, &[self.last], b"")
            .expect("the connection is open");
    }

    /// The parent's connection works, and nothing was lost or sent twice.
    fn works(&mut self, link: &str) {
        for _ in 0..4 {
            self.send();
            let (last, what) = (self.last, format!("an answer over {link}"));
            until(&mut self.alpha, &mut self.beta, &what, |alpha, _| alpha.state.answers.last() == Some(&last));
        }
        let all: Vec<u64> = (1..=self.last).collect();
        assert_eq!((&self.alpha.state.answers, self.beta.state.requests), (&all, all.len()), "{link}");
        assert_eq!((self.alpha.state.returned, self.alpha.state.ended), (0, 0), "{link}");
        assert!(self.alpha.endpoint.is_open(self.to), "{link}");
        assert_eq!((problem_of(&self.alpha.node), problem_of(&self.beta.node)), (None, None), "{link}");
    }
}

#[test]
fn a_child_drops_its_copies() {
    for link in links() {
        let mut pair = Pair::over(&link);
        pair.works(&link);
        // Some are on their way, and some have not left.
        (0..3).for_each(|_| pair.send());
        pair.alpha.endpoint.flush();
        pair.send();
        let mut pair = Some(pair);
        in_child(By::Fork, || drop(pair.take()));
        pair.as_mut().expect("the parent's").works(&link);
    }
}

#[test]
fn each_call_of_a_child_fails_and_says_why() {
    for link in links() {
        let mut pair = Pair::over(&link);
        pair.works(&link);
        pair.alpha.endpoint.request(&mut pair.alpha.state, pair.to, KEEP, &[], b"kept").expect("it is open");
        until(&mut pair.alpha, &mut pair.beta, "a token", |_, beta| !beta.state.tokens.is_empty());
        let prepared = pair.alpha.endpoint.prepare(pair.to, ASK, &[0], 8, 8).expect("it is open");
        let mut parts = Some((pair, prepared));
        in_child(By::Fork, || {
            let (mut pair, prepared) = parts.take().expect("a copy");
            refuses(&mut pair, prepared);
            // A grandchild is a child, too.
            let mut pair = Some(pair);
            in_child(By::Clone, || drop(pair.take()));
            let pair = pair.expect("it is this process's");
            assert_eq!(pair.alpha.endpoint.ready(pair.to), Err(NotOpen::Dead(ReturnReason::Forked)));
        });
        let (mut pair, prepared) = parts.expect("the parent's");
        drop((prepared, pair.beta.state.tokens.pop()));
        pair.works(&link);
    }
}

fn refuses(pair: &mut Pair, prepared: Prepared) {
    let forked = RequestError::Dead(ReturnReason::Forked);
    let Pair { alpha, beta, to, .. } = pair;
    let Side { endpoint, node, state } = alpha;
    assert_eq!(endpoint.try_request(*to, ASK, &[9], b""), Err(forked));
    assert_eq!(endpoint.request(state, *to, ASK, &[9], &[1; 1400]), Err(forked));
    assert!(forked.to_string().ends_with("open a node in this process"), "{forked}");
    assert_eq!(prepared.commit(8).map_err(|(error, _)| error), Err(forked));
    assert!(endpoint.prepare(*to, ASK, &[], 0, 8).is_err_and(|error| error == forked));
    assert_eq!(endpoint.ready(*to), Err(NotOpen::Dead(ReturnReason::Forked)));
    let error = endpoint.wait_open(state, *to, common::LONG).expect_err("forked");
    assert_eq!(error.why, NotOpen::Dead(ReturnReason::Forked));
    assert_eq!(endpoint.connect("beta", "main"), Err(ConnectError::Forked));
    assert!(node.endpoint::<()>("another").is_err_and(|error| error == EndpointError::Forked));
    assert!(matches!(node.health(), Err(Problem::Link(why)) if why.contains("forked")));
    assert_eq!((endpoint.poll(state), beta.endpoint.poll(&mut beta.state)), (0, 0), "no handler runs");
    endpoint.set_event_mask(Events::all());
    assert_eq!(endpoint.wait_events(std::time::Duration::from_millis(1)), Events::empty());
    endpoint.poll_events().expect("a descriptor");
    node.waker().expect("a descriptor").wake();
    assert_eq!((node.members(), node.peers(), endpoint.credit(*to)), (vec![], vec![], 0));
    let token = beta.state.tokens.pop().expect("one was kept");
    assert_eq!(token.reply(ASK, &[9], b""), Err(ReplyError::Dead(ReturnReason::Forked)));
    assert_eq!(&beta.state.kept.pop().expect("one was kept")[..], b"kept");
    endpoint.register(vec![0; 64], Rights::BOTH);
    endpoint.close(*to);
    // The child may have nodes of its own.
    let (mut one, mut other) = {
        let (left, right) = common::in_memory();
        (Side::<u64>::open(plain("child"), left), Side::<u64>::open(plain("beta"), right))
    };
    other.endpoint.on_request(ASK, |seen, request| *seen = request.message.word(0));
    let to = common::connect(&mut one, &mut other);
    one.endpoint.try_request(to, ASK, &[7], b"").expect("it is open");
    until(&mut one, &mut other, "a message", |_, other| other.state == 7);
}

/// The child of a handler goes on after it.
#[test]
fn a_child_returns_from_the_handler_that_forked() {
    for link in links() {
        let mut pair = Pair::over(&link);
        pair.beta.endpoint.on_request(KEEP, |served: &mut Served, _| {
            // SAFETY: the child allocates, as a child of this C library may.
            match unsafe { fork() }.expect("a child") {
                ForkResult::Parent { child } => _ = waitpid(child, None).expect("it ends"),
                ForkResult::Child => served.requests = usize::MAX,
            }
        });
        pair.alpha.endpoint.request(&mut pair.alpha.state, pair.to, KEEP, &[], b"").expect("it is open");
        pair.send();
        until(&mut pair.alpha, &mut pair.beta, "it forks", |_, beta| beta.state.requests > 0);
        if pair.beta.state.requests == usize::MAX {
            drop(pair);
            // SAFETY: it ends the child.
            unsafe { libc::_exit(0) }
        }
        pair.works(&link);
    }
}

/// The parent ends first, and another program takes its place.
#[test]
fn the_nodes_end_is_the_parents_alone() {
    let (left, right) = common::in_memory();
    let (alpha, beta) = (Node::open_on("alpha", left).expect("a node"), Node::open_on("beta", right).expect("a node"));
    let ends: Vec<Endpoint<()>> = [&alpha, &beta].map(|node| node.endpoint("main").expect("an endpoint")).into();
    [By::Fork, By::Clone].into_iter().for_each(|by| in_child(by, || assert!(am_api::is_forked_child())));
    assert!(!am_api::is_forked_child());
    drop((ends, alpha, beta));
}
