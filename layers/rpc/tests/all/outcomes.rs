//! Each outcome of a call.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::common::{
    Counting, EchoClient, EchoServer, LONG, MS, Missing, Store, StoreClient, drive, pair_of, peer, plain, served,
    served_by, turn, until,
};
use am_api::{Refusal, ReturnReason};
use am_rpc::{CallError, NotSent, ServeError, service};

#[test]
fn a_value_and_an_error_of_the_service() {
    let (mut sides, store, _) = served();
    let missing = CallError::Service(Missing { key: "color".into() });
    assert_eq!(drive(&mut sides, store.get("color")), Err(missing));
    assert_eq!(drive(&mut sides, store.put("color", b"green")), Ok(0));
    assert_eq!(drive(&mut sides, store.get("color")).unwrap(), b"green");
    assert_eq!(drive(&mut sides, store.put("color", b"")), Ok(5));
    assert_eq!(drive(&mut sides, store.nothing()), Ok(()));
    assert_eq!(drive(&mut sides, store.double(21)), Ok(42));
    assert_eq!(drive(&mut sides, store.sleep(3)), Ok(3));
    assert_eq!(drive(&mut sides, store.caller()).unwrap(), "alpha/rpc");
    assert_eq!(sides.map(|side| side.rpc.under_way()), [0, 0]);
}

#[test]
fn a_result_is_read_where_it_arrived() {
    let (mut sides, store, shelf) = served();
    let label = drive(&mut sides, store.label()).unwrap();
    assert_eq!(label.get(), shelf.label());
    let checked = drive(&mut sides, store.checked_label(true)).unwrap();
    assert_eq!(checked.get(), Some("label"));
    let none = drive(&mut sides, store.checked_label(false)).unwrap_err();
    assert_eq!(none, CallError::Service(Missing { key: "label".into() }));
}

#[test]
fn a_call_waits_for_its_task() {
    let (mut sides, store, shelf) = served();
    let waits = store.wait_for("color");
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    assert_eq!(drive(&mut sides, store.put("color", &[7; 3000])), Ok(0));
    assert_eq!(drive(&mut sides, waits).unwrap(), [7; 3000]);
    // Ready at once, now that it is there.
    assert_eq!(drive(&mut sides, store.wait_for("color")).unwrap().len(), 3000);
    assert_eq!((shelf.runs(), sides.map(|side| side.rpc.under_way())), (3, [0, 0]));
}

#[test]
fn a_panic_is_the_outcome_of_its_call_only() {
    let (mut sides, store, _) = served();
    assert_eq!(drive(&mut sides, store.panic()), Err(CallError::Panicked));
    let later = store.panic_later("now");
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    drive(&mut sides, store.put("now", b"")).unwrap();
    assert_eq!(drive(&mut sides, later), Err(CallError::Panicked));
    assert_eq!(drive(&mut sides, store.panic_later("now")), Err(CallError::Panicked));
    assert_eq!(drive(&mut sides, store.double(1)), Ok(2));
}

/// Its caller hears of it, and its task.
#[test]
fn a_deadline_ends_a_call_on_both_sides() {
    let (mut sides, _, shelf) = served();
    let store = StoreClient::new(&peer(&sides[0], "beta").within(300 * MS));
    let begin = Instant::now();
    assert_eq!(drive(&mut sides, store.wait_for("color")), Err(CallError::Deadline));
    assert!(begin.elapsed() >= 300 * MS, "{:?}", begin.elapsed());
    until(&mut sides, "the task has ended", |sides| sides[1].rpc.under_way() == 0);
    assert_eq!(shelf.cancelled.lock().unwrap().len(), 1);
    // Sent, and not answered at all.
    let begin = Instant::now();
    let call = store.get("color");
    assert_eq!(drive(&mut sides[..1], call), Err(CallError::Deadline));
    assert!(begin.elapsed() >= 300 * MS, "{:?}", begin.elapsed());
}

