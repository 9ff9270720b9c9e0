//! Two nodes with a wire between them, polled in turn by one thread.

pub mod daemon;
pub mod fated;
mod over;
mod turned;

use std::time::{Duration, Instant};

use am_api::{Builder, Connection, Endpoint, Framing, Node, Problem, Transport};
use am_transport::loopback;
use fated::fated;

/// Which transport the tests run over, of those in [`over`]; a wire in memory without it.
pub const OVER: &str = "AM_TEST_OVER";

/// The two ends of a link.
pub fn pair() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let (left, right) = match std::env::var(OVER) {
        Ok(which) => over::pair(&which),
        Err(_) => return in_memory(),
    };
    (fated(left), fated(right))
}

/// The two ends of this one of the links in [`over`].
pub fn pair_over(which: &str) -> (Box<dyn Transport>, Box<dyn Transport>) {
    if which == "loopback" { in_memory() } else { over::pair(which) }
}

/// The two ends of a wire in memory, for tests of just that.
pub fn in_memory() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let [left, right] = loopback::pair().map(|plug| fated(Box::new(plug.open().expect("memory"))));
    (left, right)
}

/// Longer than anything here takes when nothing is wrong.
pub const LONG: Duration = Duration::from_secs(30);

/// As usual, but without finding out the framing first.
pub fn plain(name: &str) -> Builder {
    Node::builder(name).framing(Framing::Plain)
}

/// A node with one endpoint, its state beside it.
pub struct Side<S> {
    /// The node.
    pub node: Node,
    /// Its endpoint `main`.
    pub endpoint: Endpoint<S>,
    /// What the handlers work on.
    pub state: S,
}

impl<S: Default> Side<S> {
    /// A node of this builder on this transport, with an endpoint.
    pub fn open(builder: Builder, transport: Box<dyn Transport>) -> Self {
        let node = builder.open_on(transport).expect("a node");
        let endpoint = node.endpoint("main").expect("an endpoint");
        Side { node, endpoint, state: S::default() }
    }

    /// One turn.
    pub fn poll(&mut self) -> usize {
        self.endpoint.poll(&mut self.state)
    }

    /// The counter of this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.node.counters().get(name)
    }
}

/// What is wrong with this node. That a busy machine kept its thread from polling is a problem of that machine, and is
/// reported only where there is no other.
pub fn problem_of(node: &Node) -> Option<Problem> {
    node.health().err().filter(|problem| !matches!(problem, Problem::Late(_)))
}

/// Nodes `alpha` and `beta` on one wire.
pub fn nodes<A: Default, B: Default>(alpha: Builder, beta: Builder) -> (Side<A>, Side<B>) {
    let (left, right) = pair();
    (Side::open(alpha, left), Side::open(beta, right))
}

/// Poll both until it is so; fails the test when it never is.
pub fn until<A: Default, B: Default>(
    alpha: &mut Side<A>,
    beta: &mut Side<B>,
    what: &str,
    mut so: impl FnMut(&mut Side<A>, &mut Side<B>) -> bool,
) {
    let start = Instant::now();
    while !so(alpha, beta) {
        alpha.poll();
        beta.poll();
        assert!(
            start.elapsed() < LONG,
            "still not: {what}\nalpha:\n{}beta:\n{}",
            alpha.node.counters(),
            beta.node.counters()
        );
    }
}

/// `alpha` connected to `beta`.
pub fn connect<A: Default, B: Default>(alpha: &mut Side<A>, beta: &mut Side<B>) -> Connection {
    let to = alpha.endpoint.connect("beta", "main").expect("a connection asked for");
    until(alpha, beta, "connected", |alpha, _| alpha.endpoint.is_open(to));
    to
}

/// Two plain nodes, connected.
pub fn connected<A: Default, B: Default>() -> (Side<A>, Side<B>, Connection) {
    let (mut alpha, mut beta) = nodes(plain("alpha"), plain("beta"));
    let to = connect(&mut alpha, &mut beta);
    (alpha, beta, to)
}
