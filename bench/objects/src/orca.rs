//! The Orca paper's tables 1 and 4, and ours beside them.

use am_measure::paper::{Paper, PaperRow, shown};
use am_measure::report::{Cell, Report};
use am_objects::Level;
use serde_json::Value;

use crate::measured::{Figure, Figures};
use crate::work::{PAPER as LONG, Row};

/// The paper's group has eight members.
const PAPER_MEMBERS: usize = 8;

/// Table 1: microseconds of the initial design.
const TABLE_1: [[&str; 5]; 2] =
    [["Myrinet", "585 µs", "867 µs", "865 µs", "1170 µs"], ["Ethernet", "1530 µs", "1580 µs", "1860 µs", "1960 µs"]];

fn micros(of: &Figures, row: Row, figure: Figure) -> Option<f64> {
    of.quantile(row, figure, 0.5).map(|ns| ns / 1e3)
}

fn multicast(of: &Figures) -> Option<f64> {
    micros(of, Row::Messages(Level::Agreed), Figure::Last)
}

fn object(of: &Figures) -> Option<f64> {
    micros(of, Row::Writes(Level::Agreed), Figure::Own)
}

/// One at a time: a call of the paper ends before the next one.
fn megabytes(of: &Figures, row: Row, figure: Figure) -> Option<f64> {
    micros(of, row, figure).map(|time| LONG as f64 / time)
}

/// Rows of table 4, and of tables 2 and 3 and section 5.1.1 those that they are compared with.
const ROWS: [PaperRow<Figures>; 7] = [
    PaperRow {
        name: "message, there and back",
        initial: None,
        last: 92.0,
        unit: "µs",
        ours: |of| micros(of, Row::Request, Figure::Own),
    },
    PaperRow { name: "multicast latency", initial: Some(867.0), last: 273.0, unit: "µs", ours: multicast },
    PaperRow { name: "GOI latency", initial: Some(1170.0), last: 379.0, unit: "µs", ours: object },
    PaperRow {
        name: "multicast throughput",
        initial: Some(2.6),
        last: 5.5,
        unit: "MB/s",
        ours: |of| megabytes(of, Row::Message(Level::Agreed, LONG), Figure::Own),
    },
    PaperRow {
        name: "GOI throughput",
        initial: Some(2.3),
        last: 5.0,
        unit: "MB/s",
        ours: |of| megabytes(of, Row::Write(Level::Agreed, LONG), Figure::Own),
    },
    PaperRow {
        name: "RPC latency",
        initial: Some(585.0),
        last: 171.0,
        unit: "µs",
        ours: |of| micros(of, Row::Call(0), Figure::Own),
    },
    PaperRow {
        name: "ROI latency",
        initial: Some(865.0),
        last: 328.0,
        unit: "µs",
        ours: |of| micros(of, Row::Kept(0), Figure::Own),
    },
];

const PAPER: Paper<Figures> = Paper {
    rows: &ROWS,
    ratios: &[
        ("GOI latency over a message's", 2, 0),
        ("GOI latency over multicast's", 2, 1),
        ("GOI throughput over multicast's", 4, 3),
        ("ROI latency over RPC's", 6, 5),
    ],
};

/// The paper's tables, and ours beside them.
pub(crate) fn report(of: &Figures, report: &mut Report) {
    let members = of.members;
    report.say(format_args!(
        "the Orca paper's table 1, its initial design, a group of {PAPER_MEMBERS}, beside ours, Agreed, a group of {members}\n"
    ));
    let ours =
        [micros(of, Row::Call(0), Figure::Own), multicast(of), micros(of, Row::Kept(0), Figure::Own), object(of)];
    let ours = std::iter::once(Cell::text("ours")).chain(ours.map(|time| shown(time, "µs"))).collect();
    let table = TABLE_1.iter().map(|row| row.map(Cell::text).to_vec()).chain([ours]).collect();
    report.grid(&["", ">RPC", ">multicast", ">ROI", ">GOI"], table);
    report.say("the Orca paper's table 4, on Myrinet, and what it is compared with, beside ours\n");
    PAPER.tables(of, report);
    report.say("  GOI: a write of an object that each member has; latency: two members in turn; throughput: arguments of 1 MiB, one call");
    report.say("  at a time, and of multicasts one message at a time, where the paper sends as fast as it can");
    report.say("  ROI: a write of an object that another member keeps; the paper's RPC is a bare call\n");
}

/// The rows and ratios, for the summary.
pub(crate) fn summary(of: &Figures) -> Value {
    PAPER.summary(of)
}
