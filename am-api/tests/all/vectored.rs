//! Payloads that lie in several places arrive as one.

use std::io::IoSlice;

use crate::common::{Side, connect, nodes, plain, until};
use am_api::{HandlerId, Request, RequestError};

const ECHO: HandlerId = HandlerId(2);

/// Payloads as they came back.
type Seen = Vec<(u64, Vec<u8>)>;

fn echoing() -> (Side<Seen>, Side<()>, am_api::Connection) {
    let (mut alpha, mut beta) = nodes::<Seen, ()>(plain("alpha"), plain("beta"));
    beta.endpoint.on_request(ECHO, |(), Request { message: request, token }| {
        let (first, second) = request.payload().split_at(request.payload().len() / 3);
        let parts = [IoSlice::new(first), IoSlice::new(b""), IoSlice::new(second)];
        token.reply_vectored(ECHO, request.words(), &parts).expect("alpha is there");
    });
    alpha.endpoint.on_reply(ECHO, |seen, reply| seen.push((reply.word(0), reply.payload().to_vec())));
    let to = connect(&mut alpha, &mut beta);
    (alpha, beta, to)
}

#[test]
fn parts_arrive_in_order_and_as_one() {
    let (mut alpha, mut beta, to) = echoing();
    let lengths = [&[][..], &[0], &[5], &[0, 7, 0], &[1, 1, 1, 1], &[300, 1, 700], &[20; 40]];
    let bytes: Vec<u8> = (0..2000).map(|at| (at * 7 % 251) as u8).collect();
    let mut expected = Seen::new();
    for (number, lengths) in lengths.into_iter().enumerate() {
        let mut rest = &bytes[..];
        let parts: Vec<IoSlice<'_>> = lengths
            .iter()
            .map(|&length| {
                let (part, after) = rest.split_at(length);
                rest = after;
                IoSlice::new(part)
            })
            .collect();
        alpha.endpoint.try_request_vectored(to, ECHO, &[number as u64], &parts).expect("credit");
        expected.push((number as u64, bytes[..lengths.iter().sum()].to_vec()));
    }
    until(&mut alpha, &mut beta, "all back", |alpha, _| alpha.state.len() == expected.len());
    // Compare them by number, because a bad wire delivers them in any order.
    alpha.state.sort_unstable();
    assert_eq!(alpha.state, expected);
}

#[test]
fn too_much_is_refused_whatever_its_parts() {
    let (alpha, _, to) = echoing();
    let most = alpha.endpoint.describe(to).expect("open").max_message;
    let (half, rest) = (vec![1; most / 2], vec![2; most - most / 2 + 1]);
    let parts = [IoSlice::new(&half), IoSlice::new(&rest)];
    let error = alpha.endpoint.try_request_vectored(to, ECHO, &[], &parts).unwrap_err();
    assert_eq!(error, RequestError::TooLarge { needs: most + 1, most });
    assert!(alpha.endpoint.try_request_vectored(to, ECHO, &[], &parts[..1]).is_ok());
}