#[test]
fn a_call_whose_time_is_over_does_not_begin() {
    let (mut sides, store, shelf) = served();
    drive(&mut sides, store.nothing()).unwrap();
    let hurried = StoreClient::new(&store.peer().within(20 * MS));
    // The first one takes all the time of the second, which was received with it.
    let slow = Sleeper(shelf.clone());
    sides[1].rpc.serve(NapServer::new(slow)).unwrap();
    let nap = NapClient::new(&store.peer().within(LONG));
    let (first, second) = (nap.nap(60), hurried.nothing());
    assert_eq!(drive(&mut sides, first), Ok(()));
    let before = shelf.runs();
    let outcome = drive(&mut sides, second);
    // This side's own deadline passes, too.
    assert!(matches!(outcome, Err(CallError::Late | CallError::Deadline)), "{outcome:?}");
    assert_eq!(shelf.runs(), before);
}

#[service]
trait Nap {
    fn nap(&self, ms: u32);
}

struct Sleeper(std::sync::Arc<crate::common::Shelf>);

impl Nap for Sleeper {
    fn nap(&self, ms: u32) {
        _ = &self.0;
        std::thread::sleep(ms * MS);
    }
}

#[test]
fn a_dropped_call_is_cancelled_and_its_task_decides() {
    let (mut sides, store, shelf) = served();
    let waits = store.wait_for("color");
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    drop(waits);
    until(&mut sides, "the task has ended", |sides| sides[1].rpc.under_way() == 0);
    assert_eq!(*shelf.cancelled.lock().unwrap(), ["by its caller"]);
    assert_eq!(sides[0].rpc.under_way(), 0);
    // Dropped before it leaves, and before it is answered.
    drop(store.get("color"));
    let call = store.wait_for("size");
    turn(&mut sides[..1]);
    drop(call);
    assert_eq!(drive(&mut sides, store.double(4)), Ok(8));
    until(&mut sides, "nothing is left", |sides| sides.iter().all(|side| side.rpc.under_way() == 0));
}

#[test]
fn a_caller_that_leaves_cancels_its_tasks() {
    let (sides, store, shelf) = served();
    let [mut alpha, beta] = sides;
    let mut sides = [beta];
    let waits = store.wait_for("color");
    let begin = Instant::now();
    while sides[0].rpc.under_way() == 0 {
        alpha.rpc.poll();
        turn(&mut sides);
        assert!(begin.elapsed() < LONG);
    }
    drop((waits, store, alpha));
    until(&mut sides, "the task has ended", |sides| sides[0].rpc.under_way() == 0);
    let cancelled = shelf.cancelled.lock().unwrap().clone();
    assert!(cancelled == ["by the end of its connection"] || cancelled == ["by its caller"], "{cancelled:?}");
}

/// The server's node ends: what ran may have run, and what it had not got did not.
#[test]
fn a_server_that_leaves_ends_its_calls() {
    let (sides, store, _) = served();
    let [alpha, mut beta] = sides;
    let mut alpha = [alpha];
    let waits = store.wait_for("color");
    let begin = Instant::now();
    while beta.rpc.under_way() == 0 {
        beta.rpc.poll();
        turn(&mut alpha);
        assert!(begin.elapsed() < LONG);
    }
    let sent = store.get("color");
    drop(beta);
    assert_eq!(drive(&mut alpha, waits), Err(CallError::Unknown(ReturnReason::Closed)));
    let outcome = drive(&mut alpha, sent).unwrap_err();
    assert!(matches!(outcome, CallError::Dead(_) | CallError::Unknown(_)), "{outcome}");
    assert_eq!(alpha[0].rpc.under_way(), 0);
}

