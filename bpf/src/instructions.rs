//! Counts the instructions that the program executes for a frame on the way to its socket. There are limits: the program runs for every
//! frame.

use std::mem::offset_of;
use std::ops::RangeInclusive;

use am_wire::frame::{self, LinkAddresses, MIN_FRAME};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind};

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

/// A program with a table as the loader writes it.
fn program(name: &str) -> Interpreter {
    let mut interpreter = Interpreter::new(name, &CONFIG.to_bytes());
    let table = interpreter.map("tables");
    let mut write = |at: usize, value: &[u8]| table[at..at + value.len()].copy_from_slice(value);
    write(offset_of!(Layout, usual_to), &CONFIG.usual_to().to_ne_bytes());
    write(offset_of!(Layout, usual_type), &CONFIG.usual_type().to_ne_bytes());
    write(offset_of!(Layout, flows) + 2 * FLOW.index(), &[SOCKET, 0]);
    interpreter.map("sockets")[4 * usize::from(SOCKET)] = 1;
    interpreter
}

/// The lengths at Ethernet's MTU. A frame of the first is short, and has its length in its trailer.
const LENGTHS: RangeInclusive<usize> = MIN_FRAME..=1514;

/// Both programs give frames of all lengths to the socket, with this number of instructions at most: for a short frame, for a longer one.
fn expect_limits(framing: Framing, kinds: &[Kind], limits: [usize; 2]) {
    for name in ["steer", "steer_linear"] {
        let mut program = program(name);
        let mut most = [0; 2];
        for (length, &kind) in LENGTHS.flat_map(|length| kinds.iter().map(move |kind| (length, kind))) {
            let Outcome { action, socket, executed } = program.run(&frame(framing, kind, length));
            assert_eq!((action, socket), (REDIRECT, Some(SOCKET.into())), "{name}: {kind:?}, {length} bytes");
            let most = &mut most[usize::from(length > MIN_FRAME)];
            *most = executed.max(*most);
        }
        println!("{name}: {most:?} instructions for frames in {framing}, at most {limits:?}: {kinds:?}");
        assert!(most[0] <= limits[0] && most[1] <= limits[1], "{name}: {most:?} instead of {limits:?} in {framing}");
    }
}

#[test]
fn a_usual_frame_takes_few_instructions() {
    expect_limits(Framing::Bare, &[Kind::Request, Kind::Reply], [51, 56]);
    expect_limits(Framing::Split, &[Kind::Request, Kind::Reply], [61, 67]);
}

/// More than clang 14 and 19 make of the code.
#[test]
fn another_frame_takes_four_times_as_many() {
    expect_limits(Framing::Plain, &[Kind::Request, Kind::Reply, Kind::Put], [220, 230]);
    expect_limits(Framing::Bare, &[Kind::Ack, Kind::Put], [220, 230]);
    expect_limits(Framing::Split, &[Kind::Ack, Kind::Put], [220, 230]);
}

#[test]
fn a_frame_of_a_flow_without_a_socket_is_dropped() {
    let mut bytes = frame(Framing::Bare, Kind::Request, MIN_FRAME);
    // The lowest bit of the flow.
    bytes[8] ^= 8;
    assert_eq!(program("steer").run(&bytes).action, DROP);
}
