//! Streams of calls, in both directions.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Waker};

use am_rpc::{
    CallError, Context, ItemError, STREAM_WINDOW, STREAM_WINDOW_BYTES, StreamError, StreamReader, StreamWriter, service,
};

use crate::common::{LONG, MS, Side, drive, pair, peer, served, turn, until};

#[service]
trait Feed {
    /// Writes so many numbers. Returns how many were taken.
    async fn count(&self, from: u64, count: u64, numbers: StreamWriter<u64>) -> u64;
    /// The sum of what is read.
    async fn sum(&self, numbers: StreamReader<u64>) -> Result<u64, String>;
    /// Each number that is read, doubled, until the caller ends it.
    async fn double(&self, context: &Context, numbers: StreamReader<u64>, doubled: StreamWriter<u64>);
    /// So many items of so many bytes.
    async fn long(&self, count: u32, bytes: u32, items: StreamWriter<Vec<u8>>);
}

#[derive(Default)]
struct Numbers {
    written: Rc<Cell<u64>>,
    ended: Rc<RefCell<Vec<StreamError>>>,
    failed: RefCell<Vec<String>>,
}

impl Numbers {
    fn fail(&self, error: &ItemError) -> String {
        self.failed.borrow_mut().push(error.to_string());
        error.to_string()
    }
}

impl Feed for Numbers {
    async fn count(&self, from: u64, count: u64, mut numbers: StreamWriter<u64>) -> u64 {
        for number in from..from + count {
            if let Err(error) = numbers.send(&number).await {
                self.ended.borrow_mut().push(error);
                return number - from;
            }
            self.written.set(self.written.get() + 1);
        }
        count
    }

    async fn sum(&self, mut numbers: StreamReader<u64>) -> Result<u64, String> {
        let mut sum = 0;
        while let Some(number) = numbers.next().await {
            match number.map_err(|error| self.fail(&error))? {
                u64::MAX => return Err("that is too much".into()),
                number => sum += number,
            }
        }
        Ok(sum)
    }

    async fn double(&self, _: &Context, mut numbers: StreamReader<u64>, mut doubled: StreamWriter<u64>) {
        while let Some(Ok(number)) = numbers.next().await {
            if doubled.send(&(2 * number)).await.is_err() {
                break;
            }
        }
    }

    async fn long(&self, count: u32, bytes: u32, mut items: StreamWriter<Vec<u8>>) {
        for number in 0..count {
            if items.send(&vec![number as u8; bytes as usize]).await.is_err() {
                break;
            }
            self.written.set(self.written.get() + 1);
        }
    }
}

fn feed() -> ([Side; 2], FeedClient, Rc<Numbers>) {
    let sides = pair();
    let numbers = Rc::new(Numbers::default());
    sides[1].rpc.serve(FeedServer::shared(numbers.clone())).expect("the only service");
    let client = FeedClient::new(&peer(&sides[0], "beta"));
    (sides, client, numbers)
}

fn nothing_is_left(sides: &mut [Side]) {
    until(sides, "nothing is left", |sides| sides.iter().all(|side| side.rpc.under_way() == 0));
}

#[test]
fn a_method_writes_to_its_caller() {
    let (mut sides, feed, _) = feed();
    let (call, mut numbers) = feed.count(7, 1000);
    for wanted in 7..1007 {
        assert_eq!(drive(&mut sides, numbers.next()), Some(Ok(wanted)));
    }
    assert_eq!(drive(&mut sides, numbers.next()), None);
    assert_eq!((drive(&mut sides, call), drive(&mut sides, numbers.next())), (Ok(1000), None));
    nothing_is_left(&mut sides);
}

#[test]
fn a_method_reads_from_its_caller() {
    let (mut sides, feed, _) = feed();
    let (call, mut numbers) = feed.sum();
    for number in 0..1000 {
        assert_eq!(drive(&mut sides, numbers.send(&number)), Ok(()));
    }
    drop(numbers);
    assert_eq!(drive(&mut sides, call), Ok(499_500));
    // Ended before it was sent, and by the method, with an error.
    let (call, numbers) = feed.sum();
    drop(numbers);
    assert_eq!(drive(&mut sides, call), Ok(0));
    let (call, mut numbers) = feed.sum();
    assert_eq!(drive(&mut sides, numbers.send(&u64::MAX)), Ok(()));
    assert_eq!(drive(&mut sides, call), Err(CallError::Service("that is too much".into())));
    assert_eq!(drive(&mut sides, numbers.send(&1)), Err(StreamError::Closed));
    nothing_is_left(&mut sides);
}

