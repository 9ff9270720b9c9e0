//! Values that cannot be sent: their codec was written by hand and is wrong, or they are too long.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Waker};

use am_rpc::codec::{Encode, Schema, Writer};
use am_rpc::{CallError, Decode, DecodeError, EncodeError, StreamError, StreamReader, StreamWriter, service};

use crate::common::{Side, a_turn, drive, pair_of, peer, plain, turn};

/// Announces four bytes, and writes so many.
#[derive(Clone, Debug, PartialEq)]
struct Announced(u8);

impl Schema for Announced {
    const SCHEMA: u64 = u32::SCHEMA;
}

impl Encode for Announced {
    fn size(&self) -> usize {
        4
    }

    fn encode(&self, to: &mut Writer<'_>) {
        (0..self.0).for_each(|byte| to.array([byte]));
    }
}

impl<'a> Decode<'a> for Announced {
    const MIN_SIZE: usize = 4;

    fn decode(from: &mut am_rpc::codec::Reader<'a>) -> Result<Announced, DecodeError> {
        u32::decode(from).map(|_| Announced(4))
    }
}

#[service]
trait Odd {
    fn take(&self, value: Announced) -> u8;
    fn give(&self, bytes: u8) -> Announced;
    async fn give_later(&self, bytes: u8) -> Announced;
    async fn items(&self, values: StreamReader<Announced>) -> u64;
    async fn long(&self, bytes: u32, items: StreamWriter<Vec<u8>>) -> String;
}

#[derive(Default)]
struct Counts(Rc<Cell<u64>>);

impl Odd for Counts {
    fn take(&self, _: Announced) -> u8 {
        self.0.set(self.0.get() + 1);
        0
    }

    fn give(&self, bytes: u8) -> Announced {
        Announced(bytes)
    }

    async fn give_later(&self, bytes: u8) -> Announced {
        a_turn().await;
        Announced(bytes)
    }

    async fn items(&self, mut values: StreamReader<Announced>) -> u64 {
        let mut count = 0;
        while let Some(value) = values.next().await {
            count += u64::from(value.is_ok());
        }
        count
    }

    async fn long(&self, bytes: u32, mut items: StreamWriter<Vec<u8>>) -> String {
        let outcome = items.send(&vec![1; bytes as usize]).await;
        items.send(&vec![]).await.expect("the stream goes on");
        outcome.map_or_else(|error| error.to_string(), |()| "sent".into())
    }
}

const MOST: usize = 50_000;

fn served() -> ([Side; 2], OddClient, Rc<Cell<u64>>) {
    let sides = pair_of(plain("alpha").max_message(MOST), plain("beta"));
    let runs = Rc::<Cell<u64>>::default();
    sides[1].rpc.serve(OddServer::new(Counts(runs.clone()))).unwrap();
    let client = OddClient::new(&peer(&sides[0], "beta"));
    (sides, client, runs)
}

#[test]
fn a_method_does_not_run_on_arguments_that_were_not_written() {
    let (mut sides, odd, runs) = served();
    // It waits for the connection, and then not.
    for _ in 0..2 {
        assert_eq!(drive(&mut sides, odd.take(Announced(4))), Ok(0));
        let missing = drive(&mut sides, odd.take(Announced(3))).unwrap_err();
        assert_eq!((missing.clone(), missing.may_have_run()), (CallError::Unencodable(EncodeError::Missing(1)), false));
    }
    (0..100).for_each(|_| turn(&mut sides));
    assert_eq!((runs.get(), sides.map(|side| side.rpc.under_way())), (2, [0, 0]));
}

#[test]
fn a_result_that_was_not_written_is_an_error() {
    let (mut sides, odd, _) = served();
    for bytes in [4, 5, 3] {
        let outcomes = [drive(&mut sides, odd.give(bytes)), drive(&mut sides, odd.give_later(bytes))];
        let expected = if bytes == 4 { Ok(Announced(4)) } else { Err(CallError::UnencodableResult) };
        assert_eq!(outcomes, [expected.clone(), expected.clone()]);
        assert!(bytes == 4 || expected.unwrap_err().may_have_run());
    }
}

#[test]
fn items_that_were_not_written_do_not_leave() {
    let (mut sides, odd, _) = served();
    let (call, mut values) = odd.items();
    for _ in 0..2 {
        assert_eq!(drive(&mut sides, values.send(&Announced(4))), Ok(()));
        let missing = drive(&mut sides, values.send(&Announced(0)));
        assert_eq!(missing, Err(StreamError::Unencodable(EncodeError::Missing(4))));
    }
    drop(values);
    assert_eq!(drive(&mut sides, call), Ok(2));
}

/// A type that contains itself, in each way.
#[derive(Clone, Debug, PartialEq, am_rpc::Wire)]
enum Tree {
    Leaf(u8),
    Trees(Vec<Tree>),
    Boxed(Box<Tree>),
}

#[derive(am_rpc::Wire)]
struct Plain<T> {
    name: String,
    items: Vec<Option<(T, Box<[u16]>)>>,
}

#[test]
fn a_type_that_contains_itself_is_not_sure() {
    const SURE: [bool; 6] = [
        <(u8, &str, Option<Vec<String>>) as Encode>::IS_SURE,
        Plain::<u8>::IS_SURE,
        Plain::<Tree>::IS_SURE,
        Tree::IS_SURE,
        <Result<u8, std::collections::HashMap<u8, Tree>> as Encode>::IS_SURE,
        <am_rpc::codec::Serde<u8> as Encode>::IS_SURE,
    ];
    assert_eq!(SURE, [true, true, false, false, false, false]);
    let deep = (0..200).fold(Tree::Leaf(1), |tree, level| match level % 2 {
        0 => Tree::Boxed(Box::new(tree)),
        _ => Tree::Trees(vec![tree]),
    });
    assert_eq!(am_rpc::codec::to_vec(&deep), Err(EncodeError::Depth));
    let plain = Plain { name: "a".into(), items: vec![Some((1_u8, [2].into()))] };
    assert_eq!((plain.name.len(), plain.items.len()), (1, 1));
}

#[test]
fn an_item_that_is_too_long_is_refused_and_the_stream_goes_on() {
    let (mut sides, odd, _) = served();
    for (bytes, is_sent) in [(MOST - 4, true), (MOST - 3, false)] {
        let (call, mut items) = odd.long(bytes as u32);
        let first = drive(&mut sides, items.next()).unwrap().unwrap();
        assert_eq!(first.len(), if is_sent { bytes } else { 0 });
        let said = drive(&mut sides, call).unwrap();
        let refused = format!("an item of {} bytes, and the reader accepts {MOST}: send it in pieces", bytes + 4);
        assert_eq!(said, if is_sent { "sent".into() } else { refused });
    }
    // One that nobody waits for.
    let (call, _items) = odd.long(1);
    assert!(pin!(call).poll(&mut PollContext::from_waker(Waker::noop())).is_pending());
}
