//! The table of costs: printed, read again, compared.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::str::FromStr;

use clap::ValueEnum;
use serde_json::json;

use crate::Error;
use crate::cached::{Counts, Part};
use crate::marks::{STEPS, Step, TOGETHER};
use crate::over::Over;
use crate::system_calls::Calls;
use crate::trace::{Closed, Cost, Costs};

/// So many per cent more instructions are noise of the compiler's choices, and so many at least.
const TOLERATED: (u64, u64) = (2, 2);

/// How many instructions a round trip may cost more by tags, endpoints and the error model. Not per cent: what is below gets cheaper, and
/// their own share stays.
const ENDPOINTS: u64 = 350;

/// How many Directed Point's calls may cost more than a bare request and its reply. A write leaves at once, so its turns share less.
const DP: u64 = 500;

/// How many a remote procedure call may cost more than a bare request and its reply.
const RPC: u64 = 1150;

/// How many the calls of Active Messages 2 in C may cost more than a bare request and its reply.
const AM2: u64 = 3400;

/// What the system calls of a row are.
const SLEEP: &str = "system calls of a sleep and a wake, both";

/// The most that idle flows may add to a round trip, or to a turn that finds nothing, in per cent.
const IDLE_FLOWS: f64 = 5.0;

/// A hostile program may cost the others so many per cent of a round trip.
const HOSTILE: u64 = 10;

/// So many more cache lines are noise, wherever the allocator puts things.
const TOLERATED_LINES: u64 = 3;

/// One in this many cache lines of code is noise: the length of a jump depends on where code is.
const TOLERATED_CODE: u64 = 16;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// What compiled the program: other compilers make other instructions.
    compiler: String,
    rows: Vec<((String, String), Cost)>,
    /// The system calls of a round trip between nodes that sleep, by transport.
    calls: Vec<(String, Calls)>,
    /// What a node with many flows costs.
    many_flows: Vec<(String, [(Part, Counts); 2])>,
}

impl Table {
    pub(crate) fn new() -> Result<Table, Error> {
        let output = Command::new("rustc").arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
        let version = String::from_utf8_lossy(&output.stdout);
        let compiler = version.split_whitespace().nth(1).ok_or("rustc does not say its version")?;
        Ok(Table { compiler: format!("rustc {compiler}, {}", std::env::consts::ARCH), ..Table::default() })
    }

    pub(crate) fn add(&mut self, over: &str, [single, shared]: [Costs; 2], closed: &Closed) {
        let mut add = |step: &str, cost| self.rows.push(((over.to_owned(), step.to_owned()), cost));
        let is_there =
            |(step, cost): &&(Step, Cost)| !matches!(step, Step::Daemon | Step::Aside) || cost.instructions > 0;
        single.steps.iter().filter(is_there).for_each(|(step, cost)| add(STEPS[*step as usize].1, *cost));
        add("round trip", single.whole);
        let in_all = |step| shared.steps.iter().filter(move |(its, _)| *its == step).map(|(_, cost)| *cost);
        in_all(Step::Request).for_each(|cost| add(&format!("{TOGETHER} requests at once: the calls"), cost));
        in_all(Step::Serve).for_each(|cost| add(&format!("{TOGETHER} requests at once: server's turn"), cost));
        add(&format!("{TOGETHER} requests at once: round trip"), shared.whole);
        add("closed loop: round trip", closed.round_trip);
        add("closed loop: each message more in a frame", closed.message);
        add("a turn that finds nothing", closed.idle);
    }

    pub(crate) fn add_calls(&mut self, via: &str, calls: Calls) {
        self.calls.push((via.to_owned(), calls));
    }

    pub(crate) fn add_many_flows(&mut self, over: &str, counts: [(Part, Counts); 2]) {
        self.many_flows.push((over.to_owned(), counts));
    }

    /// Of two counts with the same rows, the fewer cache lines of each.
    pub(crate) fn take_fewer_lines(&mut self, other: &Table) {
        for ((_, cost), (_, its)) in self.rows.iter_mut().zip(&other.rows) {
            cost.lines = cost.lines.min(its.lines);
        }
    }

