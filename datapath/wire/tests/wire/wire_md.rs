//! `docs/wire.md` says what the code does: its tables and examples are
//! compared with frames, field by field.

use am_wire::bulk::{Notice, NoticeKind, Segment};
use am_wire::coalesced::{MESSAGE_HEADER, Writer};
use am_wire::control::{
    Accept, Beacon, Close, Closed, Connect, ConnectFlags, Control, FinalAcks, FlowParameters, Incarnation, Keepalive,
    Leave, Name, NodeId, Probe, ProbeSeen, Purpose, Refusal, Refuse, Step,
};
use am_wire::frame::{ETHERNET_HEADER, LinkAddresses};
use am_wire::group::{GroupFrame, GroupHeader};
use am_wire::{
    Ack, Acks, Address, Class, EtherType, Flow, Framing, Framings, Header, Kind, Piggyback, PiggybackClass, Reason,
    Reject, Seq,
};

use crate::any::Message;

const PAGE: &str = include_str!("../../../../docs/wire.md");

/// The cells of the first table under a heading.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).expect("the page has this heading");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The bytes of the example under a heading.
fn example(heading: &str) -> Vec<u8> {
    let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).expect("the page has this heading");
    let (_, example) = section.split_once("```hex\n").expect("an example follows");
    let (hex, _) = example.split_once("```").expect("it ends");
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect()
}

