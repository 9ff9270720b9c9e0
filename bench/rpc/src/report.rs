//! The table, the lines of JSON and the summary.

use serde_json::{Map, Value, json};

use am_measure::report::{Cell, Column, Report, metric, range, rounds, short, times};
use am_measure::{RoundTrips, Spread, median};

use crate::measured::{Figure, Figures};
use crate::orca;
use crate::order::Marshalling;
use crate::work::{Method, OUTSTANDING, Stack, Work};

impl Figures {
    fn count_of_rounds(&self) -> usize {
        self.all.iter().map(|one| one.round + 1).max().unwrap_or(0)
    }

    pub(crate) fn report(&self) -> Report {
        let mut report = Report::new("rpc", "rpc: calls, each with its result, one at a time and 64 at once");
        let rows: Vec<Row<'_>> =
            self.rows.iter().map(|work| Row { of: self, work: *work, calls: self.round_trips(*work) }).collect();
        report.rows(&columns(), &rows);
        report.text += LEGEND;
        self.marshalling_table(&mut report);
        orca::report(self, &mut report);
        report.say("wanted of our calls\n");
        GATES.iter().for_each(|gate| report.text += &self.sentence(gate));
        report.say("");
        report.footer(format_args!("{}, stacks taken in turn", rounds(self.count_of_rounds())), self.cores, None);
        report.summary(self.summary());
        report
    }

    fn marshalling_table(&self, report: &mut Report) {
        report.say("\nmarshalling alone: an order written, and read\n");
        report.rows(MARSHALLING_COLUMNS, &self.marshalling);
    }

    fn summary(&self) -> Value {
        let mut all: Map<String, Value> = GATES
            .iter()
            .filter_map(|gate| Some((gate.name.to_owned(), short(self.gate_ratio(gate)?.median))))
            .collect();
        all.insert("rounds".to_owned(), json!(self.count_of_rounds()));
        all.insert("gates".to_owned(), GATES.iter().filter_map(|gate| self.gate(gate)).collect());
        all.insert("ratios".to_owned(), self.ratios().collect());
        all.insert("paper".to_owned(), orca::summary(self));
        Value::Object(all)
    }

    fn gate_ratio(&self, gate: &Gate) -> Option<Spread> {
        let [over, under] = gate.rows();
        self.ratio(gate.figure, over, under)
    }

    fn gate(&self, gate: &Gate) -> Option<Value> {
        let Spread { median, least, most } = self.gate_ratio(gate)?;
        let mut said = json!({
            "name": gate.name, "what": gate.what, "ratio": short(median), "range": [short(least), short(most)],
            "reached": gate.is_reached(median),
        });
        let (bound, limit) = match gate.wanted {
            Wanted::AtMost(most) => ("at_most", most),
            Wanted::AtLeast(least) => ("at_least", least),
        };
        said[bound] = json!(limit);
        Some(said)
    }

    fn sentence(&self, gate: &Gate) -> String {
        let Some(ratio) = self.gate_ratio(gate) else { return String::new() };
        let wanted = match gate.wanted {
            Wanted::AtMost(most) => format!("at most {most}"),
            Wanted::AtLeast(least) => format!("at least {least}"),
        };
        let verdict = if gate.is_reached(ratio.median) { "reached" } else { "not reached" };
        let (ratio, range) = (times(ratio.median), range(&ratio));
        format!("  {:<20} {ratio:>5} ({range}), {wanted} wanted: {verdict}\n{:<23}{}\n", gate.name, "", gate.what)
    }

    /// Of each size and number of calls at once: each stack beside our calls.
    fn ratios(&self) -> impl Iterator<Item = Value> {
        let others = self.rows.iter().filter(|work| work.stack != Stack::Rpc);
        others.filter_map(|work| {
            let rpc = Work { stack: Stack::Rpc, ..*work };
            let (time, rate) = (self.ratio(Figure::Time, *work, rpc)?, self.ratio(Figure::Rate, rpc, *work)?);
            let ends = |of: Spread| [short(of.least), short(of.most)];
            Some(json!({
                "via": work.stack.name(), "call": work.name(), "size": work.size, "outstanding": work.outstanding,
                "time_over_rpc": short(time.median), "time_range": ends(time),
                "rpc_rate_over": short(rate.median), "rate_range": ends(rate),
            }))
        })
    }
}

