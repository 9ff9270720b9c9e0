//! The Orca paper's tables 2 and 3, and ours beside them. Machines differ by orders of magnitude, so only ratios compare.

use am_measure::report::{Cell, Report, metric, nanoseconds, short};
use serde_json::{Value, json};

use crate::measured::{Figure, Figures};
use crate::work::{LONG, Load, Senders, Stack, Work};

/// Table 2: an optimisation, the paper's layer, and what does it here.
const TABLE_2: [[&str; 3]; 7] = [
    ["interrupts and polling", "LCP/FM/Panda", "the engine's loop: spins, yields, sleeps"],
    ["context switching", "Panda", "handlers run on the thread that polls"],
    ["totally ordered multicast", "LCP/FM", "the sequencer: a host's XDP program, or its process"],
    ["buffer management", "FM/Panda", "rings: credits, frames that are lent"],
    ["fragmentation", "FM/Panda", "transfers cut messages once, at the lowest level"],
    ["marshalling", "Compiler", "none: a message is bytes"],
    ["various overheads", "Panda/RTS", ""],
];

/// The paper's group has eight members.
const PAPER_MEMBERS: usize = 8;

/// A row of table 3, or of the text behind it, in microseconds or megabytes a second.
struct PaperRow {
    name: &'static str,
    initial: Option<f64>,
    last: f64,
    unit: &'static str,
    ours: fn(&Figures, usize) -> Option<f64>,
}

fn micros(of: &Figures, work: Work, figure: Figure) -> Option<f64> {
    of.figure(work, figure).map(|ns| ns / 1e3)
}

fn in_turn(members: usize) -> Work {
    let senders = if members == 2 { Senders::All } else { Senders::Two };
    Work { stack: Stack::Agreed, members, senders, size: 0, load: Load::InTurn }
}

fn megabytes(of: &Figures, work: Work) -> Option<f64> {
    of.bytes_per_s(work).map(|bytes| bytes / 1e6)
}

/// Fast Messages is in section 5.1.1, forwarding by hosts in section 5.1.2. `ours` gets the size of a group.
const PAPER: [PaperRow; 6] = [
    PaperRow {
        name: "message, there and back",
        initial: None,
        last: 92.0,
        unit: "µs",
        ours: |of, members| micros(of, Work::null(Stack::Am, members), Figure::Own),
    },
    PaperRow {
        name: "multicast latency",
        initial: Some(867.0),
        last: 273.0,
        unit: "µs",
        ours: |of, members| micros(of, in_turn(members), Figure::Last),
    },
    PaperRow {
        name: "multicast latency, by hosts",
        initial: None,
        last: 388.0,
        unit: "µs",
        ours: |of, members| micros(of, Work::null(Stack::CopiesHost, members), Figure::Last),
    },
    PaperRow {
        name: "message throughput",
        initial: None,
        last: 10.1,
        unit: "MB/s",
        ours: |of, members| megabytes(of, Work::stream(Stack::Am, members, LONG)),
    },
    PaperRow {
        name: "multicast throughput",
        initial: Some(2.6),
        last: 5.5,
        unit: "MB/s",
        ours: |of, members| megabytes(of, Work::stream(Stack::Agreed, members, LONG)),
    },
    PaperRow {
        name: "multicast throughput, by hosts",
        initial: None,
        last: 2.8,
        unit: "MB/s",
        ours: |of, members| megabytes(of, Work::stream(Stack::CopiesHost, members, LONG)),
    },
];

/// Ratios of two of these rows.
const RATIOS: [(&str, usize, usize); 2] =
    [("multicast latency over a message's", 1, 0), ("multicast throughput over a message's", 4, 3)];

/// The size of the group that is compared: the paper's, or the largest below it.
fn members(of: &Figures) -> usize {
    let fits = of.members.iter().rev().find(|members| **members <= PAPER_MEMBERS);
    *fits.or(of.members.first()).unwrap_or(&2)
}

fn shown(figure: Option<f64>, unit: &str) -> Cell {
    match figure {
        None => Cell::Nothing,
        Some(time) if unit == "µs" => Cell::text(nanoseconds((time * 1e3) as u64)),
        Some(rate) => Cell::text(metric(rate * 1e6) + "B/s"),
    }
}

/// A ratio of the paper, and ours: `None` where one of our rows was not measured.
fn ratio(of: &Figures, over: usize, under: usize) -> (f64, Option<f64>) {
    let ours = |nth: usize| (PAPER[nth].ours)(of, members(of));
    (PAPER[over].last / PAPER[under].last, ours(over).zip(ours(under)).map(|(over, under)| over / under))
}

/// The paper's tables, and ours beside them.
pub(crate) fn report(of: &Figures, report: &mut Report) {
    let group = members(of);
    report.say("the Orca paper's table 2: which layer does it\n");
    report.grid(&["optimisation", "paper", "ours"], TABLE_2.iter().map(|row| row.map(Cell::text).to_vec()).collect());
    report.say(format_args!(
        "the Orca paper's table 3, a group of {PAPER_MEMBERS} on Myrinet, beside ours, Agreed, a group of {group}\n"
    ));
    let unit = |figure: f64, unit: &str| Cell::text(format!("{figure} {unit}"));
    let rows = PAPER.iter().map(|row| {
        let initial = row.initial.map_or(Cell::Nothing, |figure| unit(figure, row.unit));
        vec![Cell::text(row.name), initial, unit(row.last, row.unit), shown((row.ours)(of, group), row.unit)]
    });
    report.grid(&["row", ">initial", ">final", ">ours"], rows.collect());
    let ratios = RATIOS.iter().map(|(name, over, under)| {
        let (paper, ours) = ratio(of, *over, *under);
        vec![Cell::text(*name), Cell::Times(paper), Cell::of(ours, Cell::Times)]
    });
    report.grid(&["ratio", ">paper", ">ours"], ratios.collect());
    report
        .say("  latency: two members in turn, until the last member has it; throughput: 1 MiB messages of one member");
    report.say("  by hosts: all but the forwarding and the sequence numbers on the interface boards; ours: the sequencer's process sends");
    report.say("  a copy of each order to each member, and one sender a copy of each content\n");
}

/// The rows and ratios, for the summary.
pub(crate) fn summary(of: &Figures) -> Value {
    let row = |row: &PaperRow| {
        let ours = (row.ours)(of, members(of)).map(short);
        json!({ "what": row.name, "unit": row.unit, "initial": row.initial, "paper": row.last, "ours": ours })
    };
    let ratio = |(name, over, under): &(&'static str, usize, usize)| {
        let (paper, ours) = ratio(of, *over, *under);
        json!({ "what": name, "paper": short(paper), "ours": ours.map(short) })
    };
    PAPER.iter().map(row).chain(RATIOS.iter().map(ratio)).collect()
}
