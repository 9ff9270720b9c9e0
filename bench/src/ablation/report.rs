//! The table, as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::cores::Cores;
use crate::driver::Driver;
use crate::report::table::{Column, align, bytes, metric, nanoseconds};
use crate::report::words::{SIMULATED, rounds, times, xdp};
use crate::stats::Measured;
use crate::sweep::{Curve, R_INF, Sweep, T0, digits, range};

use super::{LAYERS, Layer, Row};

const COLUMNS: &[Column] = &[
    ("row", false),
    ("t0", true),
    ("r_inf", true),
    ("n1/2", true),
    ("lost", true),
    ("mode", false),
    ("what it is", false),
];

/// The meaning of the paper's three figures.
const LEGEND: &str = concat!(
    "  t0     start-up time (\"startup overhead\" in the paper's table 2): the time of an empty message in a stream,\n",
    "         the intercept of time over size. It is not half a round trip: the paper has 25 us for that, and a t0 of\n",
    "         4.1 us; here half a round trip is half of `am-bench latency`\n",
    "  r_inf  bytes a second of infinitely long messages, from messages that fill all of their frames\n",
    "  n1/2   the size that reaches half of r_inf, read off the curve\n",
    "  All rows send the same frames and sizes in the same loops. Rows above `whole` have only the bench's window for\n",
    "  flow control, and may lose frames; `whole` sends one message a frame, as they do.\n\n",
);

const WHOLE: Driver = Driver::Am;
const HYBRID: Driver = Driver::Row(Row::Hybrid);

#[derive(Debug)]
pub(crate) struct Ablation(Sweep);

impl Ablation {
    pub(crate) fn new(all: &[Measured], cores: Cores) -> Ablation {
        Ablation(Sweep::new(all, cores))
    }

    fn rows(&self) -> impl Iterator<Item = (&Layer, &Curve)> {
        let curve = |layer: &Layer| self.0.curves.iter().find(|curve| curve.driver == layer.0);
        LAYERS.iter().filter_map(move |layer| Some((layer, curve(layer)?)))
    }

    /// The two ratios that state the cost of all layers together, if both rows ran.
    fn ratios(&self) -> [(&'static str, Option<f64>); 2] {
        let ratio = |figure| self.0.ratio(WHOLE, HYBRID, figure);
        [("whole_over_hybrid_t0", ratio(&T0)), ("whole_over_hybrid_r_inf", ratio(&R_INF))]
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let cores = json!([self.0.cores.near, self.0.cores.far]);
        let mut lines: Vec<Value> = self.rows().map(|(layer, curve)| line(layer, curve, &cores)).collect();
        let ratios = self.ratios().into_iter().map(|(name, ratio)| (name.to_owned(), json!(ratio.map(short))));
        let mut summary: Map<String, Value> = ratios.collect();
        summary.insert("bench".to_owned(), json!("ablation"));
        summary.insert("rounds".to_owned(), json!(self.0.rounds));
        summary.insert("cores".to_owned(), cores);
        if self.0.is_simulated() {
            summary.insert("simulated".to_owned(), json!(true));
        }
        lines.push(json!({ "summary": summary }));
        lines
    }

    /// Writing to a string cannot fail.
    pub(crate) fn table(&self) -> String {
        let mut text = "ablation: what each layer adds, after Fast Messages' table 4\n\n".to_owned();
        align(COLUMNS, &self.rows().map(|(layer, curve)| cells(layer, curve)).collect::<Vec<_>>(), &mut text);
        text.push('\n');
        if let [(_, Some(t0)), (_, Some(r_inf))] = self.ratios() {
            let _ = writeln!(
                text,
                "  whole has {} times the t0 of hybrid, and {} times its r_inf\n",
                times(t0),
                times(r_inf)
            );
        }
        text.push_str(LEGEND);
        let rounds = rounds(self.0.rounds);
        let _ = writeln!(text, "{rounds}, rows taken in turn; {}", self.0.cores.words());
        if let Some(at) = self.0.curves.iter().find_map(|curve| curve.xdp) {
            let _ = writeln!(text, "{}", xdp(at));
        }
        if self.0.is_simulated() {
            let _ = writeln!(text, "{SIMULATED}");
        }
        text
    }
}

fn lost(curve: &Curve) -> u64 {
    curve.points.iter().map(|point| point.lost).sum()
}

fn line((_, name, what): &Layer, curve: &Curve, cores: &Value) -> Value {
    let model = curve.model;
    let points = curve.points.iter().map(|point| json!({ "size": point.size, "ns": digits(point.ns, 10.0) }));
    let mut line = json!({
        "bench": "ablation",
        "row": name,
        "t0_ns": model.map(|model| digits(model.t0, 10.0)),
        "r_inf_bytes_per_s": model.map(|model| model.r_inf.round() as u64),
        "n_half_bytes": model.and_then(|model| model.n_half).map(|size| digits(size, 10.0)),
        "mode": curve.mode,
        "framing": curve.framing,
        "batching": curve.batching,
        "what": what,
        "lost": lost(curve),
        "range": range(curve),
        "curve": points.collect::<Vec<_>>(),
        "cores": cores,
    });
    if let Some(at) = curve.xdp {
        line["xdp"] = json!(at);
    }
    line
}

fn cells((_, name, what): &Layer, curve: &Curve) -> Vec<String> {
    let mut cells = vec![(*name).to_owned()];
    match curve.model {
        Some(model) => {
            cells.push(nanoseconds(model.t0.max(0.0).round() as u64));
            cells.push(format!("{}B/s", metric(model.r_inf)));
            cells.push(model.n_half.map_or("none".to_owned(), |size| bytes(size.round() as usize)));
        }
        None => cells.extend(["?"; 3].map(str::to_owned)),
    }
    cells.extend([lost(curve).to_string(), curve.mode.clone(), (*what).to_owned()]);
    cells
}

fn short(ratio: f64) -> f64 {
    digits(ratio, 1e4)
}
