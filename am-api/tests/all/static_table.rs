//! A network that carries no broadcasts: nodes are found in a table, or not at all.

use std::time::Duration;

use crate::common::{Side, connect, pair, until};
use crate::least::Least;
use am_api::{Address, Builder, Framing, HandlerId, Node, NotOpen, Request, ReturnReason};

const SHORT: Duration = Duration::from_millis(100);

/// `alpha`, made by `with` from `beta`'s address, and `beta`.
fn nodes(framing: Option<Framing>, with: impl FnOnce(Builder, Address) -> Builder) -> (Side<u64>, Side<()>) {
    let builder = |name| match framing {
        Some(framing) => Node::builder(name).framing(framing),
        None => Node::builder(name),
    };
    let (left, right) = pair();
    let address = right.caps().address;
    let alpha = with(builder("alpha"), address);
    let without_broadcasts = |inner| Box::new(Least { inner, carries: |to| !to.is_group() });
    (Side::open(alpha, without_broadcasts(left)), Side::open(builder("beta"), without_broadcasts(right)))
}

#[test]
fn a_peer_in_the_table_is_found_without_a_broadcast() {
    for framing in [None, Some(Framing::Bare), Some(Framing::Split), Some(Framing::Plain)] {
        let (mut alpha, mut beta) = nodes(framing, |builder, address| builder.peer("beta", address));
        assert_eq!(alpha.node.peers().len(), 1, "known before anything was sent");
        beta.endpoint.on_request(HandlerId(0), |(), Request { message: request, token }| {
            token.reply(HandlerId(0), request.words(), b"").unwrap()
        });
        alpha.endpoint.on_reply(HandlerId(0), |word, reply| *word = reply.word(0));
        let to = connect(&mut alpha, &mut beta);
        let found = alpha.endpoint.describe(to).unwrap().framing;
        let best = match alpha.node.transport() {
            // Of several ways one may carry nothing else.
            several if several.contains('+') => Framing::Plain,
            // Nothing learns, but strangers that are not heard can send.
            sockets if sockets.contains("udp:") || sockets.contains("tcp:") => Framing::Split,
            _ => Framing::Bare,
        };
        assert_eq!(found, framing.unwrap_or(best), "found out over a wire on which nothing learns");
        alpha.endpoint.try_request(to, HandlerId(0), &[7], b"").unwrap();
        until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state == 7);
    }
}

#[test]
fn a_peer_that_is_not_in_the_table_is_not_found() {
    let (mut alpha, mut beta) = nodes(None, |builder, _| builder.patience(SHORT));
    let to = alpha.endpoint.connect("beta", "main").unwrap();
    until(&mut alpha, &mut beta, "settled", |alpha, _| alpha.endpoint.ready(to) != Err(NotOpen::Connecting));
    assert_eq!(alpha.endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Unreachable)));
}

#[test]
fn a_table_that_is_wrong_does_not_hang() {
    let nobody = Address([2, 0, 0, 0, 0, 99]);
    let (mut alpha, mut beta) = nodes(None, |builder, _| builder.peer("beta", nobody).patience(SHORT));
    let to = alpha.endpoint.connect("beta", "main").unwrap();
    until(&mut alpha, &mut beta, "settled", |alpha, _| alpha.endpoint.ready(to) != Err(NotOpen::Connecting));
    assert!(alpha.endpoint.ready(to).is_err());
}
