//! What stands beside calls: health, reflection, statistics, who may call, callbacks, waits.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Waker};
use std::time::{Duration, Instant};

use am_rpc::{CallError, Health, ReflectionClient, Runs, Service};

use crate::common::{
    Counting, EchoClient, EchoServer, LONG, MS, Missing, Shelf, StoreClient, StoreServer, drive, pair, peer, served,
    turn, until,
};

#[test]
fn an_endpoint_describes_its_services() {
    let (mut sides, _, _) = served();
    let reflection = ReflectionClient::new(&peer(&sides[0], "beta"));
    let services = drive(&mut sides, reflection.services()).unwrap();
    assert_eq!(services.iter().map(|each| &*each.name).collect::<Vec<_>>(), ["Reflection", "Store"]);
    let info = StoreServer::new(Shelf::default()).info();
    let known: Vec<_> = services[1].methods.iter().map(|method| (&*method.name, method.signature)).collect();
    assert_eq!(known, info.methods.iter().map(|method| (method.name, method.id.signature)).collect::<Vec<_>>());
    assert_eq!(known.len(), 12);
    let sleep = services[1].methods.iter().find(|method| method.name == "sleep").unwrap();
    assert_eq!((sleep.runs, sleep.is_idempotent), (Runs::Blocking, false));
    assert!(services[0].methods.iter().all(|method| method.is_idempotent && method.runs == Runs::Inline));
}

#[test]
fn health_is_what_the_program_says() {
    let (mut sides, store, _) = served();
    let reflection = ReflectionClient::new(store.peer());
    assert_eq!(drive(&mut sides, reflection.health("Store")), Ok(Some(Health::Serving)));
    assert_eq!(drive(&mut sides, reflection.health("Other")), Ok(None));
    sides[1].rpc.set_health("Store", Health::NotServing);
    assert_eq!(drive(&mut sides, reflection.health("Store")), Ok(Some(Health::NotServing)));
    assert_eq!(drive(&mut sides, store.nothing()), Ok(()));
    // While it shuts down it is asked nevertheless.
    sides[1].rpc.shut_down(Duration::ZERO);
    assert_eq!(drive(&mut sides, store.nothing()), Err(CallError::ShuttingDown));
    assert_eq!(drive(&mut sides, reflection.health("Store")), Ok(Some(Health::ShuttingDown)));
}

#[test]
fn each_method_counts_what_it_does() {
    let (mut sides, store, _) = served();
    for number in 0..3 {
        drive(&mut sides, store.double(number)).unwrap();
        assert_eq!(drive(&mut sides, store.get("x")), Err(CallError::Service(Missing { key: "x".into() })));
    }
    drive(&mut sides, store.panic()).unwrap_err();
    drive(&mut sides, store.sleep(20)).unwrap();
    let waits = store.wait_for("color");
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    let reflection = ReflectionClient::new(store.peer());
    let all = drive(&mut sides, reflection.statistics()).unwrap();
    let of = |name: &str| all.iter().find(|each| each.method == name).unwrap();
    let counts = |name| (of(name).returned, of(name).errors, of(name).panicked, of(name).refused, of(name).running);
    assert_eq!(counts("double"), (3, 0, 0, 0, 0));
    assert_eq!(counts("get"), (3, 3, 0, 0, 0));
    assert_eq!(counts("panic"), (0, 0, 1, 0, 0));
    assert_eq!(counts("wait_for"), (0, 0, 0, 0, 1));
    assert_eq!(counts("sleep"), (1, 0, 0, 0, 0));
    let slept = of("sleep").latency;
    assert!(
        slept.p50 >= 19 * MS && slept.p50 <= slept.p999 && slept.p999 <= slept.max && slept.max < LONG,
        "{slept:?}"
    );
    drop(waits);
    until(&mut sides, "it has ended", |sides| sides[1].rpc.under_way() == 0);
    let after = sides[1].rpc.statistics();
    let waited = after.iter().find(|each| each.method == "wait_for").unwrap();
    assert_eq!((waited.running, waited.service.as_str()), (0, "Store"));
}

