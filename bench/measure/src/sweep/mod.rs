//! The curve of bandwidth over size, and its three figures.
//!
//! ```text
//!   bytes/s
//!    r_inf ┤- - - - - - - - - ╭─╮ ╭──╮╭───     a step where one more frame begins
//!          │                 ╱  ╰╯   ╰╯
//!  r_inf/2 ┤- - - - - - - ╱
//!          │          ╭──╯                     time of a message = t0 + bytes / r
//!          └──────────┴───┴──────────────▶ bytes
//!                       n1/2
//! ```
//!
//! Read first: `fit`.

mod fit;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write;

use fit::Model;
pub use fit::size_of_rate;
use serde_json::{Map, Value, json};

use crate::chart::{self, COLOURS, Horizontal, Names, Panel, SeriesLabelPosition, Vertical};
use crate::cores::Cores;
use crate::driver::Driver;
use crate::error::Error;
use crate::plan::Batching;
use crate::plan::Bench;
use crate::report::{Cell, Column, Report, TRACED, metric, rounds, short, tenths, xdp};
use crate::spread::{Spread, grouped, median};
use crate::stats::Measured;

/// A figure of a curve, and the points that it comes from.
pub struct Figure {
    pub(crate) name: &'static str,
    of: fn(&Model) -> f64,
    from: fn(&Point) -> bool,
}

/// The start-up time.
pub const T0: Figure = Figure { name: "t0", of: |model| model.t0, from: |point| point.frames == 1 };
/// The asymptotic bandwidth.
pub const R_INF: Figure = Figure { name: "r_inf", of: |model| model.r_inf, from: |point| point.full };

/// One size on a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Bytes of a message.
    pub size: usize,
    /// Frames of a message.
    pub(crate) frames: usize,
    /// Whether the message fills them all.
    pub(crate) full: bool,
    /// Nanoseconds of a message in a stream.
    pub ns: f64,
    /// Frames a second as counted: several messages may share one.
    pub(crate) frames_per_s: f64,
    /// Messages that never arrived.
    pub(crate) lost: u64,
}

impl Point {
    /// Bytes a second.
    pub(crate) fn rate(&self) -> f64 {
        self.size as f64 * 1e9 / self.ns
    }

    fn size_and_time(&self) -> (f64, f64) {
        (self.size as f64, self.ns)
    }
}

/// One driver's curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// One of its measurements.
    pub first: Measured,
    /// By size; medians over the rounds.
    pub points: Vec<Point>,
    /// The figures of each complete round.
    pub(crate) rounds: Vec<(usize, Model)>,
    /// Medians over the rounds.
    pub(crate) model: Option<Model>,
}

/// All curves of one run.
#[derive(Debug)]
pub struct Sweep {
    /// One for each driver.
    pub curves: Vec<Curve>,
    /// The cores on which both sides ran.
    pub cores: Cores,
    /// Turns of each driver.
    pub rounds: usize,
}

impl Sweep {
    /// The curves of these measurements.
    pub fn new(all: &[Measured], cores: Cores) -> Sweep {
        let rounds = all.iter().map(|one| one.round + 1).max().unwrap_or(0);
        let curves = grouped(all, |one| one.driver).iter().filter_map(|mine| Curve::of(mine, rounds)).collect();
        Sweep { curves, cores, rounds }
    }

    /// The ratio of two drivers by a figure from equal sizes with equal batching.
    pub fn ratio(&self, over: Driver, under: Driver, figure: &Figure) -> Option<f64> {
        let curve = |driver| self.curves.iter().find(|curve| curve.first.driver == driver);
        let (over, under) = (curve(over)?, curve(under)?);
        if over.first.batching != under.first.batching || !over.sizes(figure).eq(under.sizes(figure)) {
            return None;
        }
        let [over, under] = [over, under]
            .map(|curve| curve.rounds.iter().map(|(round, model)| (*round, (figure.of)(model))).collect::<Vec<_>>());
        Spread::of_ratios(&over, &under).map(|ratio| ratio.median)
    }
}

