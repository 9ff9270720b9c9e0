//! The table, the lines of JSON and the summary.

use am_measure::members::Missing;
use am_measure::report::{Cell, Column, Report, range, rounds, short, tenths};
use am_objects::Level;
use serde_json::{Map, Value, json};

use crate::measured::{Figure, Figures};
use crate::orca;
use crate::work::{Row, level_name};

/// The ratios that a summary has.
const RATIOS: [(&str, Row); 6] = [
    ("write_over_agreed", Row::Write(Level::Agreed, 0)),
    ("write_over_safe", Row::Write(Level::Safe, 0)),
    ("remote_over_rpc", Row::Kept(0)),
    ("latest_over_am", Row::Latest(Level::Safe)),
    ("openraft_over_write", Row::Openraft),
    ("redis_over_write", Row::Redis),
];

impl Figures {
    pub(crate) fn report(&self) -> Report {
        let mut report = Report::new("objects", "objects: calls of a shared object, one at a time");
        let waits = if self.members <= self.conditions.usable {
            "Each spins while it waits."
        } else {
            "They sleep while nothing arrives,\nand the figures have the scheduler's time in them."
        };
        let (members, usable) = (self.members, self.conditions.usable);
        report.say(format_args!("{members} members, each a process; all share {usable} cores. {waits}\n"));
        let rows: Vec<Line<'_>> =
            Row::ALL.iter().map(|row| Line(self, *row)).filter(|line| self.count(line.1) > 0).collect();
        report.rows(&columns(), &rows);
        report.text += LEGEND;
        report.say("");
        orca::report(self, &mut report);
        self.missing.iter().for_each(|of| report.say(of.sentence()));
        report.footer(
            format_args!("{}, turns taken in turn", rounds(self.conditions.rounds)),
            self.conditions.cores,
            None,
        );
        report.summary(self.summary());
        report
    }

    fn summary(&self) -> Value {
        let mut all = Map::new();
        let or_null = |figure: Option<Value>| figure.unwrap_or(Value::Null);
        all.insert("read_ns".to_owned(), or_null(self.quantile(Row::Read, Figure::Own, 0.5).map(tenths)));
        let mut ranges = Map::new();
        for (name, row) in RATIOS {
            let ratio = self.ratio(row);
            all.insert(name.to_owned(), or_null(ratio.map(|ratio| short(ratio.median))));
            ranges.insert(name.to_owned(), or_null(ratio.map(|ratio| json!([short(ratio.least), short(ratio.most)]))));
        }
        all.insert("range".to_owned(), ranges.into());
        all.insert("members".to_owned(), json!(self.members));
        all.insert("usable_cores".to_owned(), json!(self.conditions.usable));
        all.insert("rounds".to_owned(), json!(self.conditions.rounds));
        all.insert("paper".to_owned(), orca::summary(self));
        all.insert("missing".to_owned(), self.missing.iter().map(Missing::json).collect());
        Value::Object(all)
    }
}

/// What the columns are. docs/measuring.md has more.
const LEGEND: &str = concat!(
    "  request      a bare request and its reply, between two of the members' hosts\n",
    "  message      of a bare group of the same members, until its sender has it\n",
    "  call         a bare remote procedure call between the same two processes\n",
    "  read         of the copy here; many in a loop, the time of one\n",
    "  write        until the caller has its result; 1 KiB, 1 MiB: of arguments\n",
    "  in turn      by two members, each after the other's: messages until the last member has it, half of the time of two writes\n",
    "  read_latest  a read, once this process has all writes that are done anywhere\n",
    "  pop          from one process's push to the result of the pop that waits for it at another\n",
    "  kept         of an object that another process keeps\n",
    "  openraft     a key set through the leader, which answers when it has applied the write; in memory, over TCP\n",
    "  redis        SET and WAIT for replicas, with the primary a majority, in one segment; in memory, over TCP\n",
    "  to bare      over a message of the same level and size; kept over the call; read_latest over the request; pop, writes in turn over a message until\n",
    "               the last member has it\n",
    "  to ours      over our null write, Safe\n",
);

