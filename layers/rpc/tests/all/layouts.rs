//! The number of a layout changes when the layout does, and with nothing else.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use am_rpc::codec::{Layout, Plain, Schema, Wire};
use zerocopy::little_endian;

use crate::checks::{Chain, Choice, Value};

/// Others differ from it in one thing each.
#[derive(Wire)]
struct Base {
    id: u32,
    name: String,
}

#[derive(Wire)]
struct OtherName {
    number: u32,
    name: String,
}

#[derive(Wire)]
struct OtherOrder {
    name: String,
    id: u32,
}

#[derive(Wire)]
struct OtherType {
    id: i32,
    name: String,
}

#[derive(Wire)]
struct More {
    id: u32,
    name: String,
    last: (),
}

#[derive(Wire)]
struct NoNames(u32, String);

#[derive(Wire)]
enum OneVariant {
    Base { id: u32, name: String },
}

#[derive(Wire)]
enum TwoVariants {
    Base { id: u32, name: String },
    Other,
}

#[derive(Wire)]
enum Turned {
    Other,
    Base { id: u32, name: String },
}

/// As the base, and borrowed.
#[derive(Wire)]
struct Borrowed<'a> {
    r#id: u32,
    name: &'a str,
}

#[test]
fn each_difference_is_seen() {
    let mut numbers = vec![
        Base::SCHEMA,
        OtherName::SCHEMA,
        OtherOrder::SCHEMA,
        OtherType::SCHEMA,
        More::SCHEMA,
        NoNames::SCHEMA,
        OneVariant::SCHEMA,
        TwoVariants::SCHEMA,
        Turned::SCHEMA,
        Chain::SCHEMA,
        Value::SCHEMA,
        <Choice<'_, u8>>::SCHEMA,
        <Choice<'_, u16>>::SCHEMA,
        <Vec<u8>>::SCHEMA,
        <[u8; 3]>::SCHEMA,
        <[u8; 4]>::SCHEMA,
        <(u8, u16)>::SCHEMA,
        <((u8, u16),)>::SCHEMA,
        <(u8, (u16,))>::SCHEMA,
        <Option<u8>>::SCHEMA,
        <Result<u8, u8>>::SCHEMA,
        <HashMap<u8, u8>>::SCHEMA,
        <HashSet<u8>>::SCHEMA,
        <Plain<'_, [u8]>>::SCHEMA,
        <Plain<'_, u8>>::SCHEMA,
        <()>::SCHEMA,
        u8::SCHEMA,
        i8::SCHEMA,
        bool::SCHEMA,
        char::SCHEMA,
        str::SCHEMA,
        std::time::Duration::SCHEMA,
    ];
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
}

fn same_layout<A: Schema + ?Sized, B: Schema + ?Sized>() -> bool {
    A::SCHEMA == B::SCHEMA
}

#[test]
fn types_with_one_layout_have_one_number() {
    assert!(same_layout::<Base, Borrowed<'_>>());
    assert!(same_layout::<String, &str>() && same_layout::<Box<str>, Cow<'_, str>>() && same_layout::<str, String>());
    assert!(same_layout::<Vec<u8>, &[u8]>() && same_layout::<VecDeque<u8>, Cow<'_, [u8]>>());
    assert!(same_layout::<Rc<u16>, u16>() && same_layout::<&Box<u16>, little_endian::U16>());
    assert!(same_layout::<HashMap<u8, String>, BTreeMap<u8, &str>>());
}

#[test]
fn names_have_an_end() {
    let one = Layout::new("struct").field("ab", 0).field("c", 0).finish();
    assert_ne!(one, Layout::new("struct").field("a", 0).field("bc", 0).finish());
    assert_ne!(Layout::new("enum").variant("a").variant("b").finish(), Layout::new("enum").variant("ab").finish());
}
