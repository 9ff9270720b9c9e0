//! The curves as a picture: SVG, written by hand. What there is to draw is
//! two axes, some lines and some words
//! (docs/decisions, "The three figures of a curve").

use std::fmt::Write;

use crate::batching::Batching;
use crate::report::table::metric;
use crate::svg::{self, begin, escaped, rule, text};
use crate::via::Via;

use super::{Curve, R_INF, Sweep};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 110.0;

/// Where sizes and rates are on the paper: sizes by their logarithm.
struct Paper {
    most_size: f64,
    most_rate: f64,
}

impl Paper {
    fn x(&self, size: f64) -> f64 {
        LEFT + size.max(1.0).ln() / self.most_size.ln() * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, rate: f64) -> f64 {
        HEIGHT - BOTTOM - rate / self.most_rate * (HEIGHT - TOP - BOTTOM)
    }
}

impl Sweep {
    /// The picture; `title` says what it is of. Writing to a string cannot fail.
    pub(crate) fn svg(&self, title: &str) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let most_size = points().map(|point| point.size).max().unwrap_or(2).max(2) as f64;
        let most_rate = points().map(|point| point.rate()).fold(1.0, f64::max) * 1.05;
        let paper = Paper { most_size, most_rate };
        let mut svg = begin((WIDTH, HEIGHT));
        text(&mut svg, (LEFT, TOP - 22.0), "start", &escaped(title));
        axes(&mut svg, &paper);
        if let Some(first) = self.curves.first() {
            steps(&mut svg, &paper, first);
        }
        for (nth, curve) in self.curves.iter().enumerate() {
            draw(&mut svg, &paper, curve, nth);
        }
        svg + "</svg>\n"
    }
}

fn colour(via: Via) -> &'static str {
    match via {
        Via::Am => "#0b61a4",
        Via::Raw => "#444444",
        Via::Udp | Via::Cacheline | Via::Row(_) => "#c4581b",
    }
}

fn axes(svg: &mut String, paper: &Paper) {
    let bottom = paper.y(0.0);
    for power in (0..=paper.most_size.log2() as u32).step_by(2) {
        let size = f64::from(1u32 << power);
        rule(svg, (paper.x(size), bottom), (paper.x(size), bottom + 5.0), "stroke=\"black\"");
        text(svg, (paper.x(size), bottom + 20.0), "middle", &format!("{size}"));
    }
    let step = round(paper.most_rate / 6.0);
    for rate in (0..).map(|nth| f64::from(nth) * step).take_while(|rate| *rate <= paper.most_rate) {
        rule(svg, (LEFT, paper.y(rate)), (WIDTH - RIGHT, paper.y(rate)), "stroke=\"#dddddd\"");
        text(svg, (LEFT - 8.0, paper.y(rate) + 4.0), "end", &format!("{}B/s", metric(rate)));
    }
    rule(svg, (LEFT, bottom), (WIDTH - RIGHT, bottom), "stroke=\"black\"");
    text(svg, ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 38.0), "middle", "bytes of a message");
}

/// The next number above with one digit that is 1, 2 or 5.
fn round(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|round| *round >= number).unwrap_or(number)
}

/// Where messages of one via fill their frames, and one more begins.
fn steps(svg: &mut String, paper: &Paper, curve: &Curve) {
    for point in curve.behind(&R_INF) {
        let x = paper.x(point.size as f64);
        rule(svg, (x, TOP), (x, paper.y(0.0)), "class=\"step\" stroke=\"#999999\" stroke-dasharray=\"3 4\"");
        let frames = if point.frames == 1 { "1 frame".to_owned() } else { point.frames.to_string() };
        text(svg, (x, TOP - 4.0), "middle", &frames);
    }
}

fn draw(svg: &mut String, paper: &Paper, curve: &Curve, nth: usize) {
    let colour = colour(curve.via);
    let places = curve.points.iter().map(|point| (paper.x(point.size as f64), paper.y(point.rate())));
    svg::curve(svg, places, colour);
    let mut words = format!("{}{}", curve.via, if curve.batching == Batching::Shared { " in bundles" } else { "" });
    if let Some(model) = curve.model {
        let _ = write!(words, ": t0 {:.0} ns, r_inf {}B/s", model.t0, metric(model.r_inf));
        if let Some(size) = model.n_half {
            let (x, y) = (paper.x(size), paper.y(model.r_inf / 2.0));
            svg::dot(svg, (x, y), colour);
            let _ = write!(words, ", n1/2 {size:.0} B (the dot)");
        }
    }
    let y = HEIGHT - BOTTOM + 60.0 + 17.0 * nth as f64;
    rule(svg, (LEFT, y - 4.0), (LEFT + 24.0, y - 4.0), &format!("stroke=\"{colour}\" stroke-width=\"2\""));
    text(svg, (LEFT + 32.0, y), "start", &words);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_at_round_numbers() {
        assert_eq!([0.17, 0.9, 1.0, 110.0, 4.9e8].map(round), [0.2, 1.0, 1.0, 200.0, 5e8]);
    }
}