/// A row of the table.
struct Line<'a>(&'a Figures, Row);

fn columns<'a>() -> [Column<Line<'a>>; 16] {
    [
        ("via", "via", |line| Cell::text(line.1.via())),
        ("call", "call", |line| Cell::text(line.1.name())),
        ("level", "level", |line| Cell::of(line.1.level(), |level| Cell::text(level_name(level)))),
        (">size", "size", |line| Cell::Size(line.1.size())),
        ("", "members", |line| Cell::Count(line.0.members as u64)),
        ("", "transport", |line| Cell::text(if line.1.is_peer() { "tcp" } else { &line.0.conditions.transport })),
        (">p50", "ns.p50", |line| line.time(0.5)),
        (">p99", "ns.p99", |line| line.time(0.99)),
        (">to bare", "over_bare", |line| if line.1.is_peer() { Cell::Absent } else { line.ratio() }),
        (">to ours", "over_write", |line| if line.1.is_peer() { line.ratio() } else { Cell::Absent }),
        ("range", "", |line| Cell::of(line.0.ratio(line.1), |ratio| Cell::text(range(&ratio)))),
        (">n", "n", |line| Cell::Count(line.0.count(line.1))),
        ("", "p50_by_round", |line| line.by_round(Figure::Own)),
        ("", "last_p50_by_round", |line| match line.1 {
            Row::Message(..) | Row::Messages(_) => line.by_round(Figure::Last),
            _ => Cell::Absent,
        }),
        ("", "over_bare_by_round", |line| if line.1.is_peer() { Cell::Absent } else { line.ratios() }),
        ("", "over_write_by_round", |line| if line.1.is_peer() { line.ratios() } else { Cell::Absent }),
    ]
}

impl Line<'_> {
    fn time(&self, share: f64) -> Cell {
        let time = self.0.quantile(self.1, Figure::Own, share);
        // A read takes some nanoseconds.
        Cell::of(time, if self.1 == Row::Read { Cell::Tenths } else { |time| Cell::Nanos(time as u64) })
    }

    fn ratio(&self) -> Cell {
        Cell::of(self.0.ratio(self.1), |ratio| Cell::Times(ratio.median))
    }

    fn ratios(&self) -> Cell {
        match self.1.under() {
            Some(_) => Cell::Json(self.0.ratios(self.1).into_iter().map(short).collect()),
            None => Cell::Absent,
        }
    }

    fn by_round(&self, figure: Figure) -> Cell {
        Cell::Json(self.0.by_round(self.1, figure).into_iter().map(|(_, time)| tenths(time)).collect())
    }
}

#[cfg(test)]
mod tests {
    use am_measure::members::Conditions;
    use am_measure::{Cores, round_trips};

    use super::*;
    use crate::measured::Measured;
    use crate::turn::Sample;

    /// Two rounds; in the second one all take twice as long, but bare rows three times as long.
    fn figures() -> Figures {
        let one = |row: Row, round: u64| {
            let micros = match row {
                Row::Request => 10,
                Row::Message(Level::Agreed, _) | Row::Messages(Level::Agreed) => 20,
                Row::Call(_) => 10,
                Row::Kept(_) | Row::KeptRead => 12,
                Row::Message(Level::Safe, _) | Row::Messages(Level::Safe) | Row::Read => 30,
                Row::Write(Level::Agreed, _) => 22,
                Row::Write(Level::Safe, _) => 45,
                Row::Writes(_) | Row::Openraft => 90,
                Row::Redis => 135,
                Row::Latest(_) => 15,
                Row::Pop(_) => 120,
            };
            let of = |micros: u64| {
                let mut times = round_trips();
                times.record_n(1000 * micros, 10).unwrap();
                times
            };
            let factor = if row.via() == "objects" { 1 + round } else { 1 + 2 * round };
            let last = (row.via() == "group").then(|| of(2 * micros * factor));
            Measured { round: round as usize, row, sample: Sample { own: of(micros * factor), last } }
        };
        let all = (0..2).flat_map(|round| Row::ALL.into_iter().map(move |row| one(row, round))).collect();
        let missing = vec![Missing::part(1, "the rest of objects, safe".into(), "it was put out".into())];
        let cores = Cores { near: None, far: None };
        let conditions = Conditions { rounds: 2, transport: "udp".into(), cores, usable: 2 };
        Figures { all, missing, members: 3, conditions }
    }

