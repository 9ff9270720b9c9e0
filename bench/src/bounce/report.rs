//! Both round trips, as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{By, Plan, Turn};
use crate::measure::latency::{RoundTrips, round_trips};
use crate::report::table::{Column, align, bytes, nanoseconds};
use crate::report::words::{SIMULATED, is_simulated, rounds, times, xdp};
use crate::stats::median;

const COLUMNS: &[Column] = &[
    ("bounced by", false),
    ("mode", false),
    ("size", true),
    ("p50", true),
    ("p99", true),
    ("p99.9", true),
    ("round trips", true),
];

const NO_PROGRAM: &str = "rejected by the host alone: this transport has no XDP program; --hosts veth has one";

#[derive(Debug)]
pub(crate) struct Bounced {
    pub(super) turns: Vec<Turn>,
    pub(super) rounds: usize,
    pub(super) plan: Plan,
}

/// The median of the rounds' ratios, and their range.
type Ratio = (f64, [f64; 2]);

impl Bounced {
    fn of(&self, by: By) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| turn.by == by && !turn.round_trips.is_empty())
    }

    /// Whether the network was simulated.
    fn is_simulated(&self) -> bool {
        self.turns.iter().any(|turn| is_simulated(&turn.mode))
    }

    fn together(&self, by: By) -> RoundTrips {
        let mut together = round_trips();
        // Cannot fail: all have the same bounds.
        self.of(by).for_each(|turn| _ = together.add(&turn.round_trips));
        together
    }

    /// The host's round trip divided by the program's, if both were measured.
    fn host_over_program(&self) -> Option<Ratio> {
        let p50 = |turn: &Turn| turn.round_trips.value_at_quantile(0.5) as f64;
        let ratios: Vec<f64> = self
            .of(By::Host)
            .filter_map(|host| {
                let program = self.of(By::Program).find(|program| program.round == host.round)?;
                Some(p50(host) / p50(program))
            })
            .collect();
        let ends = [ratios.iter().copied().reduce(f64::min)?, ratios.iter().copied().reduce(f64::max)?];
        Some((median(&ratios)?, ends))
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let cores = json!([self.plan.cores.near, self.plan.cores.far]);
        let mut lines: Vec<Value> = By::ALL.into_iter().filter_map(|by| self.line(by, &cores)).collect();
        let ratio = self.host_over_program();
        let short = |number: f64| (number * 1e4).round() / 1e4;
        let mut summary = json!({
            "host_over_program": ratio.map(|(median, _)| short(median)),
            "bench": "bounce",
            "size": self.plan.size,
            "rounds": self.rounds,
            "range": ratio.map(|(_, ends)| ends.map(short)),
            "cores": cores,
        });
        if self.is_simulated() {
            summary["simulated"] = json!(true);
        }
        lines.push(json!({ "summary": summary }));
        lines
    }

    fn line(&self, by: By, cores: &Value) -> Option<Value> {
        let (all, first) = (self.together(by), self.of(by).next()?);
        let at = |quantile| all.value_at_quantile(quantile);
        let by_round: Vec<u64> = self.of(by).map(|turn| turn.round_trips.value_at_quantile(0.5)).collect();
        Some(json!({
            "bench": "bounce",
            "by": by.name(),
            "mode": first.mode,
            "size": self.plan.size,
            "rtt_ns": { "p50": at(0.5), "p99": at(0.99), "p999": at(0.999) },
            "n": all.len(),
            "by_round": by_round,
            "xdp": first.xdp,
            "cores": cores,
        }))
    }

    /// Writing to a string cannot fail.
    pub(crate) fn table(&self) -> String {
        let mut text = "bounce: round trip of a request that a full receiver rejects\n\n".to_owned();
        let rows: Vec<Vec<String>> = By::ALL.into_iter().filter_map(|by| self.cells(by)).collect();
        align(COLUMNS, &rows, &mut text);
        text.push('\n');
        if let Some((ratio, [least, most])) = self.host_over_program() {
            let range = (times(least), times(most));
            let ratio = times(ratio);
            let _ = writeln!(
                text,
                "  a reject by the host takes {ratio} times as long as by the program (rounds: {} to {})\n",
                range.0, range.1
            );
        }
        let rounds = rounds(self.rounds);
        let _ = writeln!(text, "{rounds}, taken in turn; {}", self.plan.cores.words());
        if let Some(turn) = self.turns.first() {
            let _ = writeln!(text, "{}", turn.xdp.map_or(NO_PROGRAM, xdp));
        }
        if self.is_simulated() {
            let _ = writeln!(text, "{SIMULATED}");
        }
        text
    }

    fn cells(&self, by: By) -> Option<Vec<String>> {
        let (all, first) = (self.together(by), self.of(by).next()?);
        let mut cells = vec![by.name().to_owned(), first.mode.clone(), bytes(self.plan.size)];
        cells.extend([0.5, 0.99, 0.999].map(|quantile| nanoseconds(all.value_at_quantile(quantile))));
        cells.push(all.len().to_string());
        Some(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Cores;
    use crate::plan::DriverOptions;

    fn turn(round: usize, by: By, nanoseconds: u64) -> Turn {
        let mut round_trips = round_trips();
        round_trips.record_n(nanoseconds, 10).unwrap();
        Turn { round, by, mode: "veth copy".to_owned(), xdp: Some("generic"), round_trips }
    }

    fn plan() -> Plan {
        Plan { how: DriverOptions::default(), size: 16, cores: Cores { near: Some(2), far: Some(3) } }
    }

    #[test]
    fn the_ratio_is_taken_within_a_round() {
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
        assert!((ratio - 1.75).abs() < 0.01, "{ratio}");
        assert!(bounced.table().contains("1.75 times as long as by the program (rounds: 1.50 to 2.00)"));
    }

    #[test]
    fn what_did_not_come_back_has_no_ratio() {
        let bounced = Bounced { turns: vec![turn(0, By::Host, 5000)], rounds: 1, plan: plan() };
        let last = bounced.json().pop().unwrap();
        assert!(last["summary"]["host_over_program"].is_null(), "{last}");
        assert!(!bounced.table().contains("times as long"));
    }

    #[test]
    fn where_there_is_no_program_the_table_says_so() {
        let turn = Turn { xdp: None, mode: "udp".to_owned(), ..turn(0, By::Host, 5000) };
        let table = Bounced { turns: vec![turn], rounds: 1, plan: plan() }.table();
        assert!(table.contains("no XDP program") && !table.contains("program  "), "{table}");
    }
}
