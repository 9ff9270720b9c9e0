//! The right to reply.

use crate::common::{Side, connect, connected, in_memory, nodes, pair, plain, until};
use am_api::{Connection, HandlerId, ReplyError, Request, ReturnReason, Token};

const ASK: HandlerId = HandlerId(0);
const TOLD: HandlerId = HandlerId(0);

/// Numbers of the replies that arrived.
type Replies = Vec<u64>;

/// Requests whose answer waits.
type Kept = Vec<(u64, Token)>;

fn keep(beta: &mut Side<Kept>) {
    beta.endpoint.on_request(ASK, |kept, Request { message: request, token }| kept.push((request.word(0), token)));
}

fn note(alpha: &mut Side<Replies>) {
    alpha.endpoint.on_reply(TOLD, |replies, reply| replies.push(reply.word(0)));
}

/// `alpha` has asked so often, `beta` has kept the tokens.
fn asked(count: u64) -> (Side<Replies>, Side<Kept>) {
    let (mut alpha, mut beta, to) = connected();
    keep(&mut beta);
    note(&mut alpha);
    (0..count).for_each(|n| alpha.endpoint.try_request(to, ASK, &[n], b"the question").expect("a request"));
    until(&mut alpha, &mut beta, "all asked", |_, beta| beta.state.len() as u64 == count);
    (alpha, beta)
}

#[test]
fn a_kept_token_answers_later_and_in_any_order() {
    let (mut alpha, mut beta) = asked(50);
    while let Some((number, token)) = beta.state.pop() {
        token.reply(TOLD, &[number], b"the answer").expect("a reply");
    }
    until(&mut alpha, &mut beta, "all answered", |alpha, _| alpha.state.len() == 50);
    assert_eq!(alpha.state, (0..50).rev().collect::<Vec<_>>());
}

/// The same, but `beta` has so few places to send from that a right to reply
/// which were neither used nor given back would soon be missed.
fn tight() -> (Side<Replies>, Side<Kept>, Connection) {
    let (mut alpha, mut beta) = nodes::<Replies, Kept>(plain("alpha"), plain("beta").send_frames(8));
    keep(&mut beta);
    note(&mut alpha);
    let to = connect(&mut alpha, &mut beta);
    (alpha, beta, to)
}

#[test]
fn a_dropped_token_forgoes_its_reply_and_others_are_answered() {
    let (mut alpha, mut beta, to) = tight();
    (0..100).for_each(|n| alpha.endpoint.try_request(to, ASK, &[n], b"").expect("a request"));
    until(&mut alpha, &mut beta, "the odd ones answered", |alpha, beta| {
        for (number, token) in beta.state.drain(..).filter(|(number, _)| number % 2 == 1) {
            token.reply(TOLD, &[number], b"").expect("a reply");
        }
        alpha.state.len() == 50
    });
    (0..100).for_each(|_| _ = alpha.poll() + beta.poll());
    assert_eq!(alpha.state, (0..100).filter(|n| n % 2 == 1).collect::<Vec<_>>());
}

#[test]
fn a_reply_that_fails_gives_up_what_was_set_aside_for_it() {
    let (mut alpha, mut beta, to) = tight();
    let too_much = vec![0; (1 << 20) + 1];
    let mut failed = 0;
    (0..100).for_each(|n| alpha.endpoint.try_request(to, ASK, &[n], b"").expect("a request"));
    until(&mut alpha, &mut beta, "all tried", |_, beta| {
        failed += beta.state.drain(..).filter_map(|(_, token)| token.reply(TOLD, &[], &too_much).err()).count();
        failed == 100
    });
}

#[test]
fn kept_tokens_leave_room_for_requests_with_other_credit() {
    // Every place to send from is promised to a reply, and nothing hangs:
    // what arrives waits for the promises to be kept.
    let (mut alpha, mut beta, to) = tight();
    (0..20).for_each(|n| alpha.endpoint.try_request(to, ASK, &[n], b"").expect("a request"));
    until(&mut alpha, &mut beta, "7 kept", |_, beta| beta.state.len() == 7);
    (0..100).for_each(|_| _ = alpha.poll() + beta.poll());
    assert_eq!(beta.state.len(), 7, "no more than there are places to reply from; one is for segments");
    until(&mut alpha, &mut beta, "all answered", |alpha, beta| {
        beta.state.drain(..).for_each(|(number, token)| token.reply(TOLD, &[number], b"").expect("a reply"));
        alpha.state.len() == 20
    });
}

#[test]
fn a_token_outlives_its_node_and_says_so() {
    let (_alpha, mut beta) = asked(1);
    let (_, token) = beta.state.pop().unwrap();
    drop(beta);
    assert_eq!((token.frame_payload(0), token.max_payload()), (0, 0));
    assert_eq!(token.reply(TOLD, &[], b""), Err(ReplyError::NodeDropped));
}