/// Calls and peers may outlive the endpoint that polled for them.
#[test]
fn calls_of_an_endpoint_that_was_dropped_have_outcomes() {
    let (sides, store, _) = served();
    let [alpha, beta] = sides;
    let mut both = [alpha, beta];
    let done = store.double(3);
    until(&mut both, "it is answered", |sides| sides[0].node.counters().get("replies_received") > 0);
    let (runs, sent) = (store.wait_for("color"), store.get("color"));
    let other = StoreClient::new(&peer(&both[0], "elsewhere"));
    let queued = other.nothing();
    let [alpha, beta] = both;
    drop(alpha.rpc);
    let mut beta = [beta];
    assert_eq!(drive(&mut beta, done), Ok(6));
    assert_eq!(drive(&mut beta, runs), Err(CallError::Unknown(ReturnReason::Closed)));
    assert!(drive(&mut beta, sent).unwrap_err().may_have_run());
    let closed = CallError::NotSent(NotSent::Connection("its `Rpc` was dropped"));
    assert_eq!(drive(&mut beta, queued), Err(closed.clone()));
    assert_eq!(drive(&mut beta, store.nothing()), Err(closed));
}

#[test]
fn a_name_that_no_node_has_is_not_connected() {
    let patience = Duration::from_millis(50);
    let mut sides = pair_of(plain("alpha").patience(patience), plain("beta"));
    let nobody = StoreClient::new(&peer(&sides[0], "nobody"));
    let (first, second) = (nobody.get("color"), nobody.nothing());
    let why = ReturnReason::Unreachable;
    assert_eq!(drive(&mut sides, first), Err(CallError::Dead(why)));
    assert_eq!(drive(&mut sides, second), Err(CallError::Dead(why)));
    // The next call tries again.
    assert_eq!(drive(&mut sides, nobody.nothing()), Err(CallError::Dead(why)));
    let itself = StoreClient::new(&peer(&sides[0], "alpha"));
    let own = drive(&mut sides, itself.nothing()).unwrap_err();
    assert_eq!(own, CallError::NotSent(NotSent::Connection("the name is this node's own")));
    assert!(sides[0].rpc.peer("").is_err());
    let elsewhere = sides[0].rpc.local().peer_at("beta", "elsewhere", 0).unwrap();
    assert_eq!(drive(&mut sides, StoreClient::new(&elsewhere).nothing()), Err(CallError::Refused(Refusal::NoEndpoint)));
}

