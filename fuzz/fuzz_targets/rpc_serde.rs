//! Any bytes as a type with serde's traits that contains itself.
#![no_main]

use std::collections::BTreeMap;

use am_rpc::codec::{Serde, from_bytes, to_vec};
use libfuzzer_sys::fuzz_target;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Value<'a> {
    Null,
    Text(&'a str),
    Letter(char),
    Next(Box<Value<'a>>),
    List(#[serde(borrow)] Vec<Value<'a>>),
    Map { entries: BTreeMap<u8, Value<'a>>, number: Option<i64> },
    Nothing(Vec<()>),
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = from_bytes::<Serde<Value<'_>>>(bytes) else { return };
    // A shorter encoding of the same value may have too few bytes for its elements without bytes.
    let again = to_vec(&value).expect("what was read can be written");
    if let Ok(read) = from_bytes::<Serde<Value<'_>>>(&again) {
        assert_eq!(read, value);
    }
});
