//! Events of connections are logged through `tracing`, over every transport; delivered messages are not.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::common::{LONG, Side, connect, connected, nodes, plain, until};
use am_api::{Connection, HandlerId, Request};
use am_transport::loopback;
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;

const WORK: HandlerId = HandlerId(0);

/// Never the only one. Of a single dispatcher `tracing` takes the word of the thread that comes by an event
/// first, and the thread of another test has none: the event would be off for all.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

/// The lines of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn listen() -> (Lines, DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).without_time().finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// Those of this layer that have come since.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines()
            .filter_map(|line| line.trim().split_once(" am_api: "))
            .map(|(level, what)| format!("{level} {what}"))
            .collect()
    }
}

fn of<'a>(lines: &'a [String], node: &str) -> Vec<&'a str> {
    let node = format!(" node={node} ");
    lines.iter().filter(|line| line.contains(&node)).map(String::as_str).collect()
}

/// Beta counts the messages; all are handled.
fn worked(count: u64) -> (Side<u64>, Side<u64>, Connection) {
    let (mut alpha, mut beta, to) = connected::<u64, u64>();
    alpha.endpoint.on_returned(|back, _| *back += 1);
    beta.endpoint.on_request(WORK, |handled, _| *handled += 1);
    let mut sent = 0;
    until(&mut alpha, &mut beta, "handled", |alpha, beta| {
        sent += u64::from(sent < count && alpha.endpoint.try_request(to, WORK, &[], b"").is_ok());
        beta.state == count && alpha.endpoint.is_accepted(to)
    });
    (alpha, beta, to)
}

#[test]
fn connected_and_ended() {
    let (lines, _guard) = Lines::listen();
    let (mut alpha, mut beta, to) = worked(1000);
    let told = lines.take();
    assert_eq!(
        of(&told, "alpha"),
        ["INFO connected node=alpha endpoint=main peer_node=beta peer_endpoint=main by_peer=false"]
    );
    assert_eq!(
        of(&told, "beta"),
        ["INFO connected node=beta endpoint=main peer_node=alpha peer_endpoint=main by_peer=true"]
    );
    alpha.endpoint.close(to);
    let mut told = vec![];
    until(&mut alpha, &mut beta, "logged", |_, _| {
        told.extend(lines.take());
        !told.is_empty()
    });
    assert_eq!(
        told,
        ["INFO ended node=beta endpoint=main peer_node=alpha peer_endpoint=main reason=the connection was closed \
          unhandled_requests=0 unhandled_replies=0"]
    );
}

/// An endpoint takes along what is longer than a frame and has not left; its node waits for short messages, and not for a peer that is
/// silent. A program that waits until all is accepted abandons nothing.
#[test]
fn what_is_abandoned_is_logged() {
    let (lines, _guard) = Lines::listen();
    let abandoned =
        |lines: &Lines| -> Vec<String> { lines.take().into_iter().filter(|line| line.contains("abandoned")).collect() };
    let (alpha, beta, to) = worked(1);
    alpha.endpoint.try_request(to, WORK, &[], &vec![0; 1 << 20]).expect("room");
    drop((alpha, beta));
    let both = ["WARN abandoned node=alpha endpoint=main messages=1", "WARN abandoned node=alpha messages=1"];
    assert_eq!(abandoned(&lines), both, "the second is its head, a message of one frame");
    let (alpha, beta, to) = worked(1);
    (0..3).for_each(|_| alpha.endpoint.try_request(to, WORK, &[], b"").expect("room"));
    drop(alpha);
    assert_eq!(abandoned(&lines), ["WARN abandoned node=alpha messages=3"]);
    drop(beta);

    let (mut alpha, mut beta, to) = worked(1);
    alpha.endpoint.try_request(to, WORK, &[], &vec![0; 1 << 20]).expect("room");
    assert!(!alpha.endpoint.wait_accepted(&mut alpha.state, to, Duration::ZERO), "beta has not polled");
    until(&mut alpha, &mut beta, "accepted", |alpha, _| {
        alpha.endpoint.wait_accepted(&mut alpha.state, to, Duration::from_millis(1))
    });
    drop((alpha, beta));
    assert_eq!(abandoned(&lines), [""; 0]);
}

#[test]
fn all_that_comes_back_together_is_one_event() {
    let (lines, _guard) = Lines::listen();
    let (mut alpha, beta, to) = worked(1);
    lines.take();
    (0..100).for_each(|_| alpha.endpoint.try_request(to, WORK, &[], b"").unwrap());
    drop(beta);
    let start = Instant::now();
    while alpha.state < 100 {
        alpha.poll();
        assert!(start.elapsed() < LONG, "{}", alpha.state);
    }
    let told = lines.take();
    let back = "WARN returned node=alpha endpoint=main peer_node=beta peer_endpoint=main \
                reason=the connection was closed requests=100 replies=0 unknown=0";
    assert_eq!(of(&told, "alpha").iter().filter(|line| line.contains("returned")).collect::<Vec<_>>(), [&back]);
}

