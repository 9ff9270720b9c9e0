//! What holds for any bytes of a peer. The fuzz targets have this module, too.
#![allow(unreachable_pub, reason = "the fuzz targets reach it through a library")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use am_rpc::codec::{Decode, DecodeError, Encode, Plain, Wire, from_bytes, to_vec};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian};

/// A struct with a field of each kind that needs no collection.
#[derive(Debug, Clone, PartialEq, Wire)]
pub struct Fields<'a> {
    pub bytes: (u8, i8),
    pub numbers: (u16, i16, u32, i32, u64, i64),
    pub long: (u128, i128),
    pub is_set: bool,
    pub letter: char,
    pub text: &'a str,
    pub data: &'a [u8],
    pub time: Option<Duration>,
    pub outcome: Result<[u16; 3], Box<str>>,
    pub nothing: (),
    pub last: Unit,
}

/// A struct without fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Wire)]
pub struct Unit;

/// An enum with a variant of each kind.
#[derive(Debug, Clone, PartialEq, Wire)]
pub enum Choice<'a, T> {
    Nothing,
    Circle { radius: u32, is_filled: bool },
    Named(&'a str, T),
    Other(Inner),
}

/// An enum in an enum.
#[derive(Debug, Clone, PartialEq, Wire)]
pub enum Inner {
    A(Option<Option<bool>>),
    B(Result<(), char>),
}

/// Collections whose entries arrive in the order in which they leave.
#[derive(Debug, Clone, PartialEq, Wire)]
pub struct Lists<'a> {
    pub names: Vec<String>,
    pub numbers: Vec<u64>,
    pub small: Box<[i16]>,
    pub queue: VecDeque<(u8, bool)>,
    pub text: Cow<'a, str>,
    pub data: Cow<'a, [u8]>,
    pub shared: Arc<[Rc<str>]>,
    pub nested: Vec<Vec<Option<[bool; 2]>>>,
}

/// Collections that have an order of their own.
#[derive(Debug, Clone, PartialEq, Wire)]
pub struct Sets {
    pub sorted: BTreeMap<u8, Vec<u16>>,
    pub hashed: HashMap<String, u32>,
    pub set: BTreeSet<i16>,
    pub hashes: HashSet<(u8, ())>,
}

/// Plain data that needs an alignment of eight.
#[derive(Debug, Clone, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Wire)]
#[repr(C)]
pub struct Point {
    pub x: u64,
    pub y: [i32; 2],
}

/// Plain data that needs none.
#[derive(Debug, Clone, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Wire)]
#[repr(C)]
pub struct Anywhere {
    pub tag: u8,
    pub number: little_endian::U64,
}

/// Views of plain data, of which the first byte moves the others.
#[derive(Debug, PartialEq, Wire)]
pub struct Views<'a> {
    pub offset: u8,
    pub one: Plain<'a, Point>,
    pub many: Plain<'a, [Point]>,
    pub anywhere: Plain<'a, [Anywhere]>,
}

/// A list that a peer can make as deep as its message is long.
#[derive(Debug, Clone, PartialEq, Wire)]
pub enum Chain {
    End,
    Next(Box<Chain>),
}

/// A value that contains others in each way in which a type can contain itself.
#[derive(Debug, Clone, PartialEq, Wire)]
pub enum Value {
    Null,
    Flag(bool),
    Text(String),
    List(Vec<Value>),
    Pair(Rc<(Value, Value)>),
    Slice(Box<[Self]>),
    Queue(VecDeque<Value>),
    Map(BTreeMap<u8, Value>),
    Tree(Option<Arc<Value>>),
}

/// Whatever the bytes are: no panic. If they are a value, it is written as these bytes.
pub fn one_encoding<'a, T: Encode + Decode<'a>>(bytes: &'a [u8]) -> Option<T> {
    let value = whole::<T>(bytes)?;
    assert_eq!(to_vec(&value).expect("what was read can be written"), bytes);
    Some(value)
}

/// As [`one_encoding`], for types whose entries have no order: the value is written as so many bytes, which are the same value.
pub fn one_size<T: Encode + for<'a> Decode<'a> + PartialEq>(bytes: &[u8]) -> Option<T> {
    let value = whole::<T>(bytes)?;
    let again = to_vec(&value).expect("what was read can be written");
    assert_eq!(again.len(), bytes.len());
    assert!(from_bytes(&again).is_ok_and(|read: T| read == value));
    Some(value)
}

/// A value that is these bytes and neither fewer nor more.
fn whole<'a, T: Encode + Decode<'a>>(bytes: &'a [u8]) -> Option<T> {
    let value: T = from_bytes(bytes).ok()?;
    assert_eq!(value.size(), bytes.len(), "`size` says what `encode` writes");
    assert!(T::MIN_SIZE <= bytes.len(), "a value that is smaller than the smallest");
    for cut in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        assert!(cut == bytes.len() || from_bytes::<T>(&bytes[..cut]).is_err(), "a part of a value is no value");
    }
    Some(value)
}

/// Any bytes, as a struct.
pub fn fields(bytes: &[u8]) {
    one_encoding::<Fields<'_>>(bytes);
}

/// Any bytes, as an enum.
pub fn choices(bytes: &[u8]) {
    one_encoding::<Choice<'_, (u8, bool)>>(bytes);
}

/// Any bytes, as collections.
pub fn collections(bytes: &[u8]) {
    one_encoding::<Lists<'_>>(bytes);
    one_size::<Sets>(bytes);
    // A count that the rest cannot hold is refused before an element is read.
    if let Some((count, rest)) = bytes.split_first_chunk() {
        let count = u32::from_le_bytes(*count) as usize;
        let is_refused = matches!(from_bytes::<Vec<(u32, u16)>>(bytes), Err(DecodeError::Length { .. }));
        assert_eq!(is_refused, count.saturating_mul(6) > rest.len(), "{count} of {} bytes", rest.len());
    }
}

/// Any bytes, as views of plain data: the same at each address.
pub fn plain(bytes: &[u8]) {
    let value = one_encoding::<Views<'_>>(bytes);
    let mut moved = vec![0; bytes.len() + 8];
    for offset in 0..8 {
        let place = &mut moved[offset..][..bytes.len()];
        place.copy_from_slice(bytes);
        let there = from_bytes::<Views<'_>>(place).ok();
        assert_eq!(there, value);
        let Some(Views { anywhere, .. }) = there else { continue };
        assert!(matches!(anywhere.0, Cow::Borrowed(_)), "data without alignment is borrowed");
    }
}

/// Any bytes, as types that contain themselves: no stack overflows, whatever the depth.
pub fn recursion(bytes: &[u8]) {
    one_size::<Value>(bytes);
    one_encoding::<Chain>(bytes);
    // As deep as these bytes are many.
    let deep: Vec<u8> = bytes.iter().map(|_| 1).chain([0]).collect();
    let expected = if bytes.len() <= am_rpc::codec::MAX_DEPTH { None } else { Some(DecodeError::Depth) };
    assert_eq!(from_bytes::<Chain>(&deep).err(), expected);
}

/// All kinds.
pub fn all(bytes: &[u8]) {
    fields(bytes);
    choices(bytes);
    collections(bytes);
    plain(bytes);
    recursion(bytes);
}
