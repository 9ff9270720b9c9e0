//! One object a line, and a summary last. The first fields are stable; later ones may grow.

use serde_json::{Map, Value, json};

use crate::batching::Batching;
use crate::stats::{Figures, Measured, Ratio, Row};

use super::{Comparison, Report};

impl Report<'_> {
    pub fn json(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.rows.iter().map(|row| self.line(row)).collect();
        lines.push(json!({ "summary": self.summary() }));
        lines
    }

    fn line(&self, row: &Row<'_>) -> Value {
        let Measured { bench, driver, mode, framing, batching, .. } = row.first;
        let (driver, size) = (driver.name(), row.first.layout.size);
        let mut line = match &row.figures {
            Figures::RoundTrips(h) => {
                let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| h.value_at_quantile(quantile));
                let rtt_ns = json!({ "p50": p50, "p99": p99, "p999": p999 });
                json!({
                    "bench": bench, "via": driver, "mode": mode, "framing": framing, "size": size,
                    "rtt_ns": rtt_ns, "n": h.len(),
                })
            }
            Figures::Rates(rates) => json!({
                "bench": bench, "via": driver, "size": size,
                "messages_per_s": rates.messages.round() as u64,
                "frames_per_s": rates.frames.round() as u64,
                "bytes_per_s": rates.bytes.round() as u64,
                "mode": mode, "framing": framing,
            }),
        };
        // The figure that is compared (p50, bytes or messages a second).
        line["by_round"] = json!(row.by_round);
        line["lost"] = json!(row.lost);
        line["batching"] = json!(batching);
        line["bundles"] = json!(*batching == Batching::Shared);
        if !self.retained.is_empty() {
            line["loss"] = json!(row.first.loss.per_cent());
        }
        if let Some(at) = row.first.xdp {
            line["xdp"] = json!(at);
        }
        line["cores"] = json!([self.cores.near, self.cores.far]);
        line
    }

    /// The ratios of the first bench and size by name; then their context, and the same for every size.
    fn summary(&self) -> Value {
        let Some(first) = self.comparisons.first() else { return json!({}) };
        let mut summary = Value::Object(named(&first.ratios));
        if !self.retained.is_empty() {
            // The share of the rate that our messages retain at the first size, by loss in per cent.
            let its = self.retained.iter().filter(|retained| retained.size == first.size);
            let by_loss = its.map(|retained| (retained.loss.per_cent().to_string(), json!(short(retained.median))));
            summary["kept"] = Value::Object(by_loss.collect());
        }
        summary["bench"] = json!(first.bench);
        summary["rounds"] = json!(self.rounds);
        summary["cores"] = json!([self.cores.near, self.cores.far]);
        if self.is_simulated() {
            summary["simulated"] = json!(true);
        }
        summary["sizes"] = self.comparisons.iter().map(|c| self.comparison(c)).collect();
        summary
    }

    fn comparison(&self, Comparison { bench, size, loss, ratios, .. }: &Comparison) -> Value {
        let mut all = Map::from_iter([("bench".to_owned(), json!(bench)), ("size".to_owned(), json!(size))]);
        if !self.retained.is_empty() {
            all.insert("loss".to_owned(), json!(loss.per_cent()));
        }
        all.extend(named(ratios));
        let mut range: Map<String, Value> = ratios.iter().map(|r| (r.name(), ends(r.range))).collect();
        if let Some(retained) = self.retained.iter().find(|retained| (&retained.size, &retained.loss) == (size, loss)) {
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
    use crate::stats::measured;

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