/// What the columns are. docs/measuring.md has more.
const LEGEND: &str = concat!(
    "  at once          calls under way: each is begun when the one before it has ended\n",
    "  bytes            of arguments and results together, a second\n",
    "  to rpc           the time of this row over that of our inline call of this size, and our rate over this one's\n",
    "  am               a bare request and its reply; tonic and tarpc: over TCP, both sides sleep while they are idle\n",
    "  null, async      ready: when it is polled first; a task: the call becomes one, and its result is a message of its own\n",
    "  null, pool       on a thread of the pool, which shares the far side's core\n",
    "  order            a structure of numbers, texts and six lines of these, read by the method\n",
    "  increment, array the paper's object: a number behind a lock, and a list that is read into memory of its own\n",
);

/// A row of the table.
struct Row<'a> {
    of: &'a Figures,
    work: Work,
    calls: RoundTrips,
}

fn columns<'a>() -> [Column<Row<'a>>; 16] {
    [
        ("via", "via", |row| Cell::text(row.work.stack.name())),
        ("call", "call", |row| Cell::text(row.work.name())),
        (">size", "size", |row| Cell::Size(row.work.size)),
        (">at once", "outstanding", |row| Cell::Count(row.work.outstanding as u64)),
        (
            "",
            "transport",
            |row| if row.work.stack.is_over_tcp() { Cell::text("tcp") } else { Cell::text(&row.of.transport) },
        ),
        (">p50", "rtt_ns.p50", |row| row.quantile(0.5)),
        (">p90", "rtt_ns.p90", |row| row.quantile(0.9)),
        (">p99", "rtt_ns.p99", |row| row.quantile(0.99)),
        (">p99.9", "rtt_ns.p999", |row| row.quantile(0.999)),
        (">calls", "calls_per_s", |row| {
            // Of long calls there are few a second.
            Cell::of(row.of.figure(row.work, Figure::Rate), |rate| Cell::Both(metric(rate) + "/s", short(rate)))
        }),
        (">bytes", "bytes_per_s", |row| {
            row.of.bytes_per_s(row.work).map_or(Cell::Absent, |rate| Cell::Rate(rate, "B/s"))
        }),
        (">to rpc", "time_over_rpc", |row| row.to_rpc(Figure::Time)),
        (">rate", "rpc_rate_over", |row| row.to_rpc(Figure::Rate)),
        ("", "n", |row| Cell::Count(row.calls.len())),
        ("", "p50_by_round", |row| row.by_round(Figure::Time)),
        ("", "calls_per_s_by_round", |row| row.by_round(Figure::Rate)),
    ]
}

impl Row<'_> {
    fn quantile(&self, quantile: f64) -> Cell {
        Cell::Nanos(self.calls.value_at_quantile(quantile))
    }

    fn by_round(&self, figure: Figure) -> Cell {
        let all = self.of.by_round(self.work, figure);
        Cell::Json(all.into_iter().map(|(_, figure)| figure.round()).collect())
    }

    /// This row beside our inline call.
    fn to_rpc(&self, figure: Figure) -> Cell {
        let size = if self.work.method == Method::Echo { self.work.size } else { 0 };
        let rpc = Work { stack: Stack::Rpc, method: Method::Echo, size, ..self.work };
        let (over, under) = if figure == Figure::Time { (self.work, rpc) } else { (rpc, self.work) };
        if self.work == rpc || self.work.method == Method::Array {
            return Cell::Nothing;
        }
        Cell::of(self.of.ratio(figure, over, under), |ratio| Cell::Times(ratio.median))
    }
}

const MARSHALLING_COLUMNS: &[Column<Marshalling>] = &[
    ("marshalling", "marshalling", |row| Cell::text(row.name)),
    (">size", "size", |row| Cell::Size(row.bytes)),
    (">written and read", "ns", |row| Cell::of(median(&row.by_round), Cell::Tenths)),
];

enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

/// A ratio that is wanted.
struct Gate {
    name: &'static str,
    what: &'static str,
    figure: Figure,
    /// Calls at once.
    outstanding: usize,
    over: Stack,
    under: Stack,
    wanted: Wanted,
}