    /// Its rows, a line of JSON each.
    pub(crate) fn json(&self) -> String {
        let row = |((over, step), cost): &((String, String), Cost)| {
            let Cost { instructions, locked, lines, code } = cost;
            let row = json!({
                "transport": over, "step": step, "instructions": instructions, "locked": locked, "lines": lines, "code": code,
            });
            format!("{row}\n")
        };
        let calls = |(via, Calls(counts)): &(String, Calls)| {
            format!("{}\n", json!({ "transport": via, "step": SLEEP, "system_calls": counts }))
        };
        let many_flows = |(over, counts): &(String, [(Part, Counts); 2])| {
            let row = |(part, counts): &(Part, Counts)| {
                let Counts { instructions, from_second, from_memory } = counts;
                let row = json!({
                    "transport": over, "step": step_of(*part), "instructions": instructions,
                    "lines_from_second_cache": from_second, "lines_from_memory": from_memory,
                });
                format!("{row}\n")
            };
            counts.iter().map(row).collect::<String>()
        };
        let rows = self.rows.iter().map(row).chain(self.calls.iter().map(calls));
        rows.chain(self.many_flows.iter().map(many_flows)).collect()
    }

    /// A line for each step that costs more than it did.
    pub(crate) fn dearer_than(&self, before: &Table) -> Vec<String> {
        if self.compiler != before.compiler {
            eprintln!("cost: the table is of {}, this is {}: not compared", before.compiler, self.compiler);
            return vec![];
        }
        let mut all = self.more_calls_than(before);
        let before: BTreeMap<_, _> = before.rows.iter().cloned().collect();
        for (key @ (over, step), now) in &self.rows {
            let is_compared = Over::from_str(over, false).is_ok_and(Over::is_in_table);
            let Some(was) = before.get(key) else {
                if !is_compared {
                    continue;
                }
                all.push(format!("{over}: no row for `{step}`"));
                continue;
            };
            let most = was.instructions + (was.instructions * TOLERATED.0 / 100).max(TOLERATED.1);
            let counts = [
                ("instructions", was.instructions, now.instructions, most),
                ("locked operations", was.locked, now.locked, was.locked),
                ("cache lines", was.lines, now.lines, was.lines + TOLERATED_LINES),
                (
                    "cache lines of code",
                    was.code,
                    now.code,
                    was.code + (was.code / TOLERATED_CODE).max(TOLERATED_LINES),
                ),
            ];
            let dearer = counts.iter().filter(|(.., now, most)| now > most);
            all.extend(dearer.map(|(what, was, now, _)| format!("{over}: {step}: {now} {what}, were {was}")));
        }
        let per_cent = |most: u64| move |without: u64| without * most / 100;
        let idle = per_cent(TOLERATED.0);
        let hostile = per_cent(HOSTILE);
        all.extend(self.more_than(Over::Core, Over::Loopback, |_| ENDPOINTS, "tags, endpoints and errors"));
        all.extend(self.more_than(Over::Loopback, Over::Endpoints, idle, "idle endpoints"));
        all.extend(self.more_than(Over::Loopback, Over::Dp, |_| DP, "Directed Point's calls"));
        all.extend(self.more_than(Over::Loopback, Over::Rpc, |_| RPC, "a remote procedure call"));
        all.extend(self.more_than(Over::Amd, Over::Hostile, hostile, "a hostile program"));
        all.extend(self.more_than(Over::Amd, Over::Scribbling, hostile, "a program that scribbles over its memory"));
        all.extend(self.more_than(Over::Loopback, Over::Am2, |_| AM2, "Active Messages 2 in C"));
        all.extend(self.members_cost());
        all.extend(self.idle_flows_cost());
        all
    }

    /// A line for each transport with more system calls around a sleep than it had.
    fn more_calls_than(&self, before: &Table) -> Vec<String> {
        let was = |via: &str| before.calls.iter().find(|(its, _)| its == via).map(|(_, calls)| calls);
        let more = |(via, now): &(String, Calls)| match was(via) {
            None => Some(format!("{via}: no row for `{SLEEP}`")),
            Some(was) => (now.total() > was.total()).then(|| format!("{via}: {SLEEP}: {now}; were {was}")),
        };
        self.calls.iter().filter_map(more).collect()
    }

    fn round_trip(&self, over: Over) -> Option<u64> {
        let key = (over.name(), "round trip".to_owned());
        self.rows.iter().find(|(its, _)| *its == key).map(|(_, cost)| cost.instructions)
    }

    /// Whether a round trip with something costs over `most` instructions more than one without it, whose instructions `most` gets.
    fn more_than(&self, without: Over, with: Over, most: impl Fn(u64) -> u64, what: &str) -> Option<String> {
        let (without, with) = (self.round_trip(without)?, self.round_trip(with)?);
        let most = most(without);
        (with > without + most)
            .then(|| format!("{what}: {with} instructions, {without} without them: over {most} more"))
    }

