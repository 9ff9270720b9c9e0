//! The table: the curves side by side, and their figures below. In JSON: one object for each driver and size, and a
//! summary last. The plot: the curves over the logarithm of the size.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::batching::Batching;
use crate::chart::{self, COLOURS, Horizontal, Names, Panel, SeriesLabelPosition, Vertical};
use crate::driver::Driver;
use crate::error::Error;
use crate::plan::Bench;
use crate::report::columns::{Cell, Column, grid, lines, metric, short, summed, table, tenths};
use crate::report::words::{TRACED, footer, rounds, xdp};
use crate::spread::Spread;

use super::fit::Model;
use super::{Curve, Figure, Point, R_INF, Sweep, T0};

/// The lines of JSON: one for each size of each curve.
fn points<'a>() -> [Column<(&'a Curve, &'a Point)>; 14] {
    [
        ("", "via", |(curve, _)| Cell::text(curve.driver.name())),
        ("", "size", |(_, point)| Cell::Size(point.size)),
        ("", "messages_per_s", |(_, point)| Cell::Rate(1e9 / point.ns, "")),
        ("", "frames_per_s", |(_, point)| Cell::Rate(point.frames_per_s, "")),
        ("", "bytes_per_s", |(_, point)| Cell::Rate(point.rate(), "")),
        ("", "mode", |(curve, _)| Cell::text(&curve.mode)),
        ("", "framing", |(curve, _)| Cell::text(curve.framing)),
        ("", "frames", |(_, point)| Cell::Size(point.frames)),
        ("", "ns", |(_, point)| Cell::Time(point.ns)),
        ("", "lost", |(_, point)| Cell::Count(point.lost)),
        ("", "batching", |(curve, _)| Cell::Json(json!(curve.batching))),
        ("", "bundles", |(curve, _)| Cell::Json(json!(curve.batching == Batching::Shared))),
        ("", "xdp", |(curve, _)| Cell::xdp(curve.xdp)),
        ("", "traced", |(curve, _)| Cell::traced(curve.traced)),
    ]
}

/// The table of figures: one row for each curve.
const FIGURES: &[Column<Curve>] = &[
    ("driver", "", |curve| Cell::text(curve.driver.name())),
    ("mode", "", |curve| Cell::text(&curve.mode)),
    ("framing", "", |curve| Cell::text(curve.framing)),
    (">t0", "", Curve::t0),
    (">r_inf", "", Curve::r_inf),
    (">n1/2", "", Curve::n_half),
    (">t0 * r_inf", "", |curve| curve.figure(|model| Cell::Bytes(model.product()))),
    (">lost", "", |curve| Cell::Count(curve.lost())),
    ("traced", "", |curve| Cell::traced(curve.traced)),
];

impl Sweep {
    /// One object for each driver and size, and a summary last.
    pub fn json(&self) -> Vec<Value> {
        let rows: Vec<_> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point))).collect();
        let name = Bench::Bandwidth.name();
        summed(lines(name, &points(), &rows), name, Some(self.cores), self.is_simulated(), self.summary())
    }

    /// The three figures of each driver by name, such as `am_t0_ns`, and the ratios of those that ran with equal sizes
    /// and batching, such as `am_over_raw_t0`; then how they were found.
    fn summary(&self) -> Value {
        let named = |curve: &Curve| curve.figures().map(|(name, figure)| (format!("{}_{name}", curve.driver), figure));
        let mut summary: Map<String, Value> = self.curves.iter().flat_map(named).collect();
        for under in [Driver::Raw, Driver::Udp] {
            let ratio = |figure: &Figure| {
                Some((format!("am_over_{under}_{}", figure.name), short(self.ratio(Driver::Am, under, figure)?)))
            };
            summary.extend([T0, R_INF].iter().filter_map(ratio));
        }
        let fits: Map<_, _> = self.curves.iter().map(|curve| (curve.driver.name().to_owned(), curve.fit())).collect();
        let context = [("sweep", json!(true)), ("rounds", json!(self.rounds)), ("fits", Value::Object(fits))];
        summary.extend(context.map(|(name, value)| (name.to_owned(), value)));
        Value::Object(summary)
    }

    /// The curves side by side, and their figures.
    pub fn table(&self) -> String {
        let shared =
            if self.curves.iter().any(|curve| curve.batching == Batching::Shared) { ", am coalesced" } else { "" };
        let mut text = format!("bandwidth: user bytes a second by size, one way{shared}, counted by the receiver\n\n");
        let drivers = self.curves.iter().map(|curve| format!(">{}", curve.driver));
        let heads: Vec<String> = [">size".to_owned()].into_iter().chain(drivers).collect();
        let sizes: BTreeSet<usize> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.size)).collect();
        let row = |size: usize| {
            let cell = |curve: &Curve| {
                let point = curve.points.iter().find(|point| point.size == size);
                Cell::of(point.map(Point::rate), |rate| Cell::Rate(rate, "B/s"))
            };
            [Cell::Size(size)].into_iter().chain(self.curves.iter().map(cell)).collect()
        };
        grid(&heads, sizes.into_iter().map(row).collect(), &mut text);
        table(FIGURES, &self.curves, &mut text);
        for curve in &self.curves {
            let within: Vec<usize> = curve.sizes(&T0).collect();
            if let (Some(least), Some(most)) = (within.first(), within.last()) {
                let full: Vec<String> = curve.sizes(&R_INF).map(|size| size.to_string()).collect();
                let (driver, full) = (curve.driver, full.join(", "));
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "  {driver}: t0 from the sizes in one frame, {least} to {most} B; r_inf from full frames, {full} B"
                );
            }
        }
        text.push('\n');
        let is_traced = self.curves.iter().any(|curve| curve.traced);
        text + &self.footer("drivers") + if is_traced { TRACED } else { "" }
    }

    /// The plot, with this title.
    pub fn svg(&self, title: &str) -> Result<String, Error> {
        let powers = (0..=16).step_by(2).map(|power| f64::from(1u32 << power)).collect();
        let curves = self.curves.iter().zip(COLOURS).map(|(curve, colour)| drawn(curve, colour)).collect();
        let x = Horizontal("bytes of a message", powers, &|size| format!("{size:.0}"));
        let (y, names) = (
            Vertical::FromZero(1.0, &|rate| format!("{}B/s", metric(rate))),
            Names::Box(SeriesLabelPosition::UpperLeft),
        );
        let steps = self.curves.first().map(steps).unwrap_or_default();
        let mut panel = Panel::new(title.to_owned(), curves, names, x, y);
        panel.steps = steps;
        chart::svg("", &[vec![panel]], 900, 530)
    }

    /// The lines below a table of these things.
    pub fn footer(&self, what: &str) -> String {
        let at = self.curves.iter().find_map(|curve| curve.xdp);
        let measured = format!("{}, {what} taken in turn", rounds(self.rounds));
        footer(&measured, self.cores, at.map(xdp), self.is_simulated())
    }
}