#[test]
fn streams_go_both_ways_at_once() {
    let (mut sides, feed, _) = feed();
    let (call, mut numbers, mut doubled) = feed.double();
    for number in 0..500 {
        assert_eq!(drive(&mut sides, numbers.send(&number)), Ok(()));
        assert_eq!(drive(&mut sides, doubled.next()), Some(Ok(2 * number)));
    }
    drop(numbers);
    assert_eq!((drive(&mut sides, doubled.next()), drive(&mut sides, call)), (None, Ok(())));
    nothing_is_left(&mut sides);
}

/// A reader that does not read holds up its writer, and no other call or stream of its connection.
#[test]
fn a_slow_reader_stops_its_writer_only() {
    let (mut sides, feed, numbers) = feed();
    let (_slow, mut unread) = feed.count(0, 100_000);
    until(&mut sides, "it is a window ahead", |_| numbers.written.get() == STREAM_WINDOW as u64);
    (0..200).for_each(|_| turn(&mut sides));
    assert_eq!(numbers.written.get(), STREAM_WINDOW as u64);
    let (call, mut fast) = feed.count(0, 1000);
    while drive(&mut sides, fast.next()).is_some() {}
    assert_eq!(drive(&mut sides, call), Ok(1000));
    assert_eq!(numbers.written.get(), STREAM_WINDOW as u64 + 1000);
    // Half a window that was read is credit.
    for number in 0..STREAM_WINDOW as u64 / 2 {
        assert_eq!(drive(&mut sides, unread.next()), Some(Ok(number)));
    }
    until(&mut sides, "it goes on", |_| numbers.written.get() == 1000 + 3 * STREAM_WINDOW as u64 / 2);
}

#[test]
fn a_slow_reader_of_long_items_stops_its_writer_by_their_bytes() {
    const BYTES: usize = 200_000;
    let (mut sides, feed, numbers) = feed();
    let (call, mut items) = feed.long(40, BYTES as u32);
    let window = STREAM_WINDOW_BYTES.div_ceil(BYTES + 4) as u64;
    until(&mut sides, "it is a window ahead", |_| numbers.written.get() == window);
    (0..500).for_each(|_| turn(&mut sides));
    assert_eq!(numbers.written.get(), window);
    for number in 0..40 {
        assert_eq!(drive(&mut sides, items.next()).unwrap().unwrap()[..2], [number; 2]);
    }
    assert_eq!((drive(&mut sides, items.next()), drive(&mut sides, call)), (None, Ok(())));
    nothing_is_left(&mut sides);
}

#[test]
fn a_reader_that_leaves_stops_the_writer_and_not_the_call() {
    let (mut sides, feed, numbers) = feed();
    let (call, mut read) = feed.count(0, 100_000);
    assert_eq!(drive(&mut sides, read.next()), Some(Ok(0)));
    drop(read);
    let taken = drive(&mut sides, call).expect("the method returns");
    assert!((1..=2 * STREAM_WINDOW as u64).contains(&taken), "{taken}");
    assert_eq!(*numbers.ended.borrow(), [StreamError::Closed]);
    nothing_is_left(&mut sides);
}

/// What is read last.
fn last_of(sides: &mut [Side], items: &mut StreamReader<u64>) -> Result<u64, ItemError> {
    let mut last = Ok(0);
    while let Some(item) = drive(sides, items.next()) {
        last = item;
    }
    last
}