    /// Whether idle flows make a round trip, or a turn that finds nothing, dearer.
    fn idle_flows_cost(&self) -> Vec<String> {
        let of = |over: Over| self.many_flows.iter().find(|(its, _)| *its == over.name()).map(|(_, counts)| counts);
        let (Some(few), Some(many)) = (of(Over::Flows100), of(Over::Flows16000)) else { return vec![] };
        let dearer = |((part, few), (_, many)): (&(Part, Counts), &(Part, Counts))| {
            let pairs =
                [("instructions", few.instructions, many.instructions), ("cycles", few.cycles(), many.cycles())];
            let over = pairs.into_iter().filter(|(_, few, many)| *many > few * (1.0 + IDLE_FLOWS / 100.0));
            over.map(|(what, few, many)| {
                format!(
                    "idle flows: {}: {many:.0} {what}, {few:.0} without them: over {IDLE_FLOWS} % more",
                    step_of(*part)
                )
            })
            .collect::<Vec<_>>()
        };
        few.iter().zip(many).flat_map(dearer).collect()
    }

    /// Whether more members of a group make a round trip with one of them dearer. They share nothing on its way.
    fn members_cost(&self) -> Option<String> {
        let one = self.round_trip(Over::Members1)?;
        let all = [Over::Members2, Over::Members4, Over::Members8].into_iter();
        let dearer = all.filter_map(|over| Some((over, self.round_trip(over)?)));
        let (over, cost) = dearer.into_iter().find(|(_, cost)| *cost > one + one * TOLERATED.0 / 100)?;
        Some(format!("{}: {cost} instructions, {one} with one member", over.name()))
    }
}

/// The row of a part.
fn step_of(part: Part) -> &'static str {
    if part == Part::Turns { "a turn that finds nothing" } else { "its side of a round trip" }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Requests of 16 bytes and their replies, both sides together (scripts/cost); {}", self.compiler)?;
        if !self.rows.is_empty() {
            writeln!(f, "\n{:<11} {:<41} {:>12} {:>7} {:>6} {:>6}", "", "", "instructions", "locked", "lines", "code")?;
        }
        for ((over, step), Cost { instructions, locked, lines, code }) in &self.rows {
            writeln!(f, "{over:<11} {step:<41} {instructions:>12} {locked:>7} {lines:>6} {code:>6}")?;
        }
        self.calls.iter().try_for_each(|(via, calls)| writeln!(f, "{via:<11} {SLEEP}: {calls}"))?;
        if !self.many_flows.is_empty() {
            let [second, memory] = ["from cache 2", "from memory"];
            writeln!(f, "\n{:<11} {:<30} {:>12} {second:>12} {memory:>12} {:>12}", "", "", "instructions", "cycles")?;
        }
        for (over, (part, counts)) in
            self.many_flows.iter().flat_map(|(over, all)| all.iter().map(move |one| (over, one)))
        {
            writeln!(f, "{over:<11} {:<30} {counts}", step_of(*part))?;
        }
        Ok(())
    }
}

impl FromStr for Table {
    type Err = Error;

    fn from_str(text: &str) -> Result<Table, Error> {
        let mut lines = text.lines();
        let compiler =
            lines.next().and_then(|line| line.split_once("; ")).ok_or("the table does not say its compiler")?.1;
        let mut table = Table { compiler: compiler.to_owned(), ..Table::default() };
        for line in lines.skip(2) {
            match calls_row(line) {
                Some((via, calls)) => table.add_calls(via, calls.parse()?),
                None => table.rows.push(row(line).ok_or("the table has a row that is none")?),
            }
        }
        Ok(table)
    }
}

/// The transport and the system calls of a row that has them.
fn calls_row(line: &str) -> Option<(&str, &str)> {
    let (via, rest) = line.split_once(' ')?;
    Some((via, rest.trim_start().strip_prefix(SLEEP)?.strip_prefix(": ")?))
}

