//! Bytes that a peer made to do harm, and values that must not leave.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use am_rpc::codec::{Decode, DecodeError, Encode, EncodeError, MAX_DEPTH, Plain, Reader, Writer, from_bytes, to_vec};

use crate::checks::{Chain, Choice, Inner, Value};

#[track_caller]
fn refused<'a, T: Decode<'a> + Debug>(bytes: &'a [u8], error: DecodeError) {
    assert_eq!(from_bytes::<T>(bytes).map(|_| ()), Err(error));
}

#[test]
fn a_length_is_checked_before_anything_is_allocated() {
    let bytes = &[0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3];
    let error = || DecodeError::Length { count: u32::MAX as usize, left: 3 };
    refused::<&[u8]>(bytes, error());
    refused::<&str>(bytes, error());
    refused::<String>(bytes, error());
    refused::<Vec<u8>>(bytes, error());
    refused::<Vec<u128>>(bytes, error());
    refused::<Vec<String>>(bytes, error());
    refused::<Vec<Choice<'_, u8>>>(bytes, error());
    refused::<Box<[bool]>>(bytes, error());
    refused::<Rc<[Option<()>]>>(bytes, error());
    refused::<Arc<str>>(bytes, error());
    refused::<VecDeque<char>>(bytes, error());
    refused::<BTreeMap<u8, ()>>(bytes, error());
    refused::<HashMap<(), u8>>(bytes, error());
    refused::<BTreeSet<u8>>(bytes, error());
    refused::<HashSet<[u8; 2]>>(bytes, error());
    refused::<Plain<'_, [u8]>>(bytes, error());
    refused::<Plain<'_, [u64]>>(bytes, error());
}

#[test]
fn an_element_counts_as_its_smallest_encoding() {
    // Three strings take twelve bytes at least.
    refused::<Vec<String>>(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], DecodeError::Length { count: 3, left: 7 });
    assert_eq!(from_bytes::<Vec<String>>(&[1, 0, 0, 0, 0, 0, 0, 0]).unwrap(), [""]);
    assert_eq!(<(u8, [u32; 2], Option<u64>, &str, Box<bool>)>::MIN_SIZE, 1 + 8 + 1 + 4 + 1);
}

/// A type that does not say how small it can be: nobody can bound a collection of it.
#[test]
fn a_count_of_elements_without_bytes_is_refused() {
    let mut reader = Reader::new(&[2, 0, 0, 0, 1, 1]);
    assert_eq!(reader.count(0), Err(DecodeError::Length { count: 2, left: 2 }));
    assert_eq!(Reader::new(&[0, 0, 0, 0]).count(0), Ok(0));
}

#[test]
fn each_rule_of_a_type_is_checked() {
    refused::<bool>(&[2], DecodeError::Bool(2));
    refused::<char>(&[0, 0xD8, 0, 0], DecodeError::Char(0xD800));
    refused::<&str>(&[3, 0, 0, 0, b'a', 0xC3, b'b'], DecodeError::Utf8(1));
    refused::<Vec<String>>(&[1, 0, 0, 0, 1, 0, 0, 0, 0xFF], DecodeError::Utf8(0));
    refused::<Box<str>>(&[1, 0, 0, 0, 0x80], DecodeError::Utf8(0));
    refused::<Option<u8>>(&[2, 0], DecodeError::Variant { of: "Option", tag: 2 });
    refused::<Result<u8, u8>>(&[9, 0], DecodeError::Variant { of: "Result", tag: 9 });
    refused::<Inner>(&[2], DecodeError::Variant { of: "Inner", tag: 2 });
    refused::<BTreeMap<u8, u8>>(&[2, 0, 0, 0, 1, 2, 1, 3], DecodeError::Duplicate);
    refused::<HashSet<u8>>(&[2, 0, 0, 0, 5, 5], DecodeError::Duplicate);
    let second = [&[0; 8][..], &1_000_000_000u32.to_le_bytes()].concat();
    assert!(matches!(from_bytes::<Duration>(&second), Err(DecodeError::Invalid(_))));
    refused::<u16>(&[1], DecodeError::Short { need: 2, left: 1 });
    refused::<u16>(&[1, 2, 3], DecodeError::Left(1));
}

#[test]
fn the_text_of_an_error_says_what_was_wrong() {
    let error = from_bytes::<Inner>(&[7]).unwrap_err();
    assert_eq!(error.to_string(), "`Inner` has no variant 7");
    assert_eq!(format!("{error:?}"), error.to_string(), "what a program returns from `main` prints its text");
}

/// Deeper than any stack: a megabyte of a type that contains itself, by each kind of pointer.
#[test]
fn a_recursion_ends() {
    let chain = |levels: usize| [vec![1; levels], vec![0]].concat();
    assert!(from_bytes::<Chain>(&chain(MAX_DEPTH)).is_ok());
    for levels in [MAX_DEPTH + 1, 1 << 20] {
        refused::<Chain>(&chain(levels), DecodeError::Depth);
    }
    let one = [1, 0, 0, 0];
    for (tag, between) in [(3, &one[..]), (4, &[]), (5, &one), (6, &one), (7, &[1, 0, 0, 0, 9]), (8, &[1])] {
        let level = [&[tag], between].concat();
        refused::<Value>(&level.repeat(1 << 18), DecodeError::Depth);
    }
}

/// What the receiver would not read does not leave.
#[test]
fn a_value_that_is_too_deep_is_not_sent() {
    let chain = |levels: usize| (0..levels).fold(Chain::End, |chain, _| Chain::Next(Box::new(chain)));
    let bytes = to_vec(&chain(MAX_DEPTH)).unwrap();
    assert_eq!(from_bytes::<Chain>(&bytes), Ok(chain(MAX_DEPTH)));
    assert_eq!(to_vec(&chain(MAX_DEPTH + 1)), Err(EncodeError::Depth));
    let lists = |levels: usize| (1..levels).fold(Value::List(vec![]), |value, _| Value::Slice([value].into()));
    for levels in 1..=MAX_DEPTH + 1 {
        let (written, value) = (to_vec(&lists(levels)), lists(levels));
        assert!(
            written.is_err() || from_bytes(&written.unwrap()) == Ok(value),
            "{levels} levels are sent, and not read"
        );
    }
}

/// Written by hand, and wrong.
struct Wrong {
    size: usize,
}

impl Encode for Wrong {
    fn size(&self) -> usize {
        self.size
    }

    fn encode(&self, to: &mut Writer<'_>) {
        "four".encode(to);
        [1u16, 2].encode(to);
    }
}

#[test]
fn a_wrong_size_is_reported_and_leaves_no_old_bytes() {
    assert!(to_vec(&Wrong { size: 12 }).is_ok());
    for size in (0..24).filter(|size| *size != 12) {
        let mut frame = vec![0xEE; size];
        let mut writer = Writer::new(&mut frame);
        Wrong { size }.encode(&mut writer);
        let expected = if size < 12 { EncodeError::Excess } else { EncodeError::Missing(size - 12) };
        assert_eq!(writer.finish(), Err(expected));
        assert!(!frame.contains(&0xEE), "{size}: {frame:?}");
    }
}
