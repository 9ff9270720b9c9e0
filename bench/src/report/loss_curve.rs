//! What is kept of the rate over the share of frames that is lost: a picture.

use crate::plan::Bench;
use crate::stats::{Kept, Measured, kept};
use crate::svg::{begin, curve, dot, escaped, rule, text};

use super::table::{bytes, metric};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 110.0;

const COLOURS: [&str; 4] = ["#0b61a4", "#c4581b", "#2e7d32", "#6a3d9a"];

/// Where shares are on the paper: those lost by their logarithm.
struct Paper {
    least: f64,
    most: f64,
}

impl Paper {
    fn of(kept: &[Kept]) -> Paper {
        let all = || kept.iter().map(|kept| kept.loss.per_cent());
        let (least, most) = (all().fold(1.0, f64::min), all().fold(1.0, f64::max));
        // One loss alone stands in the middle.
        if least < most { Paper { least, most } } else { Paper { least: least / 10.0, most: most * 10.0 } }
    }

    fn x(&self, per_cent: f64) -> f64 {
        LEFT + (per_cent / self.least).ln() / (self.most / self.least).ln() * (WIDTH - LEFT - RIGHT)
    }

    fn y(share: f64) -> f64 {
        HEIGHT - BOTTOM - share.clamp(0.0, 1.1) / 1.1 * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture of all that was measured.
pub(crate) fn loss_curve(all: &[Measured], bench: Bench) -> String {
    let kept = kept(all, bench);
    let paper = Paper::of(&kept);
    let mode = all.first().map_or("", |one| one.mode.as_str());
    let mut svg = begin((WIDTH, HEIGHT));
    let title = format!("{bench} where frames are lost, of its rate where none is: {mode}");
    text(&mut svg, (LEFT, TOP - 22.0), "start", &escaped(&title));
    axes(&mut svg, &paper, &kept);
    let mut sizes: Vec<usize> = kept.iter().map(|kept| kept.size).collect();
    sizes.dedup();
    for (nth, size) in sizes.into_iter().enumerate() {
        let its: Vec<&Kept> = kept.iter().filter(|kept| kept.size == size).collect();
        draw(&mut svg, &paper, &its, (nth, &name(all, size)));
    }
    svg + "</svg>\n"
}

fn axes(svg: &mut String, paper: &Paper, kept: &[Kept]) {
    for tenths in (0..=10).step_by(2) {
        let share = f64::from(tenths) / 10.0;
        let y = Paper::y(share);
        rule(svg, (LEFT, y), (WIDTH - RIGHT, y), "stroke=\"#dddddd\"");
        text(svg, (LEFT - 8.0, y + 4.0), "end", &format!("{share:.1}"));
    }
    let bottom = Paper::y(0.0);
    rule(svg, (LEFT, bottom), (WIDTH - RIGHT, bottom), "stroke=\"black\"");
    let mut losses: Vec<_> = kept.iter().map(|kept| kept.loss).collect();
    losses.sort_unstable();
    losses.dedup();
    for loss in losses {
        let x = paper.x(loss.per_cent());
        rule(svg, (x, bottom), (x, bottom + 5.0), "stroke=\"black\"");
        text(svg, (x, bottom + 20.0), "middle", &loss.to_string());
    }
    text(svg, ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 38.0), "middle", "frames lost, in each direction");
}

/// The curve, with what the rounds ranged over.
fn draw(svg: &mut String, paper: &Paper, its: &[&Kept], (nth, name): (usize, &str)) {
    let colour = COLOURS[nth % COLOURS.len()];
    let mut points: Vec<(f64, &Kept)> = its.iter().map(|kept| (paper.x(kept.loss.per_cent()), *kept)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    curve(svg, points.iter().map(|(x, kept)| (*x, Paper::y(kept.median))), colour);
    for (x, kept) in &points {
        let ends = [kept.range.0, kept.range.1].map(|share| (*x, Paper::y(share)));
        rule(svg, ends[0], ends[1], &format!("stroke=\"{colour}\""));
        dot(svg, (*x, Paper::y(kept.median)), colour);
    }
    let y = HEIGHT - BOTTOM + 62.0 + 17.0 * nth as f64;
    rule(svg, (LEFT, y - 4.0), (LEFT + 24.0, y - 4.0), &format!("stroke=\"{colour}\" stroke-width=\"2\""));
    text(svg, (LEFT + 32.0, y), "start", name);
}

/// Of what the curve is, with the rate that is 1.
fn name(all: &[Measured], size: usize) -> String {
    let whole = all.iter().filter(|one| one.cut.size == size && one.loss.0 == 0).map(Measured::figure);
    let whole = crate::stats::median(&whole.collect::<Vec<_>>()).unwrap_or(0.0);
    format!("{} in one piece; 1.0 is {}B/s; bars: all rounds", bytes(size), metric(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;
    use crate::stats::tests::measured;
    use crate::via::Via;

    #[test]
    fn the_picture_has_a_dot_for_each_loss() {
        let with =
            |nth, loss, figure| Measured { loss: Loss(loss), ..measured(Bench::Bandwidth, nth, Via::Am, 0, figure) };
        let all = [with(0, 0, 1000), with(1, 10, 990), with(2, 1000, 900), with(3, 10_000, 300)];
        let svg = loss_curve(&all, Bench::Bandwidth);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (1, 3), "{svg}");
        assert!(svg.contains("0.01 %") && svg.contains("10 %") && svg.ends_with("</svg>\n"), "{svg}");
        for some in [&all[..2], &all[..1], &[]] {
            let svg = loss_curve(some, Bench::Bandwidth);
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        }
    }
}
