//! Both curves of all peers as one picture: time one way, and bytes a second, by
//! size; all axes are of logarithms.

use super::peer::Stream;
use super::rows::{Comparison, Row};
use super::table::short;
use crate::report::table::{metric, nanoseconds};
use crate::svg::{begin, curve, escaped, rule, text};

const WIDTH: f64 = 1200.0;
const PANEL: f64 = 430.0;
const PANELS: [f64; 2] = [90.0, 660.0];
const TOP: f64 = 50.0;
const DEEP: f64 = 400.0;
const LINE: f64 = 17.0;

const COLOURS: [&str; 8] = ["#0b61a4", "#c4581b", "#2e7d32", "#6a3d9a", "#b0254f", "#00838f", "#7f6000", "#555555"];
/// Colours come again, drawn otherwise.
const DASHES: [&str; 3] = ["", "7 4", "2 3"];

/// One panel: sizes to the right, something upwards.
struct Paper {
    left: f64,
    sizes: (f64, f64),
    values: (f64, f64),
}

impl Paper {
    /// For all these values; `None` where there are none.
    fn of(left: f64, curves: &[Vec<(usize, f64)>]) -> Option<Paper> {
        let points = || curves.iter().flatten().filter(|(size, value)| *size > 0 && *value > 0.0);
        let range = |all: &[f64]| Some((all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?));
        let (least, most) = range(&points().map(|(size, _)| *size as f64).collect::<Vec<_>>())?;
        let sizes = (least, most.max(least * 2.0));
        let (least, most) = range(&points().map(|(_, value)| *value).collect::<Vec<_>>())?;
        // Whole decades, and never none.
        let values = (10f64.powf(least.log10().floor()), 10f64.powf((most * 1.01).log10().ceil()));
        Some(Paper { left, sizes, values })
    }

    fn x(&self, size: f64) -> f64 {
        self.left + (size / self.sizes.0).ln() / (self.sizes.1 / self.sizes.0).ln() * PANEL
    }

    fn y(&self, value: f64) -> f64 {
        TOP + DEEP - (value / self.values.0).ln() / (self.values.1 / self.values.0).ln() * DEEP
    }

    fn axes(&self, svg: &mut String, sizes: &[usize], label: fn(f64) -> String) {
        let mut value = self.values.0;
        while value <= self.values.1 * 1.001 {
            let y = self.y(value);
            rule(svg, (self.left, y), (self.left + PANEL, y), "stroke=\"#dddddd\"");
            text(svg, (self.left - 8.0, y + 4.0), "end", &label(value));
            value *= 10.0;
        }
        for size in sizes {
            let x = self.x(*size as f64);
            rule(svg, (x, TOP + DEEP), (x, TOP + DEEP + 5.0), "stroke=\"black\"");
            text(svg, (x, TOP + DEEP + 20.0), "middle", &short(*size));
        }
        rule(svg, (self.left, TOP + DEEP), (self.left + PANEL, TOP + DEEP), "stroke=\"black\"");
    }
}

impl Comparison {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| !row.turns.is_empty()).collect();
        let height = TOP + DEEP + 50.0 + LINE * rows.len().div_ceil(2) as f64 + 20.0;
        let mut svg = begin((WIDTH, height));
        let one_way = |row: &Row, size: usize| row.spread(|turn| turn.one_way(size)?.middle()).map(|one| one.median);
        let rate =
            |row: &Row, size: usize| row.spread(|turn| turn.stream(size).map(Stream::bytes)).map(|one| one.median);
        let (times, rates) = (self.curves(&rows, one_way), self.curves(&rows, rate));
        self.panel(&mut svg, PANELS[0], ("one way, half of a round trip, by size", &times), |ns| {
            nanoseconds(ns.round() as u64)
        });
        self.panel(&mut svg, PANELS[1], ("bytes a second, one way, by size", &rates), |rate| {
            format!("{}B/s", metric(rate))
        });
        for (nth, row) in rows.iter().enumerate() {
            legend(&mut svg, nth, row);
        }
        svg + "</svg>\n"
    }

    fn curves(&self, rows: &[&Row], figure: impl Fn(&Row, usize) -> Option<f64>) -> Vec<Vec<(usize, f64)>> {
        let curve =
            |row: &&Row| self.asked.sizes.iter().filter_map(|size| Some((*size, figure(row, *size)?))).collect();
        rows.iter().map(curve).collect()
    }

    fn panel(
        &self,
        svg: &mut String,
        left: f64,
        (title, curves): (&str, &[Vec<(usize, f64)>]),
        label: fn(f64) -> String,
    ) {
        let Some(paper) = Paper::of(left, curves) else { return };
        text(svg, (left, TOP - 22.0), "start", title);
        paper.axes(svg, &self.asked.sizes, label);
        for (nth, points) in curves.iter().enumerate() {
            let places = points.iter().filter(|(_, value)| *value > 0.0);
            curve(svg, places.map(|(size, value)| (paper.x(*size as f64), paper.y(*value))), &look(nth));
        }
    }
}

/// Colour and dashes, as what follows an attribute's opening quote.
fn look(nth: usize) -> String {
    let dashes = DASHES[nth / COLOURS.len() % DASHES.len()];
    format!("{}\" stroke-dasharray=\"{dashes}", COLOURS[nth % COLOURS.len()])
}

/// In two columns below the panels.
fn legend(svg: &mut String, nth: usize, row: &Row) {
    let (x, y) = (PANELS[nth % 2], TOP + DEEP + 55.0 + LINE * (nth / 2) as f64);
    let stroke = format!("stroke=\"{}\" stroke-width=\"2\"", look(nth));
    rule(svg, (x, y - 4.0), (x + 30.0, y - 4.0), &stroke);
    let words = format!("{} ({}): {}", row.name, row.mode(), row.what);
    text(svg, (x + 38.0, y), "start", &escaped(&words));
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{comparison, row};

    #[test]
    fn each_peer_has_a_line_in_both_panels() {
        let all = comparison(vec![row("am", &[1000.0]), row("udp", &[2000.0]), row("missing", &[])]);
        let svg = all.svg();
        assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
        assert!(svg.contains("udp (veth kernel): something") && !svg.contains("missing"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        let none = comparison(vec![row("missing", &[])]).svg();
        assert!(none.ends_with("</svg>\n") && !none.contains("NaN"), "{none}");
    }
}