fn row(line: &str) -> Option<((String, String), Cost)> {
    let (over, rest) = line.split_once(' ')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (step, counts) = words.split_at_checked(words.len().checked_sub(4)?)?;
    let counts: Vec<u64> = counts.iter().map_while(|count| count.parse().ok()).collect();
    let &[instructions, locked, lines, code] = &counts[..] else { return None };
    Some(((over.to_owned(), step.join(" ")), Cost { instructions, locked, lines, code }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(instructions: u64, locked: u64, lines: u64) -> Table {
        let rows = vec![(
            ("shm".to_owned(), "frame into the core, both".to_owned()),
            Cost { instructions, locked, lines, code: 9 },
        )];
        Table { compiler: "rustc 1.95.0, x86_64".into(), rows, ..Table::default() }
    }

    fn sleeps(calls: &str) -> Table {
        let mut table = table(400, 2, 31);
        table.add_calls("udp", calls.parse().unwrap());
        table
    }

    fn row(over: &str, instructions: u64) -> ((String, String), Cost) {
        ((over.to_owned(), "round trip".to_owned()), Cost { instructions, ..Cost::default() })
    }

    fn dearer(rows: &[((String, String), Cost)]) -> usize {
        let table = || Table { compiler: "rustc 1.95.0, x86_64".into(), rows: rows.to_vec(), ..Table::default() };
        table().dearer_than(&table()).len()
    }

    #[test]
    fn what_is_printed_is_read_again() {
        assert_eq!(table(400, 2, 31).to_string().parse::<Table>().unwrap(), table(400, 2, 31));
        let with = sleeps("ppoll 2, recvmsg 5");
        assert_eq!(with.to_string().parse::<Table>().unwrap(), with);
    }

    #[test]
    fn one_system_call_more_is_dearer() {
        let before = sleeps("ppoll 2, recvmsg 5");
        for no_more in ["ppoll 2, recvmsg 5", "ppoll 2, recvmmsg 5", "ppoll 2, recvmsg 4"] {
            assert!(sleeps(no_more).dearer_than(&before).is_empty(), "{no_more}");
        }
        for more in ["ppoll 3, recvmsg 5", "fcntl 1, ppoll 2, recvmsg 5"] {
            let lines = sleeps(more).dearer_than(&before);
            assert_eq!(lines, [format!("udp: {SLEEP}: {more}; were ppoll 2, recvmsg 5")]);
        }
        assert_eq!(before.dearer_than(&table(400, 2, 31)).len(), 1, "no row");
    }

    #[test]
    fn endpoints_may_cost_little() {
        let with = |core, many| dearer(&[row("core", core), row("loopback", 1000), row("endpoints", many)]);
        assert_eq!(with(650, 1020), 0);
        assert_eq!(with(650, 1021), 1, "idle endpoints");
        assert_eq!(with(649, 1020), 1, "endpoints");
    }

    #[test]
    fn a_hostile_program_and_a_layer_above_may_cost_little() {
        let most = [
            ("amd", "hostile", 100),
            ("amd", "scribbling", 100),
            ("loopback", "dp", DP),
            ("loopback", "rpc", RPC),
            ("loopback", "am2", AM2),
        ];
        for (without, with, most) in most {
            let costs = |cost| dearer(&[row(without, 1000), row(with, cost)]);
            assert_eq!((costs(1000 + most), costs(1001 + most)), (0, 1), "{with}");
        }
    }

    #[test]
    fn idle_flows_may_cost_little() {
        let few = Counts { instructions: 1000.0, from_second: 10.0, from_memory: 1.0 };
        let dearer = |turn: Counts, trip: Counts| {
            let mut table = Table::default();
            table.add_many_flows("flows100", [(Part::Trips, few), (Part::Turns, few)]);
            table.add_many_flows("flows16000", [(Part::Trips, trip), (Part::Turns, turn)]);
            table.idle_flows_cost().len()
        };
        assert_eq!(dearer(few, Counts { instructions: 1050.0, ..few }), 0);
        assert_eq!(dearer(few, Counts { instructions: 1051.0, ..few }), 1, "1,251 cycles are within 5 % of 1,200");
        assert_eq!(dearer(Counts { from_memory: 1.7, ..few }, few), 1);
        assert_eq!(dearer(Counts { instructions: 1070.0, ..few }, Counts { instructions: 1070.0, ..few }), 4);
    }

    #[test]
    fn what_is_dearer_is_named() {
        let before = table(400, 2, 31);
        assert!(table(408, 2, 31).dearer_than(&before).is_empty());
        assert_eq!(
            table(412, 2, 31).dearer_than(&before),
            ["shm: frame into the core, both: 412 instructions, were 400"]
        );
        assert_eq!(table(400, 2, 32).dearer_than(&before).len(), 0);
        assert_eq!(table(400, 3, 35).dearer_than(&before).len(), 2);
        let other = Table { compiler: "rustc 1.96.0, x86_64".into(), ..table(900, 9, 90) };
        assert!(other.dearer_than(&before).is_empty());
    }
}
