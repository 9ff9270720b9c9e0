//! The Rust and the C side of steering, asked the same questions.

#![allow(dead_code)] // each test uses a part

pub(crate) mod frames;

use std::env;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use am_bpf::{Config, Probe};
use am_wire::bounce::RejectTemplate;
use am_wire::frame::MIN_FRAME;
use am_wire::steer::{Decision, SteeringTable, steer};
use am_wire::{Address, Flow};

/// Both sides, with the same configuration and the same flows.
pub(crate) struct Twins {
    pub(crate) rust: Box<SteeringTable>,
    pub(crate) c: Probe,
}

/// A frame about which they differ.
#[derive(Debug)]
pub(crate) struct Difference {
    frame: Vec<u8>,
    rust: Decision,
    c: Decision,
    table: String,
}

impl Twins {
    pub(crate) fn new(config: &Config) -> Twins {
        Twins::with(config, Probe::load(config).unwrap_or_else(|error| panic!("{error}")))
    }

    pub(crate) fn with(config: &Config, c: Probe) -> Twins {
        let table =
            SteeringTable { node_socket: config.node_socket, ..SteeringTable::new(config.ethertype, config.own) };
        Twins { rust: Box::new(table), c }
    }

    pub(crate) fn set_flow(&mut self, flow: Flow, socket: Option<u8>) {
        self.rust.flows[flow.index()] = socket.map_or(0, |index| index + 1);
        self.c.steer().set_flow(flow, socket);
    }

    pub(crate) fn set_back(&mut self, flow: Flow, back: Option<&RejectTemplate>) {
        let word = &mut self.rust.ways_back[flow.index() / 64];
        let bit = 1 << (flow.index() % 64);
        *word = if back.is_some() { *word | bit } else { *word & !bit };
        self.c.steer().set_reject_template(flow, back);
    }

    pub(crate) fn add_address(&mut self, address: Address) {
        assert!(self.rust.added.insert(address));
        self.c.steer().add_address(address).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn remove_address(&mut self, address: Address) {
        self.rust.added.remove(address);
        self.c.steer().remove_address(address);
    }

    pub(crate) fn join_group(&mut self, group: u64, socket: u8) {
        assert_eq!(self.rust.groups.join(group, socket), self.c.steer().join_group(group, socket).unwrap());
    }

    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.rust.full = is_full;
        self.c.steer().set_rx_full(is_full);
    }

    /// Their common answer.
    pub(crate) fn decide(&mut self, frame: &[u8]) -> Result<Decision, Box<Difference>> {
        let rust = steer(frame, &self.rust);
        let c = self.c.decide(frame).unwrap_or_else(|error| panic!("{error}\n{}", hex(frame)));
        if rust == c {
            return Ok(rust);
        }
        let SteeringTable { ethertype, own, node_socket, .. } = *self.rust;
        let table = format!("{ethertype:x?}, own address {own}, control frames to socket {node_socket}");
        Err(Box::new(Difference { frame: frame.to_vec(), rust, c, table }))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { frame, rust, c, table } = self;
        // Steering looks at no more than the first 60 bytes, and at the length.
        let start = hex(&frame[..frame.len().min(MIN_FRAME)]);
        write!(f, "{} bytes: {start}\n  with {table}\n  Rust: {rust:?}\n  C:    {c:?}", frame.len())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Build a program as `build.rs` does, with more options; 4-byte aligned.
pub(crate) fn compile(source: &Path, options: &[&str]) -> Object {
    let object = temporary_file();
    let output = Command::new(env!("BPF_CLANG"))
        .args(env!("BPF_FLAGS").split(' '))
        .args(options)
        .args([Path::new("-I"), Path::new(env!("CARGO_MANIFEST_DIR"))])
        .args([Path::new("-c"), &Path::new(env!("CARGO_MANIFEST_DIR")).join(source), Path::new("-o"), &object])
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", env!("BPF_CLANG")));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    Object::aligned(&bytes)
}

fn temporary_file() -> std::path::PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    env::temp_dir().join(format!("am-bpf-{}-{thread}.o", std::process::id()))
}

/// The bytes of an object, aligned as its loader wants them.
pub(crate) struct Object {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Object {
    const ALIGNMENT: usize = 8;

    fn aligned(bytes: &[u8]) -> Object {
        let mut memory = vec![0; bytes.len() + Self::ALIGNMENT];
        let start = memory.as_ptr().align_offset(Self::ALIGNMENT);
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Object { memory, start, length: bytes.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}
