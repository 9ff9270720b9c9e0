//! A segment's key: nodes with it talk, others do not and say so.

use std::fs;

use am_api::{HandlerId, Node, OpenError, Problem, Request};

use crate::common::{Side, connect, in_memory, plain, until};

const KEY: [u8; 32] = *b"only the nodes of this test know";

#[test]
fn nodes_with_the_key_exchange_messages() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let digits: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&path, digits + "\n").unwrap();
    let (left, right) = in_memory();
    let mut alpha = Side::<u64>::open(Node::builder("alpha").segment_key(KEY), left);
    let mut beta = Side::<()>::open(Node::builder("beta").segment_key_file(&path), right);
    beta.endpoint.on_request(HandlerId(0), |(), Request { message, token }| {
        token.reply(HandlerId(0), message.words(), b"").unwrap();
    });
    alpha.endpoint.on_reply(HandlerId(0), |word, reply| *word = reply.word(0));
    let to = connect(&mut alpha, &mut beta);
    alpha.endpoint.try_request(to, HandlerId(0), &[7], b"").unwrap();
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state == 7);
    assert_eq!((alpha.node.health(), alpha.counter("control_unauthenticated")), (Ok(()), 0));
}

#[test]
fn nodes_without_the_key_are_counted_and_named_as_the_problem() {
    let (left, right) = in_memory();
    let mut alpha = Side::<()>::open(plain("alpha").segment_key(KEY), left);
    let mut beta = Side::<()>::open(plain("beta"), right);
    let is_told = |side: &Side<()>| matches!(side.node.health(), Err(Problem::OtherKey { frames }) if frames > 0);
    until(&mut alpha, &mut beta, "told", |alpha, beta| is_told(alpha) && is_told(beta));
    assert!(alpha.node.peers().is_empty() && beta.node.peers().is_empty());
    assert!(alpha.counter("control_unauthenticated") > 0);
}

#[test]
fn a_key_that_cannot_be_used_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let open =
        || plain("alpha").segment_key_file(&path).open("udp:127.0.0.1:0").map(drop).map_err(|error| error.to_string());
    assert!(open().unwrap_err().contains("key: No such file"));
    for bad in ["", "12", &"0".repeat(63), &"0".repeat(65), &"0g".repeat(32)] {
        fs::write(&path, bad).unwrap();
        assert!(open().unwrap_err().ends_with("it does not have 64 hexadecimal digits"), "{bad}");
    }
    let name = format!("shm:am-key-{},dir={}+udp:127.0.0.1:0", std::process::id(), directory.path().display());
    let several = plain("alpha").segment_key(KEY).open(&name).map(drop);
    assert!(matches!(several, Err(OpenError::KeyOverSeveral(_))), "{several:?}");
}
