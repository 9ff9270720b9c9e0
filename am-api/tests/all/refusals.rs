//! What cannot be, and what is said of it.

use std::time::{Duration, Instant};

use crate::common::{LONG, Side, connect, connected, in_memory, nodes, pair, plain, until};
use am_api::{
    CallError, Class, ConnectError, Connection, EndpointError, Fate, HandlerId, Node, NotOpen, OpenError, Refusal,
    Request, RequestError, ReturnReason, Returned,
};

fn settled(alpha: &mut Side<()>, beta: &mut Side<()>, to: Connection) -> Result<(), NotOpen> {
    until(alpha, beta, "settled", |alpha, _| alpha.endpoint.ready(to) != Err(NotOpen::Connecting));
    alpha.endpoint.ready(to)
}

#[test]
fn a_name_that_nobody_has_settles_to_dead_after_the_patience() {
    let patience = Duration::from_millis(100);
    let (mut alpha, mut beta) = nodes::<(), ()>(plain("alpha").patience(patience), plain("beta"));
    // One that is there and has not said its name might be the one that is looked for.
    until(&mut alpha, &mut beta, "beta is known", |alpha, _| alpha.node.peers().len() == 1);
    let start = Instant::now();
    let to = alpha.endpoint.connect("nobody", "main").unwrap();
    assert_eq!(alpha.endpoint.try_request(to, HandlerId(0), &[], b""), Err(RequestError::Connecting));
    let open = alpha.endpoint.wait_open(&mut alpha.state, to, LONG);
    let error = open.expect_err("nobody answers");
    assert_eq!(error.why, NotOpen::Dead(ReturnReason::Unreachable));
    assert_eq!(error.seen.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["beta"]);
    let advice = error.to_string();
    assert!(advice.contains("is its node running") && advice.contains("has heard from beta"), "{advice}");
    let needs_addresses = alpha.node.transport().contains("udp:") || alpha.node.transport().contains("tcp:");
    assert_eq!(advice.contains("`add_peer_address`"), needs_addresses, "{advice}");
    assert!(start.elapsed() >= patience, "{:?}", start.elapsed());
    assert_eq!(
        alpha.endpoint.try_request(to, HandlerId(0), &[], b""),
        Err(RequestError::Dead(ReturnReason::Unreachable))
    );
}

/// Its frames are dropped, so the node behind them is not known.
#[test]
fn frames_of_another_version_are_named() {
    let transport = am_api::transports::open("udp:127.0.0.1:0").unwrap();
    let caps = transport.caps().clone();
    let Side { mut endpoint, .. } = Side::<()>::open(plain("alpha"), transport);
    let to = endpoint.connect("beta", "main").unwrap();
    let of =
        |endpoint: &mut am_api::Endpoint<()>| endpoint.wait_open(&mut (), to, Duration::from_millis(5)).unwrap_err();
    let before = of(&mut endpoint);
    assert!(before.of_another_version == 0 && !before.to_string().contains("version"), "{before}");

    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&caps.address.0);
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    let there = caps.name.trim_start_matches("udp:");
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&frame, there).unwrap();
    let until = Instant::now() + LONG;
    let after = loop {
        let error = of(&mut endpoint);
        if error.of_another_version > 0 {
            break error;
        }
        assert!(Instant::now() < until, "{error}");
    };
    assert!(after.to_string().contains("frames of another version came here"), "{after}");
}

