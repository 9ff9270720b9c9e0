//! Both curves of all peers as one picture: time one way, and bytes a second, by
//! size; all axes are of logarithms.

use super::peer::Stream;
use super::rows::{Comparison, Row};
use super::table::short;
use crate::report::table::{metric, nanoseconds};
use crate::svg::{begin, escaped, rule, styled, text};

const WIDTH: f64 = 1200.0;
const PANEL: f64 = 430.0;
const PANELS: [f64; 2] = [90.0, 660.0];
const HEAD: f64 = 16.0;
const TOP: f64 = 64.0;
const DEEP: f64 = 400.0;
const LINE: f64 = 17.0;

/// One a family: ours, the kernel's, each program's.
const COLOURS: [&str; 10] =
    ["#0b61a4", "#c4581b", "#2e7d32", "#6a3d9a", "#b0254f", "#00838f", "#7f6000", "#777777", "#d81b9a", "#000000"];
/// Within a family.
const DASHES: [&str; 6] = ["", "8 4", "2 3", "9 3 2 3", "4 2", "1 5"];
const COLUMNS: usize = 3;

/// Sizes, and something of each.
type Points = Vec<(usize, f64)>;

/// One panel: sizes to the right, something upwards.
struct Paper {
    left: f64,
    sizes: (f64, f64),
    values: (f64, f64),
}

impl Paper {
    /// For all these values; `None` where there are none.
    fn of(left: f64, curves: &[(Points, String)]) -> Option<Paper> {
        let points = || curves.iter().flat_map(|(points, _)| points).filter(|(size, value)| *size > 0 && *value > 0.0);
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
        let height = TOP + DEEP + 50.0 + LINE * rows.len().div_ceil(COLUMNS) as f64 + 20.0;
        let mut svg = begin((WIDTH, height));
        text(&mut svg, (PANELS[0], HEAD), "start", &escaped(&self.cable()));
        let one_way = |row: &Row, size: usize| row.spread(|turn| turn.one_way(size)?.middle()).map(|one| one.median);
        let rate =
            |row: &Row, size: usize| row.spread(|turn| turn.stream(size).map(Stream::bytes)).map(|one| one.median);
        let (times, rates) = (self.curves(&rows, one_way), self.curves(&rows, rate));
        let looks = looks(&rows);
        let all = |curves: Vec<Points>| curves.into_iter().zip(looks.clone()).collect::<Vec<_>>();
        self.panel(&mut svg, PANELS[0], ("one way, half of a round trip, by size", &all(times)), |ns| {
            nanoseconds(ns.round() as u64)
        });
        self.panel(&mut svg, PANELS[1], ("bytes a second, one way, by size", &all(rates)), |rate| {
            format!("{}B/s", metric(rate))
        });
        for (nth, (row, look)) in rows.iter().zip(&looks).enumerate() {
            legend(&mut svg, nth, (row, look));
        }
        svg + "</svg>\n"
    }

    fn curves(&self, rows: &[&Row], figure: impl Fn(&Row, usize) -> Option<f64>) -> Vec<Points> {
        let curve =
            |row: &&Row| self.asked.sizes.iter().filter_map(|size| Some((*size, figure(row, *size)?))).collect();
        rows.iter().map(curve).collect()
    }

    fn panel(
        &self,
        svg: &mut String,
        left: f64,
        (title, curves): (&str, &[(Points, String)]),
        label: fn(f64) -> String,
    ) {
        let Some(paper) = Paper::of(left, curves) else { return };
        text(svg, (left, TOP - 22.0), "start", title);
        paper.axes(svg, &self.asked.sizes, label);
        for (points, look) in curves {
            let places = points.iter().filter(|(_, value)| *value > 0.0);
            styled(svg, places.map(|(size, value)| (paper.x(*size as f64), paper.y(*value))), look);
        }
    }
}

/// A row's family: what its name begins with.
fn family(row: &Row) -> &'static str {
    row.name.split('-').next().unwrap_or_default()
}

/// How each line is drawn: families by colour, ours thicker.
fn looks(rows: &[&Row]) -> Vec<String> {
    let mut families: Vec<(&'static str, usize)> = Vec::new();
    let look = |row: &&Row| {
        let nth = families.iter().position(|(name, _)| *name == family(row)).unwrap_or_else(|| {
            families.push((family(row), 0));
            families.len() - 1
        });
        let (name, members) = &mut families[nth];
        *members += 1;
        let (colour, dashes) = (COLOURS[nth % COLOURS.len()], DASHES[(*members - 1) % DASHES.len()]);
        let width = if *name == "am" { 3 } else { 2 };
        format!("stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"")
    };
    rows.iter().map(look).collect()
}

/// In columns below the panels.
fn legend(svg: &mut String, nth: usize, (row, look): (&Row, &str)) {
    let x = PANELS[0] + (nth % COLUMNS) as f64 * (WIDTH - PANELS[0]) / COLUMNS as f64;
    let y = TOP + DEEP + 55.0 + LINE * (nth / COLUMNS) as f64;
    rule(svg, (x, y - 4.0), (x + 40.0, y - 4.0), look);
    let (wire, mode) = (row.wire, row.mode());
    let way = if mode.contains(wire) { mode.to_owned() } else { format!("{wire}, {mode}") };
    text(svg, (x + 48.0, y), "start", &escaped(&format!("{} ({way})", row.name)));
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{comparison, row};

    #[test]
    fn each_peer_has_a_line_in_both_panels() {
        let all = comparison(vec![row("am", &[1000.0]), row("udp", &[2000.0]), row("missing", &[])]);
        let svg = all.svg();
        assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
        assert!(svg.contains(">veth pair of MTU 1500: TSO on, GSO on, GRO off<"), "{svg}");
        assert!(svg.contains(">udp (veth kernel)<") && !svg.contains("missing"), "{svg}");
        assert_eq!(svg.matches("stroke-width=\"3\"").count(), 3, "ours, twice and in the legend: {svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        let none = comparison(vec![row("missing", &[])]).svg();
        assert!(none.ends_with("</svg>\n") && !none.contains("NaN"), "{none}");
    }
}
