//! One object for each driver and size, and a summary last.

use serde_json::{Map, Value, json};

use crate::batching::Batching;
use crate::driver::Driver;
use crate::plan::Bench;

use super::fit::Model;
use super::{Curve, Figure, Point, R_INF, Sweep, T0};

impl Sweep {
    pub(crate) fn json(&self) -> Vec<Value> {
        let cores = json!([self.cores.near, self.cores.far]);
        let mut lines: Vec<Value> = Vec::new();
        for curve in &self.curves {
            lines.extend(curve.points.iter().map(|point| line(curve, point, &cores)));
        }
        lines.push(json!({ "summary": self.summary(cores) }));
        lines
    }

    /// The three figures of each driver by name; then how they were found.
    fn summary(&self, cores: Value) -> Value {
        let mut summary: Map<String, Value> = self.curves.iter().flat_map(figures).collect();
        summary.extend([Driver::Raw, Driver::Udp].iter().flat_map(|under| self.ratios(*under)));
        summary.insert("bench".to_owned(), json!(Bench::Bandwidth));
        summary.insert("sweep".to_owned(), json!(true));
        summary.insert("rounds".to_owned(), json!(self.rounds));
        summary.insert("cores".to_owned(), cores);
        if self.is_simulated() {
            summary.insert("simulated".to_owned(), json!(true));
        }
        let fits = self.curves.iter().map(|curve| (curve.driver.name().to_owned(), fit(curve)));
        summary.insert("fits".to_owned(), Value::Object(fits.collect()));
        Value::Object(summary)
    }
}

impl Sweep {
    /// The ratios, such as `am_over_raw_t0`, if both ran with equal sizes and batching.
    fn ratios(&self, under: Driver) -> Vec<(String, Value)> {
        let ratio = |figure: &Figure| {
            let ratio = digits(self.ratio(Driver::Am, under, figure)?, 1e4);
            Some((format!("am_over_{under}_{}", figure.name), json!(ratio)))
        };
        [T0, R_INF].iter().filter_map(ratio).collect()
    }
}

fn line(curve: &Curve, point: &Point, cores: &Value) -> Value {
    let mut line = json!({
        "bench": Bench::Bandwidth,
        "via": curve.driver.name(),
        "size": point.size,
        "messages_per_s": (1e9 / point.ns).round() as u64,
        "frames_per_s": point.frames_per_s.round() as u64,
        "bytes_per_s": point.rate().round() as u64,
        "mode": curve.mode,
        "framing": curve.framing,
        "frames": point.frames,
        "ns": tenths(point.ns),
        "lost": point.lost,
        "batching": curve.batching,
        "bundles": curve.batching == Batching::Shared,
        "cores": cores,
    });
    if let Some(at) = curve.xdp {
        line["xdp"] = json!(at);
    }
    line
}

/// The figures, such as `am_t0_ns`; null if one could not be found.
pub(crate) fn figures(curve: &Curve) -> Vec<(String, Value)> {
    let (driver, model) = (curve.driver.name(), curve.model);
    vec![
        (format!("{driver}_t0_ns"), json!(model.map(|model| tenths(model.t0)))),
        (format!("{driver}_r_inf_bytes_per_s"), json!(model.map(|model| model.r_inf.round() as u64))),
        (format!("{driver}_n_half_bytes"), json!(model.and_then(|model| model.n_half).map(tenths))),
    ]
}

fn fit(curve: &Curve) -> Value {
    json!({
        "mode": curve.mode,
        "framing": curve.framing,
        "t0_times_r_inf_bytes": curve.model.map(|model| tenths(model.product())),
        "t0_from_sizes": curve.sizes(&T0).collect::<Vec<_>>(),
        "r_inf_from_sizes": curve.sizes(&R_INF).collect::<Vec<_>>(),
        "rounds": curve.rounds.len(),
        "range": range(curve),
    })
}

/// The smallest and the largest of the rounds.
pub(crate) fn range(curve: &Curve) -> Value {
    json!({
        "t0_ns": ends(curve, |model| Some(model.t0)),
        "r_inf_bytes_per_s": ends(curve, |model| Some(model.r_inf)),
        "n_half_bytes": ends(curve, |model| model.n_half),
    })
}

fn ends(curve: &Curve, figure: fn(&Model) -> Option<f64>) -> Option<[f64; 2]> {
    let all = || curve.rounds.iter().filter_map(|(_, model)| figure(model));
    Some([tenths(all().reduce(f64::min)?), tenths(all().reduce(f64::max)?)])
}

fn tenths(number: f64) -> f64 {
    digits(number, 10.0)
}

/// Rounds to significant digits.
pub(crate) fn digits(number: f64, scale: f64) -> f64 {
    (number * scale).round() / scale
}
