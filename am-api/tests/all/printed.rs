//! What a message says of itself in a log.

use crate::common::{connected, until};
use am_api::{HandlerId, Request};

const SINK: HandlerId = HandlerId(3);

/// A log line has a message's length and its first bytes, not a megabyte.
#[test]
fn what_is_printed_of_a_message_is_its_length_and_sixteen_bytes() {
    let (mut alpha, mut beta, to) = connected::<(), Vec<(String, String)>>();
    beta.endpoint.on_request(SINK, |said, Request { message, .. }| {
        said.push((format!("{message:?}"), format!("{:?}", message.keep())))
    });
    let payload: Vec<u8> = (0..255).collect();
    for length in [0, 2, 16, 17, 255] {
        alpha.endpoint.try_request(to, SINK, &[7], &payload[..length]).unwrap();
    }
    until(&mut alpha, &mut beta, "all here", |_, beta| beta.state.len() == 5);
    let whole = "[00, 01, 02, 03, 04, 05, 06, 07, 08, 09, 0a, 0b, 0c, 0d, 0e, 0f]";
    let wanted = [
        "0 bytes: []".to_owned(),
        "2 bytes: [00, 01]".to_owned(),
        format!("16 bytes: {whole}"),
        format!("17 bytes: {whole} ..."),
        format!("255 bytes: {whole} ..."),
    ];
    for ((message, kept), wanted) in beta.state.iter().zip(wanted) {
        assert_eq!(*message, format!("Message {{ handler: HandlerId(3), words: [7], payload: {wanted}, .. }}"));
        assert_eq!(*kept, format!("OwnedMessage {{ words: [7], payload: {wanted}, .. }}"));
    }
}

/// What `fn main() -> Result<(), Error>` and `unwrap` print.
#[test]
fn what_is_printed_of_an_error_is_its_text() {
    let error = am_api::Node::open("alpha", "udp:host:7000").unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().contains("names of hosts are not looked up"), "{error}");
    let boxed: Box<dyn std::error::Error> = error.into();
    assert_eq!(format!("{boxed:?}"), boxed.to_string());
    let problem = am_api::Problem::Link("the interface is down".into());
    assert_eq!(format!("{:?}", Err::<(), _>(problem)), "Err(the interface is down)");
}
