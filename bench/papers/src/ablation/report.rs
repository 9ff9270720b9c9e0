//! The table, as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::cores::Cores;
use am_measure::driver::Driver;
use am_measure::report::columns::digits;
use am_measure::report::table::{align, columns};
use am_measure::report::words::times;
use am_measure::stats::Measured;
use am_measure::sweep::{Curve, R_INF, Sweep, T0};

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

    fn rows(&self) -> impl Iterator<Item = (&Layer, &Curve)> {
        let curve = |layer: &Layer| self.0.curves.iter().find(|curve| curve.driver == layer.0);
        LAYERS.iter().filter_map(move |layer| Some((layer, curve(layer)?)))
    }

    /// The two ratios that state the cost of all layers together, if both rows ran.
    fn ratios(&self) -> [Option<f64>; 2] {
        [T0, R_INF].map(|figure| self.0.ratio(Driver::Am, Driver::Row(Row::Hybrid), &figure))
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let cores = json!([self.0.cores.near, self.0.cores.far]);
        let [t0, r_inf] = self.ratios().map(|ratio| ratio.map(|ratio| digits(ratio, 1e4)));
        let mut summary = json!({
            "whole_over_hybrid_t0": t0,
            "whole_over_hybrid_r_inf": r_inf,
            "bench": "ablation",
            "rounds": self.0.rounds,
            "cores": cores,
        });
        if self.0.is_simulated() {
            summary["simulated"] = json!(true);
        }
        self.rows().map(|(layer, curve)| line(layer, curve, &cores)).chain([json!({ "summary": summary })]).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut text = "ablation: what each layer adds, after Fast Messages' table 4\n\n".to_owned();
        let cells = |((_, name, what), curve): (&Layer, &Curve)| {
            let [t0, r_inf, n_half, _] = curve.cells();
            vec![
                (*name).to_owned(),
                t0,
                r_inf,
                n_half,
                curve.lost().to_string(),
                curve.mode.clone(),
                (*what).to_owned(),
            ]
        };
        align(
            &columns(["row", ">t0", ">r_inf", ">n1/2", ">lost", "mode", "what it is"]),
            &self.rows().map(cells).collect::<Vec<_>>(),
            &mut text,
        );
        text.push('\n');
        if let [Some(t0), Some(r_inf)] = self.ratios() {
            let (t0, r_inf) = (times(t0), times(r_inf));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  whole has {t0} times the t0 of hybrid, and {r_inf} times its r_inf\n");
        }
        text + LEGEND + &self.0.footer("rows")
    }
}

fn line((_, name, what): &Layer, curve: &Curve, cores: &Value) -> Value {
    let [t0, r_inf, n_half] = curve.figures().map(|(_, figure)| figure);
    let points = curve.points.iter().map(|point| json!({ "size": point.size, "ns": digits(point.ns, 10.0) }));
    let mut line = json!({
        "bench": "ablation",
        "row": name,
        "t0_ns": t0,
        "r_inf_bytes_per_s": r_inf,
        "n_half_bytes": n_half,
        "mode": curve.mode,
        "framing": curve.framing,
        "batching": curve.batching,
        "what": what,
        "lost": curve.lost(),
        "range": curve.range(),
        "curve": points.collect::<Vec<_>>(),
        "cores": cores,
    });
    if let Some(at) = curve.xdp {
        line["xdp"] = json!(at);
    }
    line
}