#[test]
fn methods_of_another_version_are_named() {
    mod other {
        /// Another version of the trait of this name.
        #[am_rpc::service]
        #[expect(dead_code, reason = "only its client is used")]
        pub(crate) trait Store {
            fn get(&self, key: &str) -> Result<Vec<u8>, super::Missing>;
            fn put(&self, key: &str, value: &[u8], is_new: bool) -> u64;
            fn remove(&self, key: &str);
        }
    }
    let (mut sides, store, shelf) = served();
    drive(&mut sides, store.put("color", b"green")).unwrap();
    let newer = other::StoreClient::new(store.peer());
    assert_eq!(drive(&mut sides, newer.get("color")).unwrap(), b"green");
    let before = shelf.runs();
    let Err(CallError::Mismatch(skew)) = drive(&mut sides, newer.put("color", b"", true)) else { panic!() };
    assert_eq!(skew.called, ("Store", "put"));
    assert_eq!((&skew.shared[..], &skew.changed[..], &skew.missing[..]), (&["get"][..], &["put"][..], &["remove"][..]));
    let unknown = drive(&mut sides, newer.remove("color")).unwrap_err();
    assert_eq!(unknown, CallError::UnknownMethod(skew.clone().tap(|skew| skew.called.1 = "remove")));
    let text = unknown.to_string();
    assert!(text.contains("same: get; changed: put; missing: remove"), "{text}");
    assert!(!unknown.may_have_run() && shelf.runs() == before);
    // And a service that is not served at all.
    let echo = EchoClient::new(store.peer());
    let Err(CallError::UnknownMethod(skew)) = drive(&mut sides, echo.echo(1)) else { panic!() };
    assert_eq!((skew.shared.len(), skew.missing), (0, vec!["echo", "bounce"]));
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<T> Tap for T {}

#[test]
fn a_service_is_served_once() {
    let ([alpha, beta], _, shelf) = served();
    let again = beta.rpc.serve(crate::common::StoreServer::shared(shelf));
    assert_eq!(again, Err(ServeError::Taken("Store", "get")));
    assert!(again.unwrap_err().to_string().starts_with("`Store.get` is served already"));
    assert_eq!(alpha.rpc.serve(EchoServer::new(Counting::default())), Ok(()));
}

/// Arguments and results of each length, and one byte too many.
#[test]
fn lengths_up_to_what_the_peer_accepts() {
    const MOST: usize = 100_000;
    let (mut sides, store, _) = served_by(pair_of(plain("alpha").max_message(MOST), plain("beta").max_message(MOST)));
    drive(&mut sides, store.nothing()).unwrap();
    let connection = { sides[0].node.peers().len() };
    assert_eq!(connection, 1);
    // A key of 1 byte, and two lengths of 4.
    let front = 9;
    for length in [0, 1, 63, 64, 65, 1000, 1400, 1500, 4000, 9000, 16_000, 16_384, 20_000, 65_536, MOST - front] {
        let value: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        drive(&mut sides, store.put("k", &value)).unwrap_or_else(|error| panic!("{length}: {error}"));
        let back = drive(&mut sides, store.get("k")).unwrap_or_else(|error| panic!("{length}: {error}"));
        assert!(back == value, "{length}");
        let waited = drive(&mut sides, store.wait_for("k")).unwrap();
        assert!(waited == value, "{length}");
    }
    let too_long = drive(&mut sides, store.put("k", &vec![1; MOST - front + 1])).unwrap_err();
    assert!(matches!(too_long, CallError::NotSent(NotSent::TooLong { .. })), "{too_long}");
    assert_eq!(drive(&mut sides, store.bytes(MOST as u32 - 4)).unwrap().len(), MOST - 4);
    assert_eq!(drive(&mut sides, store.bytes(MOST as u32)), Err(CallError::ResultTooLong));
}

#[test]
fn calls_go_both_ways_on_one_connection() {
    let (mut sides, store, _) = served();
    for side in &sides {
        side.rpc.serve(EchoServer::new(Counting::default())).unwrap();
    }
    let echo = EchoClient::new(store.peer());
    assert_eq!(drive(&mut sides, echo.bounce(20)), Ok(20));
    assert_eq!(sides.map(|side| side.node.counters().get("connects")).iter().sum::<u64>(), 0);
}

/// A nested call has no more time than the one that makes it.
#[test]
fn a_nested_call_inherits_what_is_left() {
    let (mut sides, store, _) = served();
    for side in &sides {
        side.rpc.serve(EchoServer::new(Counting::default())).unwrap();
    }
    let echo = EchoClient::new(&store.peer().within(40 * MS));
    let begin = Instant::now();
    // More than fit into the time: the innermost end first, and each tells its caller.
    let outcome = drive(&mut sides, echo.bounce(u32::MAX));
    assert!(matches!(outcome, Ok(u32::MAX) | Err(CallError::Deadline)), "{outcome:?}");
    assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
    until(&mut sides, "nothing is left", |sides| sides.iter().all(|side| side.rpc.under_way() == 0));
}

#[test]
fn a_server_that_shuts_down_ends_what_runs() {
    let (mut sides, store, _) = served();
    let waits = store.wait_for("color");
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    assert_eq!(sides[1].rpc.shut_down(5 * MS), 1);
    assert_eq!(drive(&mut sides, store.nothing()), Err(CallError::ShuttingDown));
    // Its program lets it end.
    let values: HashMap<_, _> = [("color".to_owned(), b"red".to_vec())].into();
    drop(values);
    drop(waits);
    until(&mut sides, "the task has ended", |sides| sides[1].rpc.under_way() == 0);
    assert_eq!(sides[1].rpc.shut_down(LONG), 0);
}
