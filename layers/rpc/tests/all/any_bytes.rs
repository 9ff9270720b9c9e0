//! Bytes of a peer, at random and near those of a value.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::checks::{self, Anywhere, Chain, Choice, Fields, Inner, Lists, Point, Sets, Unit, Value, Views};
use am_rpc::codec::{Plain, to_vec};

/// Small numbers are lengths and tags that make sense.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..200), vec(0..4u8, 0..200), vec(prop_oneof![8 => Just(0), 1 => any::<u8>()], 0..200)]
}

/// What each kind of value is as bytes.
fn values(seed: u64, text: &str, numbers: &[u16]) -> Vec<Vec<u8>> {
    let number = seed as u32;
    let fields = Fields {
        bytes: (number as u8, -1),
        numbers: (1, -2, number, 4, seed, -6),
        long: (u128::from(seed) << 64, -8),
        is_set: seed.is_multiple_of(2),
        letter: 'ß',
        text,
        data: text.as_bytes(),
        time: seed.is_multiple_of(3).then(|| std::time::Duration::from_nanos(seed)),
        outcome: if seed.is_multiple_of(5) { Ok([1, 2, 3]) } else { Err(text.into()) },
        nothing: (),
        last: Unit,
    };
    let choice = match seed % 4 {
        0 => Choice::Nothing,
        1 => Choice::Circle { radius: number, is_filled: true },
        2 => Choice::Named(text, (3, false)),
        _ => Choice::Other(if seed % 8 < 4 { Inner::A(Some(None)) } else { Inner::B(Err('x')) }),
    };
    let lists = Lists {
        names: vec![text.into(); 2],
        numbers: numbers.iter().map(|&number| number.into()).collect(),
        small: numbers.iter().map(|&number| number as i16).collect(),
        queue: numbers.iter().map(|&number| (number as u8, number % 2 == 1)).collect(),
        text: text.into(),
        data: text.as_bytes().into(),
        shared: [text.into()].into(),
        nested: vec![vec![Some([true, false]), None], vec![]],
    };
    let sets = Sets {
        sorted: numbers.iter().map(|&number| (number as u8, numbers.to_vec())).collect(),
        hashed: numbers.iter().map(|&number| (format!("{text}{number}"), number.into())).collect(),
        set: numbers.iter().map(|&number| number as i16).collect(),
        hashes: numbers.iter().map(|&number| (number as u8, ())).collect(),
    };
    let points: Vec<Point> = numbers.iter().map(|&number| Point { x: seed, y: [number.into(), -1] }).collect();
    let anywhere: Vec<Anywhere> = numbers.iter().map(|_| Anywhere { tag: 1, number: seed.into() }).collect();
    let views = Views {
        offset: 0,
        one: Plain::from(&Point { x: 1, y: [2, 3] }),
        many: Plain::from(&points[..]),
        anywhere: Plain::from(&anywhere[..]),
    }
    .bytes();
    let leaf = vec![Value::Null, Value::Flag(true), Value::Text(text.into())];
    let map = numbers.iter().map(|&number| (number as u8, Value::List(leaf.clone()))).collect();
    let pair = Value::Pair((Value::Map(map), Value::Slice(leaf.clone().into())).into());
    let value = Value::Tree(Some(Value::Queue([pair, Value::Tree(None)].into()).into()));
    let chain = numbers.iter().take(100).fold(Chain::End, |chain, _| Chain::Next(chain.into()));
    let written = [to_vec(&fields), to_vec(&choice), to_vec(&lists), to_vec(&sets), to_vec(&value), to_vec(&chain)];
    written.into_iter().map(|bytes| bytes.expect("a value can be written")).chain([views]).collect()
}

impl Views<'_> {
    fn bytes(&self) -> Vec<u8> {
        to_vec(self).expect("a value can be written")
    }
}

/// Each value by the check that reads it.
const CHECKS: [fn(&[u8]); 7] = [
    checks::fields,
    checks::choices,
    checks::collections,
    checks::collections,
    checks::recursion,
    checks::recursion,
    checks::plain,
];

proptest! {
    #[test]
    fn no_bytes_panic(bytes in bytes()) {
        checks::all(&bytes);
    }

    #[test]
    fn no_change_of_a_value_panics(
        seed: u64,
        text in ".{0,12}",
        numbers in vec(any::<u16>(), 0..6),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..4),
    ) {
        for (mut bytes, check) in values(seed, &text, &numbers).into_iter().zip(CHECKS) {
            check(&bytes);
            for (at, byte, change) in &changes {
                let at = at.index(bytes.len() + 1);
                match change {
                    0 => bytes.insert(at, *byte),
                    1 if at < bytes.len() => bytes[at] = *byte,
                    _ => bytes.truncate(at),
                }
            }
            check(&bytes);
        }
    }
}
