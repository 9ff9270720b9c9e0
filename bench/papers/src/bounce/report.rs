//! Both round trips, as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{By, Plan, Turn};
use am_measure::loops::latency::{RoundTrips, together};
use am_measure::report::columns::{Cell, Column, lines, short, summed, table};
use am_measure::report::words::{footer, is_simulated, range, rounds, times, xdp};
use am_measure::spread::Spread;

const NO_PROGRAM: &str = "rejected by the host alone: this transport has no XDP program; --hosts veth has one";

#[derive(Debug)]
pub(crate) struct Bounced {
    pub(super) turns: Vec<Turn>,
    pub(super) rounds: usize,
    pub(super) plan: Plan,
}

/// Which part rejected: its first turn, and the round trips of all its turns.
struct Row<'a> {
    by: By,
    first: &'a Turn,
    all: RoundTrips,
    by_round: Vec<u64>,
    size: usize,
}

impl Row<'_> {
    fn at(&self, quantile: f64) -> Cell {
        Cell::Nanos(self.all.value_at_quantile(quantile))
    }
}

fn columns<'a>() -> [Column<Row<'a>>; 9] {
    [
        ("bounced by", "by", |row| Cell::text(row.by.name())),
        ("mode", "mode", |row| Cell::text(&row.first.mode)),
        (">size", "size", |row| Cell::Size(row.size)),
        (">p50", "rtt_ns.p50", |row| row.at(0.5)),
        (">p99", "rtt_ns.p99", |row| row.at(0.99)),
        (">p99.9", "rtt_ns.p999", |row| row.at(0.999)),
        (">round trips", "n", |row| Cell::Count(row.all.len())),
        ("", "by_round", |row| Cell::Json(json!(row.by_round))),
        ("", "xdp", |row| Cell::of(row.first.xdp, Cell::text)),
    ]
}

impl Bounced {
    fn of(&self, by: By) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| turn.by == by && !turn.round_trips.is_empty())
    }

    /// Those that were measured.
    fn rows(&self) -> Vec<Row<'_>> {
        let row = |by| {
            let all = together(self.of(by).map(|turn| &turn.round_trips));
            let by_round = self.of(by).map(p50).collect();
            Some(Row { by, first: self.of(by).next()?, all, by_round, size: self.plan.size })
        };
        By::ALL.into_iter().filter_map(row).collect()
    }

    /// Whether the network was simulated.
    fn is_simulated(&self) -> bool {
        self.turns.iter().any(|turn| is_simulated(&turn.mode))
    }

    /// The host's round trip divided by the program's, if both were measured: of all round trips, and of those of each round.
    fn host_over_program(&self) -> Option<(f64, Spread)> {
        let p50s = |by| self.of(by).map(|turn| (turn.round, p50(turn) as f64)).collect::<Vec<_>>();
        let all = |by| together(self.of(by).map(|turn| &turn.round_trips)).value_at_quantile(0.5) as f64;
        let rounds = Spread::of_ratios(&p50s(By::Host), &p50s(By::Program))?;
        Some((all(By::Host) / all(By::Program), rounds))
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let ratio = self.host_over_program();
        let summary = json!({
            "host_over_program": ratio.map(|(ratio, _)| short(ratio)), "size": self.plan.size,
            "rounds": self.rounds, "range": ratio.map(|(_, rounds)| [rounds.least, rounds.most].map(short)),
        });
        let lines = lines("bounce", &columns(), &self.rows());
        summed(lines, "bounce", Some(self.plan.cores), self.is_simulated(), summary)
    }

    pub(crate) fn table(&self) -> String {
        let mut text = "bounce: round trip of a request that a full receiver rejects\n\n".to_owned();
        table(&columns(), &self.rows(), &mut text);
        if let Some((ratio, rounds)) = self.host_over_program() {
            let (times, range) = (times(ratio), range(&rounds));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  a reject by the host takes {times} times as long as by the program ({range})\n");
        }
        let at = self.turns.first().map(|turn| turn.xdp.map_or(NO_PROGRAM, xdp));
        let measured = format!("{}, taken in turn", rounds(self.rounds));
        text + &footer(&measured, self.plan.cores, at, self.is_simulated())
    }
}

fn p50(turn: &Turn) -> u64 {
    turn.round_trips.value_at_quantile(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_measure::cores::Cores;
    use am_measure::loops::latency::round_trips;
    use am_measure::plan::DriverOptions;

    fn turn(round: usize, by: By, nanoseconds: u64) -> Turn {
        let mut round_trips = round_trips();
        round_trips.record_n(nanoseconds, 10).unwrap();
        Turn { round, by, mode: "veth copy".to_owned(), xdp: Some("generic"), round_trips }
    }

    fn plan() -> Plan {
        Plan { how: DriverOptions::default(), size: 16, cores: Cores { near: Some(2), far: Some(3) } }
    }

    #[test]
    fn the_ratio_is_that_of_the_figures() {
        let turns = vec![
            turn(0, By::Program, 4000),
            turn(0, By::Host, 6000),
            turn(1, By::Host, 80_000),
            turn(1, By::Program, 40_000),
        ];
        let bounced = Bounced { turns, rounds: 2, plan: plan() };
        let lines = bounced.json();
        assert_eq!(lines.iter().filter_map(|line| line["by"].as_str()).collect::<Vec<_>>(), ["program", "host"]);
        let ratio = lines[2]["summary"]["host_over_program"].as_f64().unwrap();
        let [program, host] = [0, 1].map(|row: usize| lines[row]["rtt_ns"]["p50"].as_f64().unwrap());
        assert!((ratio - host / program).abs() < 0.001 && (ratio - 1.5).abs() < 0.01, "{ratio}");
        assert!(bounced.table().contains("1.50 times as long as by the program (rounds: 1.50 to 2.00)"));
    }
}
