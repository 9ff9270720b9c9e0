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
//! Read first: [`fit`].

pub mod fit;
mod report;
#[cfg(test)]
mod tests;

use crate::batching::Batching;
use crate::cores::Cores;
use crate::driver::Driver;
use crate::plan::Bench;
use crate::report::words::is_simulated;
use crate::spread::{Spread, grouped, median};
use crate::stats::Measured;

use fit::Model;

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
    /// What carried the messages.
    pub driver: Driver,
    /// The device and its mode.
    pub mode: String,
    /// Where the XDP program ran, if there was one.
    pub xdp: Option<&'static str>,
    /// Where our header was.
    pub framing: &'static str,
    /// How its messages were handed over.
    pub batching: Batching,
    /// Whether its frames were also written to a file.
    pub(crate) traced: bool,
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
    /// Whether the network was simulated.
    pub fn is_simulated(&self) -> bool {
        self.curves.iter().any(|curve| is_simulated(&curve.mode))
    }

    /// The curves of these measurements.
    pub fn new(all: &[Measured], cores: Cores) -> Sweep {
        let rounds = all.iter().map(|one| one.round + 1).max().unwrap_or(0);
        let curves = grouped(all, |one| one.driver).iter().filter_map(|mine| Curve::of(mine, rounds)).collect();
        Sweep { curves, cores, rounds }
    }

    /// The ratio of two drivers by a figure from equal sizes with equal batching.
    pub fn ratio(&self, over: Driver, under: Driver, figure: &Figure) -> Option<f64> {
        let curve = |driver| self.curves.iter().find(|curve| curve.driver == driver);
        let (over, under) = (curve(over)?, curve(under)?);
        if over.batching != under.batching || !over.sizes(figure).eq(under.sizes(figure)) {
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
        let (driver, mode, xdp) = (first.driver, first.mode.clone(), first.xdp);
        let (framing, batching, traced) = (first.framing, first.batching, first.traced);
        Some(Curve { driver, mode, xdp, framing, batching, traced, points, model, rounds })
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
