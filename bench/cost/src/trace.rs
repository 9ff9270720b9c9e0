//! The trips under valgrind's `lackey`, which tells of every access to memory in a line of text.
//!
//! ```text
//! I  0010d8a4,3        an instruction
//!  L 1ffeffe7e8,8      a load;  S a store,  M both
//! ```

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::Error;
use crate::marks::{CLOSED_SHARED, CLOSED_TRIPS, IDLE_TRIPS, Mode, SHARED, STEPS, Step, TOGETHER, TRIPS};
use crate::over::Over;

/// The trips' stack is this far around their first variable.
const STACK: u64 = 64 << 10;

/// What a step of one trip costs, or all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) instructions: u64,
    pub(crate) locked: u64,
    /// Cache lines of data, each once.
    pub(crate) lines: u64,
    /// Bytes of instructions, each once, in cache lines. Which lines they are on depends on all other code, so that is not counted.
    pub(crate) code: u64,
}

/// The median trip: by step, and the whole.
pub(crate) struct Costs {
    pub(crate) steps: Vec<(Step, Cost)>,
    pub(crate) whole: Cost,
}

/// The mean of what goes on in a loop.
pub(crate) struct Closed {
    pub(crate) round_trip: Cost,
    /// A further message in a frame, sent and received.
    pub(crate) message: Cost,
    /// A turn that finds nothing.
    pub(crate) idle: Cost,
}

/// One trip while it is read.
#[derive(Clone, Default)]
struct Trip {
    costs: [Cost; STEPS.len()],
    lines: [Vec<u64>; STEPS.len()],
    /// The addresses and lengths of instructions.
    code: [HashSet<(u64, u64)>; STEPS.len()],
}

/// Where the program and its marks are.
struct Places {
    marks: u64,
    locked: HashSet<u64>,
    /// Its lines are always in the cache, and where they begin says nothing: they are not counted.
    stack: Range<u64>,
}

/// The costs of a trip by step, of one message and of one of several that share frames.
///
/// `locked` are addresses where the program is loaded at 0. It allocates `before` bytes first, which moves all that it
/// allocates later.
pub(crate) fn steps(over: Over, locked: &HashSet<u64>, before: usize) -> Result<[Costs; 2], Error> {
    // The first may begin before the trace is read.
    let trips = trips(over, Mode::Steps, locked, before, TRIPS + 2 * SHARED)?;
    let (single, shared) = trips.split_at(trips.len() - 2 * SHARED);
    Ok([median(&single[single.len() - TRIPS..]), median(&shared[SHARED..])])
}

/// The mean costs of trips directly after each other.
pub(crate) fn closed(over: Over, locked: &HashSet<u64>, before: usize) -> Result<Closed, Error> {
    let (shared, idle) = (2 * CLOSED_SHARED, 2 * IDLE_TRIPS);
    let trips = trips(over, Mode::Closed, locked, before, CLOSED_TRIPS + shared + idle)?;
    let (trips, idle) = trips.split_at(trips.len() - idle);
    let (single, shared) = trips.split_at(trips.len() - shared);
    let all: Vec<Step> = STEPS[1..].iter().map(|(step, _)| *step).collect();
    let round_trip = mean(&single[single.len() - CLOSED_TRIPS..], &all, 1);
    let together = mean(&shared[CLOSED_SHARED..], &all, 1);
    // Of the request and of the reply, the first message is in the round trip.
    let further = |together: u64, one: u64| together.saturating_sub(one) / (2 * (TOGETHER - 1));
    let message = Cost {
        instructions: further(together.instructions, round_trip.instructions),
        locked: further(together.locked, round_trip.locked),
        lines: further(together.lines, round_trip.lines),
        code: 0,
    };
    Ok(Closed { round_trip, message, idle: mean(&idle[IDLE_TRIPS..], &[Step::Idle], 2) })
}

