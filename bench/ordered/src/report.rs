//! The table, the lines of JSON and the summary.

use serde_json::{Map, Value, json};

use am_measure::RoundTrips;
use am_measure::members::Missing;
use am_measure::report::{Cell, Column, Report, metric, rounds, short};

use crate::measured::{Figure, Figures};
use crate::orca;
use crate::wanted::GATES;
use crate::work::{Load, Stack, Work};

impl Figures {
    pub(crate) fn report(&self) -> Report {
        let mut report =
            Report::new("ordered", "ordered: totally ordered multicast, null messages in turn, and streams");
        report.say(self.places() + "\n");
        let rows: Vec<Row<'_>> =
            self.rows.iter().filter(|work| self.was_measured(**work)).map(|work| self.row(*work)).collect();
        report.rows(&columns(), &rows);
        report.text += LEGEND;
        self.fail_over_table(&mut report);
        orca::report(self, &mut report);
        report.say("wanted of our groups\n");
        let lines = self.gates(|gate, members| gate.line(self, members));
        report.grid(&["figure", ">members", ">ours", "range", "wanted", ""], lines);
        GATES.iter().for_each(|gate| report.say(format_args!("  {:<26}{}", gate.name, gate.what)));
        report.say("");
        self.missing.iter().for_each(|of| report.say(of.sentence()));
        report.footer(
            format_args!("{}, stacks taken in turn", rounds(self.conditions.rounds)),
            self.conditions.cores,
            None,
        );
        report.summary(self.summary());
        report
    }

    /// How many members share the cores.
    fn places(&self) -> String {
        let own = |members: &usize| if *members <= self.conditions.usable { "spin" } else { "sleep" };
        let groups: Vec<String> = self.members.iter().map(|members| format!("{members} ({})", own(members))).collect();
        let cores = self.conditions.usable;
        format!(
            "groups of {} members, each a process; all share {cores} cores. Where there are more members than cores, they sleep\n\
             while nothing arrives, and their figures have the scheduler's time in them.",
            groups.join(", ")
        )
    }

    fn was_measured(&self, work: Work) -> bool {
        self.all.iter().any(|one| one.work == work)
    }

    fn row(&self, work: Work) -> Row<'_> {
        Row { of: self, work, own: self.times(work, Figure::Own), last: self.times(work, Figure::Last) }
    }

    fn fail_over_table(&self, report: &mut Report) {
        let rows: Vec<(&Figures, usize)> = self.members.iter().map(|members| (self, *members)).collect();
        let rows: Vec<_> = rows.into_iter().filter(|(of, members)| of.fail_over_ms(*members).is_some()).collect();
        if rows.is_empty() {
            return;
        }
        report.say("\ntime without delivery to a survivor, after `kill -9` of the sequencer's process\n");
        report.rows(&fail_over_columns(), &rows);
    }

    /// Of each gate in each group, what there is.
    fn gates<T>(&self, of: impl Fn(&crate::wanted::Gate, usize) -> Option<T>) -> Vec<T> {
        GATES
            .iter()
            .flat_map(|gate| self.members.iter().filter_map(|members| of(gate, *members)).collect::<Vec<_>>())
            .collect()
    }

    fn summary(&self) -> Value {
        let first = self.first();
        let mut all = Map::new();
        for gate in &GATES {
            // A group of two does not go on without its sequencer.
            let figure =
                gate.of(self, first).or_else(|| self.members.iter().find_map(|members| gate.of(self, *members)));
            all.insert(gate.name.to_owned(), figure.map_or(Value::Null, |figure| short(figure.median)));
        }
        let null = |stack| Work::null(stack, first);
        for (name, variant) in [("host_over_program", Stack::AgreedHost), ("asleep_over_spinning", Stack::Asleep)] {
            let ratio = self.ratio(Figure::Own, null(variant), null(Stack::Agreed));
            all.insert(name.to_owned(), ratio.map_or(Value::Null, |ratio| short(ratio.median)));
        }
        all.insert("members".to_owned(), json!(first));
        all.insert("usable_cores".to_owned(), json!(self.conditions.usable));
        all.insert("rounds".to_owned(), json!(self.conditions.rounds));
        all.insert("gates".to_owned(), self.gates(|gate, members| gate.json(self, members)).into());
        all.insert("paper".to_owned(), orca::summary(self));
        all.insert("missing".to_owned(), self.missing.iter().map(Missing::json).collect());
        Value::Object(all)
    }
}