#[test]
fn a_reply_that_is_too_large_says_how_large_it_may_be() {
    let (mut alpha, mut beta) = asked(2);
    let (_, token) = beta.state.pop().unwrap();
    assert_eq!(token.frame_payload(1), 1500 - 12 - 8);
    let most = token.max_payload();
    let payload = vec![0; most + 1];
    let error = token.reply(TOLD, &[1], &payload);
    assert_eq!(error, Err(ReplyError::TooLarge { needs: most + 1, most }));
    let (_, token) = beta.state.pop().unwrap();
    token.reply(TOLD, &[7], &payload[..most]).expect("the largest reply");
    until(&mut alpha, &mut beta, "the second answered", |alpha, _| alpha.state == [7]);
}

#[test]
fn five_words_are_too_many() {
    let (_alpha, mut beta) = asked(1);
    let (_, token) = beta.state.pop().unwrap();
    assert_eq!(token.reply(TOLD, &[0; 5], b""), Err(ReplyError::TooManyWords { count: 5, most: 4 }));
}

#[test]
fn nobody_is_left_to_reply_to() {
    let (alpha, mut beta) = asked(2);
    let [first, second] = [beta.state.pop().unwrap().1, beta.state.pop().unwrap().1];
    drop(alpha);
    beta.poll();
    let from = first.from();
    assert_eq!(first.reply(TOLD, &[], b""), Err(ReplyError::Dead(ReturnReason::Closed)), "the other side closed it");
    beta.endpoint.close(from);
    assert_eq!(second.reply(TOLD, &[], b""), Err(ReplyError::Closed), "so has this side");
}

#[test]
fn without_memory_for_a_reply_requests_wait_and_replies_do_not() {
    #[derive(Default)]
    struct Both {
        asked: Vec<Token>,
        answered: u64,
    }
    // Over other wires what arrives is this side's memory, too.
    let (left, right) = in_memory();
    let memory = right.caps().pool.clone();
    let (mut alpha, mut beta) = (Side::<()>::open(plain("alpha"), left), Side::<Both>::open(plain("beta"), right));
    alpha.endpoint.on_request(ASK, |(), Request { token, .. }| token.reply(TOLD, &[], b"").expect("a reply"));
    beta.endpoint.on_request(ASK, |both, Request { token, .. }| both.asked.push(token));
    beta.endpoint.on_reply(TOLD, |both, _| both.answered += 1);
    let to_beta = connect(&mut alpha, &mut beta);
    let to_alpha = beta.endpoint.connect("alpha", "main").unwrap();
    until(&mut alpha, &mut beta, "both ways", |_, beta| beta.endpoint.is_open(to_alpha));
    beta.endpoint.try_request(to_alpha, ASK, &[], b"").unwrap();
    beta.endpoint.flush();
    // All the memory that there is, and what comes home meanwhile.
    let mut hoard = Vec::new();
    (0..10).for_each(|_| alpha.endpoint.try_request(to_beta, ASK, &[], b"").unwrap());
    until(&mut alpha, &mut beta, "answered, and asked in vain", |_, beta| {
        hoard.extend(std::iter::from_fn(|| memory.take()));
        beta.state.answered == 1 && beta.counter("no_reply_frame") > 0
    });
    assert!(beta.state.asked.len() < 10, "a reply would have had no frame");
    drop(hoard);
    until(&mut alpha, &mut beta, "all asked", |_, beta| beta.state.asked.len() == 10);
}

/// Whatever becomes of tokens, no frame stays set aside for them.
#[test]
fn frames_come_home_however_tokens_end() {
    let (left, right) = pair();
    let memory = right.caps().pool.clone();
    let (mut alpha, mut beta) = (Side::<Replies>::open(plain("alpha"), left), Side::<Kept>::open(plain("beta"), right));
    keep(&mut beta);
    note(&mut alpha);
    let to = connect(&mut alpha, &mut beta);
    let idle = memory.available();
    for round in 0..4 {
        (0..100).for_each(|n| alpha.endpoint.try_request(to, ASK, &[n], b"").expect("a request"));
        until(&mut alpha, &mut beta, "all kept", |_, beta| beta.state.len() == 100);
        let too_much = vec![0; (1 << 20) + 1];
        for (number, token) in beta.state.drain(..).rev() {
            match (round, number % 3) {
                (0, _) => drop(token),
                (1, _) => _ = token.reply(TOLD, &[], &too_much),
                (_, 0) => drop(token),
                (_, 1) => _ = token.reply(TOLD, &[0; 9], b""),
                _ => token.reply(TOLD, &[number], b"").expect("a reply"),
            }
        }
        until(&mut alpha, &mut beta, "credit again", |alpha, _| alpha.endpoint.credit(to) >= 100);
        until(&mut alpha, &mut beta, "frames are home", |_, _| memory.available() + 2 >= idle);
    }
    // The last are kept until the one who asked is gone, and the endpoint too.
    (0..100).for_each(|n| alpha.endpoint.try_request(to, ASK, &[n], b"").expect("a request"));
    until(&mut alpha, &mut beta, "all kept", |_, beta| beta.state.len() == 100);
    drop(alpha);
    (0..10).for_each(|_| _ = beta.poll());
    let Side { node, endpoint, state } = beta;
    drop(endpoint);
    for (number, token) in state {
        if number % 2 == 0 {
            assert!(token.reply(TOLD, &[], b"").is_err());
        }
    }
    assert!(memory.available() + 2 >= idle, "{} of {idle}", memory.available());
    drop(node);
    assert_eq!(memory.available(), memory.layout().frames);
}