/// A message in which every field is zero.
fn zero(framing: Framing) -> Message {
    let link = LinkAddresses { to: Address([0; 6]), from: Address([0; 6]), ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Request, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
    Message { framing, link, header, body: vec![], piggyback: None }
}

/// The same with all bits of one field set, as far as frames can have them set.
fn with(framing: Framing, field: &str) -> Vec<Message> {
    let mut message = zero(framing);
    match field {
        "kind" => return [Kind::Reply, Kind::Ack].map(|kind| set_kind(framing, kind)).into(),
        "form" => return [set_kind(framing, Kind::Reply), set_kind(framing, Kind::Ack)].into(),
        "length" | "upper length" | "lower length" => return all_lengths(framing),
        "flow" => message.header.flow = Flow::new(0x3fff).unwrap(),
        "words" => message.header.words = 7,
        "handler" => message.header.handler = 0xff,
        "nonce" => message.header.nonce = 0xffff,
        "sequence" => message.header.seq = u32::MAX,
        "origin" | "true source" => message.link.from = Address([0xff; 6]),
        other => panic!("docs/wire.md has a field `{other}` that this test does not know"),
    }
    vec![message]
}

/// Frames long enough to have every code of a length.
fn all_lengths(framing: Framing) -> Vec<Message> {
    (64..2000).map(|body| Message { body: vec![0; body], ..zero(framing) }).collect()
}

fn set_kind(framing: Framing, kind: Kind) -> Message {
    let message = zero(framing);
    Message { header: Header { kind, ..message.header }, ..message }
}

/// The bits, each as (byte of the frame, bit of the byte), that differ between frames.
fn differing(base: &[u8], frames: &[Vec<u8>]) -> Vec<(usize, u32)> {
    let bits = (0..base.len()).flat_map(|byte| (0..8).rev().map(move |bit| (byte, bit)));
    bits.filter(|&(byte, bit)| {
        frames.iter().any(|frame| frame.get(byte).is_some_and(|other| (other ^ base[byte]) >> bit & 1 == 1))
    })
    .collect()
}

fn bits_of(framing: Framing, field: &str) -> Vec<(usize, u32)> {
    let frames: Vec<_> = with(framing, field).iter().map(Message::emit).collect();
    let header = ETHERNET_HEADER + framing.cost();
    let bits = differing(&zero(framing).emit()[..header], &frames);
    // The length of `split` and `plain` is in two places.
    let first = bits[0].0;
    let wanted = |&(byte, _): &(usize, u32)| match field {
        "upper length" => byte == first,
        "lower length" => byte != first,
        _ => true,
    };
    bits.into_iter().filter(wanted).collect()
}

/// As the page writes a place: `source 41–28`, `0.7–0.6`, `address 47–0`.
fn place(framing: Framing, bits: &[(usize, u32)]) -> String {
    let one = |&(byte, bit): &(usize, u32)| match (byte, framing) {
        (ETHERNET_HEADER.., _) => format!("{}.{bit}", byte - ETHERNET_HEADER),
        (_, Framing::Plain) => format!("{}", (11 - byte) as u32 * 8 + bit),
        // The two fixed bits of the first byte are not counted.
        (6, _) => format!("{}", 40 + bit - 2),
        _ => format!("{}", (11 - byte) as u32 * 8 + bit),
    };
    let (first, last) = (bits.first().expect("the field is somewhere"), bits.last().expect("the same"));
    let prefix = match (first.0, framing) {
        (ETHERNET_HEADER.., _) => "",
        (_, Framing::Plain) => "address ",
        _ => "source ",
    };
    let range = if first == last { one(first) } else { format!("{}–{}", one(first), one(last)) };
    format!("{prefix}{range}")
}

/// The bits of a place, back from its text.
fn bits_at(framing: Framing, place: &str) -> Vec<(usize, u32)> {
    let end = if place.starts_with(|c: char| c.is_ascii_digit()) {
        ETHERNET_HEADER + framing.cost()
    } else {
        ETHERNET_HEADER - 2
    };
    let all = (6..end).flat_map(|byte| (0..8).rev().map(move |bit| (byte, bit))).filter(|&(byte, bit)| {
        !(12..ETHERNET_HEADER).contains(&byte) && (byte != 6 || bit > 1 || framing == Framing::Plain)
    });
    let all: Vec<_> = all.collect();
    let bounds = (0..all.len()).flat_map(|from| (from..all.len()).map(move |to| (from, to)));
    let (from, to) = { bounds }.find(|&(from, to)| self::place(framing, &all[from..=to]) == place).expect(place);
    all[from..=to].to_vec()
}

fn check_framing(framing: Framing) {
    let mut free: Vec<_> = bits_at(framing, if framing == Framing::Plain { "address 47–0" } else { "source 45–0" });
    free.extend(
        (ETHERNET_HEADER..ETHERNET_HEADER + framing.cost()).flat_map(|byte| (0..8).rev().map(move |bit| (byte, bit))),
    );
    for row in table(&format!("### {framing}")) {
        let [field, at, width, why] = row[..] else { panic!("four cells: {row:?}") };
        let bits = match field {
            "version" | "zero" => bits_at(framing, at),
            _ => bits_of(framing, field),
        };
        assert_eq!((at, width), (&place(framing, &bits)[..], &bits.len().to_string()[..]), "{framing}, {field}");
        let frame = zero(framing).emit();
        let value = bits.iter().fold(0, |value, &(byte, bit)| value << 1 | (frame[byte] >> bit & 1));
        assert_eq!(value, if field == "version" { why[..1].parse().unwrap() } else { 0 }, "{framing}, {field}");
        for bit in bits {
            let index = free.iter().position(|&other| other == bit);
            free.remove(index.unwrap_or_else(|| panic!("{framing}: {field} shares a bit with another field")));
        }
    }
    assert_eq!(free, [], "{framing}: bits that no row names");
}

#[test]
fn the_table_of_bare() {
    check_framing(Framing::Bare);
}

#[test]
fn the_table_of_split() {
    check_framing(Framing::Split);
}

#[test]
fn the_table_of_plain() {
    check_framing(Framing::Plain);
}

#[test]
fn the_example_of_each_framing() {
    for framing in Framing::ALL {
        let link =
            LinkAddresses { to: Address([2, 0, 0, 0, 0, 2]), from: Address([2, 0, 0, 0, 0, 1]), ..zero(framing).link };
        let flow = Flow::new(7).unwrap();
        let header = Header { kind: Kind::Request, flow, nonce: 0x1234, handler: 3, words: 0, seq: 41 };
        let frame = Message { framing, link, header, body: b"hello".into(), piggyback: None }.emit();
        assert_eq!(&frame[..framing.body_at()], example(&format!("### {framing}")), "{framing}");
    }
}

#[test]
fn the_costs() {
    for (framing, row) in Framing::ALL.iter().zip(table("## One header, three places")) {
        assert_eq!(row[0], format!("`{framing}`"));
        assert_eq!(row[2], format!("{} bytes", framing.cost()));
        let frame = zero(*framing).emit();
        assert_eq!(row[3], format!("0x{:02X}{:02X}", frame[12], frame[13]));
    }
}

fn short_frame(body: usize, piggyback: Option<Piggyback>) -> Vec<u8> {
    Message { body: vec![0; body], piggyback, ..zero(Framing::Bare) }.emit()
}

#[test]
fn the_table_of_the_trailer() {
    let base = short_frame(0, Some(Piggyback::default()));
    for row in table("### trailer") {
        let [field, at, width, _] = row[..] else { panic!("four cells: {row:?}") };
        let [mut requests, mut replies] = [PiggybackClass::default(); 2];
        match field {
            "requests accepted" => requests.accepted = 0xffff,
            "requests limit" => requests.limit = 0xffff,
            "replies accepted" => replies.accepted = 0xffff,
            "replies limit" => replies.limit = 0xffff,
            "length" | "acks" | "zero" => {}
            other => panic!("docs/wire.md has a field `{other}` that this test does not know"),
        }
        let bits = match field {
            "length" => differing(&base, &[1, 2, 4, 8, 16, 32].map(|n| short_frame(n, Some(Piggyback::default())))),
            "acks" => differing(&base, &[short_frame(0, None)]),
            "zero" => vec![(59, 0)],
            _ => differing(&base, &[short_frame(0, Some(Piggyback::new([requests, replies])))]),
        };
        let text = |&(byte, bit): &(usize, u32)| format!("{byte}.{bit}");
        let (first, last) = (text(&bits[0]), text(&bits[bits.len() - 1]));
        let place = if first == last { first } else { format!("{first}–{last}") };
        assert_eq!((at, width), (&place[..], &bits.len().to_string()[..]), "{field}");
    }
}

#[test]
fn the_table_of_an_acknowledgements_body() {
    for row in table("### acks") {
        let mut acks = Acks::default();
        let class: &mut Ack = &mut acks.classes[usize::from(row[0].starts_with("replies"))];
        match row[0].split_once(' ').expect("two words").1 {
            "accepted" => class.accepted = Seq(u32::MAX),
            "limit" => class.limit = Seq(u32::MAX),
            "selective" => class.sack = u64::MAX,
            other => panic!("docs/wire.md has a field `{other}` that this test does not know"),
        }
        let bits = differing(&Acks::default().to_bytes(), &[acks.to_bytes().to_vec()]);
        assert_eq!(row[1], format!("{}–{}", bits[0].0, bits[bits.len() - 1].0), "{}", row[0]);
    }
}

#[test]
fn the_table_of_a_coalesced_body() {
    let item = |handler, words, length| {
        let mut space = [0; MESSAGE_HEADER + 0xffff];
        assert!(Writer::new(&mut space).push(handler, words, &vec![0; length]));
        space[..MESSAGE_HEADER].to_vec()
    };
    let base = item(0, 0, 0);
    for row in table("### coalesced") {
        let other = match row[0] {
            "length" => item(0, 0, 0xffff),
            "handler" => item(0xff, 0, 0),
            "words" => item(0, 0xff, 0),
            other => panic!("docs/wire.md has a field `{other}` that this test does not know"),
        };
        let bits = differing(&base, &[other]);
        let (first, last) = (bits[0].0, bits[bits.len() - 1].0);
        let place = if first == last { first.to_string() } else { format!("{first}–{last}") };
        assert_eq!((row[1], bits.len()), (&place[..], 8 * (last + 1 - first)), "{}", row[0]);
    }
}

/// The fields of a body: what the page calls each, and a body with all its bits set.
fn check_bytes(heading: &str, zero: &[u8], fields: &[(&str, Vec<u8>)]) {
    let rows = table(heading);
    assert_eq!(
        rows.iter().map(|row| row[0]).collect::<Vec<_>>(),
        fields.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
    for (row, (_, with)) in rows.iter().zip(fields) {
        let bits = differing(zero, std::slice::from_ref(with));
        // No code is as large as its field.
        let first = if row[0] == "what" && heading == "### notice" { 0 } else { bits[0].0 };
        assert_eq!(row[1], format!("{first}–{}", bits[bits.len() - 1].0), "{}", row[0]);
    }
}

#[test]
fn the_table_of_a_segments_body() {
    let zero = Segment { region: 0, transfer: 0, start: 0, total: 0, at: 0 };
    let fields = [
        ("region", Segment { region: u32::MAX, ..zero }),
        ("transfer", Segment { transfer: u32::MAX, ..zero }),
        ("start", Segment { start: u64::MAX, ..zero }),
        ("total", Segment { total: u64::MAX, ..zero }),
        ("at", Segment { at: u64::MAX, ..zero }),
    ];
    check_bytes("### segment", &zero.to_bytes(), &fields.map(|(name, segment)| (name, segment.to_bytes().to_vec())));
}

#[test]
fn the_table_of_a_notices_body() {
    let zero = Notice::of(NoticeKind::Get, 0);
    let fields = [
        ("what", Notice { what: NoticeKind::Waiting, ..zero }),
        ("transfer", Notice { transfer: u32::MAX, ..zero }),
        ("region", Notice { region: u32::MAX, ..zero }),
        ("into", Notice { into: u32::MAX, ..zero }),
        ("offset", Notice { offset: u64::MAX, ..zero }),
        ("into offset", Notice { into_offset: u64::MAX, ..zero }),
        ("length", Notice { length: u64::MAX, ..zero }),
    ];
    check_bytes("### notice", &zero.to_bytes(), &fields.map(|(name, notice)| (name, notice.to_bytes().to_vec())));
}

#[test]
fn the_table_of_a_group_frames_body() {
    let zero = GroupHeader::to_stamp(0, 0, 0, 0);
    let fields = [
        ("group", GroupHeader { group: u64::MAX, ..zero }),
        ("epoch", GroupHeader { epoch: u32::MAX, ..zero }),
        ("what", GroupHeader { what: GroupFrame::Datagram, ..zero }),
        ("flags", GroupHeader { flags: u8::MAX, ..zero }),
        ("sender", GroupHeader { sender: u16::MAX, ..zero }),
        ("seq", GroupHeader { seq: u32::MAX, ..zero }),
        ("limit", GroupHeader { limit: u32::MAX, ..zero }),
        ("number", GroupHeader { number: u64::MAX, ..zero }),
        ("content", GroupHeader { content: u64::MAX, ..zero }),
        ("tag", GroupHeader { tag: u64::MAX, ..zero }),
    ];
    check_bytes("### group", &zero.to_bytes(), &fields.map(|(name, header)| (name, header.to_bytes().to_vec())));
}

#[test]
fn the_table_of_rejects() {
    let rows = table("### reject");
    for (row, code) in rows.iter().zip(1..) {
        let what = Reject::parse(&[code]).expect("each code of the page is known");
        let (says, class) = match what {
            Reject::NoHandler(class) => ("the receiver", class),
            Reject::Withdrawn(class) => ("the sender", class),
            Reject::NoRoom => panic!("it has no body"),
        };
        let class = if class == Class::Request { "request" } else { "reply" };
        assert_eq!((row[0], row[1]), (&code.to_string()[..], &format!("{says} of a {class}")[..]));
    }
    assert_eq!(Reject::parse(&[rows.len() as u8 + 1]), Err(Reason::Body), "the page has all codes");
}

/// Every control message, as long as it gets.
fn longest_messages() -> [(&'static str, Control); 10] {
    let name = Name::new(&"n".repeat(Name::MAX_BYTES)).unwrap();
    let (node, incarnation, id) = (NodeId(1), Incarnation(1), 1);
    let offer = FlowParameters {
        flow: Flow::new(1).unwrap(),
        nonce: 1,
        first: [Seq(1); 2],
        credits: [1; 2],
        max_frame: 1,
        max_message: 0,
    };
    let (address, framings) = (Address::BROADCAST, Framings::ALL);
    let beacon = Beacon { node, incarnation, name, address, framings, max_frame: 1, purpose: Purpose::Ask };
    let acks = FinalAcks::default();
    [
        ("Beacon", Control::Beacon(beacon)),
        (
            "Connect",
            Control::Connect(Connect {
                id,
                node,
                incarnation,
                from: name,
                to: name,
                tag: 1,
                flags: ConnectFlags::ORDERED,
                offer,
            }),
        ),
        ("Accept", Control::Accept(Accept { id, offer })),
        ("Refuse", Control::Refuse(Refuse { id, why: Refusal::Full })),
        ("Close", Control::Close(Close { flow: offer.flow, nonce: 1, own: offer.flow, own_nonce: 1, acks })),
        ("Probe", Control::Probe(Probe { id, node, step: Step::Learned })),
        ("ProbeSeen", Control::ProbeSeen(ProbeSeen { id, step: Step::Learned })),
        ("Keepalive", Control::Keepalive(Keepalive { flow: offer.flow, nonce: 1, own: offer.flow, own_nonce: 1 })),
        (
            "Closed",
            Control::Closed(Closed { flow: offer.flow, nonce: 1, own: Some((offer.flow, 1)), acks: Some(acks) }),
        ),
        ("Leave", Control::Leave(Leave { node: NodeId(1), incarnation: Incarnation(1) })),
    ]
}

/// The bytes of a list like `id 4, from name, offer 20`, names as long as they get.
fn bytes_of(list: &str) -> usize {
    let field = |field: &str| match field.rsplit(' ').next().expect("at least a word") {
        "name" => 1 + Name::MAX_BYTES,
        bytes => bytes.parse().expect("a number of bytes"),
    };
    list.split(", ").map(field).sum()
}

#[test]
fn the_table_of_control_messages() {
    let rows = table("### control");
    assert_eq!(rows.len(), longest_messages().len());
    for (row, (name, message)) in rows.iter().zip(longest_messages()) {
        let mut body = [0; Control::MAX_BYTES];
        let length = message.emit(&mut body);
        assert_eq!(row[..2], [&body[0].to_string()[..], name]);
        assert_eq!(row[3], length.to_string(), "{name}");
        assert_eq!(1 + bytes_of(row[2]), length, "{name}");
    }
}

#[test]
fn the_table_of_reasons() {
    let on_page: Vec<_> = table("### reasons").iter().map(|row| row[0]).collect();
    let names: Vec<_> = Reason::ALL.iter().map(|reason| format!("`{reason}`")).collect();
    assert_eq!(on_page, names);
}