/// What the columns are. docs/measuring.md has more.
const LEGEND: &str = concat!(
    "  am          a bare request and its reply, between two of the members' hosts; safe, agreed: our levels\n",
    "  copies      as agreed, with a copy of each message to each member; fetch: the sender fetches the number, and sends the multicast;\n",
    "  , host      the same by the sequencer's process, where the others have its XDP program\n",
    "  , asleep    the same by members that sleep until something arrives, where the others spin\n",
    "  corosync    its closed process groups, a daemon beside each member, over kernel UDP\n",
    "  openraft    its replicated log, in memory, over TCP, until the member applies the message: so as safe is\n",
    "  senders     members that send; one and two are not the sequencer, if there are others\n",
    "  in turn     a message is sent when its sender has the one before it; stream: 64 of each sender on their way, 2 of 1 MiB\n",
    "  own, last   from sending until the sender has its message, and until the last member has it\n",
    "  messages    a second, at the slowest member\n",
    "  to am       the time until the sender has it over that of the bare round trip in the same group's place\n",
);

/// A row of the table.
struct Row<'a> {
    of: &'a Figures,
    work: Work,
    own: RoundTrips,
    last: RoundTrips,
}

fn columns<'a>() -> [Column<Row<'a>>; 17] {
    [
        ("via", "via", |row| Cell::text(row.work.stack.name())),
        (">members", "members", |row| Cell::Count(row.work.members as u64)),
        ("senders", "senders", |row| Cell::text(row.work.senders.name())),
        (">size", "size", |row| Cell::Size(row.work.size)),
        ("load", "load", |row| Cell::text(if row.work.load == Load::InTurn { "in turn" } else { "stream" })),
        ("", "transport", |row| match row.work.stack {
            Stack::Corosync => Cell::text("udp"),
            Stack::Openraft => Cell::text("tcp"),
            _ => Cell::text(&row.of.conditions.transport),
        }),
        (">own p50", "own_ns.p50", |row| quantile(&row.own, 0.5)),
        (">p99", "own_ns.p99", |row| quantile(&row.own, 0.99)),
        (">last p50", "last_ns.p50", |row| quantile(&row.last, 0.5)),
        (">p99", "last_ns.p99", |row| quantile(&row.last, 0.99)),
        (">messages", "messages_per_s", |row| {
            // Of long messages there are few a second.
            Cell::of(row.of.figure(row.work, Figure::Rate), |rate| Cell::Both(metric(rate) + "/s", short(rate)))
        }),
        (">bytes", "bytes_per_s", |row| {
            row.of.bytes_per_s(row.work).map_or(Cell::Absent, |rate| Cell::Rate(rate, "B/s"))
        }),
        (">to am", "own_over_am", |row| match row.work {
            Work { stack: Stack::Am, .. } | Work { load: Load::Stream, .. } => Cell::Nothing,
            work => {
                let am = Work::null(Stack::Am, work.members);
                Cell::of(row.of.ratio(Figure::Own, work, am), |ratio| Cell::Times(ratio.median))
            }
        }),
        ("", "n", |row| Cell::Count(row.own.len())),
        ("", "own_p50_by_round", |row| row.by_round(Figure::Own)),
        ("", "last_p50_by_round", |row| row.by_round(Figure::Last)),
        ("", "messages_per_s_by_round", |row| row.by_round(Figure::Rate)),
    ]
}

fn quantile(times: &RoundTrips, quantile: f64) -> Cell {
    if times.is_empty() { Cell::Nothing } else { Cell::Nanos(times.value_at_quantile(quantile)) }
}

impl Row<'_> {
    fn by_round(&self, figure: Figure) -> Cell {
        let all = self.of.by_round(self.work, figure);
        Cell::Json(all.into_iter().map(|(_, figure)| figure.round()).collect())
    }
}