/// A method that reads can tell a caller that has ended its stream from one that has left.
#[test]
fn a_caller_that_leaves_cuts_the_stream_that_it_writes() {
    let (mut sides, feed, numbers) = feed();
    let (call, mut to_sum) = feed.sum();
    assert_eq!(drive(&mut sides, to_sum.send(&1)), Ok(()));
    until(&mut sides, "it runs", |sides| sides[1].rpc.under_way() == 1);
    drop(call);
    until(&mut sides, "it has ended", |sides| sides[1].rpc.under_way() == 0);
    assert_eq!(*numbers.failed.borrow(), [ItemError::Cut.to_string()]);
    // And one that ends it, before the call is sent.
    let other = FeedClient::new(&peer(&sides[0], "beta"));
    let (call, none) = other.sum();
    drop(none);
    assert_eq!(drive(&mut sides, call), Ok(0));
    assert_eq!(numbers.failed.borrow().len(), 1);
}

#[test]
fn a_call_that_is_dropped_ends_its_streams() {
    let (mut sides, feed, numbers) = feed();
    let (call, mut read) = feed.count(0, 100_000);
    assert_eq!(drive(&mut sides, read.next()), Some(Ok(0)));
    drop(call);
    assert_eq!(last_of(&mut sides, &mut read), Err(ItemError::Cut));
    assert_eq!(drive(&mut sides, read.next()), None);
    nothing_is_left(&mut sides);
    assert_eq!(*numbers.ended.borrow(), [StreamError::Closed]);
    // And its deadline.
    let hurried = FeedClient::new(&peer(&sides[0], "beta").within(300 * MS));
    let (call, mut numbers) = hurried.sum();
    assert_eq!(drive(&mut sides, numbers.send(&1)), Ok(()));
    let outcome = drive(&mut sides, call);
    assert!(matches!(outcome, Err(CallError::Deadline | CallError::Service(_)) | Ok(1)), "{outcome:?}");
    assert_eq!(drive(&mut sides, numbers.send(&1)), Err(StreamError::Closed));
    nothing_is_left(&mut sides);
}

#[test]
fn a_server_that_leaves_ends_the_streams() {
    let ([alpha, beta], feed, _) = feed();
    let mut both = [alpha, beta];
    let (call, mut read) = feed.count(0, 100_000);
    assert_eq!(drive(&mut both, read.next()), Some(Ok(0)));
    let [alpha, beta] = both;
    drop(beta);
    let mut alpha = [alpha];
    assert_eq!(last_of(&mut alpha, &mut read), Err(ItemError::Cut));
    assert!(drive(&mut alpha, call).unwrap_err().may_have_run());
    nothing_is_left(&mut alpha);
}

#[test]
fn items_may_be_longer_than_a_frame() {
    let (mut sides, feed, _) = feed();
    for bytes in [0, 60, 70, 1400, 3000, 20_000, 200_000] {
        let (call, mut items) = feed.long(40, bytes);
        for number in 0..40 {
            let item = drive(&mut sides, items.next()).expect("it is not over").expect("bytes");
            assert!(item.len() == bytes as usize && item.iter().all(|byte| *byte == number), "{bytes}");
        }
        assert_eq!((drive(&mut sides, items.next()), drive(&mut sides, call)), (None, Ok(())));
    }
    nothing_is_left(&mut sides);
}

/// A method without streams under the name of one with them is another method.
#[test]
fn the_items_are_part_of_the_signature() {
    mod other {
        #[am_rpc::service]
        #[expect(dead_code, reason = "only its client is used")]
        pub(crate) trait Feed {
            async fn sum(&self, numbers: am_rpc::StreamReader<u32>) -> Result<u64, String>;
        }
    }
    let (mut sides, feed, _) = feed();
    let (call, _numbers) = other::FeedClient::new(feed.peer()).sum();
    assert!(matches!(drive(&mut sides, call), Err(CallError::Mismatch(_))));
}

/// Streams of a call that cannot be sent are over.
#[test]
fn streams_of_a_call_that_is_not_sent_end() {
    let (mut sides, ..) = served();
    let feed = FeedClient::new(&peer(&sides[0], "alpha").within(LONG));
    let (call, mut numbers) = feed.sum();
    assert!(pin!(numbers.send(&1)).poll(&mut PollContext::from_waker(Waker::noop())).is_pending());
    assert!(!drive(&mut sides, call).unwrap_err().may_have_run());
    assert_eq!(drive(&mut sides, numbers.send(&1)), Err(StreamError::Closed));
}
