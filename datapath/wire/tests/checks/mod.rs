//! What is checked of any bytes, by tests and by fuzz targets.
#![allow(unreachable_pub, reason = "the fuzz targets reach it through a library")]

use std::sync::LazyLock;

use am_wire::bounce::RejectTemplate;
use am_wire::bulk::{Notice, NoticeKind, Segment};
use am_wire::coalesced::{Body, Writer};
use am_wire::control::{Control, Name};
use am_wire::frame::{self, LinkAddresses, MIN_FRAME, ParsedFrame};
use am_wire::steer::{Decision, PassReason, SteeringTable, steer as decide};
use am_wire::{Acks, Address, EtherType, Flow, Framing, Header, Kind, MAX_WORDS, Reason, WORD_BYTES};

pub const OWN: Address = Address([0x02, 0, 0, 0, 0, 2]);

/// A node with every third flow set up, on sockets 0 to 3.
static TABLE: LazyLock<SteeringTable> = LazyLock::new(|| {
    let mut table = SteeringTable::new(EtherType::DEFAULT, OWN);
    table.node_socket = 5;
    for (id, socket) in table.flows.iter_mut().enumerate().filter(|(id, _)| id % 3 == 1) {
        *socket = 1 + (id % 4) as u8;
    }
    table
});

/// The same when it has no room, and every way back is known.
static FULL: LazyLock<SteeringTable> = LazyLock::new(|| {
    let ways_back = [u64::MAX; Flow::COUNT / 64];
    SteeringTable { full: true, ways_back, ..TABLE.clone() }
});

/// Make it likely that noise is looked at: one of our EtherTypes, an address
/// that is ours, a source and a version that are known. Bytes too few for that
/// stay as they are.
pub fn aimed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = bytes.to_vec();
    if frame.len() < 20 {
        return frame;
    }
    if frame[0] & 0xc0 != 0 {
        frame[..6].copy_from_slice(&OWN.0);
    }
    frame[6] = frame[6] & !1 | 2;
    frame[12] = 0x88;
    frame[13] = 0xb5 + (frame[13] & 1);
    if frame[13] == 0xb6 {
        frame[14] &= 3;
        frame[16] &= 0x7f;
    }
    frame
}

/// Taken apart and written again, the frame says the same.
pub fn frame_parse(bytes: &[u8]) {
    if bytes.len() < 14 {
        assert_eq!(frame::parse(bytes, EtherType::DEFAULT), Err(Reason::Short));
        return;
    }
    if let Ok(parsed) = frame::parse(bytes, EtherType::DEFAULT) {
        let again = rewrite(bytes, &parsed);
        let reparsed = frame::parse(&again, EtherType::DEFAULT).expect("what was written can be read");
        assert_eq!(ParsedFrame { source: parsed.source, ..reparsed }, parsed);
        assert_eq!(again.len(), bytes.len());
    }
}

fn rewrite(bytes: &[u8], parsed: &ParsedFrame<'_>) -> Vec<u8> {
    let body = [parsed.words, parsed.payload].concat();
    let mut space = vec![0; bytes.len()];
    let place = frame::body(&mut space, parsed.framing, body.len());
    place.expect("as long as the frame it came from").copy_from_slice(&body);
    let link = LinkAddresses { to: OWN, from: parsed.source, ethertype: EtherType::DEFAULT };
    let header: &Header = &parsed.header;
    frame::emit(&mut space, parsed.framing, &link, header, body.len(), parsed.piggyback.as_ref())
        .expect("as long as the frame it came from");
    space
}

/// Steering and parsing look at the same fields and name the same reasons.
pub fn steer(bytes: &[u8]) {
    let decision = decide(bytes, &TABLE);
    let ethertype = bytes.get(12..14).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let ours = ethertype.is_some_and(|e| e == TABLE.ethertype.hidden() || e == TABLE.ethertype.plain());
    assert_eq!(decision == Decision::Pass(PassReason::Foreign), !ours);
    match decision {
        Decision::Pass(PassReason::Foreign) => {}
        Decision::Pass(PassReason::OtherHost) => assert!(bytes[0] & 1 == 0 && bytes[..6] != OWN.0),
        Decision::Socket(socket) | Decision::Control(socket) | Decision::Bounce(socket) => {
            check_socket(socket, bytes.len(), frame::parse(bytes, TABLE.ethertype))
        }
        Decision::Sequence(_) => panic!("a frame of a group that the node has not joined"),
        Decision::Drop(reason) => check_drop(reason, frame::parse(bytes, TABLE.ethertype)),
    }
}

/// What steering lets through, parsing may refuse only for what steering does not look at.
fn check_socket(socket: u8, length: usize, parsed: Result<ParsedFrame<'_>, Reason>) {
    match parsed {
        Ok(ParsedFrame { header: Header { flow: Flow::NODE, .. }, .. }) => assert_eq!(socket, TABLE.node_socket),
        Ok(parsed) => assert_eq!(TABLE.flows[parsed.header.flow.index()], socket + 1),
        // The length that a trailer says.
        Err(Reason::Length) => assert_eq!(length, MIN_FRAME),
        Err(reason) => assert_eq!(reason, Reason::Words),
    }
}