impl Curve {
    /// Of one driver's measurements.
    fn of(all: &[&Measured], rounds: usize) -> Option<Curve> {
        let mine: Vec<&Measured> = all.iter().copied().filter(|one| one.bench == Bench::Bandwidth).collect();
        let (first, points) = (mine.first()?, points(&mine));
        let of_round = |round| {
            let its: Vec<&Measured> = mine.iter().copied().filter(|one| one.round == round).collect();
            let its = self::points(&its);
            // A round that was interrupted gives no figures.
            let model = if its.len() == points.len() { Model::of(&its) } else { None };
            Some((round, model?))
        };
        let rounds: Vec<(usize, Model)> = (0..rounds).filter_map(of_round).collect();
        let middle = |figure: fn(&Model) -> Option<f64>| {
            median(&rounds.iter().filter_map(|(_, model)| figure(model)).collect::<Vec<_>>())
        };
        let n_half = middle(|model| model.n_half);
        let ends = middle(|model| Some(model.t0)).zip(middle(|model| Some(model.r_inf)));
        let model = ends.map(|(t0, r_inf)| Model { t0, r_inf, n_half });
        Some(Curve { first: (*first).clone(), points, model, rounds })
    }

    /// The points that a figure comes from.
    fn behind(&self, figure: &Figure) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| (figure.from)(point))
    }

    /// Their sizes.
    fn sizes(&self, figure: &Figure) -> impl Iterator<Item = usize> {
        self.behind(figure).map(|point| point.size)
    }
}

/// The curve of some measurements, by size.
fn points(mine: &[&Measured]) -> Vec<Point> {
    let sizes = mine.iter().map(|one| one.nth_size + 1).max().unwrap_or(0);
    let mut points: Vec<Point> = (0..sizes).filter_map(|nth| point(nth, mine)).collect();
    points.sort_by_key(|point| point.size);
    points
}

fn point(nth_size: usize, mine: &[&Measured]) -> Option<Point> {
    let here = || mine.iter().filter(|one| one.nth_size == nth_size);
    let layout = here().next()?.layout;
    let times: Vec<f64> = here().map(|one| one.layout.size as f64 * 1e9 / one.figure()).collect();
    let frames: Vec<f64> = here().filter_map(|one| Some(one.rates()?.frames)).collect();
    let ns = median(&times).filter(|ns| ns.is_finite())?;
    let (frames_per_s, lost) = (median(&frames)?, here().map(|one| one.lost()).sum());
    Some(Point { size: layout.size, frames: layout.frames, full: layout.full, ns, frames_per_s, lost })
}

/// The lines of JSON: one for each size of each curve.
fn columns<'a>() -> [Column<(&'a Curve, &'a Point)>; 14] {
    [
        ("", "via", |(curve, _)| Cell::text(curve.first.driver.name())),
        ("", "size", |(_, point)| Cell::Size(point.size)),
        ("", "messages_per_s", |(_, point)| Cell::Rate(1e9 / point.ns, "")),
        ("", "frames_per_s", |(_, point)| Cell::Rate(point.frames_per_s, "")),
        ("", "bytes_per_s", |(_, point)| Cell::Rate(point.rate(), "")),
        ("", "mode", |(curve, _)| Cell::text(&curve.first.mode)),
        ("", "framing", |(curve, _)| Cell::text(curve.first.framing)),
        ("", "frames", |(_, point)| Cell::Size(point.frames)),
        ("", "ns", |(_, point)| Cell::Time(point.ns)),
        ("", "lost", |(_, point)| Cell::Count(point.lost)),
        ("", "batching", |(curve, _)| Cell::Json(json!(curve.first.batching))),
        ("", "bundles", |(curve, _)| Cell::Json(json!(curve.first.batching == Batching::Shared))),
        ("", "xdp", |(curve, _)| Cell::xdp(curve.first.xdp)),
        ("", "traced", |(curve, _)| Cell::traced(curve.first.traced)),
    ]
}