#[test]
fn waiting_for_a_connection_ends_with_its_time() {
    let (mut alpha, _beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    let to = alpha.endpoint.connect("nobody", "main").unwrap();
    let open = alpha.endpoint.wait_open(&mut alpha.state, to, Duration::from_millis(5));
    assert_eq!(open.map_err(|error| error.why), Err(NotOpen::Connecting));
}

#[test]
fn an_endpoint_that_is_not_there_is_refused() {
    let (mut alpha, mut beta) = nodes(plain("alpha"), plain("beta"));
    let to = alpha.endpoint.connect("beta", "elsewhere").unwrap();
    assert_eq!(settled(&mut alpha, &mut beta, to), Err(NotOpen::Refused(Refusal::NoEndpoint)));
    let error = alpha.endpoint.try_request(to, HandlerId(0), &[], b"").unwrap_err();
    assert_eq!(error, RequestError::Refused(Refusal::NoEndpoint));
    assert!(error.to_string().contains("no endpoint of that name"), "{error}");
}

#[test]
fn only_the_right_tag_is_let_in() {
    let (mut alpha, mut beta) = nodes(plain("alpha"), plain("beta"));
    let vault = beta.node.endpoint_with_tag::<()>("vault", 0x5eed).unwrap();
    for (tag, answer) in
        [(0, Err(NotOpen::Refused(Refusal::Tag))), (1, Err(NotOpen::Refused(Refusal::Tag))), (0x5eed, Ok(()))]
    {
        let to = alpha.endpoint.connect_with_tag("beta", "vault", tag).unwrap();
        assert_eq!(settled(&mut alpha, &mut beta, to), answer, "tag {tag:#x}");
    }
    drop(vault);
}

#[test]
fn a_conversation_ends_when_the_tag_changes() {
    let (mut alpha, mut beta, to) = connected::<(), ()>();
    beta.endpoint.set_tag(1);
    until(&mut alpha, &mut beta, "notified", |alpha, _| !alpha.endpoint.is_open(to));
    assert_eq!(alpha.endpoint.ready(to), Err(NotOpen::Dead(ReturnReason::Tag)));
    let said = alpha.endpoint.ready(to).unwrap_err().to_string();
    assert_eq!(said, "the endpoint has another tag now: connect with the new one");
}

#[test]
fn a_message_that_is_too_large_is_not_sent() {
    let (alpha, _beta, to) = connected::<(), ()>();
    let most = alpha.endpoint.max_payload(to).unwrap();
    let payload = vec![0; most + 1];
    let error = alpha.endpoint.try_request(to, HandlerId(0), &[1, 2], &payload);
    assert_eq!(error, Err(RequestError::TooLarge { needs: most + 1, most }));
    assert_eq!(
        alpha.endpoint.try_request(to, HandlerId(0), &[0; 5], b""),
        Err(RequestError::TooManyWords { count: 5, most: 4 })
    );
    assert_eq!(alpha.counter("requests_sent"), 0);
    assert_eq!(alpha.endpoint.try_request(to, HandlerId(0), &[1, 2], &payload[..most]), Ok(()));
}

/// A peer that accepts less than a frame accepts a frame. What `max_payload` says goes with any words, and the errors count the payload.
#[test]
fn a_peer_that_accepts_one_frame_says_how_long_a_payload_is() {
    for max_message in [0, 100] {
        let (mut alpha, mut beta) = nodes::<(), ()>(plain("alpha"), plain("beta").max_message(max_message));
        let to = connect(&mut alpha, &mut beta);
        let (most, described) = (alpha.endpoint.max_payload(to).unwrap(), alpha.endpoint.describe(to).unwrap());
        assert_eq!((most, described.max_payload()), (described.max_body - 32, most));
        assert!(described.to_string().ends_with(" bytes a frame, one frame a message"), "{described}");
        alpha.endpoint.try_request(to, HandlerId(0), &[0; 4], &vec![0; most]).expect("with all words");
        for words in [&[][..], &[1], &[1, 2, 3, 4]] {
            let most = alpha.endpoint.frame_payload(to, words.len()).unwrap();
            let (fits, longer) = (vec![0; most], vec![0; most + 1]);
            alpha.endpoint.try_request(to, HandlerId(0), words, &fits).expect("one frame");
            let error = alpha.endpoint.try_request(to, HandlerId(0), words, &longer).unwrap_err();
            assert_eq!(error, RequestError::TooLarge { needs: most + 1, most });
            let said =
                format!("the payload has {} bytes, and the peer accepts {most} (its `Builder::max_message`)", most + 1);
            assert_eq!(error.to_string(), said);
            let error = alpha.endpoint.try_request_in_frame(to, HandlerId(0), words, &longer).unwrap_err();
            assert_eq!(error, RequestError::TooLargeForFrame { needs: most + 1, most });
            assert!(error.to_string().contains("one frame has room for"), "{error}");
        }
    }
}

#[test]
fn who_wants_to_accept_more_than_a_message_can_have_is_refused() {
    let open = |bytes: usize| plain("alpha").max_message(bytes).open_on(in_memory().0).map(drop);
    open(1 << 30).expect("the longest");
    for bytes in [(1 << 30) + 1, 3_000_000_000, usize::MAX] {
        let error = open(bytes).unwrap_err();
        assert!(matches!(error, OpenError::MaxMessage(asked) if asked == bytes), "{error}");
        assert!(error.to_string().contains("at most 1073741824; for more there are transfers"), "{error}");
    }
}

#[test]
fn a_closed_conversation_says_so() {
    let (alpha, _beta, to) = connected::<(), ()>();
    alpha.endpoint.close(to);
    assert_eq!(alpha.endpoint.try_request(to, HandlerId(0), &[], b""), Err(RequestError::Closed));
    assert_eq!(alpha.endpoint.ready(to), Err(NotOpen::Closed));
    assert_eq!((alpha.endpoint.describe(to), alpha.endpoint.frame_payload(to, 0)), (None, None));
}

/// Another node does not know it. Another endpoint of its node can use it, but hears nothing of it.
#[test]
fn a_connection_is_of_one_endpoint_of_one_node() {
    let (mut alpha, mut beta, to) = connected::<u32, ()>();
    let stranger = plain("gamma").open_on(pair().0).unwrap();
    let error = stranger.endpoint::<()>("main").unwrap().ready(to).unwrap_err();
    assert!(error == NotOpen::Closed && error.to_string().contains("of another node"), "{error}");

    beta.endpoint.on_request(HandlerId(0), |(), Request { token, .. }| token.reply(HandlerId(0), &[], b"").unwrap());
    alpha.endpoint.on_reply(HandlerId(0), |answers, _| *answers += 1);
    let second = alpha.node.endpoint::<u32>("second").unwrap();
    second.try_request(to, HandlerId(0), &[], b"").unwrap();
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state == 1);
    // What was sent through the second one comes back to the first.
    alpha.endpoint.on_returned(|returned, _| *returned += 10);
    second.try_request(to, HandlerId(0), &[], b"").unwrap();
    drop(beta);
    let (mut endpoint, mut state) = (alpha.endpoint, alpha.state);
    assert!(endpoint.wait_until(&mut state, LONG, |state| *state == 11));
    second.close(to);
    assert_eq!(endpoint.ready(to), Err(NotOpen::Closed));
}

