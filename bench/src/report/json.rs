//! One object a line, and a summary last. The first fields are stable; later ones may grow.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::batching::Batching;
use crate::plan::Bench;
use crate::stats::{Figures, Ratio, Row};

use super::{Comparison, Report};

#[derive(Serialize)]
struct LatencyLine<'a> {
    bench: Bench,
    #[serde(rename = "via")]
    driver: &'a str,
    mode: &'a str,
    framing: &'a str,
    size: usize,
    rtt_ns: RttNs,
    n: u64,
    #[serde(flatten)]
    more: More<'a>,
}

#[derive(Serialize)]
struct RttNs {
    p50: u64,
    p99: u64,
    p999: u64,
}

#[derive(Serialize)]
struct RateLine<'a> {
    bench: Bench,
    #[serde(rename = "via")]
    driver: &'a str,
    size: usize,
    messages_per_s: u64,
    frames_per_s: u64,
    bytes_per_s: u64,
    mode: &'a str,
    framing: &'a str,
    #[serde(flatten)]
    more: More<'a>,
}

#[derive(Serialize)]
struct More<'a> {
    /// The figure that is compared (p50, bytes or messages a second), by round.
    by_round: &'a [f64],
    lost: u64,
    batching: Batching,
    /// Whether several messages may share a frame.
    bundles: bool,
    /// The share of frames lost on purpose, in per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    xdp: Option<&'a str>,
    cores: [Option<usize>; 2],
}

impl Report {
    pub(crate) fn json(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.rows.iter().map(|row| self.line(row)).collect();
        lines.push(json!({ "summary": self.summary() }));
        lines
    }

    fn line(&self, row: &Row) -> Value {
        let cores = [self.cores.near, self.cores.far];
        let loss = (!self.retained.is_empty()).then(|| row.loss.per_cent());
        let (batching, bundles) = (row.batching, row.batching == Batching::Shared);
        let more = More { by_round: &row.by_round, lost: row.lost, batching, bundles, loss, xdp: row.xdp, cores };
        let (driver, mode, framing, size) = (row.driver.name(), row.mode.as_str(), row.framing, row.layout.size);
        let line = match &row.figures {
            Figures::RoundTrips(h) => {
                let at = |quantile| h.value_at_quantile(quantile);
                let rtt_ns = RttNs { p50: at(0.5), p99: at(0.99), p999: at(0.999) };
                serde_json::to_value(LatencyLine {
                    bench: row.bench,
                    driver,
                    mode,
                    framing,
                    size,
                    rtt_ns,
                    n: h.len(),
                    more,
                })
            }
            Figures::Rates(rates) => serde_json::to_value(RateLine {
                bench: row.bench,
                driver,
                size,
                messages_per_s: rates.messages.round() as u64,
                frames_per_s: rates.frames.round() as u64,
                bytes_per_s: rates.bytes.round() as u64,
                mode,
                framing,
                more,
            }),
        };
        line.unwrap_or_else(|error| json!({ "error": error.to_string() }))
    }

    /// The ratios of the first bench and size by name; then their context, and the same for every size.
    fn summary(&self) -> Value {
        let Some(first) = self.comparisons.first() else { return json!({}) };
        let mut summary = named(&first.ratios);
        if !self.retained.is_empty() {
            summary.insert("kept".to_owned(), self.retained_by_loss(first));
        }
        summary.insert("bench".to_owned(), json!(first.bench));
        summary.insert("rounds".to_owned(), json!(self.rounds));
        summary.insert("cores".to_owned(), json!([self.cores.near, self.cores.far]));
        if self.is_simulated() {
            summary.insert("simulated".to_owned(), json!(true));
        }
        let all = self.comparisons.iter().map(|c| self.comparison(c));
        summary.insert("sizes".to_owned(), all.collect());
        Value::Object(summary)
    }

    /// The share of the rate that our messages retain at the first size, by loss in per cent.
    fn retained_by_loss(&self, first: &Comparison) -> Value {
        let size = self.size_of(first);
        let its = self.retained.iter().filter(|retained| retained.size == size);
        Value::Object(
            its.map(|retained| (retained.loss.per_cent().to_string(), json!(short(retained.median)))).collect(),
        )
    }