/// The trips of a run, this many at least.
fn trips(over: Over, mode: Mode, locked: &HashSet<u64>, before: usize, least: usize) -> Result<Vec<Trip>, Error> {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--log-fd=2"])
        .arg(std::env::current_exe()?)
        .args(["trips", &over.name(), &format!("{mode:?}").to_lowercase(), &before.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("valgrind: {error}; it is a package of its own"))?;
    let (tell, told) = channel();
    let (output, locked) = (child.stdout.take().ok_or("no output")?, locked.clone());
    thread::spawn(move || places(output, locked).map(|places| tell.send(places)));
    let trips = read(BufReader::with_capacity(1 << 20, child.stderr.take().ok_or("no trace")?), &told)?;
    if !child.wait()?.success() || trips.len() < least {
        return Err(format!("{} trips over {} are too few", trips.len(), over.name()).into());
    }
    Ok(trips)
}

/// The addresses of this program's instructions that lock the memory bus, by what the disassembler says, where it is
/// loaded at 0.
pub(crate) fn locked() -> Result<HashSet<u64>, Error> {
    let program = std::env::current_exe()?;
    let output = Command::new("objdump").args(["--disassemble", "--no-show-raw-insn"]).arg(program).output();
    let output = output.map_err(|error| format!("objdump: {error}; it is in the package binutils"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(locks).collect())
}

/// The address of a line's instruction, if that locks: an exchange with memory always does.
fn locks(line: &str) -> Option<u64> {
    let (address, instruction) = line.split_once(':')?;
    let instruction = instruction.trim();
    let is_locked = instruction.starts_with("lock ") || (instruction.starts_with("xchg") && instruction.contains('('));
    is_locked.then(|| u64::from_str_radix(address.trim(), 16).ok())?
}

/// What the program says before its first trip.
fn places(output: impl Read, locked: HashSet<u64>) -> Option<Places> {
    let line = BufReader::new(output).lines().next()?.ok()?;
    let mut numbers = line.split(' ').map_while(|number| u64::from_str_radix(number, 16).ok());
    let (base, marks, stack) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let stack = stack.saturating_sub(STACK)..stack + STACK;
    Some(Places { marks, locked: locked.into_iter().map(|at| at + base).collect(), stack })
}

fn read(mut trace: impl BufRead, told: &Receiver<Places>) -> Result<Vec<Trip>, Error> {
    let (mut trips, mut trip, mut step, mut known) = (vec![], Trip::default(), Step::Outside, None);
    let mut line = vec![];
    while {
        line.clear();
        trace.read_until(b'\n', &mut line)? > 0
    } {
        // What goes on before the first trips does not count, nor do the first trips.
        let Some(places) = known.as_ref() else {
            known = told.try_recv().ok();
            continue;
        };
        let Some((kind, address, size)) = parse(&line) else { continue };
        if kind != b'I' && address.wrapping_sub(places.marks) < 64 {
            let begins = STEPS.get((address - places.marks) as usize).filter(|_| kind == b'S').map(|(step, _)| *step);
            if begins == Some(Step::Outside) && step != Step::Outside {
                // Between trips a transport has steps, too: when a node is opened, and when it leaves.
                let trip = std::mem::take(&mut trip);
                trips.extend(Some(trip).filter(|trip| trip.costs[Step::Request as usize].instructions > 0));
            }
            step = begins.unwrap_or(step);
            continue;
        }
        let (cost, lines) = (&mut trip.costs[step as usize], &mut trip.lines[step as usize]);
        let code = &mut trip.code[step as usize];
        match kind {
            _ if matches!(step, Step::Outside | Step::Aside) => (),
            b'I' => {
                cost.instructions += 1;
                cost.locked += places.locked.contains(&address) as u64;
                code.insert((address, size));
            }
            _ if places.stack.contains(&address) => (),
            _ => lines.extend(address >> 6..=(address + size - 1) >> 6),
        }
    }
    Ok(trips)
}

/// Kind, address and size of an access.
fn parse(line: &[u8]) -> Option<(u8, u64, u64)> {
    let kind = match line {
        [b'I', b' ', b' ', ..] => b'I',
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', ..] => *kind,
        _ => return None,
    };
    let (address, size) = std::str::from_utf8(&line[3..]).ok()?.trim_end().split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

/// The cache lines of these steps, each once.
fn distinct(lines: &[Vec<u64>; STEPS.len()], steps: &[Step]) -> u64 {
    steps.iter().flat_map(|&step| &lines[step as usize]).collect::<HashSet<_>>().len() as u64
}

/// What these steps cost. `of` makes one number of those of all trips.
fn cost(steps: &[Step], of: impl Fn(&dyn Fn(&Trip) -> u64) -> u64) -> Cost {
    let sum = |trip: &Trip, what: fn(&Cost) -> u64| steps.iter().map(|&step| what(&trip.costs[step as usize])).sum();
    Cost {
        instructions: of(&|trip| sum(trip, |cost| cost.instructions)),
        locked: of(&|trip| sum(trip, |cost| cost.locked)),
        lines: of(&|trip| distinct(&trip.lines, steps)),
        code: of(&|trip| code_of(trip, steps)),
    }
}

/// The cache lines that the instructions of these steps would fill.
fn code_of(trip: &Trip, steps: &[Step]) -> u64 {
    let all: HashSet<_> = steps.iter().flat_map(|&step| &trip.code[step as usize]).collect();
    all.into_iter().map(|(_, length)| length).sum::<u64>().div_ceil(64)
}

fn median(trips: &[Trip]) -> Costs {
    let of = |what: &dyn Fn(&Trip) -> u64| {
        let mut all: Vec<u64> = trips.iter().map(what).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let steps = STEPS[1..].iter().map(|(step, _)| *step);
    // Idle turns are no part of a round trip.
    let whole: Vec<Step> = steps.clone().filter(|step| *step != Step::Idle).collect();
    Costs { steps: steps.map(|step| (step, cost(&[step], of))).collect(), whole: cost(&whole, of) }
}

/// The mean of these steps of each trip, of which each has `parts` that run the same code.
fn mean(trips: &[Trip], steps: &[Step], parts: u64) -> Cost {
    let count = trips.len() as u64 * parts;
    let of = |what: &dyn Fn(&Trip) -> u64| (trips.iter().map(what).sum::<u64>() + count / 2) / count;
    Cost { code: of(&|trip| code_of(trip, steps) * parts), ..cost(steps, of) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_locks_is_seen() {
        assert_eq!(locks("  a1b2:\tlock cmpxchg %rcx,(%rdx)"), Some(0xa1b2));
        assert_eq!(locks("  a1b8:\txchg   %al,0x10(%rdi)"), Some(0xa1b8));
        assert_eq!(locks("  a1bc:\txchg   %ax,%ax"), None);
        assert_eq!(locks("  a1c0:\tmov    (%rdi),%rax"), None);
        assert_eq!(locks("0000000000a1b2 <lock>:"), None);
    }

    #[test]
    fn a_line_is_read() {
        assert_eq!(parse(b"I  0010d8a4,3\n"), Some((b'I', 0x10d8a4, 3)));
        assert_eq!(parse(b" S 1ffeffe7e8,8\n"), Some((b'S', 0x1f_feff_e7e8, 8)));
        assert_eq!(parse(b"==12== Lackey\n"), None);
    }

    #[test]
    fn a_trip_is_what_is_between_its_marks() {
        let (tell, told) = channel();
        tell.send(Places { marks: 0x1000, locked: HashSet::from([0x10]), stack: 0x9000..0xa000 }).unwrap();
        let mut text = String::from("==1== begins\n");
        text +=
            "I  00000010,3\n S 00001001,1\nI  00000010,3\nI  00000014,2\n L 00002000,8\n L 0000203c,8\n S 00001000,1\n";
        let trips = read(text.as_bytes(), &told).unwrap();
        assert_eq!(trips.len(), 1);
        let costs = median(&trips);
        assert_eq!(costs.steps[0], (Step::Request, Cost { instructions: 2, locked: 1, lines: 2, code: 1 }));
        assert_eq!(costs.whole, costs.steps[0].1);
    }
}
