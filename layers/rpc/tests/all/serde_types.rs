//! Types with serde's traits.

use std::collections::BTreeMap;

use am_rpc::codec::{Decode, DecodeError, Encode, EncodeError, MAX_DEPTH, Serde, from_bytes, to_vec};
use proptest::prelude::*;
use serde::{Deserialize, Serialize, Serializer};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order<'a> {
    name: &'a str,
    lines: Vec<Line>,
    by: BTreeMap<u8, Option<i64>>,
    nothing: (),
    unit: Unit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Line {
    Empty,
    Named { text: String },
    Pair(u8, f32),
    Inner(Box<Line>),
}

fn order(name: &str) -> Order<'_> {
    let inner = Line::Inner(Box::new(Line::Pair(1, 0.5)));
    let lines = vec![Line::Empty, Line::Named { text: name.into() }, inner];
    Order { name, lines, by: BTreeMap::from([(1, None), (2, Some(-3))]), nothing: (), unit: Unit }
}

#[test]
fn values_are_read_as_they_were_written_among_others() {
    let sent = (7u16, Serde(order("screws")), true);
    let bytes = to_vec(&sent).unwrap();
    assert_eq!(sent.size(), bytes.len());
    assert_eq!(from_bytes(&bytes), Ok(sent));
    for cut in 0..bytes.len() {
        assert!(from_bytes::<(u16, Serde<Order<'_>>, bool)>(&bytes[..cut]).is_err());
    }
}

#[derive(Debug, Deserialize)]
enum Chain {
    End,
    Next(Box<Chain>),
}

#[test]
fn a_recursion_ends() {
    let depth = |levels: usize| {
        let bytes = [vec![1; levels], vec![0]].concat();
        let mut chain = from_bytes::<Serde<Chain>>(&bytes).map(|Serde(chain)| chain)?;
        let mut depth = 0;
        while let Chain::Next(next) = chain {
            (chain, depth) = (*next, depth + 1);
        }
        Ok::<_, DecodeError>(depth)
    };
    assert_eq!(depth(MAX_DEPTH - 1), Ok(MAX_DEPTH - 1));
    assert_eq!(depth(MAX_DEPTH), Err(DecodeError::Depth));
    assert_eq!(depth(1 << 20), Err(DecodeError::Depth));
}

/// A number of 64 bits that says how often to do nothing.
#[test]
fn a_loop_over_nothing_ends() {
    let many = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    let error = || Some(DecodeError::Length { count: usize::MAX, left: 10 });
    assert_eq!(from_bytes::<Serde<Vec<()>>>(&many).err(), error());
    assert_eq!(from_bytes::<Serde<Vec<Unit>>>(&many).err(), error());
    assert_eq!(from_bytes::<Serde<BTreeMap<(), ()>>>(&many).err(), error());
    // Each list of a message has its own length, and they share the bytes.
    let lists = [vec![40], vec![30; 40]].concat();
    assert_eq!(from_bytes::<Serde<Vec<Vec<()>>>>(&lists).err(), Some(DecodeError::Length { count: 30, left: 1 }));
    assert_eq!(from_bytes(&[3, 0, 0, 0]), Ok(Serde(vec![vec![(); 0]; 3])));
}

/// A type that serde cannot write.
struct Broken;

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("broken"))
    }
}

#[test]
fn a_value_that_serde_cannot_write_does_not_leave() {
    assert_eq!(to_vec(&Serde(Broken)), Err(EncodeError::Serde(postcard::Error::SerdeSerCustom)));
    assert!(to_vec(&(1u8, Serde(Broken))).is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..100)) {
        if let Ok(value) = from_bytes::<Serde<Order<'_>>>(&bytes) {
            let again = to_vec(&value).unwrap();
            let read = Serde::<Order<'_>>::decode(&mut am_rpc::codec::Reader::new(&again)).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{value:?}"));
        }
    }
}