/// What steering drops, parsing refuses for the same reason, unless the flow does not exist.
fn check_drop(reason: Reason, parsed: Result<ParsedFrame<'_>, Reason>) {
    match parsed {
        Ok(ParsedFrame { header: Header { kind: Kind::Group, .. }, .. }) => assert_eq!(reason, Reason::NoGroup),
        Ok(parsed) => {
            assert_eq!(reason, Reason::NoFlow);
            assert_eq!(TABLE.flows[parsed.header.flow.index()], 0);
        }
        // Steering does not look at the trailer.
        Err(Reason::Length) => assert!(matches!(reason, Reason::Length | Reason::NoFlow)),
        Err(Reason::Words) => assert_eq!(reason, Reason::NoFlow),
        Err(other) => assert_eq!(reason, other),
    }
}

/// A body that is understood is written back as the same bytes, without the code or the padding that follow: there is one way to
/// say a thing.
pub fn control(bytes: &[u8]) {
    if let Ok((control, said, _)) = Control::parse_with_auth_code(bytes) {
        let mut body = [0; Control::MAX_BYTES];
        let length = control.emit(&mut body);
        assert_eq!(Control::parse(&body[..length]), Ok(control));
        if !matches!(control, Control::Beacon(_)) {
            assert_eq!(&body[..length], said);
        }
    }
}

/// A node without room bounces requests and nothing else, and what answers one
/// bears its number, to the flow that sent it.
pub fn bounce(bytes: &[u8]) {
    let (usual, full) = (decide(bytes, &TABLE), decide(bytes, &FULL));
    if let Decision::Bounce(socket) = full {
        assert_eq!(usual, Decision::Socket(socket));
        let kind = frame::parse(bytes, EtherType::DEFAULT).map(|parsed| parsed.header.kind);
        let is_request = kind.map_or_else(|why| matches!(why, Reason::Length | Reason::Words), Kind::is_request);
        assert!(is_request, "{kind:?}");
    } else {
        assert_eq!(full, usual);
    }
    let Some(request) = bytes.first_chunk() else { return };
    let (link, flow) =
        (LinkAddresses { to: OWN, from: OWN, ethertype: EtherType::DEFAULT }, Flow::new(77).expect("14 bits"));
    let parsed = frame::parse(bytes, EtherType::DEFAULT);
    for framing in Framing::ALL {
        let reject = RejectTemplate::new(framing, &link, flow, 0x1234).reject(request, EtherType::DEFAULT);
        let Ok(asked) = &parsed else { continue };
        assert_eq!(reject.is_some(), asked.framing == framing);
        let Some(reject) = reject else { continue };
        let reject = frame::parse(&reject, EtherType::DEFAULT).expect("a frame").header;
        assert_eq!((reject.kind, reject.flow, reject.seq), (Kind::Reject, flow, asked.header.seq));
    }
}

/// A segment or a notice that is understood is written back as the same
/// bytes, and a segment's data is within its transfer.
pub fn bulk(bytes: &[u8]) {
    if let Some((segment, data)) = Segment::parse(bytes) {
        assert!(data.len() as u64 <= segment.total && segment.at <= segment.total - data.len() as u64);
        assert_eq!([&segment.to_bytes()[..], data].concat(), bytes);
    }
    match Notice::parse(bytes) {
        Some(notice) => assert_eq!(notice.to_bytes(), bytes),
        None => assert!(
            bytes.len() != Notice::BYTES
                || !(1..=NoticeKind::ALL.len() as u8).contains(&bytes[3])
                || bytes[..3] != [0; 3]
        ),
    }
}

/// Names, addresses and framings that are understood are written as they were read.
pub fn text(text: &str) {
    if let Some(name) = Name::new(text) {
        assert_eq!(name.as_str(), text);
        assert!((1..=Name::MAX_BYTES).contains(&text.len()) && !text.contains(char::is_control));
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string(), text.to_ascii_lowercase());
    }
    if let Ok(framing) = text.parse::<Framing>() {
        assert_eq!(framing.to_string(), text);
    }
}

/// Every 32 bytes are an acknowledgement, nothing else is.
pub fn acks(bytes: &[u8]) {
    match Acks::parse(bytes) {
        Ok(acks) => assert_eq!(acks.to_bytes(), bytes),
        Err(reason) => assert!(reason == Reason::Body && bytes.len() != Acks::BYTES),
    }
}

/// The body of a coalesced frame that is understood is written back as the same bytes, and nothing
/// that it speaks of is outside of it.
pub fn coalesced(bytes: &[u8]) {
    let Ok(messages) = Body::from_body(bytes) else { return };
    let mut body = vec![0; bytes.len()];
    let mut writer = Writer::new(&mut body);
    for item in messages.items() {
        assert!(item.words as usize <= MAX_WORDS && item.words as usize * WORD_BYTES <= item.length);
        assert!(writer.push(item.handler, item.words, &bytes[item.at..item.at + item.length]));
    }
    assert!(!bytes.is_empty() && body == bytes);
}
