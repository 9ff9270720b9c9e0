//! Both round trips, as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{By, Plan, Turn};
use am_measure::loops::latency::{RoundTrips, round_trips};
use am_measure::report::table::{align, bytes, columns, nanoseconds};
use am_measure::report::words::{footer, is_simulated, rounds, times, xdp};
use am_measure::spread::Spread;

const NO_PROGRAM: &str = "rejected by the host alone: this transport has no XDP program; --hosts veth has one";

#[derive(Debug)]
pub(crate) struct Bounced {
    pub(super) turns: Vec<Turn>,
    pub(super) rounds: usize,
    pub(super) plan: Plan,
}

impl Bounced {
    fn of(&self, by: By) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| turn.by == by && !turn.round_trips.is_empty())
    }

    /// Those that were measured: which part rejected, its first turn, and the round trips of all its turns.
    fn rows(&self) -> impl Iterator<Item = (By, &Turn, RoundTrips)> {
        By::ALL.into_iter().filter_map(|by| {
            let mut together = round_trips();
            // Cannot fail: all have the same bounds.
            self.of(by).for_each(|turn| _ = together.add(&turn.round_trips));
            Some((by, self.of(by).next()?, together))
        })
    }

    /// Whether the network was simulated.
    fn is_simulated(&self) -> bool {
        self.turns.iter().any(|turn| is_simulated(&turn.mode))
    }

    /// The host's round trip divided by the program's, if both were measured.
    fn host_over_program(&self) -> Option<Spread> {
        let p50s = |by| self.of(by).map(|turn| (turn.round, p50(turn) as f64)).collect::<Vec<_>>();
        Spread::of_ratios(&p50s(By::Host), &p50s(By::Program))
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let cores = json!([self.plan.cores.near, self.plan.cores.far]);
        let line = |(by, first, all): (By, &Turn, RoundTrips)| {
            let at = |quantile| all.value_at_quantile(quantile);
            json!({
                "bench": "bounce",
                "by": by.name(),
                "mode": first.mode,
                "size": self.plan.size,
                "rtt_ns": { "p50": at(0.5), "p99": at(0.99), "p999": at(0.999) },
                "n": all.len(),
                "by_round": self.of(by).map(p50).collect::<Vec<_>>(),
                "xdp": first.xdp,
                "cores": cores,
            })
        };
        let ratio = self.host_over_program();
        let short = |number: f64| (number * 1e4).round() / 1e4;
        let mut summary = json!({
            "host_over_program": ratio.map(|ratio| short(ratio.median)),
            "bench": "bounce",
            "size": self.plan.size,
            "rounds": self.rounds,
            "range": ratio.map(|ratio| [ratio.least, ratio.most].map(short)),
            "cores": cores,
        });
        if self.is_simulated() {
            summary["simulated"] = json!(true);
        }
        self.rows().map(line).chain([json!({ "summary": summary })]).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut text = "bounce: round trip of a request that a full receiver rejects\n\n".to_owned();
        let cells = |(by, first, all): (By, &Turn, RoundTrips)| {
            let mut cells = vec![by.name().to_owned(), first.mode.clone(), bytes(self.plan.size)];
            cells.extend([0.5, 0.99, 0.999].map(|quantile| nanoseconds(all.value_at_quantile(quantile))));
            cells.push(all.len().to_string());
            cells
        };
        align(
            &columns(["bounced by", "mode", ">size", ">p50", ">p99", ">p99.9", ">round trips"]),
            &self.rows().map(cells).collect::<Vec<_>>(),
            &mut text,
        );
        text.push('\n');
        if let Some(Spread { median, least, most }) = self.host_over_program() {
            let [ratio, least, most] = [median, least, most].map(times);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "  a reject by the host takes {ratio} times as long as by the program (rounds: {least} to {most})\n"
            );
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
