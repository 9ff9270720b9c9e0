//! Counts the instructions that the program executes for a frame on the way to its socket. There are limits: the program runs for every
//! frame. Clang 14 and clang 19 stay below them.

use std::mem::offset_of;

use am_wire::frame::{self, LinkAddresses, MIN_FRAME};
use am_wire::{Address, Class, EtherType, Flow, Framing, Header, Kind};

use crate::Config;
use crate::interpreter::{DROP, Interpreter, Outcome, REDIRECT};
use crate::table::Layout;

const CONFIG: Config = Config {
    ethertype: EtherType::DEFAULT,
    own: Address([0x02, 0, 0, 0, 0, 1]),
    node_socket: 0,
    counts_redirected: false,
    lost_per_million: 0,
};
const FLOW: Flow = Flow::new(0x2a57).unwrap();
/// The key of its socket.
const SOCKET: u8 = 4;

fn frame(framing: Framing, kind: Kind, length: usize) -> Vec<u8> {
    let link = LinkAddresses { to: CONFIG.own, from: Address([0x02, 1, 2, 3, 4, 5]), ethertype: CONFIG.ethertype };
    let header = Header {
        kind,
        flow: FLOW,
        nonce: 0,
        handler: 7,
        words: if matches!(kind, Kind::Request | Kind::Reply) { 5 } else { 0 },
        seq: 5,
    };
    let mut bytes = vec![0; length];
    let body = if length == MIN_FRAME { 20 } else { length - framing.body_at() };
    assert_eq!(frame::emit(&mut bytes, framing, &link, &header, body, None), Ok(length));
    bytes
}

/// For frames in several pieces, and in one.
const PROGRAMS: [&str; 2] = ["steer", "steer_linear"];

/// A program with a table as the loader writes it.
fn program(name: &str) -> Interpreter {
    let mut interpreter = Interpreter::new(name, &CONFIG.to_bytes());
    let table = interpreter.map("tables");
    let mut write = |at: usize, value: &[u8]| table[at..at + value.len()].copy_from_slice(value);
    write(offset_of!(Layout, usual_to), &CONFIG.usual_to().to_ne_bytes());
    write(offset_of!(Layout, usual_type), &CONFIG.usual_type().to_ne_bytes());
    write(offset_of!(Layout, plain_type), &CONFIG.plain_type().to_ne_bytes());
    write(offset_of!(Layout, flows) + 2 * FLOW.index(), &[SOCKET, 0]);
    interpreter.map("sockets")[4 * usize::from(SOCKET)] = 1;
    interpreter
}

const MESSAGES: [Kind; 2] = [Kind::Request, Kind::Reply];
/// The other kinds that a flow has.
const OTHERS: [Kind; 6] =
    [Kind::Ack, Kind::Reject, Kind::Coalesced(Class::Request), Kind::Coalesced(Class::Reply), Kind::Put, Kind::Get];

/// Frames of this length or more have the code of their length in no table: `LENGTHS` in `usual.h`.
const LONG: usize = 2048;
/// The longest frame at an MTU of 9,000.
const LONGEST: usize = 9014;

/// Both programs give frames of all lengths to the socket, with this number of instructions at most: for a short frame, which has its
/// length in its trailer, for a longer one, and for one of `LONG` bytes or more.
fn expect_limits(programs: [Interpreter; 2], framing: Framing, kinds: &[Kind], limits: [usize; 3]) {
    for (mut program, name) in programs.into_iter().zip(PROGRAMS) {
        let mut most = [0; 3];
        for (length, &kind) in (MIN_FRAME..=LONGEST).flat_map(|length| kinds.iter().map(move |kind| (length, kind))) {
            let Outcome { action, socket, executed } = program.run(&frame(framing, kind, length));
            assert_eq!((action, socket), (REDIRECT, Some(SOCKET.into())), "{name}: {kind:?}, {length} bytes");
            let most = &mut most[usize::from(length > MIN_FRAME) + usize::from(length >= LONG)];
            *most = executed.max(*most);
        }
        println!("{name}: {most:?} instructions for frames in {framing}, at most {limits:?}: {kinds:?}");
        assert!(
            most.iter().zip(limits).all(|(&most, limit)| most <= limit),
            "{name}: {most:?} > {limits:?} in {framing}"
        );
    }
}

#[test]
fn a_message_takes_few_instructions() {
    expect_limits(PROGRAMS.map(program), Framing::Bare, &MESSAGES, [51, 56, 63]);
    expect_limits(PROGRAMS.map(program), Framing::Split, &MESSAGES, [56, 60, 73]);
    expect_limits(PROGRAMS.map(program), Framing::Plain, &MESSAGES, [55, 59, 72]);
}

#[test]
fn a_frame_of_another_kind_takes_few_more() {
    expect_limits(PROGRAMS.map(program), Framing::Bare, &OTHERS, [62, 66, 73]);
    expect_limits(PROGRAMS.map(program), Framing::Split, &OTHERS, [64, 69, 82]);
    expect_limits(PROGRAMS.map(program), Framing::Plain, &OTHERS, [63, 68, 81]);
}

/// While the node has no room for requests, no frame is usual. Without reject templates its requests go to the socket.
#[test]
fn a_frame_for_a_full_node_takes_four_times_as_many() {
    let full = |name| {
        let mut program = program(name);
        program.map("tables")[offset_of!(Layout, usual_to)..][..8].copy_from_slice(&1_u64.to_ne_bytes());
        program
    };
    for framing in Framing::ALL {
        expect_limits(PROGRAMS.map(full), framing, &MESSAGES, [220, 230, 230]);
        expect_limits(PROGRAMS.map(full), framing, &OTHERS, [220, 230, 230]);
    }
}

#[test]
fn a_frame_of_a_flow_without_a_socket_is_dropped() {
    let mut bytes = frame(Framing::Bare, Kind::Request, MIN_FRAME);
    // The lowest bit of the flow.
    bytes[8] ^= 8;
    assert_eq!(program("steer").run(&bytes).action, DROP);
}
