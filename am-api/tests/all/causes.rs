//! One test for each cause for which a message is not delivered: the sender has the cause, the words and the payload.

use std::time::Duration;

use crate::common::{LONG, Side, connect, connected, nodes, plain, until};
use am_api::{Connection, ConnectionChange, Fate, HandlerId, NotOpen, Refusal, RequestError, ReturnReason};

const WORK: HandlerId = HandlerId(3);
const WORDS: [u64; 4] = [1, 22, 333, u64::MAX];
const PAYLOAD: &[u8] = b"what was to be done";
const SOON: Duration = Duration::from_millis(200);

/// What came back.
type Back = Vec<(ReturnReason, Fate, HandlerId, Vec<u64>, Vec<u8>)>;

fn send(alpha: &mut Side<Back>, to: Connection) -> Result<(), RequestError> {
    alpha.endpoint.on_returned(|back, returned| {
        let message = returned.message;
        let (words, payload) = (message.words().to_vec(), message.payload().to_vec());
        back.push((returned.reason, returned.fate, message.handler(), words, payload));
    });
    alpha.endpoint.try_request(to, WORK, &WORDS, PAYLOAD)
}

fn comes_back(alpha: &mut Side<Back>, reason: ReturnReason, fate: Fate) {
    alpha.endpoint.wait_until(&mut alpha.state, LONG, |back| !back.is_empty());
    assert_eq!(alpha.state, [(reason, fate, WORK, WORDS.to_vec(), PAYLOAD.to_vec())]);
}

/// A connection that the peer refuses takes no message: the request itself fails, and the program still has it.
fn is_refused(endpoint: &str, tag: u64, why: Refusal) {
    let (mut alpha, mut beta) = nodes::<Back, ()>(plain("alpha"), plain("beta"));
    let vault = beta.node.endpoint_with_tag::<()>("vault", 0x5eed).expect("an endpoint");
    let to = alpha.endpoint.connect_with_tag("beta", endpoint, tag).expect("asked for");
    assert_eq!(send(&mut alpha, to), Err(RequestError::Connecting));
    until(&mut alpha, &mut beta, "settled", |alpha, _| alpha.endpoint.ready(to) != Err(NotOpen::Connecting));
    assert_eq!(send(&mut alpha, to), Err(RequestError::Refused(why)));
    assert_eq!(alpha.state, []);
    drop(vault);
}

#[test]
fn a_wrong_tag() {
    is_refused("vault", 1, Refusal::Tag);
}

#[test]
fn an_unknown_endpoint() {
    is_refused("cellar", 0x5eed, Refusal::NoEndpoint);
}

#[test]
fn an_unknown_node() {
    let (mut alpha, _beta) = nodes::<Back, ()>(plain("alpha").patience(SOON), plain("beta"));
    let to = alpha.endpoint.connect("nobody", "main").expect("asked for");
    let error = alpha.endpoint.wait_open(&mut alpha.state, to, LONG).expect_err("nobody answers");
    assert_eq!(error.why, NotOpen::Dead(ReturnReason::Unreachable));
    assert_eq!(send(&mut alpha, to), Err(RequestError::Dead(ReturnReason::Unreachable)));
}

#[test]
fn a_tag_that_has_changed() {
    let (mut alpha, mut beta, to) = connected::<Back, ()>();
    // Three messages of which beta has none when the tag changes.
    (0..3).for_each(|_| send(&mut alpha, to).expect("a request"));
    beta.endpoint.set_tag(1);
    until(&mut alpha, &mut beta, "back", |alpha, _| alpha.state.len() == 3);
    let back = (ReturnReason::Tag, Fate::NotDelivered, WORK, WORDS.to_vec(), PAYLOAD.to_vec());
    assert_eq!(alpha.state, [back.clone(), back.clone(), back]);
    assert_eq!(send(&mut alpha, to), Err(RequestError::Dead(ReturnReason::Tag)));
    let again = alpha.endpoint.connect_with_tag("beta", "main", 1).expect("asked for");
    until(&mut alpha, &mut beta, "open again", |alpha, _| alpha.endpoint.is_open(again));
}

/// The endpoint whose tag changes gets its own messages back, and an event.
#[test]
fn a_tag_of_this_side_that_has_changed() {
    let (mut beta, mut alpha) = nodes::<(), Back>(plain("alpha"), plain("beta"));
    let theirs = std::rc::Rc::new(std::cell::RefCell::new(vec![]));
    let events = theirs.clone();
    alpha.endpoint.on_connection(move |_, event| events.borrow_mut().push((event.change, event.connection)));
    let _to = connect(&mut beta, &mut alpha);
    until(&mut beta, &mut alpha, "notified", |_, _| !theirs.borrow().is_empty());
    let accepted = theirs.borrow()[0].1;
    send(&mut alpha, accepted).expect("a request");
    alpha.endpoint.set_tag(1);
    until(&mut beta, &mut alpha, "back, and notified", |_, alpha| alpha.state.len() == 1 && theirs.borrow().len() == 2);
    let changes = [ConnectionChange::Accepted, ConnectionChange::Ended(ReturnReason::Tag)];
    assert_eq!(*theirs.borrow(), changes.map(|change| (change, accepted)));
    comes_back(&mut alpha, ReturnReason::Tag, Fate::NotDelivered);
}

#[test]
fn an_unknown_handler() {
    let (mut alpha, mut beta, to) = connected::<Back, ()>();
    send(&mut alpha, to).expect("a request");
    until(&mut alpha, &mut beta, "back", |alpha, _| !alpha.state.is_empty());
    comes_back(&mut alpha, ReturnReason::NoHandler, Fate::NotDelivered);
    assert!(alpha.endpoint.is_open(to));
}

#[test]
fn a_closed_endpoint() {
    let (mut alpha, beta, to) = connected::<Back, ()>();
    send(&mut alpha, to).expect("a request");
    drop(beta);
    comes_back(&mut alpha, ReturnReason::Closed, Fate::NotDelivered);
}

#[test]
fn a_dead_node() {
    let (mut alpha, mut beta) = nodes::<Back, ()>(plain("alpha").patience(SOON), plain("beta"));
    let to = connect(&mut alpha, &mut beta);
    crate::common::fated::dies(beta);
    send(&mut alpha, to).expect("a request");
    comes_back(&mut alpha, ReturnReason::Unreachable, Fate::Unknown);
}
