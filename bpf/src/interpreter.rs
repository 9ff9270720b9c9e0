//! Interprets a program and counts what it executes. It knows the instructions and helpers of a frame's way to its socket, and no others.
//!
//! An address has the number of a region in its upper half: the context, the frame, the stack, or a map's values.

use std::collections::{HashMap, HashSet};

use aya_obj::generated::bpf_insn;
use aya_obj::{Map, Object};

use crate::steer::OBJECT;

const CONTEXT: u64 = 1;
const FRAME: u64 = 2;
const STACK: u64 = 3;
const STACK_BYTES: usize = 512;
/// The region of the first map, and its descriptor in the program.
const MAPS: u64 = 4;

/// The helpers' numbers.
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const GET_BUFF_LEN: i32 = 188;

/// `XDP_DROP`.
pub(crate) const DROP: u64 = 1;
/// `XDP_REDIRECT`: the socket takes the frame.
pub(crate) const REDIRECT: u64 = 4;

/// A program with its maps.
pub(crate) struct Interpreter {
    code: Vec<bpf_insn>,
    maps: Vec<(String, Map)>,
    memory: Vec<Vec<u8>>,
    registers: [u64; 11],
}

/// The result of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// What happens to the frame.
    pub(crate) action: u64,
    /// The key of its socket.
    pub(crate) socket: Option<u64>,
    /// Executed instructions. A helper counts as one.
    pub(crate) executed: usize,
}

impl Interpreter {
    /// A program of the steering object, with this value of its global variable.
    pub(crate) fn new(program: &str, config: &[u8]) -> Interpreter {
        let mut object = Object::parse(OBJECT).unwrap();
        object.patch_map_data(HashMap::from([("config", (config, true))])).unwrap();
        let maps: Vec<(String, Map)> = std::mem::take(&mut object.maps).into_iter().collect();
        let numbered = maps.iter().zip(MAPS as i32..).map(|((name, map), fd)| (name.as_str(), fd, map));
        object.relocate_maps(numbered, &HashSet::new()).unwrap();
        let mut memory = vec![vec![]; MAPS as usize];
        memory[STACK as usize] = vec![0; STACK_BYTES];
        for (_, map) in &maps {
            let mut values = map.data().to_vec();
            values.resize(map.value_size() as usize * map.max_entries() as usize, 0);
            memory.push(values);
        }
        let code = object.functions[&object.programs[program].function_key()].instructions.clone();
        Interpreter { code, maps, memory, registers: [0; 11] }
    }

    /// The values of a map.
    pub(crate) fn map(&mut self, name: &str) -> &mut [u8] {
        let at = self.maps.iter().position(|(each, _)| each == name).unwrap();
        &mut self.memory[MAPS as usize + at]
    }

    /// Run it on a frame that arrived on queue 0.
    pub(crate) fn run(&mut self, frame: &[u8]) -> Outcome {
        self.memory[FRAME as usize] = frame.to_vec();
        self.registers = [0; 11];
        self.registers[1] = CONTEXT << 32;
        self.registers[10] = (STACK << 32) + STACK_BYTES as u64;
        let mut outcome = Outcome { action: 0, socket: None, executed: 0 };
        let mut at = 0;
        while let Some(next) = self.step(at, &mut outcome) {
            at = next;
        }
        outcome.action = self.registers[0] & u64::from(u32::MAX);
        outcome
    }

    /// Execute one instruction. Returns the place of the next, or `None` at the end.
    fn step(&mut self, at: usize, outcome: &mut Outcome) -> Option<usize> {
        let instruction = self.code[at];
        outcome.executed += 1;
        let (to, from) = (instruction.dst_reg() as usize, instruction.src_reg() as usize);
        let bytes = [4, 2, 1, 8][(instruction.code >> 3 & 3) as usize];
        match instruction.code {
            0x95 => return None,
            0x85 => self.call(instruction.imm, outcome),
            0x18 => {
                self.registers[to] = self.constant(at);
                return Some(at + 2);
            }
            0x61 | 0x69 | 0x71 | 0x79 => {
                self.registers[to] = self.load(offset(self.registers[from], instruction.off), bytes)
            }
            0x62 | 0x6a | 0x72 | 0x7a => {
                self.store(offset(self.registers[to], instruction.off), bytes, instruction.imm as u64)
            }
            0x63 | 0x6b | 0x73 | 0x7b => {
                self.store(offset(self.registers[to], instruction.off), bytes, self.registers[from])
            }
            code if matches!(code & 7, 4 | 7) => self.registers[to] = self.calculated(&instruction),
            code if matches!(code & 7, 5 | 6) => {
                let jumps = self.jumps(&instruction);
                return Some((at + 1).wrapping_add_signed(if jumps { instruction.off.into() } else { 0 }));
            }
            code => panic!("instruction {code:#x}"),
        }
        Some(at + 1)
    }

