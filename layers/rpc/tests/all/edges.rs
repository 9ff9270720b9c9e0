//! Bounds of memory, texts of errors, and shut-downs beside an executor of the program.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::{Duration, Instant};

use am_rpc::{CallError, Context, LocalTask, MAX_TASK_BYTES, MethodService, service};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::common::{
    Counting, EchoClient, EchoServer, LONG, MS, Missing, StoreClient, drive, pair_of, peer, plain, served, served_by,
    turn, until,
};

/// Whether so many hold this waker, and no more.
fn holders(of: &Arc<Count>) -> usize {
    Arc::strong_count(of) - 1
}

struct Count;

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_future_that_is_dropped_leaves_no_waker() {
    let (mut sides, store, _) = served();
    let nobody = peer(&sides[0], "nobody");
    // It waits for its connection, so there is no room.
    let queued = StoreClient::new(&nobody).nothing();
    let count = Arc::new(Count);
    for _ in 0..100 {
        let waker = Waker::from(count.clone());
        let mut ready = pin!(nobody.ready());
        assert!(ready.as_mut().poll(&mut PollContext::from_waker(&waker)).is_pending());
    }
    assert_eq!(holders(&count), 0);
    let mut service = MethodService::new(&nobody, |()| store.nothing());
    for _ in 0..3 {
        let waker = Waker::from(count.clone());
        let poll = tower_service::Service::poll_ready(&mut service, &mut PollContext::from_waker(&waker));
        assert!(poll.is_pending());
    }
    assert_eq!(holders(&count), 1, "a service of tower waits until it is dropped");
    drop((service, queued));
    assert_eq!(holders(&count), 0);

    // A method that looks whether it is cancelled now and then.
    let looks = Rc::new(Looks { count: count.clone(), held: Cell::new(usize::MAX) });
    sides[1].rpc.serve(LookServer::shared(looks.clone())).unwrap();
    let call = LookClient::new(store.peer()).look();
    until(&mut sides, "it has looked", |_| looks.held.get() != usize::MAX);
    assert_eq!(looks.held.get(), 1, "its own");
    drop(call);
    until(&mut sides, "it is cancelled", |sides| sides[1].rpc.under_way() == 0);
}

#[service]
trait Look {
    async fn look(&self, context: &Context);
}

struct Looks {
    count: Arc<Count>,
    held: Cell<usize>,
}

impl Look for Looks {
    async fn look(&self, context: &Context) {
        context.local().sleep(MS).await;
        for _ in 0..100 {
            let waker = Waker::from(self.count.clone());
            let mut cancelled = pin!(context.cancelled());
            assert!(cancelled.as_mut().poll(&mut PollContext::from_waker(&waker)).is_pending());
        }
        self.held.set(holders(&self.count));
        context.cancelled().await;
    }
}

/// How many peers the endpoint knows.
fn peers(rpc: &am_rpc::Rpc) -> usize {
    let text = format!("{rpc:?}");
    text.split_once("peers: ").and_then(|(_, rest)| rest.split([',', ' ']).next()?.parse().ok()).expect(&text)
}

#[test]
fn names_that_nobody_uses_are_forgotten() {
    let (mut sides, store, _) = served_by(pair_of(plain("alpha").patience(10 * MS), plain("beta")));
    drive(&mut sides, store.nothing()).unwrap();
    let kept: Vec<_> = (0..10).map(|at| peer(&sides[0], &format!("kept-{at}"))).collect();
    let queued = StoreClient::new(&peer(&sides[0], "waits")).nothing();
    for at in 0..10_000 {
        _ = peer(&sides[0], &format!("once-{at}"));
        assert!(peers(&sides[0].rpc) < 200);
    }
    // One that is used has its calls and its connection.
    let again = StoreClient::new(&peer(&sides[0], "beta"));
    drive(&mut sides, again.nothing()).unwrap();
    for peer in kept {
        assert!(matches!(drive(&mut sides, StoreClient::new(&peer).nothing()), Err(CallError::Dead(_))));
    }
    assert!(matches!(drive(&mut sides, queued), Err(CallError::Dead(_))));
}

#[service]
trait Sink {
    async fn swallow(&self, context: &Context, bytes: &[u8]) -> u64;
}

struct Swallows;

impl Sink for Swallows {
    async fn swallow(&self, context: &Context, bytes: &[u8]) -> u64 {
        context.cancelled().await;
        bytes.len() as u64
    }
}

#[test]
fn tasks_hold_so_many_bytes_of_a_connection() {
    const LENGTH: usize = 1 << 20;
    let mut sides = pair_of(plain("alpha").max_message(2 * LENGTH), plain("beta").max_message(2 * LENGTH));
    sides[1].rpc.serve(SinkServer::new(Swallows)).unwrap();
    let sink = SinkClient::new(&peer(&sides[0], "beta"));
    let bytes = vec![7; LENGTH];
    let most = MAX_TASK_BYTES / LENGTH;
    let mut held = vec![];
    for at in 1..=most {
        held.push(sink.swallow(&bytes));
        until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == at);
    }
    assert_eq!(drive(&mut sides, sink.swallow(b"")), Err(CallError::Busy));
    assert_eq!(drive(&mut sides, sink.swallow(&bytes)), Err(CallError::Busy));
    // As soon as one is over, there is room for one.
    drop(held.pop());
    until(&mut sides, "one is over", |sides| sides[1].rpc.under_way() == most - 1);
    held.push(sink.swallow(&bytes));
    until(&mut sides, "another runs", |sides| sides[1].rpc.under_way() == most);
    drop(held);
    until(&mut sides, "all are over", |sides| sides[1].rpc.under_way() == 0);
    let _held: Vec<_> = (0..=most).map(|_| sink.swallow(b"short")).collect();
    until(&mut sides, "all run", |sides| sides[1].rpc.under_way() == most + 1);
}