fn fail_over_columns<'a>() -> [Column<(&'a Figures, usize)>; 4] {
    [
        ("group", "fail_over", |_| Cell::text("agreed")),
        (">members", "members", |(_, members)| Cell::Count(*members as u64)),
        (">without delivery", "failover_ms", |(of, members)| {
            Cell::of(of.fail_over_ms(*members), |ms| Cell::Both(format!("{:.0} ms", ms.median), short(ms.median)))
        }),
        ("", "range_ms", |(of, members)| {
            Cell::of(of.fail_over_ms(*members), |ms| Cell::Json(json!([short(ms.least), short(ms.most)])))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use am_measure::members::Conditions;
    use am_measure::{Cores, round_trips};

    use super::*;
    use crate::measured::{FailOver, Measured};
    use crate::turn::Sample;
    use crate::work::LONG;

    /// Groups of two and four on two cores, in two rounds. `micros` has the time of each stack's null message in the smaller group in the
    /// first round; in the second round, and in the larger group, all take twice as long.
    fn figures(micros: [u64; 10], ms: f64) -> Figures {
        let members = vec![2, 4];
        let rows: Vec<Work> = members
            .iter()
            .flat_map(|members| Stack::ALL.iter().flat_map(|stack| Work::all_of(*stack, *members, &[LONG])))
            .collect();
        let one = |work: &Work, round: usize| {
            let ns = micros[work.stack as usize] * 1000 * (round as u64 + 1) * work.members as u64 / 2;
            let (mut own, mut last) = (round_trips(), round_trips());
            if work.load == Load::InTurn {
                own.record_n(ns, 10).unwrap();
                last.record_n(2 * ns, 10).unwrap();
            }
            Measured { round, work: *work, sample: Sample { own, last, rate: 1e9 / ns as f64 } }
        };
        let all = (0..2).flat_map(|round| rows.iter().map(move |work| one(work, round))).collect();
        let missing = vec![Missing::part(1, "the rest of safe".into(), "it was put out".into())];
        Figures {
            rows,
            all,
            fail_overs: vec![FailOver { members: 4, ms }],
            missing,
            members,
            conditions: Conditions {
                rounds: 2,
                transport: "xdp".to_owned(),
                cores: Cores { near: Some(0), far: Some(1) },
                usable: 2,
            },
        }
    }

    #[test]
    fn what_is_wanted_is_reached_or_it_is_said_that_it_is_not() {
        let of = |figures: &Figures| {
            let summary = figures.summary();
            let gates = summary["gates"].as_array().unwrap();
            let of_two = gates.iter().filter(|gate| gate["members"] == 2 || gate["name"] == "failover_ms");
            of_two.map(|gate| gate["reached"].as_bool().unwrap()).collect::<Vec<_>>()
        };
        // A stream of long messages takes as long as a null message here.
        let good = figures([10, 11, 20, 100, 300, 22, 33, 44, 55, 66], 120.0);
        assert_eq!(of(&good), [true; 6]);
        let summary = good.summary();
        assert_eq!((&summary["members"], &summary["failover_ms"]), (&json!(2), &json!(120.0)));
        assert!((summary["agreed_over_am"].as_f64().unwrap() - 1.1).abs() < 0.01);
        assert!((summary["host_over_program"].as_f64().unwrap() - 2.0).abs() < 0.01);
        assert!((summary["asleep_over_spinning"].as_f64().unwrap() - 6.0).abs() < 0.01);
        let bad = figures([10, 20, 30, 90, 300, 20, 33, 44, 55, 66], 300.0);
        assert_eq!(of(&bad), [false; 6]);
        let said = bad.report().text;
        for part in [
            "groups of 2 (spin), 4 (sleep) members, each a process; all share 2 cores",
            "  agreed_over_am                   2  2.00  rounds: 2.00 to 2.00  at most 1.60   not reached\n",
            "  not measured in round 2: the rest of safe: it was put out\n",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn the_papers_group_is_compared_with_the_largest_that_is_no_larger() {
        let paper = figures([10, 11, 20, 100, 300, 22, 33, 44, 55, 66], 120.0).summary()["paper"].clone();
        let latency = &paper[1];
        // Two senders in turn, the last member's delivery, in microseconds: two rounds, of 44 and of 88.
        assert_eq!((&latency["paper"], &latency["initial"]), (&json!(273.0), &json!(867.0)));
        assert!((latency["ours"].as_f64().unwrap() - 44.0).abs() < 1.0, "{latency}");
    }
}