#[test]
fn a_service_is_for_those_who_are_allowed() {
    let mut sides = pair();
    let asked = Rc::new(RefCell::new(vec![]));
    let notes = asked.clone();
    let shelf = std::sync::Arc::new(Shelf::default());
    let server = StoreServer::shared(shelf.clone());
    let allows = move |caller: &am_api::EndpointName, method: &am_rpc::MethodInfo| {
        notes.borrow_mut().push(caller.to_string());
        caller.node.as_str() == "alpha" && method.name != "put"
    };
    sides[1].rpc.serve_to(server, allows).unwrap();
    sides[1].rpc.serve(EchoServer::new(Counting::default())).unwrap();
    let store = StoreClient::new(&peer(&sides[0], "beta"));
    let put = drive(&mut sides, store.put("color", b"red")).unwrap_err();
    assert_eq!((put.clone(), put.may_have_run(), shelf.runs()), (CallError::Forbidden, false, 0));
    assert_eq!(drive(&mut sides, store.nothing()), Ok(()));
    assert_eq!(drive(&mut sides, EchoClient::new(store.peer()).echo(3)), Ok(3));
    assert_eq!(*asked.borrow(), ["alpha/rpc", "alpha/rpc"]);
}

/// A caller that has left was allowed when it called.
#[test]
fn a_caller_that_leaves_at_once_is_allowed_all_the_same() {
    let mut sides = pair();
    let runs = Rc::<Cell<u64>>::default();
    let counting = Counting { runs: runs.clone(), ..Counting::default() };
    sides[1].rpc.serve_to(EchoServer::new(counting), |caller, _| caller.node.as_str() == "alpha").unwrap();
    let echo = EchoClient::new(&peer(&sides[0], "beta"));
    assert_eq!(drive(&mut sides, echo.echo(1)), Ok(1));
    let [mut alpha, beta] = sides;
    let last = echo.echo(2);
    alpha.rpc.poll();
    drop((last, echo, alpha));
    let mut beta = [beta];
    until(&mut beta, "it ran", |_| runs.get() == 2);
}

#[test]
fn a_shut_down_waits_for_calls_that_nobody_awaits() {
    let on = format!("shm:am-rpc-farewell-{}", std::process::id());
    let runs = std::sync::Arc::<Shelf>::default();
    let (served, place) = (runs.clone(), on.clone());
    let (stop, stopped) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let node = am_api::Node::open("beta", &place).expect("a node");
        let mut rpc = am_rpc::Rpc::open(&node).expect("an endpoint");
        rpc.serve(StoreServer::shared(served)).expect("the only service");
        while stopped.try_recv().is_err() {
            rpc.wait(MS);
        }
    });
    let node = am_api::Node::open("alpha", &on).expect("a node");
    let mut rpc = am_rpc::Rpc::open(&node).expect("an endpoint");
    let outcome = Rc::new(RefCell::new(None));
    let told = outcome.clone();
    let store = StoreClient::new(&rpc.peer("beta").expect("a name").within(LONG));
    store.double(4).on_outcome(move |outcome| *told.borrow_mut() = Some(outcome));
    store.nothing().on_outcome(|_| ());
    assert_eq!(rpc.shut_down(LONG), 0);
    assert_eq!((outcome.take(), runs.runs()), (Some(Ok(8)), 2));
    stop.send(()).expect("it runs");
    server.join().expect("no panic");
}

#[test]
fn a_callback_gets_the_outcome() {
    let (mut sides, store, _) = served();
    let outcomes = Rc::new(RefCell::new(vec![]));
    for number in 0..3 {
        let outcomes = outcomes.clone();
        store.double(number).on_outcome(move |outcome| outcomes.borrow_mut().push(outcome));
    }
    until(&mut sides, "all are called", |_| outcomes.borrow().len() == 3);
    assert_eq!(*outcomes.borrow(), [Ok(0), Ok(2), Ok(4)]);
    // The endpoint is dropped before the call has an outcome.
    let is_dropped = Rc::new(Cell::new(false));
    let note = OnDrop(is_dropped.clone());
    store.wait_for("never").on_outcome(move |_| drop(note));
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    drop(sides);
    assert!(is_dropped.get());
}

#[test]
fn a_callback_that_panics_takes_no_other_ones_outcome() {
    let (mut sides, store, _) = served();
    drive(&mut sides, store.nothing()).unwrap();
    let outcomes = Rc::new(RefCell::new(vec![]));
    for number in 0..3 {
        let outcomes = outcomes.clone();
        store.double(number).on_outcome(move |outcome| {
            assert!(number != 0, "it panics");
            outcomes.borrow_mut().push(outcome);
        });
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| until(&mut sides, "it has an outcome", |_| false)));
    assert!(panicked.is_err());
    until(&mut sides, "the others have theirs", |_| outcomes.borrow().len() == 2);
    assert_eq!(*outcomes.borrow(), [Ok(2), Ok(4)]);
}