/// A conversation that the peer had made is forgotten when it ends.
#[test]
fn what_comes_back_on_a_peers_connection_has_its_names() {
    let (lines, _guard) = Lines::listen();
    let (mut alpha, mut beta, to) = connected::<u64, Vec<Connection>>();
    beta.endpoint.on_request(WORK, |from, Request { message: request, .. }| from.push(request.from()));
    beta.endpoint.on_returned(|from, _| from.clear());
    alpha.endpoint.try_request(to, WORK, &[], b"").unwrap();
    until(&mut alpha, &mut beta, "asked", |_, beta| !beta.state.is_empty());
    let back = beta.state[0];
    (0..3).for_each(|_| beta.endpoint.try_request(back, WORK, &[], b"").unwrap());
    drop(alpha);
    let start = Instant::now();
    while !beta.state.is_empty() {
        beta.poll();
        assert!(start.elapsed() < LONG);
    }
    let told = lines.take();
    let returned = "WARN returned node=beta endpoint=main peer_node=alpha peer_endpoint=main reason=the connection was closed \
                    requests=3 replies=0 unknown=0";
    assert!(told.iter().any(|line| line == returned), "{told:?}");
}

#[test]
fn nobody_answers() {
    let (lines, _guard) = Lines::listen();
    let patience = Duration::from_millis(100);
    let builder = |name| plain(name).patience(patience).beacon(patience).keepalive(4 * patience);
    let (mut alpha, mut beta) = nodes::<u64, u64>(builder("alpha"), builder("beta"));
    alpha.endpoint.connect("gamma", "main").unwrap();
    connect(&mut alpha, &mut beta);
    crate::common::fated::dies(beta);
    let mut told = vec![];
    let start = Instant::now();
    while of(&told, "alpha").iter().filter(|line| line.starts_with("WARN unreachable")).count() < 2 {
        alpha.endpoint.wait(&mut alpha.state, Duration::from_millis(5));
        told.extend(lines.take());
        assert!(start.elapsed() < LONG, "{told:?}");
    }
    let unreachable = |peer: &str| {
        format!(
            "WARN unreachable node=alpha endpoint=main peer_node={peer} peer_endpoint=main reason=the peer does not answer"
        )
    };
    assert!(["gamma", "beta"].iter().all(|peer| told.contains(&unreachable(peer))), "{told:?}");
    let ended = "INFO ended node=alpha endpoint=main peer_node=beta peer_endpoint=main reason=the peer does not answer";
    assert!(told.iter().any(|line| line.starts_with(ended)), "{told:?}");
}

#[test]
fn refused() {
    let (lines, _guard) = Lines::listen();
    let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha"), plain("beta"));
    let to = alpha.endpoint.connect("beta", "nothing").unwrap();
    until(&mut alpha, &mut beta, "refused", |alpha, _| alpha.endpoint.ready(to) != Err(am_api::NotOpen::Connecting));
    (0..10).for_each(|_| _ = alpha.poll());
    let expected = "WARN refused node=alpha endpoint=main peer_node=beta peer_endpoint=nothing reason=\"it has no endpoint of that name\"";
    assert_eq!(lines.take(), [expected]);
}

/// However often the two nodes are heard, the conflict is logged once a minute.
#[test]
fn two_of_one_name() {
    let (lines, _guard) = Lines::listen();
    let ends = loopback::wire(3).into_iter().map(|plug| plug.open().expect("memory"));
    let open = |(name, end)| Side::<u64>::open(plain(name).beacon(Duration::from_millis(50)), Box::new(end));
    let mut sides: Vec<_> = ["alpha", "beta", "beta"].into_iter().zip(ends).map(open).collect();
    let start = Instant::now();
    while sides[0].counter("names_contested") < 3 {
        sides.iter_mut().for_each(|side| _ = side.poll());
        assert!(start.elapsed() < LONG);
    }
    let (told, [first, second]) = (lines.take(), [1, 2].map(|at: usize| sides[at].node.link_address().to_string()));
    let told = of(&told, "alpha");
    let [line] = told[..] else { panic!("{told:?}") };
    assert!(line.starts_with("WARN contested node=alpha name=beta first="), "{line}");
    assert!(line.contains(&first) && line.contains(&second), "{line}");
}
