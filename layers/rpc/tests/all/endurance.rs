//! What a call, a stream or a client must not do to the others: wait for long, flood, lose frames.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use am_api::{Clock, Incarnation, Node};
use am_rpc::{Context, Rpc, STREAM_WINDOW, StreamWriter, service};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

use crate::common::{LONG, MS, Shelf, Side, StoreClient, StoreServer, drive, pair_of, peer, plain, served_by, turn};

#[service]
trait Numbers {
    /// All numbers from 0 on, each with so many bytes.
    async fn count(&self, bytes: u32, numbers: StreamWriter<(u64, Vec<u8>)>);
}

#[derive(Default)]
struct Counting(Rc<Cell<u64>>);

impl Numbers for Counting {
    async fn count(&self, bytes: u32, mut numbers: StreamWriter<(u64, Vec<u8>)>) {
        while numbers.send(&(self.0.get(), vec![7; bytes as usize])).await.is_ok() {
            self.0.set(self.0.get() + 1);
        }
    }
}

/// For a minute of the nodes' clock a reader reads nothing. Its writer is held a window ahead, memory does not grow, and each
/// other call of the connection has its value at once.
#[test]
fn a_reader_that_stops_for_a_minute_holds_up_its_writer_only() {
    let (clock, hand) = Clock::manual();
    let node = |name| plain(name).clock(clock.clone(), Incarnation(1));
    let (mut sides, store, _) = served_by(pair_of(node("alpha"), node("beta")));
    let written = Rc::new(Cell::new(0));
    sides[1].rpc.serve(NumbersServer::new(Counting(written.clone()))).unwrap();
    let patient = peer(&sides[0], "beta").within(Duration::from_secs(3600));
    // Items of a frame, and of several.
    for bytes in [1000, 5000] {
        written.set(0);
        let (call, mut numbers) = NumbersClient::new(&patient).count(bytes);
        let mut minute = |seconds: u32| {
            for _ in 0..seconds * 100 {
                (0..8).for_each(|_| turn(&mut sides));
                hand.advance(10 * MS);
                assert_eq!(drive(&mut sides, store.double(21)), Ok(42));
            }
        };
        minute(1);
        assert_eq!(written.get(), STREAM_WINDOW as u64);
        let grown = allocation_counter::measure(|| minute(59));
        assert!(grown.bytes_current < 4096, "{grown:?}");
        assert_eq!(written.get(), STREAM_WINDOW as u64);
        for number in 0..10 * STREAM_WINDOW as u64 {
            let item = drive(&mut sides, numbers.next()).expect("it is not over").expect("an item");
            assert_eq!((item.0, item.1.len()), (number, bytes as usize));
        }
        drop((call, numbers));
        crate::common::until(&mut sides, "nothing is left", |sides| sides.iter().all(|side| side.rpc.under_way() == 0));
    }
}

/// A server, a client that has a thousand calls under way at each time, and one that makes one call after the other: each of
/// its calls has its value, after a bounded number of turns.
#[test]
fn a_client_that_floods_leaves_room_for_another() {
    const FLOOD: usize = 1000;
    let mut sides: Vec<Side> = ["flood", "modest", "beta"]
        .into_iter()
        .zip(loopback::wire(3))
        .map(|(name, plug)| {
            let node = plain(name).open_on(Box::new(plug.open().expect("memory"))).expect("a node");
            Side { rpc: Rpc::open(&node).expect("an endpoint"), node }
        })
        .collect();
    let shelf = std::sync::Arc::new(Shelf::default());
    sides[2].rpc.serve(StoreServer::shared(shelf.clone())).unwrap();
    let modest = StoreClient::new(&peer(&sides[1], "beta"));
    assert_eq!(drive(&mut sides, modest.double(1)), Ok(2));
    let turns = |sides: &mut [Side], flooded: &Cell<u64>| {
        let mut all = vec![];
        for number in 0..500 {
            let mut call = pin!(modest.double(number));
            let mut turns = 0;
            let outcome = loop {
                if let Poll::Ready(outcome) = call.as_mut().poll(&mut PollContext::from_waker(Waker::noop())) {
                    break outcome;
                }
                turn(sides);
                turns += 1;
            };
            assert_eq!(outcome, Ok(2 * number));
            all.push(turns);
        }
        all.sort_unstable();
        println!("turns of a call: median {}, most {}, beside {} calls", all[250], all[499], flooded.take());
        all[499]
    };
    let flooded = Rc::new(Cell::new(0));
    let alone = turns(&mut sides, &flooded);
    let flood = Rc::new(StoreClient::new(&peer(&sides[0], "beta")));
    for _ in 0..FLOOD {
        let (flood, flooded) = (flood.clone(), flooded.clone());
        sides[0].rpc.spawn(async move {
            while flood.put("key", &[1; 1000]).await.is_ok() {
                flooded.set(flooded.get() + 1);
            }
        });
    }
    while flooded.get() < 2 * FLOOD as u64 {
        turn(&mut sides);
    }
    flooded.set(0);
    let beside = turns(&mut sides, &flooded);
    assert!(beside <= alone + 4, "a call takes {beside} turns beside a flood, and {alone} alone");
}

