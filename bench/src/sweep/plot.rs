//! A plot of the curves, over the logarithm of the size.

use std::fmt::Write;

use plotters::prelude::SeriesLabelPosition;

use super::{Curve, R_INF, Sweep};
use crate::batching::Batching;
use crate::chart::{self, Axis, COLOURS, Names, Panel};
use crate::error::Error;
use crate::report::table::metric;

impl Sweep {
    /// The plot, with this title.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub(crate) fn svg(&self, title: &str) -> Result<String, Error> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let most_size = points().map(|point| point.size).max().unwrap_or(2).max(2) as f64;
        let most_rate = points().map(|point| point.rate()).fold(1.0, f64::max) * 1.05;
        let powers = (0..=most_size.log2() as u32).step_by(2);
        let step = round(most_rate / 6.0);
        let rates = (0..).map(|nth| f64::from(nth) * step).take_while(|rate| *rate <= most_rate);
        let axes = [
            Axis {
                name: "bytes of a message",
                is_log: true,
                range: (1.0, most_size),
                ticks: powers.map(|power| f64::from(1u32 << power)).collect(),
                label: &|size| format!("{size:.0}"),
            },
            Axis {
                name: "",
                is_log: false,
                range: (0.0, most_rate),
                ticks: rates.collect(),
                label: &|rate| format!("{}B/s", metric(rate)),
            },
        ];
        let curves = self.curves.iter().zip(COLOURS).map(|(curve, colour)| drawn(curve, colour)).collect();
        let (title, names) = (title.to_owned(), Names::Box(SeriesLabelPosition::UpperLeft));
        let steps = self.curves.first().map(steps).unwrap_or_default();
        chart::svg("", &[vec![Panel { title, axes, curves, names, steps }]], (900, 530))
    }
}

/// The next larger number with one digit that is 1, 2 or 5.
fn round(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|round| *round >= number).unwrap_or(number)
}

/// The sizes that fill the frames of a driver, where one more frame begins.
fn steps(curve: &Curve) -> Vec<(f64, String)> {
    let words = |frames| if frames == 1 { "1 frame".to_owned() } else { format!("{frames}") };
    curve.behind(&R_INF).map(|point| (point.size as f64, words(point.frames))).collect()
}

fn drawn(curve: &Curve, colour: plotters::style::RGBColor) -> chart::Curve {
    let points = curve.points.iter().map(|point| (point.size as f64, point.rate())).collect();
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
    chart::Curve { name, colour, points, dots, bars: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_at_round_numbers() {
        assert_eq!([0.17, 0.9, 1.0, 110.0, 4.9e8].map(round), [0.2, 1.0, 1.0, 200.0, 5e8]);
    }
}