impl Curve {
    fn figure(&self, cell: fn(&Model) -> Cell) -> Cell {
        self.model.as_ref().map_or(Cell::Unknown("?"), cell)
    }

    /// The start-up time.
    pub fn t0(&self) -> Cell {
        self.figure(|model| Cell::Time(model.t0))
    }

    /// The bandwidth of infinitely long messages.
    pub fn r_inf(&self) -> Cell {
        self.figure(|model| Cell::Rate(model.r_inf, "B/s"))
    }

    /// The size that reaches half of it.
    pub fn n_half(&self) -> Cell {
        self.figure(|model| model.n_half.map_or(Cell::Unknown("none"), Cell::Bytes))
    }

    fn figures(&self) -> [(&'static str, Value); 3] {
        [("t0_ns", self.t0()), ("r_inf_bytes_per_s", self.r_inf()), ("n_half_bytes", self.n_half())]
            .map(|(name, cell)| (name, json!(cell.json())))
    }

    /// The smallest and the largest of the rounds.
    pub fn range(&self) -> Value {
        let ends = |figure: fn(&Model) -> Option<f64>| {
            let spread = Spread::of(self.rounds.iter().filter_map(|(_, model)| figure(model)));
            spread.map(|spread| [spread.least, spread.most].map(tenths))
        };
        json!({
            "t0_ns": ends(|model| Some(model.t0)),
            "r_inf_bytes_per_s": ends(|model| Some(model.r_inf)),
            "n_half_bytes": ends(|model| model.n_half),
        })
    }

    /// Messages that never arrived, of all sizes and rounds.
    pub fn lost(&self) -> u64 {
        self.points.iter().map(|point| point.lost).sum()
    }

    fn fit(&self) -> Value {
        json!({
            "mode": self.mode,
            "framing": self.framing,
            "t0_times_r_inf_bytes": self.model.map(|model| tenths(model.product())),
            "t0_from_sizes": self.sizes(&T0).collect::<Vec<_>>(),
            "r_inf_from_sizes": self.sizes(&R_INF).collect::<Vec<_>>(),
            "rounds": self.rounds.len(),
            "range": self.range(),
        })
    }
}

/// The sizes that fill the frames of a driver, where one more frame begins.
fn steps(curve: &Curve) -> Vec<(f64, String)> {
    let words = |frames| if frames == 1 { "1 frame".to_owned() } else { format!("{frames}") };
    curve.behind(&R_INF).map(|point| (point.size as f64, words(point.frames))).collect()
}

fn drawn(curve: &Curve, colour: plotters::style::RGBColor) -> chart::Curve {
    let points = curve.points.iter().map(|point| (point.size as f64, point.rate()));
    let (mut name, mut dots) = (curve.driver.to_string(), Vec::new());
    if curve.batching == Batching::Shared {
        name.push_str(" coalesced");
    }
    if let Some(model) = curve.model {
        // Writing to a string cannot fail.
        let _ = write!(name, ": t0 {:.0} ns, r_inf {}B/s", model.t0, metric(model.r_inf));
        if let Some(size) = model.n_half {
            dots.push((size, model.r_inf / 2.0));
            let _ = write!(name, ", n1/2 {size:.0} B (the dot)");
        }
    }
    let mut line = chart::Curve::line(name, colour, points);
    line.dots = dots;
    line
}
