//! The Orca paper's rows for calls and for objects (tables 3 and 4), and ours beside them.

use am_measure::paper::{Paper, PaperRow};
use am_measure::report::Report;
use serde_json::Value;

use crate::measured::{Figure, Figures};
use crate::work::{LONG, Method, Stack, Work};

const fn one(stack: Stack, method: Method, size: usize) -> Work {
    Work { stack, method, size, outstanding: 1 }
}

fn micros(of: &Figures, work: Work) -> Option<f64> {
    of.figure(work, Figure::Time).map(|ns| ns / 1e3)
}

fn megabytes(of: &Figures, work: Work) -> Option<f64> {
    of.bytes_per_s(work).map(|bytes| bytes / 1e6)
}

/// Fast Messages in section 5.1.1, Panda's calls in table 3, Orca's objects (ROI) in table 4. Its messages have 16 bytes, and its
/// bandwidth of messages is of 16 KB.
const ROWS: [PaperRow<Figures>; 6] = [
    PaperRow {
        name: "message, there and back",
        initial: None,
        last: 92.0,
        unit: "µs",
        ours: |of| micros(of, one(Stack::Am, Method::Echo, 0)),
    },
    PaperRow {
        name: "RPC latency",
        initial: Some(585.0),
        last: 171.0,
        unit: "µs",
        ours: |of| micros(of, one(Stack::Rpc, Method::Echo, 0)),
    },
    PaperRow {
        name: "ROI latency",
        initial: Some(865.0),
        last: 328.0,
        unit: "µs",
        ours: |of| micros(of, one(Stack::Rpc, Method::Increment, 0)),
    },
    PaperRow {
        name: "message throughput",
        initial: None,
        last: 10.1,
        unit: "MB/s",
        ours: |of| megabytes(of, one(Stack::Am, Method::Echo, LONG)),
    },
    PaperRow {
        name: "RPC throughput",
        initial: Some(4.7),
        last: 10.1,
        unit: "MB/s",
        ours: |of| megabytes(of, one(Stack::Rpc, Method::Echo, LONG)),
    },
    PaperRow {
        name: "ROI throughput",
        initial: Some(3.2),
        last: 5.5,
        unit: "MB/s",
        ours: |of| megabytes(of, one(Stack::Rpc, Method::Array, LONG)),
    },
];

const PAPER: Paper<Figures> = Paper {
    rows: &ROWS,
    ratios: &[
        ("RPC latency over a message's", 1, 0),
        ("ROI latency over a message's", 2, 0),
        ("ROI latency over RPC's", 2, 1),
        ("RPC throughput over a message's", 4, 3),
        ("ROI throughput over RPC's", 5, 4),
    ],
};

/// The paper's tables, and ours beside them.
pub(crate) fn report(of: &Figures, report: &mut Report) {
    report.say("the Orca paper's tables 3 and 4, on Myrinet, beside ours\n");
    PAPER.tables(of, report);
    report.say("  throughput: bytes of argument and result together; ROI: an object's method, whose list is read into memory of its own");
    report.say("  multicast: `am-bench ordered`; group objects (GOI): `am-bench objects`\n");
}

/// The rows and ratios, for the summary.
pub(crate) fn summary(of: &Figures) -> Value {
    PAPER.summary(of)
}