#[test]
fn an_unknown_handler_is_counted_and_costs_nothing_else() {
    let (mut alpha, mut beta) = nodes::<u64, Vec<HandlerId>>(plain("alpha"), plain("beta").window(16).send_frames(8));
    beta.endpoint.on_request(HandlerId(1), |_, Request { message: request, token }| {
        token.reply(HandlerId(1), request.words(), b"").unwrap()
    });
    beta.endpoint.on_unhandled(|seen, message| seen.push(message.handler()));
    alpha.endpoint.on_reply(HandlerId(1), |sum, reply| *sum += reply.word(0));
    let to = connect(&mut alpha, &mut beta);
    // Ten windows full: were a credit or a place for a reply lost each time,
    // they would come to a halt.
    for n in 0..160 {
        until(&mut alpha, &mut beta, "credit", |alpha, _| {
            alpha.endpoint.try_request(to, HandlerId((n % 2) as u8), &[1], b"") != Err(RequestError::NoCredit)
        });
    }
    until(&mut alpha, &mut beta, "all handled", |alpha, beta| alpha.state + beta.counter("unhandled") == 160);
    assert_eq!((alpha.state, beta.state.len()), (80, 80));
    assert!(beta.state.iter().all(|handler| *handler == HandlerId(0)));
}

/// What came back: class, reason, fate, handler, words and payload.
type Back = Vec<(Class, ReturnReason, Fate, HandlerId, Vec<u64>, Vec<u8>)>;

fn note(back: &mut Back, returned: Returned<'_, Back>) {
    let Returned { message, reason, fate } = returned;
    let (words, payload) = (message.words().to_vec(), message.payload().to_vec());
    back.push((returned.class(), reason, fate, message.handler(), words, payload));
}

#[test]
fn a_message_for_an_unknown_handler_comes_back_with_words_and_payload() {
    let (mut alpha, mut beta, to) = connected::<Back, Back>();
    beta.endpoint.on_request(HandlerId(0), |_, Request { token, .. }| {
        token.reply(HandlerId(9), &[5], b"an answer").unwrap();
    });
    alpha.endpoint.on_returned(note);
    beta.endpoint.on_returned(note);
    alpha.endpoint.try_request(to, HandlerId(1), &[1, 2], b"a question").unwrap();
    alpha.endpoint.try_request(to, HandlerId(0), &[3], b"another").unwrap();
    until(&mut alpha, &mut beta, "both back", |alpha, beta| alpha.state.len() + beta.state.len() == 2);
    let expected = |class, handler, words: &[u64], payload: &[u8]| {
        let cause = (ReturnReason::NoHandler, Fate::NotDelivered);
        vec![(class, cause.0, cause.1, HandlerId(handler), words.to_vec(), payload.to_vec())]
    };
    assert_eq!(alpha.state, expected(Class::Request, 1, &[1, 2], b"a question"));
    assert_eq!(beta.state, expected(Class::Reply, 9, &[5], b"an answer"));
    assert_eq!((alpha.counter("no_handler"), beta.counter("no_handler")), (1, 1));
    // The connection is as good as before.
    alpha.endpoint.on_reply(HandlerId(9), |back, _| back.clear());
    alpha.endpoint.try_request(to, HandlerId(0), &[3], b"another").unwrap();
    until(&mut alpha, &mut beta, "answered", |alpha, _| alpha.state.is_empty());
}

