//! What an attack on this layer has found: honest programs in unlucky orders, hostile peers, codecs and executors that go wrong.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context as PollContext, Wake, Waker};
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node, OwnedMessage, Request, Token};
use am_rpc::codec::{Encode, Reader, Schema, Writer};
use am_rpc::{CallError, Context, Decode, DecodeError, Remote, Rpc, ServeError, service};
use am_transport::loopback;

use crate::common::{LONG, MS, StoreClient, drive, pair, peer, plain, served, turn, until};

/// Ends the program of who reads or writes it.
struct Bomb(bool);

impl Schema for Bomb {
    const SCHEMA: u64 = bool::SCHEMA;
}

impl Encode for Bomb {
    fn size(&self) -> usize {
        1
    }

    fn encode(&self, to: &mut Writer<'_>) {
        assert!(self.0, "it is written");
        to.array([0]);
    }
}

impl<'a> Decode<'a> for Bomb {
    const MIN_SIZE: usize = 1;

    fn decode(_: &mut Reader<'a>) -> Result<Bomb, DecodeError> {
        panic!("it is read")
    }
}

#[service]
trait Odd {
    fn r#type(&self, r#in: u32) -> Vec<u8>;
    async fn later(&self, context: &Context, bytes: u32) -> Vec<u8>;
    async fn both_wait(&self, context: &Context);
    fn write(&self) -> Bomb;
    fn read(&self, bomb: Bomb);
}

#[derive(Default)]
struct Odds(Rc<Cell<u32>>);

impl Odd for Odds {
    fn r#type(&self, r#in: u32) -> Vec<u8> {
        vec![7; r#in as usize]
    }

    async fn later(&self, context: &Context, bytes: u32) -> Vec<u8> {
        context.local().sleep(MS).await;
        vec![7; bytes as usize]
    }

    async fn both_wait(&self, context: &Context) {
        let (context, count) = (context.clone(), self.0.clone());
        let (of_task, counts) = (context.clone(), count.clone());
        context.local().spawn(async move {
            of_task.cancelled().await;
            counts.set(counts.get() + 1);
        });
        context.local().sleep(MS).await;
        context.cancelled().await;
        count.set(count.get() + 10);
    }

    fn write(&self) -> Bomb {
        Bomb(false)
    }

    fn read(&self, _: Bomb) {}
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Outcomes that are not fetched do not hold what others need.
#[test]
fn the_last_call_may_be_awaited_first() {
    let mut sides = pair();
    sides[1].rpc.serve(OddServer::new(Odds::default())).unwrap();
    let odd = OddClient::new(&peer(&sides[0], "beta"));
    for bytes in [100, 1000] {
        let mut inline: Vec<_> = (0..400).map(|_| odd.r#type(bytes)).collect();
        assert_eq!(drive(&mut sides, inline.pop().unwrap()).map(|value| value.len()), Ok(bytes as usize));
        let mut tasks: Vec<_> = (0..400).map(|_| odd.later(bytes)).collect();
        assert_eq!(drive(&mut sides, tasks.pop().unwrap()).map(|value| value.len()), Ok(bytes as usize));
        for call in inline.into_iter().chain(tasks) {
            assert_eq!(drive(&mut sides, call).map(|value| value.len()), Ok(bytes as usize));
        }
    }
}

#[test]
fn two_methods_of_one_number_are_refused() {
    #[service]
    trait Clash {
        fn m52919(&self);
        fn m133851(&self);
    }
    struct Both;
    impl Clash for Both {
        fn m52919(&self) {}
        fn m133851(&self) {}
    }
    assert_eq!(pair()[1].rpc.serve(ClashServer::new(Both)), Err(ServeError::Taken("Clash", "m133851")));
}

#[test]
fn two_tasks_learn_that_a_call_is_cancelled() {
    let mut sides = pair();
    let odds = Odds::default();
    let count = odds.0.clone();
    sides[1].rpc.serve(OddServer::new(odds)).unwrap();
    let call = OddClient::new(&peer(&sides[0], "beta")).both_wait();
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    let start = Instant::now();
    while start.elapsed() < 10 * MS {
        turn(&mut sides);
    }
    drop(call);
    until(&mut sides, "both know", |_| count.get() == 11);
}

/// A node with the endpoint of calls, and one that sends what it likes.
fn with_raw<S: 'static>() -> (Rpc, am_api::Endpoint<S>, [Node; 2]) {
    let [left, right] = loopback::pair().map(|plug| Box::new(plug.open().expect("memory")));
    let (alpha, beta) = (plain("alpha").open_on(left).unwrap(), plain("beta").open_on(right).unwrap());
    let (rpc, raw) = (Rpc::open(&alpha).unwrap(), beta.endpoint("rpc").unwrap());
    (rpc, raw, [alpha, beta])
}

/// The result arrives before the answer that it runs, which never does.
#[test]
fn the_first_outcome_holds() {
    let (mut rpc, mut raw, _nodes) = with_raw::<Vec<Token>>();
    let sender = raw.sender();
    raw.on_request(HandlerId(0), move |held: &mut Vec<Token>, request: Request<'_, Vec<Token>>| {
        let id = request.token.call_id();
        sender.try_request(request.message.from(), HandlerId(1), &[id.0, 0], &42_u64.to_le_bytes()).unwrap();
        held.push(request.token);
    });
    let call = StoreClient::new(&rpc.peer("beta").unwrap().within(500 * MS)).double(21);
    let (mut held, start) = (vec![], Instant::now());
    while start.elapsed() < 700 * MS {
        rpc.poll();
        raw.poll(&mut held);
    }
    assert_eq!((held.len(), rpc.block_on(call)), (1, Ok(42)));
}

