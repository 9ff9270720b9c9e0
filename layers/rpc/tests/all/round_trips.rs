//! Each type is read as it was written, takes the bytes that it announced, and no part of them is a value.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use am_rpc::codec::{Decode, DecodeError, Encode, Plain, from_bytes, to_vec};
use proptest::collection::{btree_map, btree_set, hash_map, hash_set, vec, vec_deque};
use proptest::prelude::*;
use zerocopy::little_endian as le;

/// The value's bytes, which it has in common with every value that is equal.
#[track_caller]
fn written(value: &(impl Encode + Debug + ?Sized)) -> Vec<u8> {
    let bytes = to_vec(value).unwrap();
    assert_eq!(value.size(), bytes.len());
    bytes
}

#[track_caller]
fn round<'a, T: Encode + Decode<'a> + PartialEq + Debug>(value: &T, bytes: &'a [u8]) {
    assert_eq!(from_bytes::<T>(bytes).as_ref(), Ok(value));
    for cut in (0..bytes.len()).rev().step_by(1 + bytes.len() / 64) {
        assert!(from_bytes::<T>(&bytes[..cut]).is_err(), "{value:?}: {cut} of {} bytes", bytes.len());
    }
    assert!(T::MIN_SIZE <= bytes.len());
}

macro_rules! round_trips {
    ($($name:ident($value:ident in $strategy:expr $(, $also:expr)?);)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(
                #[test]
                fn $name($value in $strategy) {
                    let bytes = written(&$value);
                    round(&$value, &bytes);
                    let longer = [&bytes[..], &[0]].concat();
                    $(let () = $also(&longer[..bytes.len()], &$value);)?
                    // Of one type with the value.
                    let mut read = vec![from_bytes(&longer), Ok($value)];
                    prop_assert_eq!(read.swap_remove(0).err(), Some(DecodeError::Left(1)));
                }
            )+
        }
    };
}

type Floats = (f32, f64, Vec<f32>, [f64; 2]);

round_trips! {
    unsigned(value in any::<(u8, u16, u32, u64, u128)>());
    signed(value in any::<(i8, i16, i32, i64, i128)>());
    floats(value in any::<Floats>());
    bools_and_letters(value in any::<(bool, char, Vec<bool>, [char; 3])>());
    durations(value in (any::<u64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)));
    nothing(value in Just(()));
    tuples(value in any::<((u8,), (u8, bool), (u8, u8, u8), (u8, u8, u8, u8), (u8, u16, u8, u8, u8, u8, u8, i32))>());
    long_tuples(value in any::<[u8; 9]>().prop_map(|[a, b, c, d, e, f, g, h, i]| (a, b, c, d, e, f, g, h, i, a, b, i)));
    arrays(value in any::<([u8; 4], [u16; 0], [String; 2], [[bool; 2]; 3], [i128; 2])>());
    options(value in any::<(Option<u8>, Option<Option<bool>>, Option<String>)>());
    results(value in any::<(Result<u8, String>, Result<(), Option<u16>>)>());
    text(value in any::<String>(), |bytes, value: &String| {
        assert_eq!(from_bytes::<&str>(bytes).unwrap(), value);
        assert_eq!(&*from_bytes::<Box<str>>(bytes).unwrap(), value);
        assert_eq!(&*from_bytes::<Rc<str>>(bytes).unwrap(), value);
        assert!(matches!(from_bytes(bytes).unwrap(), Cow::<'_, str>::Borrowed(text) if text == value));
        assert!(from_bytes::<&[u8]>(bytes).unwrap() == value.as_bytes());
        for same in [written(value.as_str()), written(&Cow::Borrowed(&**value)), written(&Arc::<str>::from(&**value))] {
            assert_eq!(same, bytes);
        }
    });
    bytes(value in any::<Vec<u8>>(), |bytes, value: &Vec<u8>| {
        assert_eq!(from_bytes::<&[u8]>(bytes).unwrap(), value);
        assert_eq!(from_bytes::<Box<[u8]>>(bytes).unwrap()[..], value[..]);
        assert!(matches!(from_bytes(bytes).unwrap(), Cow::<'_, [u8]>::Borrowed(data) if data == value));
        assert_eq!(*from_bytes::<Plain<'_, [u8]>>(bytes).unwrap(), value[..]);
        assert_eq!(written(&value[..]), bytes);
    });
    lists(value in any::<(Vec<u16>, Vec<String>, Vec<Vec<i64>>, Vec<(u8, bool)>)>());
    boxes(value in any::<(Box<u32>, Rc<String>, Arc<bool>, Box<[u16]>, Rc<[String]>, Arc<str>, Box<Option<u8>>)>());
    queues(value in vec_deque(any::<u16>(), 0..9).prop_map(|queue| {
        // In two parts, as a queue is that was in use.
        let mut turned: VecDeque<u16> = [1, 2, 3].into();
        turned.rotate_left(1);
        turned.extend(queue);
        (turned, VecDeque::from([true]))
    }));
    maps(value in (btree_map(any::<u8>(), any::<String>(), 0..5), hash_map(any::<String>(), any::<u64>(), 0..5)));
    sets(value in (btree_set(any::<i16>(), 0..5), hash_set(any::<(u8, bool)>(), 0..5)));
    numbers_without_alignment(value in any::<(u16, u32, u64, u128, i16, i32)>().prop_map(|(a, b, c, d, e, f)| {
        (le::U16::new(a), le::U32::new(b), vec![le::U64::new(c)], [le::U128::new(d)], le::I16::new(e), le::I32::new(f))
    }), |bytes, &(a, b, ref c, [d], e, f): &(le::U16, le::U32, Vec<le::U64>, [le::U128; 1], le::I16, le::I32)| {
        assert_eq!(bytes, written(&(a.get(), b.get(), [c[0].get()].as_slice(), d.get(), e.get(), f.get())));
    });
    plain_numbers(value in vec(any::<u64>(), 0..5), |bytes, value: &Vec<u64>| {
        assert_eq!(*from_bytes::<Plain<'_, [u64]>>(bytes).unwrap(), value[..]);
        assert_eq!(written(&Plain::from(&value[..])), bytes, "a plain list of numbers has the bytes of a list");
    });
}

/// A number that is no number keeps its bits.
#[test]
fn every_bit_of_a_float_arrives() {
    for bits in [0x7FF8_0000_0000_0001, 0xFFF0_0000_0000_0000, 1, 0x8000_0000_0000_0000] {
        assert_eq!(from_bytes::<f64>(&written(&f64::from_bits(bits))).unwrap().to_bits(), bits);
    }
}

#[test]
fn references_are_written_as_what_they_refer_to() {
    let (number, list, map) = (7u16, vec![1u8, 2], BTreeMap::from([(1u8, "one")]));
    assert_eq!(
        written(&(&number, &list, &list[..], &&map)),
        written(&(number, list.clone(), list.clone(), map.clone()))
    );
    assert_eq!(written(&HashMap::from([(1u8, "one")])), written(&map));
    assert_eq!(written(&HashSet::from([3u8])), written(&BTreeSet::from([3u8])));
}