    fn comparison(&self, comparison: &Comparison) -> Value {
        let mut all = Map::new();
        let (size, loss) = (self.size_of(comparison), self.loss_of(comparison));
        all.insert("bench".to_owned(), json!(comparison.bench));
        all.insert("size".to_owned(), json!(size));
        if !self.retained.is_empty() {
            all.insert("loss".to_owned(), json!(loss.per_cent()));
        }
        all.extend(named(&comparison.ratios));
        let mut range: Map<String, Value> = comparison.ratios.iter().map(|r| (r.name(), ends(r.range))).collect();
        if let Some(retained) = self.retained.iter().find(|retained| (retained.size, retained.loss) == (size, loss)) {
            all.insert("kept".to_owned(), json!(short(retained.median)));
            range.insert("kept".to_owned(), ends(retained.range));
        }
        all.insert("range".to_owned(), Value::Object(range));
        Value::Object(all)
    }
}

fn named(ratios: &[Ratio]) -> Map<String, Value> {
    ratios.iter().map(|ratio| (ratio.name(), json!(short(ratio.median)))).collect()
}

fn ends((smallest, largest): (f64, f64)) -> Value {
    json!([short(smallest), short(largest)])
}

/// Four digits after the point are more than any measurement here knows.
fn short(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use crate::cores::Cores;
    use crate::driver::Driver;
    use crate::plan::Bench;
    use crate::report::Report;
    use crate::stats::tests::measured;

    const CORES: Cores = Cores { near: Some(2), far: Some(3) };

    #[test]
    fn latency_lines() {
        let all = [
            measured(Bench::Latency, 0, Driver::Am, 0, 1040),
            measured(Bench::Latency, 0, Driver::Raw, 0, 1000),
            measured(Bench::Latency, 1, Driver::Am, 0, 2000),
            measured(Bench::Latency, 1, Driver::Raw, 0, 1000),
        ];
        let lines: Vec<String> = Report::new(&all, CORES).json().iter().map(ToString::to_string).collect();
        let rtt = r#""rtt_ns":{"p50":1040,"p99":1040,"p999":1040},"n":10"#;
        let start = r#"{"bench":"latency","via":"am","mode":"veth copy","framing":"bare","size":64,"#;
        assert_eq!(
            lines[0],
            format!(
                r#"{start}{rtt},"by_round":[1040.0],"lost":0,"batching":"single","bundles":false,"xdp":"generic","cores":[2,3]}}"#
            )
        );
        assert_eq!(
            lines[4],
            r#"{"summary":{"am_over_raw":1.04,"bench":"latency","rounds":1,"cores":[2,3],"sizes":["#.to_owned()
                + r#"{"bench":"latency","size":64,"am_over_raw":1.04,"range":{"am_over_raw":[1.04,1.04]}},"#
                + r#"{"bench":"latency","size":64,"am_over_raw":2.0,"range":{"am_over_raw":[2.0,2.0]}}]}}"#
        );
    }

    #[test]
    fn rate_lines_and_every_pair_that_ran() {
        let all = [
            measured(Bench::Rate, 0, Driver::Am, 0, 400),
            measured(Bench::Rate, 0, Driver::Raw, 0, 500),
            measured(Bench::Rate, 0, Driver::Udp, 0, 100),
        ];
        let lines: Vec<String> = Report::new(&all, CORES).json().iter().map(ToString::to_string).collect();
        let start = r#"{"bench":"rate","via":"am","size":64,"messages_per_s":400,"frames_per_s":400,"#;
        assert!(lines[0].starts_with(&format!(r#"{start}"bytes_per_s":25600,"mode":"veth copy""#)), "{}", lines[0]);
        let summary = r#"{"summary":{"am_over_raw":0.8,"am_over_udp":4.0,"udp_over_am":0.25,"udp_over_raw":0.2,"#;
        assert!(!lines[2].contains("xdp"), "there is none below kernel UDP: {}", lines[2]);
        assert!(lines[3].starts_with(summary), "{}", lines[3]);
    }
}
