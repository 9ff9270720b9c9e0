//! Calls that are sent again.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::{Duration, Instant};

use am_api::ReturnReason;
use am_rpc::codec::{Encode, Reader, Schema, Writer};
use am_rpc::{CallError, Context, Decode, DecodeError, EncodeError, Retries, Rpc, service};

use crate::common::{LONG, MS, Side, drive, pair, peer, turn, until};

#[service]
trait Register {
    #[idempotent]
    fn read(&self) -> u64;
    #[idempotent]
    async fn watch(&self, context: &Context) -> u64;
    fn add(&self, more: u64) -> u64;
    #[idempotent]
    fn odd(&self, value: Odd) -> u64;
}

/// Writes one byte, or panics.
#[derive(Default)]
struct Odd {
    panics: bool,
    written: Rc<Cell<u32>>,
}

impl Schema for Odd {
    const SCHEMA: u64 = u8::SCHEMA;
}

impl Encode for Odd {
    fn size(&self) -> usize {
        1
    }

    fn encode(&self, to: &mut Writer<'_>) {
        self.written.set(self.written.get() + 1);
        assert!(!self.panics, "as the test wants");
        to.array([1]);
    }
}

impl<'a> Decode<'a> for Odd {
    const MIN_SIZE: usize = 1;

    fn decode(from: &mut Reader<'a>) -> Result<Odd, DecodeError> {
        u8::decode(from).map(|_| Odd::default())
    }
}

#[derive(Default)]
struct Number(Rc<Cell<u64>>);

impl Register for Number {
    fn read(&self) -> u64 {
        self.0.get()
    }

    async fn watch(&self, context: &Context) -> u64 {
        context.cancelled().await;
        self.0.get()
    }

    fn add(&self, more: u64) -> u64 {
        self.0.set(self.0.get() + more);
        self.0.get()
    }

    fn odd(&self, _: Odd) -> u64 {
        self.0.get()
    }
}

const QUICK: Retries = Retries { attempts: 20, pause: MS, percent: 20 };

fn served(retries: Retries) -> ([Side; 2], RegisterClient) {
    let sides = pair();
    sides[1].rpc.serve(RegisterServer::new(Number::default())).unwrap();
    let client = RegisterClient::new(&peer(&sides[0], "beta").retrying(retries));
    (sides, client)
}

/// How many calls of `read` were refused.
fn refused(side: &Side) -> u64 {
    side.rpc.statistics().iter().filter(|each| each.service == "Register").map(|each| each.refused).sum()
}

fn reopen([alpha, beta]: [Side; 2], number: u64) -> [Side; 2] {
    let Side { rpc, node } = beta;
    drop(rpc);
    let rpc = Rpc::open(&node).unwrap();
    rpc.serve(RegisterServer::new(Number(Rc::new(Cell::new(number))))).unwrap();
    [alpha, Side { rpc, node }]
}

#[test]
fn an_idempotent_call_reaches_the_next_server() {
    let (mut sides, register) = served(QUICK);
    assert_eq!(drive(&mut sides, register.read()), Ok(0));
    sides[1].rpc.shut_down(Duration::ZERO);
    let mut read = pin!(register.read());
    let start = Instant::now();
    while refused(&sides[1]) < 3 {
        assert!(read.as_mut().poll(&mut PollContext::from_waker(Waker::noop())).is_pending());
        turn(&mut sides);
        assert!(start.elapsed() < LONG);
    }
    let mut sides = reopen(sides, 7);
    assert_eq!(drive(&mut sides, read), Ok(7));
}

#[test]
fn others_are_sent_once() {
    let (mut sides, register) = served(QUICK);
    assert_eq!(drive(&mut sides, register.add(3)), Ok(3));
    sides[1].rpc.shut_down(Duration::ZERO);
    assert_eq!(drive(&mut sides, register.add(3)), Err(CallError::ShuttingDown));
    // And without a policy.
    let plain = RegisterClient::new(&peer(&sides[0], "beta"));
    assert_eq!(drive(&mut sides, plain.read()), Err(CallError::ShuttingDown));
    assert_eq!(refused(&sides[1]), 2);
}

/// The last attempt was refused, and the first may have run.
#[test]
fn what_may_have_run_once_is_not_said_to_have_not() {
    let (mut sides, register) = served(Retries { attempts: 2, ..QUICK });
    let mut watch = pin!(register.watch());
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    let mut sides = reopen(sides, 0);
    sides[1].rpc.shut_down(Duration::ZERO);
    let start = Instant::now();
    let outcome = loop {
        if let Poll::Ready(outcome) = watch.as_mut().poll(&mut PollContext::from_waker(Waker::noop())) {
            break outcome;
        }
        turn(&mut sides);
        assert!(start.elapsed() < LONG);
    };
    assert_eq!(outcome, Err(CallError::Unknown(ReturnReason::Closed)));
    assert_eq!(refused(&sides[1]), 1);
}

#[test]
fn a_server_that_is_down_gets_little_more_than_its_load() {
    const CALLS: u64 = 200;
    let (mut sides, register) = served(Retries { attempts: 3, pause: MS / 10, percent: 10 });
    sides[1].rpc.shut_down(Duration::ZERO);
    for _ in 0..CALLS {
        assert_eq!(drive(&mut sides, register.read()), Err(CallError::ShuttingDown));
    }
    let refused = refused(&sides[1]);
    assert!((CALLS + 10..=CALLS + 10 + CALLS / 10).contains(&refused), "{refused}");
}

#[test]
fn a_call_is_not_sent_again_once_its_time_is_over() {
    let (mut sides, register) = served(Retries { attempts: 1000, pause: 100 * MS, percent: 100 });
    sides[1].rpc.shut_down(Duration::ZERO);
    let hurried = RegisterClient::new(&register.peer().within(2000 * MS));
    let start = Instant::now();
    assert_eq!(drive(&mut sides, hurried.read()), Err(CallError::ShuttingDown));
    assert!(start.elapsed() < LONG / 2);
    // After 0.1, 0.2, 0.4 and 0.8 s. Half a second is left for the last answer.
    assert!((2..=6).contains(&refused(&sides[1])), "{}", refused(&sides[1]));
    // Dropped in a pause.
    let mut read = Box::pin(hurried.read());
    let before = refused(&sides[1]);
    while refused(&sides[1]) == before {
        assert!(read.as_mut().poll(&mut PollContext::from_waker(Waker::noop())).is_pending());
        turn(&mut sides);
    }
    drop(read);
    assert_eq!(sides.map(|side| side.rpc.under_way()), [0, 0]);
}

#[test]
fn arguments_that_may_be_sent_again_are_written_once() {
    let (mut sides, client) = served(QUICK);
    let written = Rc::new(Cell::new(0));
    let odd = |panics| client.odd(Odd { panics, written: written.clone() });
    assert_eq!(drive(&mut sides, odd(false)), Ok(0));
    assert_eq!(drive(&mut sides, odd(true)), Err(CallError::Unencodable(EncodeError::Panicked)));
    assert_eq!(written.get(), 2);
}
