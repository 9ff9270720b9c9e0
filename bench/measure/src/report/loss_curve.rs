//! The plot of the retained rate over the share of lost frames.

use plotters::prelude::SeriesLabelPosition;

use super::columns::{bytes, metric};
use crate::chart::{self, Axis, COLOURS, Curve, Names, Panel};
use crate::error::Error;
use crate::plan::Bench;
use crate::stats::{Measured, Retained, retained};

/// Draw all measurements of a bench.
pub fn loss_curve(all: &[Measured], bench: Bench) -> Result<String, Error> {
    let mut retained = retained(all, bench);
    retained.sort_by_key(|retained| retained.loss);
    let mut losses: Vec<f64> = retained.iter().map(|retained| retained.loss.per_cent()).collect();
    losses.dedup();
    let (least, most) = (losses.iter().copied().fold(1.0, f64::min), losses.iter().copied().fold(1.0, f64::max));
    // A single loss is in the middle.
    let range = if least < most { (least, most) } else { (least / 10.0, most * 10.0) };
    let axes = [
        Axis {
            name: "frames lost, in each direction",
            is_log: true,
            range,
            ticks: losses,
            label: &|loss| format!("{} %", (loss * 1e4).round() / 1e4),
        },
        Axis {
            name: "",
            is_log: false,
            range: (0.0, 1.1),
            ticks: (0..=5).map(|fifths| f64::from(fifths) / 5.0).collect(),
            label: &|share| format!("{share:.1}"),
        },
    ];
    let mut sizes: Vec<usize> = retained.iter().map(|retained| retained.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let curves = sizes.iter().zip(COLOURS).map(|(size, colour)| {
        let its: Vec<&Retained> = retained.iter().filter(|retained| retained.size == *size).collect();
        let points: Vec<(f64, f64)> =
            its.iter().map(|retained| (retained.loss.per_cent(), retained.share.median.min(1.1))).collect();
        let bars = its
            .iter()
            .map(|retained| (retained.loss.per_cent(), retained.share.least.min(1.1), retained.share.most.min(1.1)));
        Curve { name: name(all, *size), colour, dots: points.clone(), points, bars: bars.collect() }
    });
    let mode = all.first().map_or("", |one| one.mode.as_str());
    let title = format!("{bench} when frames are lost, as a share of its rate without losses: {mode}");
    let names = Names::Box(SeriesLabelPosition::LowerLeft);
    chart::svg("", &[vec![Panel { title, axes, curves: curves.collect(), names, steps: Vec::new() }]], 900, 450)
}

/// The label of a curve, with the rate that stands for 1.
fn name(all: &[Measured], size: usize) -> String {
    let whole = all.iter().filter(|one| one.layout.size == size && one.loss.0 == 0).map(Measured::figure);
    let whole = crate::spread::median(&whole.collect::<Vec<_>>()).unwrap_or(0.0);
    format!("messages of {}; 1.0 is {}B/s; bars: all rounds", bytes(size), metric(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::loss::Loss;
    use crate::stats::measured;

    #[test]
    fn the_picture_has_a_dot_for_each_loss() {
        let with =
            |nth, loss, figure| Measured { loss: Loss(loss), ..measured(Bench::Bandwidth, nth, Driver::Am, 0, figure) };
        let all = [with(0, 0, 1000), with(1, 10, 990), with(2, 1000, 900), with(3, 10_000, 300)];
        let svg = loss_curve(&all, Bench::Bandwidth).unwrap();
        assert_eq!((svg.matches("stroke-width=\"2\"").count(), svg.matches("<circle").count()), (2, 3), "{svg}");
        assert!(svg.contains("0.01 %") && svg.contains("10 %") && svg.ends_with("</svg>\n"), "{svg}");
        for some in [&all[..2], &all[..1], &[]] {
            let svg = loss_curve(some, Bench::Bandwidth).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        }
    }
}
