//! The table and the lines of JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::cores::Cores;
use am_measure::report::table::{align, columns, nanoseconds};
use am_measure::report::words::{footer, rounds, times};
use am_measure::spread::Spread;

use super::{SAMPLES, WAYS, Wakeups};

const LEGEND: &str = concat!(
    "  From the call that wakes to the first instruction of the program on the other thread, which slept.\n",
    "  Ratios are medians of the rounds' ratios.\n",
);

/// The quantiles that are reported: their names, and the share of the samples below them.
const QUANTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// The sample that this share of the others is below.
fn quantile(samples: &[u64], share: f64) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Wakeups {
    fn all(&self, way: usize) -> Vec<u64> {
        self.samples[way].concat()
    }

    /// The median of the rounds' ratios of a way to the one that it is compared with.
    fn ratio(&self, way: usize, share: f64) -> Option<f64> {
        let by_round = |way: usize| -> Vec<(usize, f64)> {
            self.samples[way].iter().map(|round| quantile(round, share) as f64).enumerate().collect()
        };
        Spread::of_ratios(&by_round(way), &by_round(WAYS[way].1?)).map(|ratio| ratio.median)
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let short = |ratio: f64| (ratio * 1e4).round() / 1e4;
        (0..WAYS.len())
            .map(|way| {
                let (name, against) = WAYS[way];
                let all = self.all(way);
                let mut line =
                    json!({ "bench": "wakeup", "way": name, "n": all.len(), "rounds": self.samples[way].len() });
                for (quantile_name, share) in QUANTILES {
                    line["wakeup_ns"][quantile_name] = json!(quantile(&all, share));
                    line["ratio"][quantile_name] = json!(self.ratio(way, share).map(short));
                }
                line["to"] = json!(against.map(|against| WAYS[against].0));
                line
            })
            .collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut text = "wakeup: how soon a thread that sleeps runs again\n\n".to_owned();
        let row = |way: usize| {
            let all = self.all(way);
            let times_of = |share| self.ratio(way, share).map_or(String::new(), times);
            let mut cells = vec![WAYS[way].0.to_owned()];
            cells.extend(QUANTILES.map(|(_, share)| nanoseconds(quantile(&all, share))));
            cells.extend(QUANTILES.map(|(_, share)| times_of(share)));
            cells.push(WAYS[way].1.map_or(String::new(), |against| format!("times {}", WAYS[against].0)));
            cells
        };
        let heads = columns(["way", ">p50", ">p99", ">p50", ">p99", "compared"]);
        align(&heads, &(0..WAYS.len()).map(row).collect::<Vec<_>>(), &mut text);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{LEGEND}");
        let measured = format!("{} of {SAMPLES} samples each, ways taken in turn", rounds(self.samples[0].len()));
        text + &footer(&measured, Cores { near: None, far: None }, None, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakeups(times: [u64; WAYS.len()]) -> Wakeups {
        Wakeups { samples: times.map(|time| vec![(0..SAMPLES as u64).map(|at| time + at).collect(); 3]) }
    }

    #[test]
    fn each_way_is_compared_with_its_own() {
        let lines = wakeups([10_000, 20_000, 5_000, 8_000, 16_000]).json();
        let ratios: Vec<_> = lines.iter().map(|line| line["ratio"]["p50"].as_f64().map(f64::round)).collect();
        assert_eq!(ratios, [None, Some(2.0), Some(1.0), None, Some(2.0)]);
        assert_eq!((&lines[1]["to"], &lines[0]["to"]), (&json!(WAYS[0].0), &Value::Null));
        assert_eq!(lines[0]["wakeup_ns"], json!({ "p50": 10_050, "p99": 10_099 }));
    }

    #[test]
    fn the_table_has_a_row_for_each_way() {
        let text = wakeups([10_000, 20_000, 5_000, 8_000, 16_000]).table();
        assert!(WAYS.iter().all(|(name, _)| text.contains(name)), "{text}");
    }
}