/// The table of figures: one row for each curve.
const FIGURES: &[Column<Curve>] = &[
    ("driver", "", |curve| Cell::text(curve.first.driver.name())),
    ("mode", "", |curve| Cell::text(&curve.first.mode)),
    ("framing", "", |curve| Cell::text(curve.first.framing)),
    (">t0", "", Curve::t0),
    (">r_inf", "", Curve::r_inf),
    (">n1/2", "", Curve::n_half),
    (">t0 * r_inf", "", |curve| curve.figure(|model| Cell::Bytes(model.product()))),
    (">lost", "", |curve| Cell::Count(curve.lost())),
    ("traced", "", |curve| Cell::traced(curve.first.traced)),
];

impl Sweep {
    /// The three figures of each driver by name, such as `am_t0_ns`, and the ratios of those that ran with equal sizes
    /// and batching, such as `am_over_raw_t0`; then how they were found.
    fn summary(&self) -> Value {
        let named =
            |curve: &Curve| curve.figures().map(|(name, figure)| (format!("{}_{name}", curve.first.driver), figure));
        let mut summary: Map<String, Value> = self.curves.iter().flat_map(named).collect();
        for under in [Driver::Raw, Driver::Udp] {
            let ratio = |figure: &Figure| {
                Some((format!("am_over_{under}_{}", figure.name), short(self.ratio(Driver::Am, under, figure)?)))
            };
            summary.extend([T0, R_INF].iter().filter_map(ratio));
        }
        let fits: Map<_, _> =
            self.curves.iter().map(|curve| (curve.first.driver.name().to_owned(), curve.fit())).collect();
        let context = [("sweep", json!(true)), ("rounds", json!(self.rounds)), ("fits", Value::Object(fits))];
        summary.extend(context.map(|(name, value)| (name.to_owned(), value)));
        Value::Object(summary)
    }

    /// The curves side by side, and their figures; an object for each driver and size.
    pub fn report(&self) -> Report {
        let is_shared = self.curves.iter().any(|curve| curve.first.batching == Batching::Shared);
        let shared = if is_shared { ", am coalesced" } else { "" };
        let title = format!("bandwidth: user bytes a second by size, one way{shared}, counted by the receiver");
        let mut report = Report::new(Bench::Bandwidth.name(), title);
        let points: Vec<_> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point))).collect();
        report.lines(&columns(), &points);
        let drivers = self.curves.iter().map(|curve| format!(">{}", curve.first.driver));
        let heads: Vec<String> = [">size".to_owned()].into_iter().chain(drivers).collect();
        let sizes: BTreeSet<usize> = points.iter().map(|(_, point)| point.size).collect();
        let row = |size: usize| {
            let cell = |curve: &Curve| {
                let point = curve.points.iter().find(|point| point.size == size);
                Cell::of(point.map(Point::rate), |rate| Cell::Rate(rate, "B/s"))
            };
            [Cell::Size(size)].into_iter().chain(self.curves.iter().map(cell)).collect()
        };
        report.grid(&heads, sizes.into_iter().map(row).collect());
        report.table(FIGURES, &self.curves);
        for curve in &self.curves {
            let within: Vec<usize> = curve.sizes(&T0).collect();
            if let (Some(least), Some(most)) = (within.first(), within.last()) {
                let full: Vec<String> = curve.sizes(&R_INF).map(|size| size.to_string()).collect();
                let (driver, full) = (curve.first.driver, full.join(", "));
                report.say(format_args!(
                    "  {driver}: t0 from the sizes in one frame, {least} to {most} B; r_inf from full frames, {full} B"
                ));
            }
        }
        report.say("");
        self.footer("drivers", &mut report);
        if self.curves.iter().any(|curve| curve.first.traced) {
            report.say(TRACED);
        }
        report.summary(self.summary());
        report
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
    pub fn footer(&self, what: &str, report: &mut Report) {
        let at = self.curves.iter().find_map(|curve| curve.first.xdp);
        report.footer(format_args!("{}, {what} taken in turn", rounds(self.rounds)), self.cores, at.map(xdp));
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
            "mode": self.first.mode,
            "framing": self.first.framing,
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
    let (mut name, mut dots) = (curve.first.driver.to_string(), Vec::new());
    if curve.first.batching == Batching::Shared {
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