const GATES: [Gate; 6] = [
    Gate {
        name: "rpc_over_am",
        what: "median time of our null call over that of a bare request and its reply, one at a time",
        figure: Figure::Time,
        outstanding: OUTSTANDING[0],
        over: Stack::Rpc,
        under: Stack::Am,
        wanted: Wanted::AtMost(1.3),
    },
    Gate {
        name: "tonic_over_rpc",
        what: "median time of tonic's null call over that of ours, one at a time",
        figure: Figure::Time,
        outstanding: OUTSTANDING[0],
        over: Stack::Tonic,
        under: Stack::Rpc,
        wanted: Wanted::AtLeast(10.0),
    },
    Gate {
        name: "tarpc_over_rpc",
        what: "median time of tarpc's null call over that of ours, one at a time",
        figure: Figure::Time,
        outstanding: OUTSTANDING[0],
        over: Stack::Tarpc,
        under: Stack::Rpc,
        wanted: Wanted::AtLeast(2.0),
    },
    Gate {
        name: "am_over_rpc_rate",
        what: "bare requests with replies a second over our null calls a second, 64 at once",
        figure: Figure::Rate,
        outstanding: OUTSTANDING[1],
        over: Stack::Am,
        under: Stack::Rpc,
        wanted: Wanted::AtMost(1.3),
    },
    Gate {
        name: "rpc_over_tonic_rate",
        what: "our null calls a second over tonic's, 64 at once",
        figure: Figure::Rate,
        outstanding: OUTSTANDING[1],
        over: Stack::Rpc,
        under: Stack::Tonic,
        wanted: Wanted::AtLeast(10.0),
    },
    Gate {
        name: "rpc_over_tarpc_rate",
        what: "our null calls a second over tarpc's, 64 at once",
        figure: Figure::Rate,
        outstanding: OUTSTANDING[1],
        over: Stack::Rpc,
        under: Stack::Tarpc,
        wanted: Wanted::AtLeast(2.0),
    },
];

impl Gate {
    fn rows(&self) -> [Work; 2] {
        [self.over, self.under].map(|stack| Work::null(stack, self.outstanding))
    }

    fn is_reached(&self, ratio: f64) -> bool {
        match self.wanted {
            Wanted::AtMost(most) => ratio <= most,
            Wanted::AtLeast(least) => ratio >= least,
        }
    }
}

#[cfg(test)]
mod tests {
    use am_measure::{Cores, round_trips};

    use super::*;
    use crate::load::Sample;
    use crate::measured::Measured;

    /// Null calls in two rounds. `micros` has the time of each stack in the first one; in the second all take twice as long.
    fn figures(micros: [u64; 4]) -> Figures {
        let rows: Vec<Work> =
            Stack::ALL.iter().flat_map(|stack| OUTSTANDING.map(|many| Work::null(*stack, many))).collect();
        let one = |work: &Work, round: usize| {
            let ns = micros[work.stack as usize] * 1000 * (round as u64 + 1);
            let mut calls = round_trips();
            calls.record_n(ns, 10).unwrap();
            Measured { round, work: *work, sample: Sample { round_trips: calls, calls_per_s: 1e9 / ns as f64 } }
        };
        let all = (0..2).flat_map(|round| rows.iter().map(move |work| one(work, round))).collect();
        let cores = Cores { near: Some(0), far: Some(1) };
        Figures { rows, all, marshalling: Marshalling::of_both(), transport: "xdp".to_owned(), cores }
    }

    #[test]
    fn what_is_wanted_is_reached_or_it_is_said_that_it_is_not() {
        let of = |figures: &Figures| {
            let summary = figures.summary();
            let gates = summary["gates"].as_array().unwrap();
            gates.iter().map(|gate| gate["reached"].as_bool().unwrap()).collect::<Vec<_>>()
        };
        let good = figures([10, 12, 130, 30]);
        assert_eq!(of(&good), [true; 6]);
        assert!((good.summary()["tonic_over_rpc"].as_f64().unwrap() - 130.0 / 12.0).abs() < 0.02);
        let bad = figures([10, 14, 130, 30]);
        assert_eq!(of(&bad), [false, false, true, false, false, true]);
        let said = bad.report().text;
        assert!(
            said.contains("rpc_over_am           1.40 (rounds: 1.40 to 1.40), at most 1.3 wanted: not reached\n"),
            "{said}"
        );
        assert!(
            said.contains("tarpc_over_rpc        2.14 (rounds: 2.14 to 2.14), at least 2 wanted: reached\n"),
            "{said}"
        );
    }
}