/// It keeps each result, so no credit comes back.
#[test]
fn a_caller_that_takes_no_results_gets_no_more_tasks() {
    let (mut rpc, mut raw, _nodes) = with_raw::<Vec<OwnedMessage>>();
    rpc.serve(OddServer::new(Odds::default())).unwrap();
    raw.on_request(HandlerId(1), |kept: &mut Vec<OwnedMessage>, request: Request<'_, Vec<OwnedMessage>>| {
        kept.push(request.message.keep());
    });
    raw.on_outcome(HandlerId(0), |_, _| {});
    let to = raw.connect("alpha", "rpc").unwrap();
    let id = OddClient::SERVICE.methods[1].id;
    let words = [u64::from(id.name) << 32 | u64::from(id.signature), u64::MAX];
    let (mut kept, mut sent, start) = (vec![], 0, Instant::now());
    while sent < 5000 {
        sent += usize::from(raw.try_call(to, HandlerId(0), &words, &1000_u32.to_le_bytes(), LONG).is_ok());
        raw.poll(&mut kept);
        rpc.poll();
        assert!(start.elapsed() < LONG);
    }
    let text = format!("{rpc:?}");
    let (_, rest) = text.split_once("messages: ").expect(&text);
    let messages: usize = rest.split(',').next().and_then(|count| count.parse().ok()).expect(&text);
    assert!((1000..=2 * am_rpc::MAX_TASKS).contains(&messages), "{text}");
}

#[test]
fn nothing_waits_for_an_endpoint_that_was_dropped() {
    let ([mut alpha, _beta], store, _) = served();
    let nobody = StoreClient::new(&peer(&alpha, "nobody"));
    let queued = nobody.nothing();
    let (mut ready, mut sleep) = (pin!(nobody.peer().ready()), pin!(alpha.rpc.local().sleep(LONG)));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = PollContext::from_waker(&waker);
    assert!(ready.as_mut().poll(&mut context).is_pending() && sleep.as_mut().poll(&mut context).is_pending());
    let is_alive = Rc::new(());
    let of_callback = is_alive.clone();
    assert_eq!(alpha.rpc.shut_down(Duration::ZERO), 1);
    drop(alpha.rpc);
    assert_eq!(woken.0.load(SeqCst), 2);
    assert!(ready.poll(&mut context).is_ready() && sleep.poll(&mut context).is_ready());
    store.nothing().on_outcome(move |_| drop(of_callback));
    assert_eq!(Rc::strong_count(&is_alive), 1);
    drop(queued);
}

#[test]
fn a_shut_down_may_wait_for_ever() {
    let [mut alpha, _beta] = pair();
    assert_eq!(alpha.rpc.shut_down(Duration::MAX), 0);
}

#[test]
fn jobs_that_post_jobs_do_not_keep_a_turn() {
    fn post(remote: &Remote, count: Arc<AtomicUsize>) {
        let again = remote.clone();
        let job = remote.run(move |_| {
            if count.fetch_add(1, SeqCst) < 10_000 {
                post(&again, count);
            }
            std::future::pending::<()>()
        });
        std::mem::forget(job);
    }
    let [mut alpha, _beta] = pair();
    let count = Arc::<AtomicUsize>::default();
    post(&alpha.rpc.remote(), count.clone());
    alpha.rpc.poll();
    assert!(count.load(SeqCst) < 1000, "{count:?}");
}

#[test]
fn a_job_that_was_dropped_before_its_turn_does_not_begin() {
    let (mut sides, store, shelf) = served();
    drive(&mut sides, store.nothing()).unwrap();
    drop(sides[0].rpc.remote().run(|local| {
        let store = StoreClient::new(&local.peer("beta").expect("a name"));
        async move { store.nothing().await }
    }));
    (0..100).for_each(|_| turn(&mut sides));
    assert_eq!(shelf.runs(), 1);
}

#[test]
fn a_codec_that_panics_ends_its_call_only() {
    let mut sides = pair();
    sides[1].rpc.serve(OddServer::new(Odds::default())).unwrap();
    let odd = OddClient::new(&peer(&sides[0], "beta"));
    let written = drive(&mut sides, odd.write());
    assert!(matches!(written, Err(CallError::UnencodableResult)));
    assert_eq!(drive(&mut sides, odd.read(Bomb(true))), Err(CallError::Panicked));
    assert!(matches!(drive(&mut sides, odd.read(Bomb(false))), Err(CallError::Unencodable(_))));
    assert_eq!(drive(&mut sides, odd.r#type(3)), Ok(vec![7; 3]));
}

#[test]
fn a_task_that_its_executor_drops_is_over() {
    let (mut sides, store, _) = served();
    sides[1].rpc.set_executor(drop);
    let start = Instant::now();
    assert!(matches!(drive(&mut sides, store.wait_for("color")), Err(CallError::Panicked)));
    assert!(start.elapsed() < LONG / 2);
    let counted = RefCell::new(sides[1].rpc.statistics());
    assert!(counted.take().iter().all(|method| method.running == 0));
}
