//! Arguments and results around the end of a frame, and what is too long for a message: by a region.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use am_api::{Connection, RegionId, Rights, Sender, TransferError};
use am_rpc::{CallError, Context, NotSent, service};
use futures_channel::oneshot;

use crate::common::{LONG, a_turn, drive, pair, pair_of, peer, plain, turn};

#[service]
trait Copies {
    fn same(&self, context: &Context, bytes: &[u8]) -> Vec<u8>;
    /// As a task.
    async fn later(&self, bytes: &[u8]) -> Vec<u8>;
}

#[derive(Default)]
struct Copying {
    caller: Cell<Option<Connection>>,
    runs: Cell<usize>,
}

impl Copies for Copying {
    fn same(&self, context: &Context, bytes: &[u8]) -> Vec<u8> {
        self.caller.set(Some(context.connection()));
        self.runs.set(self.runs.get() + 1);
        bytes.to_vec()
    }

    async fn later(&self, bytes: &[u8]) -> Vec<u8> {
        a_turn().await;
        bytes.to_vec()
    }
}

/// The words of a call, and of an answer.
const WORDS: [usize; 2] = [3, 2];
/// The count before the bytes of a slice.
const COUNT: usize = 4;

#[test]
fn a_frame_less_one_a_frame_and_one_more() {
    const MOST: usize = 50_000;
    let mut sides = pair_of(plain("alpha").max_message(MOST), plain("beta").max_message(MOST));
    let copying = Rc::new(Copying::default());
    sides[1].rpc.serve(CopiesServer::shared(copying.clone())).unwrap();
    let copies = CopiesClient::new(&peer(&sides[0], "beta"));
    assert_eq!(drive(&mut sides, copies.same(b"")).unwrap(), b"");
    let caller = copying.caller.get().expect("it was called");
    let frames = WORDS.map(|words| sides[1].rpc.endpoint().frame_payload(caller, words).expect("it is open") - COUNT);
    assert!(frames[0] < frames[1] && frames[0] > 1000, "{frames:?}");
    let mut lengths = vec![0, 1, MOST - COUNT - 1, MOST - COUNT];
    lengths.extend(frames.into_iter().flat_map(|frame| [frame - 1, frame, frame + 1]));
    for length in lengths {
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let before = sides.each_ref().map(|side| side.node.counters().get("long_sent"));
        assert!(drive(&mut sides, copies.same(&bytes)).unwrap() == bytes, "{length}");
        let long = [0, 1].map(|at| sides[at].node.counters().get("long_sent") - before[at]);
        assert_eq!(long, frames.map(|frame| u64::from(length > frame)), "{length}: more than a frame there and back");
        assert!(drive(&mut sides, copies.later(&bytes)).unwrap() == bytes, "{length}, as a task");
    }
    let runs = copying.runs.get();
    let too_long = drive(&mut sides, copies.same(&[1; MOST - COUNT + 1])).unwrap_err();
    assert_eq!(too_long, CallError::NotSent(NotSent::TooLong { bytes: MOST + 1, most: MOST }));
    assert_eq!((copying.runs.get(), too_long.may_have_run()), (runs, false));
    let frame = frames[0];
    assert_eq!(drive(&mut sides, copies.same(&vec![1; frame])).unwrap().len(), frame, "the connection goes on");
}

#[service]
trait Pulls {
    /// Get so many bytes of the caller's region. Returns the last one, and how many of the others are not as the first.
    async fn pull(&self, context: &Context, region: u32, bytes: u64) -> Result<(u8, u64), String>;
}

type Waiting = Rc<RefCell<Option<oneshot::Sender<Result<(), TransferError>>>>>;

/// Gets, and waits for the end of a get.
struct Pulling {
    sender: Sender,
    waiting: Waiting,
}

impl Pulls for Pulling {
    async fn pull(&self, context: &Context, region: u32, bytes: u64) -> Result<(u8, u64), String> {
        let into = self.sender.register(vec![0; bytes as usize], Rights::NONE);
        let (tell, over) = oneshot::channel();
        *self.waiting.borrow_mut() = Some(tell);
        let begun = self.sender.get(context.connection(), RegionId(region), 0, bytes, &into, 0);
        begun.map_err(|error| error.to_string())?;
        over.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let got = into.bytes();
        let (last, others) = got.split_last().ok_or("nothing")?;
        Ok((*last, others.iter().filter(|byte| **byte != others[0]).count() as u64))
    }
}

/// The caller passes a region, and the method gets its bytes.
fn by_a_region(length: usize) {
    let mut sides = pair();
    let waiting = Waiting::default();
    let told = waiting.clone();
    sides[1].rpc.endpoint().on_transfer(move |(), over| {
        let tell = told.borrow_mut().take();
        tell.into_iter().for_each(|tell| _ = tell.send(over.result));
    });
    let sender = sides[1].rpc.endpoint().sender();
    sides[1].rpc.serve(PullsServer::new(Pulling { sender, waiting })).unwrap();
    let region = sides[0].rpc.endpoint().register(vec![0; length], Rights::READ);
    *region.bytes_mut().last_mut().expect("bytes") = 9;
    let patient = peer(&sides[0], "beta").within(20 * LONG);
    let mut call = std::pin::pin!(PullsClient::new(&patient).pull(region.id().0, length as u64));
    let outcome = loop {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(outcome) = call.as_mut().poll(&mut context) {
            break outcome;
        }
        turn(&mut sides);
    };
    assert_eq!(outcome, Ok((9, 0)));
}

/// `AM_RPC_REGION_BYTES` says another length: 4294967295 takes as much memory.
#[test]
fn more_than_a_message_by_a_region() {
    let length = std::env::var("AM_RPC_REGION_BYTES").map_or((3 << 20) + 1, |bytes| bytes.parse().expect("a number"));
    by_a_region(length);
}