#[test]
fn a_named_error_says_which_call_it_was() {
    let mut sides = pair_of(plain("alpha").patience(50 * MS), plain("beta"));
    for side in &sides {
        side.rpc.serve(EchoServer::new(Counting::default())).unwrap();
    }
    let store = StoreClient::new(&peer(&sides[0], "beta"));
    let error = drive(&mut sides, store.get("color").named()).unwrap_err();
    assert_eq!((error.service, error.method, error.peer.unwrap().as_str()), ("Store", "get", "beta"));
    assert!(matches!(error.error, CallError::UnknownMethod(_)));
    let nobody = StoreClient::new(&peer(&sides[0], "nobody"));
    let error = drive(&mut sides, nobody.nothing().named()).unwrap_err();
    assert!(error.to_string().starts_with("call of `Store.nothing` on `nobody`: it did not run: "), "{error}");
    assert_eq!(format!("{error:?}"), error.to_string());
    let echo = EchoClient::new(store.peer());
    assert_eq!(drive(&mut sides, echo.echo(7).named()), Ok(7));
}

#[test]
fn a_call_back_has_the_name_of_its_caller() {
    let (mut sides, store, _) = served();
    sides[1].rpc.serve(BackServer::new(Back)).unwrap();
    let text = drive(&mut sides, BackClient::new(store.peer()).back()).unwrap();
    assert!(text.starts_with("call of `Store.nothing` on `alpha`: the server has another version"), "{text}");
}

#[service]
trait CallBack {
    async fn back(&self, context: &Context) -> String;
}

use CallBackClient as BackClient;
use CallBackServer as BackServer;

struct Back;

impl CallBack for Back {
    async fn back(&self, context: &Context) -> String {
        let call = StoreClient::new(&context.peer()).nothing().named();
        call.await.expect_err("it serves nothing").to_string()
    }
}

#[test]
fn errors_of_different_methods_become_one() {
    #[derive(Debug, PartialEq)]
    struct Problem(String);
    impl From<Missing> for Problem {
        fn from(missing: Missing) -> Problem {
            Problem(missing.key)
        }
    }
    impl From<std::convert::Infallible> for Problem {
        fn from(never: std::convert::Infallible) -> Problem {
            match never {}
        }
    }
    async fn both(store: &StoreClient) -> Result<(), CallError<Problem>> {
        store.nothing().await.map_err(CallError::widen)?;
        store.get("color").await.map_err(CallError::widen)?;
        store.panic().await.map_err(CallError::widen)
    }
    let (mut sides, store, _) = served();
    assert_eq!(drive(&mut sides, both(&store)), Err(CallError::Service(Problem("color".to_owned()))));
    drive(&mut sides, store.put("color", b"red")).unwrap();
    assert_eq!(drive(&mut sides, both(&store)), Err(CallError::Panicked));
}

/// An executor on the node's thread: it polls its tasks when the program lets it.
#[derive(Clone, Default)]
struct Executor {
    tasks: Rc<RefCell<FuturesUnordered<LocalTask>>>,
    begun: Rc<RefCell<Vec<LocalTask>>>,
}

impl Executor {
    /// Run this future beside the tasks.
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let (mut future, mut context) = (pin!(future), PollContext::from_waker(Waker::noop()));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            let mut tasks = self.tasks.borrow_mut();
            tasks.extend(self.begun.take());
            while let Poll::Ready(Some(())) = tasks.poll_next_unpin(&mut context) {}
        }
    }
}

#[test]
fn a_shut_down_beside_an_executor_lets_its_tasks_end() {
    let (mut sides, store, shelf) = served();
    let executor = Executor::default();
    let begun = executor.begun.clone();
    sides[1].rpc.set_executor(move |task| begun.borrow_mut().push(task));
    let call = store.wait_for("color");
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    shelf.values.lock().unwrap().insert("color".to_owned(), vec![7]);
    let (alpha, beta) = sides.split_at_mut(1);
    // The thread is not the executor's meanwhile.
    assert_eq!(beta[0].rpc.shut_down(10 * MS), 1);
    let start = Instant::now();
    assert_eq!(executor.block_on(beta[0].rpc.shut_down_beside(LONG)), 0);
    assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    assert_eq!(drive(alpha, call).unwrap(), [7]);
    assert_eq!(drive(&mut sides, store.nothing()), Err(CallError::ShuttingDown));
    // It has an end.
    let never = sides[0].rpc.local();
    never.spawn(pending());
    let queued = StoreClient::new(&peer(&sides[0], "nobody")).nothing();
    assert_eq!(executor.block_on(sides[0].rpc.shut_down_beside(Duration::ZERO)), 1);
    drop(queued);
    turn(&mut sides);
}
