//! The Orca paper's rows for calls and for objects (tables 3 and 4), and ours beside them. Machines differ by orders of magnitude, so only
//! ratios compare.

use serde_json::{Value, json};

use am_measure::report::{Cell, Column, Report, nanoseconds, short};

use crate::measured::{Figure, Figures};
use crate::work::{LONG, Method, Stack, Work};

/// A row of the paper that has one of ours.
struct PaperRow {
    name: &'static str,
    /// Before its optimisations, if the row has it, and after them: microseconds, or megabytes a second.
    initial: Option<f64>,
    last: f64,
    unit: &'static str,
    /// The same here.
    ours: Work,
}

const fn one(stack: Stack, method: Method, size: usize) -> Work {
    Work { stack, method, size, outstanding: 1 }
}

const MESSAGE: Work = one(Stack::Am, Method::Echo, 0);
const CALL: Work = one(Stack::Rpc, Method::Echo, 0);
const OBJECT: Work = one(Stack::Rpc, Method::Increment, 0);
const LONG_MESSAGE: Work = one(Stack::Am, Method::Echo, LONG);
const LONG_CALL: Work = one(Stack::Rpc, Method::Echo, LONG);
const LONG_OBJECT: Work = one(Stack::Rpc, Method::Array, LONG);

/// Fast Messages in section 5.1.1, Panda's calls in table 3, Orca's objects (ROI) in table 4. Its messages have 16 bytes, and its
/// bandwidth of messages is of 16 KB.
const PAPER: [PaperRow; 6] = [
    PaperRow { name: "message, there and back", initial: None, last: 92.0, unit: "µs", ours: MESSAGE },
    PaperRow { name: "RPC latency", initial: Some(585.0), last: 171.0, unit: "µs", ours: CALL },
    PaperRow { name: "ROI latency", initial: Some(865.0), last: 328.0, unit: "µs", ours: OBJECT },
    PaperRow { name: "message throughput", initial: None, last: 10.1, unit: "MB/s", ours: LONG_MESSAGE },
    PaperRow { name: "RPC throughput", initial: Some(4.7), last: 10.1, unit: "MB/s", ours: LONG_CALL },
    PaperRow { name: "ROI throughput", initial: Some(3.2), last: 5.5, unit: "MB/s", ours: LONG_OBJECT },
];

/// Ratios of two of these rows.
const RATIOS: [(&str, usize, usize); 5] = [
    ("RPC latency over a message's", 1, 0),
    ("ROI latency over a message's", 2, 0),
    ("ROI latency over RPC's", 2, 1),
    ("RPC throughput over a message's", 4, 3),
    ("ROI throughput over RPC's", 5, 4),
];

struct Beside<'a> {
    of: &'a Figures,
    row: &'static PaperRow,
}

impl Beside<'_> {
    /// In the paper's unit.
    fn ours(&self) -> Option<f64> {
        let Beside { of, row } = self;
        if row.unit == "µs" {
            return of.figure(row.ours, Figure::Time).map(|ns| ns / 1e3);
        }
        of.bytes_per_s(row.ours).map(|bytes| bytes / 1e6)
    }

    fn shown(&self) -> Cell {
        match self.ours() {
            None => Cell::Nothing,
            Some(time) if self.row.unit == "µs" => Cell::text(nanoseconds((time * 1e3) as u64)),
            Some(rate) => Cell::text(format!("{rate:.0} MB/s")),
        }
    }
}

fn columns<'a>() -> [Column<Beside<'a>>; 7] {
    [
        ("row", "paper", |of| Cell::text(of.row.name)),
        ("", "unit", |of| Cell::text(of.row.unit)),
        (">initial", "initial", |of| of.row.initial.map_or(Cell::Nothing, |of_paper| with_unit(of_paper, of.row.unit))),
        (">final", "final", |of| with_unit(of.row.last, of.row.unit)),
        (">ours", "", Beside::shown),
        ("", "ours", |of| Cell::Json(json!(of.ours().map(short)))),
        ("", "transport", |_| Cell::text("myrinet")),
    ]
}

fn with_unit(figure: f64, unit: &str) -> Cell {
    Cell::Both(format!("{figure} {unit}"), json!(figure))
}

/// A ratio of the paper, and ours: `None` where one of our rows was not measured.
fn ratio(of: &Figures, (_, over, under): (&str, usize, usize)) -> (f64, Option<f64>) {
    let ours = |nth: usize| Beside { of, row: &PAPER[nth] }.ours();
    (PAPER[over].last / PAPER[under].last, ours(over).zip(ours(under)).map(|(over, under)| over / under))
}

/// The paper's tables, and ours beside them.
pub(crate) fn report(of: &Figures, report: &mut Report) {
    report.say("the Orca paper's tables 3 and 4, on Myrinet, beside ours\n");
    let rows: Vec<Beside<'_>> = PAPER.iter().map(|row| Beside { of, row }).collect();
    report.rows(&columns(), &rows);
    let ratios = RATIOS.iter().map(|each| {
        let (paper, ours) = ratio(of, *each);
        vec![Cell::text(each.0), Cell::Times(paper), Cell::of(ours, Cell::Times)]
    });
    report.grid(&["ratio", ">paper", ">ours"], ratios.collect());
    report.say("  throughput: bytes of argument and result together; ROI: an object's method, whose list is read into memory of its own");
    report.say("  without a row here: multicast and group objects (GOI)\n");
}

/// The ratios, for the summary.
pub(crate) fn summary(of: &Figures) -> Value {
    let each = |of_paper: &(&str, usize, usize)| {
        let (paper, ours) = ratio(of, *of_paper);
        json!({ "what": of_paper.0, "paper": short(paper), "ours": ours.map(short) })
    };
    RATIOS.iter().map(each).collect()
}
