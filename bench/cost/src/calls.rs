//! The same trips by remote procedure calls: a method without arguments and result, run inline.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};

use am_api::{Clock, Framing, Incarnation, Node};
use am_rpc::{Call, Rpc, service};

use crate::Error;
use crate::marks::{Mode, Step, TOGETHER, announce, enter};
use crate::over::open_loopback;
use crate::trips::TICK;

#[service]
trait Null {
    fn null(&self);
}

struct Nothing;

impl Null for Nothing {
    fn null(&self) {}
}

/// As the waker of a thread that waits.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

pub(crate) fn run() -> Result<(), Error> {
    let (clock, hand) = Clock::manual();
    let mut ends = open_loopback(2)?;
    let mut open = |name: &str| -> Result<Rpc, Error> {
        let builder = Node::builder(name).framing(Framing::Split).clock(clock.clone(), Incarnation(1));
        Ok(Rpc::open(&builder.open_on(ends.remove(0))?)?)
    };
    let (mut alpha, mut beta) = (open("alpha")?, open("beta")?);
    beta.serve(NullServer::new(Nothing))?;
    let client = NullClient::new(&alpha.peer("beta")?);
    let waker = Waker::from(Arc::new(Woken(AtomicBool::new(false))));
    let mut first = client.null();
    while !is_over(&mut first, &waker)? {
        hand.advance(TICK);
        alpha.poll();
        beta.poll();
    }
    announce()?;
    let mut calls = Vec::with_capacity(TOGETHER as usize);
    for together in Mode::now().trips() {
        hand.advance(TICK);
        trip([&mut alpha, &mut beta], &client, &mut calls, (together, &waker))?;
    }
    Ok(())
}

fn is_over(call: &mut Call<()>, waker: &Waker) -> Result<bool, Error> {
    match Pin::new(call).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(outcome) => Ok(outcome.map(|()| true)?),
        Poll::Pending => Ok(false),
    }
}

fn trip(
    [alpha, beta]: [&mut Rpc; 2],
    client: &NullClient,
    calls: &mut Vec<Call<()>>,
    (together, waker): (u64, &Waker),
) -> Result<(), Error> {
    enter(Step::Request as u8);
    for _ in 0..together {
        let mut call = client.null();
        is_over(&mut call, waker)?;
        calls.push(call);
    }
    enter(Step::Leave as u8);
    alpha.endpoint().flush();
    enter(Step::Serve as u8);
    let mut served = 0;
    for _ in 0..TOGETHER {
        served += beta.poll() as u64;
        if served >= together {
            break;
        }
    }
    enter(Step::Answer as u8);
    for _ in 0..TOGETHER {
        alpha.poll();
        while let Some(call) = calls.last_mut()
            && is_over(call, waker)?
        {
            calls.pop();
        }
        if calls.is_empty() {
            break;
        }
    }
    let mut more = 0;
    if Mode::now().has_idle_turns(together) {
        enter(Step::Idle as u8);
        more = beta.poll() + alpha.poll();
    }
    enter(Step::Outside as u8);
    match calls.is_empty() && more == 0 {
        true => Ok(()),
        false => Err("not all calls were answered, once".into()),
    }
}
