//! The plot of the retained rate over the share of lost frames.

use std::collections::BTreeSet;

use super::columns::{bytes, metric};
use crate::chart::{self, COLOURS, Curve, Horizontal, Names, Panel, SeriesLabelPosition, Vertical};
use crate::error::Error;
use crate::plan::Bench;
use crate::stats::{Measured, retained};

/// Draw all measurements of a bench.
pub fn loss_curve(all: &[Measured], bench: Bench) -> Result<String, Error> {
    let mut retained = retained(all, bench);
    retained.sort_by_key(|retained| retained.loss);
    let mut losses: Vec<f64> = retained.iter().map(|retained| retained.loss.per_cent()).collect();
    losses.dedup();
    let sizes: BTreeSet<usize> = retained.iter().map(|retained| retained.size).collect();
    let curves = sizes.iter().zip(COLOURS).map(|(size, colour)| {
        let its = || retained.iter().filter(|retained| retained.size == *size);
        let mut line = Curve::line(name(all, *size), colour, its().map(|of| (of.loss.per_cent(), of.share.of_all)));
        line.bars = its().map(|of| (of.loss.per_cent(), of.share.rounds.least, of.share.rounds.most)).collect();
        line.dots.clone_from(&line.points);
        line
    });
    let mode = all.first().map_or("", |one| one.mode.as_str());
    let title = format!("{bench} when frames are lost, as a share of its rate without losses: {mode}");
    let per_cent = |loss: f64| format!("{} %", (loss * 1e4).round() / 1e4);
    let x = Horizontal("frames lost, in each direction", losses, &per_cent);
    let (y, names) =
        (Vertical::FromZero(1.0, &|share| format!("{share:.1}")), Names::Box(SeriesLabelPosition::LowerLeft));
    chart::svg("", &[vec![Panel::new(title, curves.collect(), names, x, y)]], 900, 450)
}

/// The label of a curve, with the rate that stands for 1.
fn name(all: &[Measured], size: usize) -> String {
    let whole = all.iter().filter(|one| one.layout.size == size && one.loss.0 == 0).map(Measured::figure);
    let whole = crate::spread::median(&whole.collect::<Vec<_>>()).unwrap_or(0.0);
    format!("messages of {}; 1.0 is {}B/s; bars: all rounds", bytes(size), metric(whole))
}
