//! What is under way on a connection.

use std::time::Duration;

use am_api::{HandlerId, Request};
use am_transport::loopback;

use crate::common::{Side, connect, plain, until};
use crate::cut::{Cut, State};

#[test]
fn a_connection_says_what_waits_and_for_how_long() {
    let [left, right] = loopback::pair();
    let (left, switch) = Cut::new("left", Box::new(left.open().expect("memory")));
    let mut alpha = Side::<()>::open(plain("alpha"), Box::new(left));
    let mut beta = Side::<()>::open(plain("beta"), Box::new(right.open().expect("memory")));
    beta.endpoint.on_request(HandlerId(1), |(), Request { token, .. }| drop(token));
    let to = connect(&mut alpha, &mut beta);
    until(&mut alpha, &mut beta, "idle", |alpha, _| alpha.endpoint.is_accepted(to));
    let idle = alpha.endpoint.statistics(to).expect("it is open");
    assert_eq!((idle.requests, idle.replies, idle.resent, idle.oldest), (0, 0, 0, None));
    assert!(idle.credit > 4, "{idle:?}");
    switch.set(State::Silent);
    for _ in 0..4 {
        alpha.endpoint.try_request(to, HandlerId(1), &[], b"lost").unwrap();
    }
    until(&mut alpha, &mut beta, "sent again", |alpha, _| {
        alpha.endpoint.statistics(to).is_some_and(|now| now.resent > 0 && now.oldest > Some(Duration::ZERO))
    });
    let waiting = alpha.endpoint.statistics(to).expect("it is open");
    assert_eq!((waiting.requests, waiting.credit), (4, idle.credit - 4));
    switch.set(State::Whole);
    until(&mut alpha, &mut beta, "arrived", |alpha, _| alpha.endpoint.is_accepted(to));
    let after = alpha.endpoint.statistics(to).expect("it is open");
    assert_eq!((after.requests, after.resent, after.oldest), (0, 0, None));
    alpha.endpoint.close(to);
    assert_eq!(alpha.endpoint.statistics(to), None);
}
