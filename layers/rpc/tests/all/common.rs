//! Two nodes on one thread, joined by a wire in memory; and a service with methods of each kind.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::{Duration, Instant};

use am_api::{Builder, Framing, Node};
use am_rpc::{Cancelled, Context, Peer, Rpc, Wire, service};
use am_transport::loopback;

/// Longer than anything here takes when nothing is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// A node and its endpoint for calls.
pub(crate) struct Side {
    pub(crate) rpc: Rpc,
    pub(crate) node: Node,
}

pub(crate) fn plain(name: &str) -> Builder {
    Node::builder(name).framing(Framing::Plain)
}

pub(crate) fn pair() -> [Side; 2] {
    pair_of(plain("alpha"), plain("beta"))
}

pub(crate) fn pair_of(alpha: Builder, beta: Builder) -> [Side; 2] {
    let [left, right] = loopback::pair().map(|plug| Box::new(plug.open().expect("memory")));
    [(alpha, left), (beta, right)].map(|(builder, transport)| {
        let node = builder.open_on(transport).unwrap_or_else(|error| panic!("{error}"));
        Side { rpc: Rpc::open(&node).expect("an endpoint"), node }
    })
}

/// A pair whose second node serves; and the second as a peer of the first.
pub(crate) fn served() -> ([Side; 2], StoreClient, Arc<Shelf>) {
    served_by(pair())
}

pub(crate) fn served_by(sides: [Side; 2]) -> ([Side; 2], StoreClient, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::default());
    sides[1].rpc.serve(StoreServer::shared(shelf.clone())).expect("the only service");
    let client = StoreClient::new(&peer(&sides[0], "beta"));
    (sides, client, shelf)
}

pub(crate) fn peer(of: &Side, name: &str) -> Peer {
    of.rpc.peer(name).expect("a name").within(LONG)
}

/// Poll all until the future is ready.
pub(crate) fn drive<F: Future>(sides: &mut [Side], future: F) -> F::Output {
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut PollContext::from_waker(Waker::noop())) {
            return output;
        }
        turn(sides);
        assert!(start.elapsed() < LONG, "it is not ready");
    }
}

pub(crate) fn until(sides: &mut [Side], what: &str, so: impl Fn(&[Side]) -> bool) {
    let start = Instant::now();
    while !so(sides) {
        turn(sides);
        assert!(start.elapsed() < LONG, "still not: {what}");
    }
}

pub(crate) fn turn(sides: &mut [Side]) {
    sides.iter_mut().for_each(|side| _ = side.rpc.poll());
}

/// There is no such key.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub(crate) struct Missing {
    pub(crate) key: String,
}

/// Keys and values.
#[service]
pub(crate) trait Store {
    /// The value of a key.
    fn get(&self, key: &str) -> Result<Vec<u8>, Missing>;
    /// Returns how many bytes the key had before.
    fn put(&self, key: &str, value: &[u8]) -> u64;
    /// All that is written to the shelf itself.
    fn label(&self) -> &str;
    /// The same, or an error.
    fn checked_label(&self, is_wanted: bool) -> Result<Option<&str>, Missing>;
    fn nothing(&self);
    fn caller(&self, context: &Context) -> String;
    fn panic(&self);
    /// So many bytes.
    fn bytes(&self, count: u32) -> Vec<u8>;
    /// Ready at once.
    async fn double(&self, number: u64) -> u64;
    /// Waits until the key is there. Returns nothing once nobody waits.
    async fn wait_for(&self, context: &Context, key: &str) -> Result<Vec<u8>, Missing>;
    async fn panic_later(&self, key: &str);
    #[blocking]
    fn sleep(&self, ms: u64) -> u64;
}

/// What [`Store`] is tested with.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) values: std::sync::Mutex<HashMap<String, Vec<u8>>>,
    pub(crate) ran: std::sync::atomic::AtomicUsize,
    pub(crate) cancelled: std::sync::Mutex<Vec<&'static str>>,
}

impl Shelf {
    fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.values.lock().expect("no panic").get(key).cloned()
    }

    pub(crate) fn runs(&self) -> usize {
        self.ran.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn run(&self) {
        self.ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Polls whenever the thread's other tasks have run.
pub(crate) async fn a_turn() {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

impl Store for Shelf {
    fn get(&self, key: &str) -> Result<Vec<u8>, Missing> {
        self.run();
        self.value(key).ok_or_else(|| Missing { key: key.into() })
    }

    fn put(&self, key: &str, value: &[u8]) -> u64 {
        self.run();
        let old = self.values.lock().expect("no panic").insert(key.into(), value.into());
        old.map_or(0, |old| old.len() as u64)
    }

    fn label(&self) -> &str {
        "a shelf with a label that is longer than what is copied when an answer arrives, so it is kept"
    }

    fn checked_label(&self, is_wanted: bool) -> Result<Option<&str>, Missing> {
        if is_wanted { Ok(Some("label")) } else { Err(Missing { key: "label".into() }) }
    }

    fn nothing(&self) {
        self.run();
    }

    fn caller(&self, context: &Context) -> String {
        context.caller().expect("it is connected").to_string()
    }

    fn panic(&self) {
        panic!("as the test wants");
    }

    fn bytes(&self, count: u32) -> Vec<u8> {
        (0..count).map(|at| at as u8).collect()
    }

    async fn double(&self, number: u64) -> u64 {
        self.run();
        2 * number
    }

    async fn wait_for(&self, context: &Context, key: &str) -> Result<Vec<u8>, Missing> {
        self.run();
        loop {
            if let Some(value) = self.value(key) {
                return Ok(value);
            }
            let turn = pin!(a_turn());
            let cancelled = pin!(context.cancelled());
            if let futures_util::future::Either::Right((why, _)) = futures_util::future::select(turn, cancelled).await {
                let why = match why {
                    Cancelled::ByCaller => "by its caller",
                    Cancelled::Deadline => "by its deadline",
                    Cancelled::Disconnected => "by the end of its connection",
                };
                self.cancelled.lock().expect("no panic").push(why);
                return Err(Missing { key: key.into() });
            }
        }
    }

    async fn panic_later(&self, key: &str) {
        while self.value(key).is_none() {
            a_turn().await;
        }
        panic!("as the test wants");
    }

    fn sleep(&self, ms: u64) -> u64 {
        std::thread::sleep(ms as u32 * MS);
        ms
    }
}

/// A service that calls back, on the connection of its caller.
#[service]
pub(crate) trait Echo {
    fn echo(&self, number: u64) -> u64;
    /// Asks the caller's `Echo` for one less, until 0; then adds on the way back.
    async fn bounce(&self, context: &Context, times: u32) -> u32;
}

/// Counts what runs.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) runs: Rc<Cell<u64>>,
    pub(crate) remaining: RefCell<Vec<Duration>>,
}

impl Echo for Counting {
    fn echo(&self, number: u64) -> u64 {
        self.runs.set(self.runs.get() + 1);
        number
    }

    async fn bounce(&self, context: &Context, times: u32) -> u32 {
        self.remaining.borrow_mut().push(context.remaining());
        if times == 0 {
            return 0;
        }
        let client = EchoClient::new(&context.peer());
        client.bounce(times - 1).await.map_or(u32::MAX, |more| more.saturating_add(1))
    }
}