/// Frames are lost, doubled and late in both directions: each call has its value, and ran once.
#[test]
fn calls_over_a_lossy_wire_run_once() {
    let mut ends = loopback::pair().into_iter().zip([3, 4]);
    let mut side = |name| {
        let (plug, seed) = ends.next().expect("an end");
        let faulty = Faulty::new(plug.open().expect("memory"), Faults::lossy(seed, 0.1));
        let node = Node::builder(name).framing(am_api::Framing::Plain).patience(LONG);
        let node = node.open_on(Box::new(faulty)).expect("a node");
        Side { rpc: Rpc::open(&node).expect("an endpoint"), node }
    };
    let (mut sides, store, shelf) = served_by([side("alpha"), side("beta")]);
    let store = Rc::new(store);
    let (values, outcomes) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(vec![])));
    const CALLS: u64 = 1000;
    for number in 0..CALLS {
        let (store, values, outcomes) = (store.clone(), values.clone(), outcomes.clone());
        sides[0].rpc.spawn(async move {
            let key = number.to_string();
            let waits = store.wait_for(&key);
            match store.put(&key, &vec![number as u8; number as usize * 3]).await {
                Ok(0) => values.set(values.get() + 1),
                other => outcomes.borrow_mut().push(format!("{other:?}")),
            }
            match waits.await {
                Ok(value) if value == vec![number as u8; number as usize * 3] => values.set(values.get() + 1),
                other => outcomes.borrow_mut().push(format!("{other:?}")),
            }
        });
    }
    crate::common::until(&mut sides, "all are over", |_| values.get() + outcomes.borrow().len() as u64 == 2 * CALLS);
    assert_eq!((outcomes.take(), shelf.runs() as u64), (vec![], 2 * CALLS));
    assert!(sides[0].node.counters().get("retransmitted") > 0, "{}", sides[0].node.counters());
    crate::common::until(&mut sides, "nothing is left", |sides| sides.iter().all(|side| side.rpc.under_way() == 0));
}

#[service]
trait Returns {
    /// Calls its caller back once that has left.
    async fn late(&self, context: &Context);
}

#[derive(Default)]
struct Returning(Rc<RefCell<Vec<String>>>);

impl Returns for Returning {
    async fn late(&self, context: &Context) {
        let why = context.cancelled().await;
        let outcome = ReturnsClient::new(&context.peer()).late().await.expect_err("it has left");
        self.0.borrow_mut().push(format!("{why:?}, {}", outcome.may_have_run()));
    }
}

/// Callers leave, and tasks call them back after that: no table keeps them.
#[test]
fn callers_that_have_left_are_forgotten() {
    let mut sides = pair_of(plain("alpha"), plain("beta"));
    let outcomes = Rc::new(RefCell::new(vec![]));
    sides[1].rpc.serve(ReturnsServer::new(Returning(outcomes.clone()))).unwrap();
    for _ in 0..20 {
        let call = ReturnsClient::new(&peer(&sides[0], "beta")).late();
        crate::common::until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
        // The call is not dropped, so no cancel is sent.
        let [alpha, beta] = sides;
        let Side { rpc, node } = alpha;
        drop(rpc);
        sides = [Side { rpc: Rpc::open(&node).expect("its name is free"), node }, beta];
        crate::common::until(&mut sides, "the task has ended", |sides| sides[1].rpc.under_way() == 0);
        drop(call);
    }
    assert_eq!(outcomes.take(), vec!["Disconnected, false"; 20]);
    let text = format!("{:?}", sides[1].rpc);
    assert_eq!(text, "Rpc { calls: 0, running: 0, tasks: 0, streams: 0, messages: 0, peers: 0, .. }");
}