    /// A constant of two words: a number, a map, or a place in a map's value.
    fn constant(&self, at: usize) -> u64 {
        let (low, high) = (self.code[at].imm as u32 as u64, self.code[at + 1].imm as u32 as u64);
        match self.code[at].src_reg() {
            2 => (low << 32) + high,
            _ => low | high << 32,
        }
    }

    fn operand(&self, instruction: &bpf_insn) -> u64 {
        match instruction.code & 8 {
            0 => instruction.imm as u64,
            _ => self.registers[instruction.src_reg() as usize],
        }
    }

    fn calculated(&self, instruction: &bpf_insn) -> u64 {
        let is_wide = instruction.code & 7 == 7;
        let width = |number: u64| if is_wide { number } else { number & u64::from(u32::MAX) };
        let value = self.registers[instruction.dst_reg() as usize];
        if instruction.code & 0xf0 == 0xd0 {
            return swapped(value, instruction);
        }
        let (value, operand) = (width(value), width(self.operand(instruction)));
        let by = (operand & if is_wide { 63 } else { 31 }) as u32;
        width(match instruction.code >> 4 {
            0x0 => value.wrapping_add(operand),
            0x1 => value.wrapping_sub(operand),
            0x2 => value.wrapping_mul(operand),
            0x3 => value / operand,
            0x4 => value | operand,
            0x5 => value & operand,
            0x6 => value << by,
            0x7 => value >> by,
            0x8 => value.wrapping_neg(),
            0x9 => value % operand,
            0xa => value ^ operand,
            0xb => operand,
            // Of 32 bits, the sign is bit 31.
            0xc if is_wide => (value as i64 >> by) as u64,
            0xc => (value as i32 >> by) as u32 as u64,
            operation => panic!("operation {operation:#x}"),
        })
    }

    fn jumps(&self, instruction: &bpf_insn) -> bool {
        let is_wide = instruction.code & 7 == 5;
        let width = |number: u64| if is_wide { number } else { number & u64::from(u32::MAX) };
        let signed = |number: u64| if is_wide { number as i64 } else { (number as i32).into() };
        let (value, operand) = (self.registers[instruction.dst_reg() as usize], self.operand(instruction));
        let (one, other) = (width(value), width(operand));
        match instruction.code >> 4 {
            0x0 => true,
            0x1 => one == other,
            0x2 => one > other,
            0x3 => one >= other,
            0x4 => one & other != 0,
            0x5 => one != other,
            0x6 => signed(value) > signed(operand),
            0x7 => signed(value) >= signed(operand),
            0xa => one < other,
            0xb => one <= other,
            0xc => signed(value) < signed(operand),
            0xd => signed(value) <= signed(operand),
            condition => panic!("condition {condition:#x}"),
        }
    }

    fn call(&mut self, helper: i32, outcome: &mut Outcome) {
        let [_, first, second, third, ..] = self.registers;
        self.registers[0] = match helper {
            MAP_LOOKUP => self.lookup(first, self.load(second, 4)),
            REDIRECT_MAP => {
                outcome.socket = Some(second);
                if self.load(self.lookup(first, second), 4) == 0 { third } else { REDIRECT }
            }
            GET_BUFF_LEN => self.memory[FRAME as usize].len() as u64,
            _ => panic!("helper {helper}"),
        };
    }

    /// The value of an array's element.
    fn lookup(&self, map: u64, key: u64) -> u64 {
        let (name, map_of) = &self.maps[(map - MAPS) as usize];
        assert!(key < map_of.max_entries().into(), "{name} has no {key}");
        (map << 32) + key * u64::from(map_of.value_size())
    }

    fn load(&self, address: u64, bytes: usize) -> u64 {
        let (region, at) = place(address);
        if region == CONTEXT as usize {
            return self.field(at);
        }
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.memory[region][at..at + bytes]);
        u64::from_le_bytes(word)
    }

    /// A field of the context. The kernel makes addresses of the first two.
    fn field(&self, at: usize) -> u64 {
        match at {
            0 => FRAME << 32,
            4 => (FRAME << 32) + self.memory[FRAME as usize].len() as u64,
            16 => 0,
            _ => panic!("field {at}"),
        }
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) {
        let (region, at) = place(address);
        assert!(region == STACK as usize || region >= MAPS as usize, "a store to region {region}");
        self.memory[region][at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
}

const fn place(address: u64) -> (usize, usize) {
    ((address >> 32) as usize, address as u32 as usize)
}

const fn offset(address: u64, by: i16) -> u64 {
    address.wrapping_add_signed(by as i64)
}

/// To big-endian, or to little-endian, which truncates.
fn swapped(value: u64, instruction: &bpf_insn) -> u64 {
    match (instruction.code & 8 != 0, instruction.imm) {
        (true, 16) => (value as u16).swap_bytes().into(),
        (true, 32) => (value as u32).swap_bytes().into(),
        (true, 64) => value.swap_bytes(),
        (false, bits) => value & (u64::MAX >> (64 - bits)),
        other => panic!("byte order {other:?}"),
    }
}
