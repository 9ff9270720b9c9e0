//! The Orca paper's tables 2 and 3, and ours beside them. Machines differ by orders of magnitude, so only ratios compare.

use am_measure::paper::{Paper, PaperRow};
use am_measure::report::{Cell, Report};
use serde_json::Value;

use crate::measured::{Figure, Figures};
use crate::work::{LONG, Stack, Work};

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

fn micros(of: &Figures, work: Work, figure: Figure) -> Option<f64> {
    of.figure(work, figure).map(|ns| ns / 1e3)
}

fn megabytes(of: &Figures, work: Work) -> Option<f64> {
    of.bytes_per_s(work).map(|bytes| bytes / 1e6)
}

/// Rows of table 3; Fast Messages is in section 5.1.1, forwarding by hosts in section 5.1.2.
const ROWS: [PaperRow<Figures>; 6] = [
    PaperRow {
        name: "message, there and back",
        initial: None,
        last: 92.0,
        unit: "µs",
        ours: |of| micros(of, Work::null(Stack::Am, members(of)), Figure::Own),
    },
    PaperRow {
        name: "multicast latency",
        initial: Some(867.0),
        last: 273.0,
        unit: "µs",
        ours: |of| micros(of, Work::in_turn(Stack::Agreed, members(of)), Figure::Last),
    },
    PaperRow {
        name: "multicast latency, by hosts",
        initial: None,
        last: 388.0,
        unit: "µs",
        ours: |of| micros(of, Work::null(Stack::CopiesHost, members(of)), Figure::Last),
    },
    PaperRow {
        name: "message throughput",
        initial: None,
        last: 10.1,
        unit: "MB/s",
        ours: |of| megabytes(of, Work::stream(Stack::Am, members(of), LONG)),
    },
    PaperRow {
        name: "multicast throughput",
        initial: Some(2.6),
        last: 5.5,
        unit: "MB/s",
        ours: |of| megabytes(of, Work::stream(Stack::Agreed, members(of), LONG)),
    },
    PaperRow {
        name: "multicast throughput, by hosts",
        initial: None,
        last: 2.8,
        unit: "MB/s",
        ours: |of| megabytes(of, Work::stream(Stack::CopiesHost, members(of), LONG)),
    },
];

const PAPER: Paper<Figures> = Paper {
    rows: &ROWS,
    ratios: &[("multicast latency over a message's", 1, 0), ("multicast throughput over a message's", 4, 3)],
};

/// The size of the group that is compared: the paper's, or the largest below it.
fn members(of: &Figures) -> usize {
    let fits = of.members.iter().rev().find(|members| **members <= PAPER_MEMBERS);
    *fits.or(of.members.first()).unwrap_or(&2)
}

/// The paper's tables, and ours beside them.
pub(crate) fn report(of: &Figures, report: &mut Report) {
    let group = members(of);
    report.say("the Orca paper's table 2: which layer does it\n");
    report.grid(&["optimisation", "paper", "ours"], TABLE_2.iter().map(|row| row.map(Cell::text).to_vec()).collect());
    report.say(format_args!(
        "the Orca paper's table 3, a group of {PAPER_MEMBERS} on Myrinet, beside ours, Agreed, a group of {group}\n"
    ));
    PAPER.tables(of, report);
    report
        .say("  latency: two members in turn, until the last member has it; throughput: 1 MiB messages of one member");
    report.say("  by hosts: all but the forwarding and the sequence numbers on the interface boards; ours: the sequencer's process sends");
    report.say("  a copy of each order to each member, and one sender a copy of each content\n");
}

/// The rows and ratios, for the summary.
pub(crate) fn summary(of: &Figures) -> Value {
    PAPER.summary(of)
}