#[test]
fn a_call_of_an_unknown_handler_has_that_outcome() {
    let (mut alpha, mut beta, to) = connected::<Option<ReturnReason>, ()>();
    alpha.endpoint.on_outcome(HandlerId(4), |why, outcome| {
        *why = match outcome.result {
            Err(CallError::Returned(returned)) => Some(returned.reason),
            other => panic!("{other:?}"),
        };
    });
    alpha.endpoint.try_call(to, HandlerId(4), &[], b"", LONG).unwrap();
    until(&mut alpha, &mut beta, "outcome", |alpha, _| alpha.state.is_some());
    assert_eq!(alpha.state, Some(ReturnReason::NoHandler));
}

#[test]
fn names_are_checked() {
    let (alpha, _beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    assert!(matches!(alpha.node.endpoint::<()>(""), Err(EndpointError::Name(_))));
    assert!(matches!(alpha.node.endpoint::<()>("main"), Err(EndpointError::Taken(name)) if name.as_str() == "main"));
    assert!(matches!(alpha.endpoint.connect("beta", &"x".repeat(32)), Err(ConnectError::Name(_))));
    let itself = alpha.endpoint.connect("alpha", "main").unwrap_err();
    assert!(itself.to_string().contains("`alpha` is this node itself"), "{itself}");
    let (left, right) = pair();
    assert!(matches!(Node::open_on("", left), Err(OpenError::Name(_))));
    assert!(matches!(plain("alpha").peer("", am_api::Address::default()).open_on(right), Err(OpenError::Name(_))));
}

#[test]
fn a_name_is_free_again_when_its_endpoint_is_gone() {
    let (alpha, _beta) = nodes::<(), ()>(plain("alpha"), plain("beta"));
    drop(alpha.node.endpoint::<()>("second").unwrap());
    assert!(alpha.node.endpoint::<()>("second").is_ok());
}

#[test]
fn a_pool_that_is_too_small_is_refused_with_figures() {
    let (left, _right) = pair();
    let free = left.caps().pool.available();
    let error = plain("alpha").receive_frames(free).open_on(left).unwrap_err();
    assert!(
        matches!(error, OpenError::PoolTooSmall { free: had, needed, .. } if had == free && needed > free),
        "{error}"
    );
}

#[test]
fn settings_that_leave_nothing_are_refused() {
    type With = fn(am_api::Builder) -> am_api::Builder;
    let settings: [(&str, With); 5] = [
        ("beacon", |builder| builder.beacon(Duration::ZERO)),
        ("keepalive", |builder| builder.keepalive(Duration::ZERO)),
        ("patience", |builder| builder.patience(Duration::ZERO)),
        ("receive_frames", |builder| builder.receive_frames(0)),
        ("send_frames", |builder| builder.send_frames(0)),
    ];
    for (name, with) in settings {
        let error = with(plain("alpha")).open_on(in_memory().0).unwrap_err();
        assert!(matches!(error, OpenError::ZeroSetting(setting) if setting == name), "{name}: {error}");
    }
    for with in [(|builder| builder.receive_frames(usize::MAX)) as With, |builder| builder.send_frames(usize::MAX)] {
        let refused = with(plain("alpha")).open_on(in_memory().0).unwrap_err();
        assert!(matches!(refused, OpenError::PoolTooSmall { .. }), "{refused}");
    }
}

#[test]
fn absurd_lengths_are_too_large() {
    let (alpha, _beta, to) = connected::<(), ()>();
    let prepared = alpha.endpoint.prepare(to, HandlerId(0), &[1], usize::MAX, usize::MAX).map(drop);
    assert!(matches!(prepared, Err(RequestError::TooLargeForFrame { .. })), "{prepared:?}");
    assert_eq!(alpha.endpoint.frame_payload(to, 1 << 61), None);
}