    #[test]
    fn a_call_is_compared_with_the_message_of_its_level_in_its_round() {
        let figures = figures();
        let close = |found: &[f64], expected: &[f64]| {
            assert!(
                found.len() == expected.len()
                    && found.iter().zip(expected).all(|(found, expected)| (found / expected - 1.0).abs() < 0.01),
                "{found:?}, not {expected:?}"
            );
        };
        close(&figures.ratios(Row::Write(Level::Agreed, 0)), &[1.1, 1.1 * 2.0 / 3.0]);
        close(&figures.ratios(Row::Write(Level::Safe, 1024)), &[1.5, 1.0]);
        close(&figures.ratios(Row::Latest(Level::Agreed)), &[1.5, 1.0]);
        close(&figures.ratios(Row::Pop(Level::Agreed)), &[3.0, 2.0]);
        close(&figures.ratios(Row::Pop(Level::Safe)), &[2.0, 4.0 / 3.0]);
        close(&figures.ratios(Row::Writes(Level::Agreed)), &[2.25, 1.5]);
        close(&figures.ratios(Row::Openraft), &[2.0, 3.0]);
        close(&figures.ratios(Row::Kept(0)), &[1.2, 0.8]);
        assert!(figures.ratios(Row::Read).is_empty());
    }

    #[test]
    fn the_summary_has_the_time_of_one_read_and_what_is_missing() {
        let figures = figures();
        let summary = figures.summary();
        let of = |name: &str| summary[name].as_f64().unwrap();
        assert!((of("read_ns") - 30.0).abs() < 0.1 && (of("write_over_agreed") - 1.1).abs() < 0.01, "{summary}");
        assert!((of("write_over_safe") - 1.5).abs() < 0.01 && (of("latest_over_am") - 1.5).abs() < 0.01, "{summary}");
        assert!((of("redis_over_write") - 3.0).abs() < 0.01 && (of("openraft_over_write") - 2.0).abs() < 0.01);
        assert_eq!(summary["missing"][0]["round"], 2);
        assert_eq!(figures.count(Row::Read), 20_000);
        let report = figures.report();
        for part in [
            "3 members, each a process; all share 2 cores. They sleep",
            "  objects   read                            0 B   30.0 ns",
            "  not measured in round 2: the rest of objects, safe: it was put out\n",
        ] {
            assert!(report.text.contains(part), "{part}: {}", report.text);
        }
        let line = |call: &str, level: &str| {
            let is = |line: &&Value| line["call"] == call && line["level"] == level;
            report.lines.iter().find(is).unwrap().clone()
        };
        assert_eq!(line("write", "safe")["over_bare_by_round"].as_array().unwrap().len(), 2);
        assert_eq!(line("message", "safe")["last_p50_by_round"].as_array().unwrap().len(), 2);
        assert!(line("message", "safe").get("over_bare_by_round").is_none());
        let redis = report.lines.iter().find(|line| line["via"] == "redis").unwrap();
        assert!(redis["transport"] == "tcp" && redis.get("over_bare").is_none(), "{redis}");
        assert_eq!(redis["over_write_by_round"].as_array().unwrap().len(), 2);
        let paper = summary["paper"].as_array().unwrap();
        let goi = paper.iter().find(|of| of["what"] == "GOI latency").unwrap();
        assert!(goi["paper"] == 379.0 && (goi["ours"].as_f64().unwrap() - 90.0).abs() < 1.0, "{goi}");
    }
}
