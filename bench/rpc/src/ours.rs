//! Our calls: a service with a method of each kind.

use std::future::poll_fn;
use std::mem::take;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use am_api::Node;
use am_measure::drivers::facility;
use am_measure::{Amount, Check, Error, Watch, changed};
use am_rpc::codec::Serde;
use am_rpc::{CallError, Rpc, service};
use futures_channel::oneshot;

use crate::am::{MAX_WAIT, OPENING};
use crate::load::{Sample, keep_busy};
use crate::near::{Given, NAMES, Near};
use crate::order::{Order, order};
use crate::work::{LONG, Method, Work};

#[service]
trait Calls {
    fn null(&self);
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    async fn ready(&self);
    async fn task(&self);
    #[blocking]
    fn pool(&self);
    fn order(&self, order: Order<'_>) -> u64;
    fn order_by_serde(&self, order: Serde<Order<'_>>) -> u64;
    fn increment(&self, by: i32) -> i32;
    fn array(&self, numbers: Vec<i32>) -> Vec<i32>;
}

/// An object with a number behind a lock, as the paper's.
#[derive(Default)]
struct Object(Mutex<i32>);

impl Calls for Object {
    fn null(&self) {}

    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    async fn ready(&self) {}

    async fn task(&self) {
        let mut is_first = true;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    fn pool(&self) {}

    fn order(&self, order: Order<'_>) -> u64 {
        order.count()
    }

    fn order_by_serde(&self, Serde(order): Serde<Order<'_>>) -> u64 {
        order.count()
    }

    fn increment(&self, by: i32) -> i32 {
        let mut number = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *number = number.wrapping_add(by);
        *number
    }

    fn array(&self, numbers: Vec<i32>) -> Vec<i32> {
        numbers
    }
}

/// Serve until the near side is done.
pub(crate) fn serve(node: &Node, mut done: oneshot::Receiver<()>) -> Result<(), Error> {
    let mut rpc = Rpc::open(node).map_err(facility)?;
    rpc.serve(CallsServer::new(Object::default())).map_err(facility)?;
    loop {
        if rpc.wait(MAX_WAIT) == 0 && done.try_recv() != Ok(None) {
            return Ok(());
        }
    }
}

/// Measure all of the work.
pub(crate) fn measure(node: &Node, near: Near<'_>, done: oneshot::Sender<()>) -> Result<Given, Error> {
    let mut rpc = Rpc::open(node).map_err(facility)?;
    let calls = CallsClient::new(&rpc.peer(NAMES[1]).map_err(facility)?);
    connect(&mut rpc, &calls, near.watch)?;
    let mut given = vec![];
    for work in &near.work {
        near.announce(work);
        given.push((*work, rpc.block_on(measure_one(&calls, work, near.amount, near.watch))?));
        near.progress.done();
    }
    // While this side is still open.
    drop(done);
    Ok(given)
}

/// Call until the far side is there.
fn connect(rpc: &mut Rpc, calls: &CallsClient, watch: &Watch) -> Result<(), Error> {
    let begin = Instant::now();
    loop {
        match rpc.block_on(calls.null()) {
            Ok(()) => return Ok(()),
            Err(error) if begin.elapsed() > OPENING => return Err(failed(error)),
            Err(_) => watch.check()?,
        }
        rpc.wait(Duration::from_millis(10));
    }
}

fn failed<E>(error: CallError<E>) -> Error
where
    CallError<E>: std::fmt::Display,
{
    Error::Lost(error.to_string())
}

async fn measure_one(calls: &CallsClient, work: &Work, amount: Amount, watch: &Watch) -> Result<Sample, Error> {
    // As many callers as calls are to be under way.
    macro_rules! busy {
        ($call:expr, $result:ident => $is_right:expr) => {{
            let callers = (0..work.outstanding).map(|_| {
                async || {
                    let $result = $call.await.map_err(failed)?;
                    if $is_right { Ok(()) } else { Err(changed()) }
                }
            });
            keep_busy(callers, amount, watch).await
        }};
    }
    let order = order();
    match work.method {
        Method::Echo if work.size == 0 => busy!(calls.null(), nothing => matches!(nothing, ())),
        Method::Echo => {
            let check = Check::new(work.size);
            busy!(calls.echo(&check.bytes), bytes => check.is_sent(&bytes))
        }
        Method::Ready => busy!(calls.ready(), nothing => matches!(nothing, ())),
        Method::Task => busy!(calls.task(), nothing => matches!(nothing, ())),
        Method::Pool => busy!(calls.pool(), nothing => matches!(nothing, ())),
        Method::Order => busy!(calls.order(order), count => count == order.count()),
        Method::OrderBySerde => busy!(calls.order_by_serde(Serde(order)), count => count == order.count()),
        Method::Increment => busy!(calls.increment(1), number => number != 0),
        Method::Array => {
            let sent: Vec<i32> = (0..LONG as i32 / 4).collect();
            busy!(calls.array(sent.clone()), numbers => numbers.len() == sent.len() && numbers.last() == sent.last())
        }
    }
}