struct OnDrop(Rc<Cell<bool>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn a_caller_waits_until_no_call_waits_for_room() {
    let (mut sides, store, _) = served();
    drive(&mut sides, store.nothing()).unwrap();
    let mut calls = vec![];
    let is_ready = || pin!(store.peer().ready()).poll(&mut PollContext::from_waker(Waker::noop())).is_ready();
    while is_ready() {
        calls.push(store.nothing());
        assert!(calls.len() < 100_000);
    }
    drive(&mut sides, store.peer().ready());
    assert!(is_ready());
    for call in calls {
        drive(&mut sides, call).unwrap();
    }
    // One that is not connected, and never is.
    let nobody = StoreClient::new(&peer(&sides[0], "alpha"));
    let call = nobody.nothing();
    drive(&mut sides, nobody.peer().ready());
    drive(&mut sides, call).unwrap_err();
}

/// What a turn does about calls that wait does not grow with their number.
#[test]
fn calls_that_wait_cost_a_turn_little_and_leave_the_queue_when_they_are_dropped_or_late() {
    let (mut sides, _, _) = served();
    let nobody = peer(&sides[0], "nobody");
    let calls = |time: Duration, count: u64| {
        let client = StoreClient::new(&nobody.within(time));
        (0..count).map(|number| client.double(number)).collect::<Vec<_>>()
    };
    let mut waiting = calls(LONG, 60_000);
    let fastest = (0..100).map(|_| {
        let begun = Instant::now();
        turn(&mut sides);
        begun.elapsed()
    });
    let fastest = fastest.min().unwrap();
    assert!(fastest < Duration::from_micros(500), "{fastest:?}");
    // Behind all of these.
    for call in calls(MS, 2) {
        assert_eq!(drive(&mut sides, call), Err(CallError::Late));
    }
    waiting.truncate(59_999);
    assert_eq!(sides[0].rpc.under_way(), 59_999);
    let mut ready = pin!(nobody.ready());
    let mut context = PollContext::from_waker(Waker::noop());
    assert!(ready.as_mut().poll(&mut context).is_pending());
    drop(waiting);
    assert!(ready.poll(&mut context).is_ready());
    assert_eq!(sides[0].rpc.under_way(), 0);
}

#[test]
fn a_task_sleeps_until_its_time() {
    let (mut sides, _, _) = served();
    let local = sides[0].rpc.local();
    let order = Rc::new(RefCell::new(vec![]));
    let start = Instant::now();
    for ms in [30, 10, 20] {
        let (sleep, order) = (local.sleep(ms * MS), order.clone());
        local.spawn(async move {
            sleep.await;
            assert!(start.elapsed() >= ms * MS);
            order.borrow_mut().push(ms);
        });
    }
    let (node, _) = sides.split_at_mut(1);
    // The wait ends in time for the sleepers.
    while order.borrow().len() < 3 {
        node[0].rpc.wait(LONG);
    }
    assert_eq!(*order.borrow(), [10, 20, 30]);
    assert!(start.elapsed() < LONG / 2);
    let mut abandoned = Box::pin(local.sleep(MS));
    assert!(abandoned.as_mut().poll(&mut PollContext::from_waker(Waker::noop())).is_pending());
    drop(abandoned);
    turn(&mut sides);
}

#[test]
fn a_method_is_a_service_of_tower() {
    use am_rpc::MethodService;
    use tower_service::Service as _;

    let (mut sides, store, _) = served();
    let client = store.clone();
    let mut double = MethodService::new(store.peer(), move |number: u64| client.double(number));
    let mut context = PollContext::from_waker(Waker::noop());
    assert!(double.poll_ready(&mut context).is_ready());
    let mut calls: Vec<_> = (0..2).map(|number| double.call(number)).collect();
    // They wait for the connection.
    assert!(double.poll_ready(&mut context).is_pending());
    assert_eq!(drive(&mut sides, calls.remove(0)), Ok(0));
    assert_eq!(drive(&mut sides, calls.remove(0)), Ok(2));
    assert!(double.poll_ready(&mut context).is_ready());
}
