//! The table, as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::cores::Cores;
use am_measure::driver::Driver;
use am_measure::report::columns::{Cell, Column, lines, short, summed, table, tenths};
use am_measure::report::words::times;
use am_measure::stats::Measured;
use am_measure::sweep::{Curve, Point, R_INF, Sweep, T0};

use super::{LAYERS, Layer, Row};

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

#[derive(Debug)]
pub(crate) struct Ablation(Sweep);

impl Ablation {
    pub(crate) fn new(all: &[Measured], cores: Cores) -> Ablation {
        Ablation(Sweep::new(all, cores))
    }

    fn rows(&self) -> Vec<(&Layer, &Curve)> {
        let curve = |layer: &Layer| self.0.curves.iter().find(|curve| curve.driver == layer.0);
        LAYERS.iter().filter_map(|layer| Some((layer, curve(layer)?))).collect()
    }

    /// The two ratios that state the cost of all layers together, if both rows ran.
    fn ratios(&self) -> [Option<f64>; 2] {
        [T0, R_INF].map(|figure| self.0.ratio(Driver::Am, Driver::Row(Row::Hybrid), &figure))
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let [t0, r_inf] = self.ratios().map(|ratio| ratio.map(short));
        let summary = json!({ "whole_over_hybrid_t0": t0, "whole_over_hybrid_r_inf": r_inf, "rounds": self.0.rounds });
        let lines = lines("ablation", &columns(), &self.rows());
        summed(lines, "ablation", Some(self.0.cores), self.0.is_simulated(), summary)
    }

    pub(crate) fn table(&self) -> String {
        let mut text = "ablation: what each layer adds, after Fast Messages' table 4\n\n".to_owned();
        table(&columns(), &self.rows(), &mut text);
        if let [Some(t0), Some(r_inf)] = self.ratios() {
            let (t0, r_inf) = (times(t0), times(r_inf));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  whole has {t0} times the t0 of hybrid, and {r_inf} times its r_inf\n");
        }
        text + LEGEND + &self.0.footer("rows")
    }
}

fn columns<'a>() -> [Column<(&'a Layer, &'a Curve)>; 12] {
    [
        ("row", "row", |(layer, _)| Cell::text(layer.1)),
        (">t0", "t0_ns", |(_, curve)| curve.t0()),
        (">r_inf", "r_inf_bytes_per_s", |(_, curve)| curve.r_inf()),
        (">n1/2", "n_half_bytes", |(_, curve)| curve.n_half()),
        (">lost", "lost", |(_, curve)| Cell::Count(curve.lost())),
        ("mode", "mode", |(_, curve)| Cell::text(&curve.mode)),
        ("", "framing", |(_, curve)| Cell::text(curve.framing)),
        ("", "batching", |(_, curve)| Cell::Json(json!(curve.batching))),
        ("what it is", "what", |(layer, _)| Cell::text(layer.2)),
        ("", "range", |(_, curve)| Cell::Json(json!(curve.range()))),
        ("", "curve", |(_, curve)| {
            let point = |point: &Point| json!({ "size": point.size, "ns": tenths(point.ns) });
            Cell::Json(curve.points.iter().map(point).collect())
        }),
        ("", "xdp", |(_, curve)| Cell::xdp(curve.xdp)),
    ]
}
