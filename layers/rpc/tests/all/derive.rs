//! Types of a program's own.

use std::fmt::Debug;

use am_rpc::codec::{Decode, DecodeError, Encode, Schema, Wire, from_bytes, to_vec};

#[derive(Debug, Clone, PartialEq, Wire)]
struct Named<'a> {
    id: u64,
    name: &'a str,
    r#type: Option<&'a [u8]>,
}

#[derive(Debug, Clone, PartialEq, Wire)]
struct Two<'a, 'b: 'a>(&'a str, &'b str);

#[derive(Debug, Clone, PartialEq, Wire)]
struct Unit;

#[derive(Debug, Clone, PartialEq, Wire)]
struct Generic<T: Clone, const N: usize>
where
    T: PartialEq,
{
    items: Vec<T>,
    grid: [T; N],
}

#[derive(Debug, Clone, PartialEq, Wire)]
enum Shape<'a, T> {
    Empty,
    Circle { radius: f64 },
    Named(&'a str, T),
}

#[derive(Debug, PartialEq, Wire)]
enum Never {}

#[derive(Debug, Clone, PartialEq, Wire)]
enum List {
    Nil,
    Cons(u8, Box<List>),
}

#[derive(Debug, Clone, PartialEq, Wire)]
struct Tree<T> {
    value: T,
    children: Vec<Self>,
}

#[derive(Debug, Clone, PartialEq, Wire)]
struct Folder {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Wire)]
enum Entry {
    File(u32),
    Folder(#[wire(recursive)] Folder),
}

#[derive(Debug, Clone, Copy, PartialEq, Wire)]
#[repr(C, packed(1))]
struct Packed {
    a: u8,
    b: u64,
}

#[track_caller]
fn same<'a, T: Encode + Decode<'a> + PartialEq + Debug>(value: &T, frame: &'a mut Vec<u8>) {
    *frame = to_vec(value).unwrap();
    assert_eq!(value.size(), frame.len());
    assert_eq!(from_bytes::<T>(frame).as_ref(), Ok(value));
}

#[test]
fn every_shape_is_read_as_it_was_written() {
    same(&Named { id: 7, name: "seven", r#type: Some(b"x") }, &mut vec![]);
    same(&Two("one", "two"), &mut vec![]);
    same(&Unit, &mut vec![]);
    same(&Generic { items: vec![1u16], grid: [2, 3] }, &mut vec![]);
    for shape in [Shape::Empty, Shape::Circle { radius: 0.5 }, Shape::Named("square", 4u8)] {
        same(&shape, &mut vec![]);
    }
    same(&List::Cons(1, Box::new(List::Cons(2, Box::new(List::Nil)))), &mut vec![]);
    let leaf = Tree { value: 'l', children: vec![] };
    same(&Tree { value: 'r', children: vec![leaf.clone(), leaf] }, &mut vec![]);
    same(&Folder { entries: vec![Entry::File(1), Entry::Folder(Folder { entries: vec![] })] }, &mut vec![]);
    same(&Packed { a: 1, b: 2 }, &mut vec![]);
    assert_eq!(from_bytes::<Never>(&[0]), Err(DecodeError::Variant { of: "Never", tag: 0 }));
}

#[test]
fn the_bytes_are_those_of_the_page() {
    let bytes = to_vec(&Named { id: 7, name: "ab", r#type: None }).unwrap();
    assert_eq!(bytes, [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 0]);
    assert_eq!(to_vec(&Shape::Named("c", 4u8)).unwrap(), [2, 1, 0, 0, 0, b'c', 4]);
}

#[test]
fn layouts_differ_where_the_bytes_or_their_meaning_do() {
    assert_ne!(<Shape<'_, u8>>::SCHEMA, <Shape<'_, u16>>::SCHEMA);
    assert_ne!(List::SCHEMA, Entry::SCHEMA);
}
