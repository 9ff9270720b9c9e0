//! Time one way and bytes a second by size, a plot a family; all axes are of logarithms. Each
//! curve has its name at its end.

use super::families::FAMILIES;
use super::labels::{Label, place};
use super::peer::Stream;
use super::rows::{Comparison, Row};
use super::table::short;
use crate::report::table::{metric, nanoseconds};
use crate::svg::{begin, coloured, dot_of, escaped, rule, styled, text};

const WIDTH: f64 = 1420.0;
const PANEL: f64 = 380.0;
const PANELS: [f64; 2] = [90.0, 780.0];
const HEAD: f64 = 22.0;
/// Of a plot: its title, and that of a panel, above the panel; the sizes below it.
const ABOVE: f64 = 62.0;
const DEEP: f64 = 300.0;
const BELOW: f64 = 50.0;

/// Of the curves of one plot, which are as many at most.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#7a5230"];

/// Sizes, and something of each.
type Points = Vec<(usize, f64)>;

/// A row's curve, with its colour.
struct Curve<'a> {
    row: &'a Row,
    colour: &'static str,
    points: Points,
}

/// One panel: sizes to the right, something upwards.
struct Paper {
    left: f64,
    top: f64,
    sizes: (f64, f64),
    values: (f64, f64),
}

impl Paper {
    /// For all these values; `None` where there are none.
    fn of((left, top): (f64, f64), curves: &[Curve<'_>]) -> Option<Paper> {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let range = |all: &[f64]| Some((all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?));
        let (least, most) = range(&points().map(|(size, _)| *size as f64).collect::<Vec<_>>())?;
        let sizes = (least, most.max(least * 2.0));
        let (least, most) = range(&points().map(|(_, value)| *value).collect::<Vec<_>>())?;
        // Whole decades, and never none.
        let values = (10f64.powf(least.log10().floor()), 10f64.powf((most * 1.01).log10().ceil()));
        Some(Paper { left, top, sizes, values })
    }

    fn x(&self, size: f64) -> f64 {
        self.left + (size / self.sizes.0).ln() / (self.sizes.1 / self.sizes.0).ln() * PANEL
    }

    fn y(&self, value: f64) -> f64 {
        self.top + DEEP - (value / self.values.0).ln() / (self.values.1 / self.values.0).ln() * DEEP
    }

    fn at(&self, (size, value): (usize, f64)) -> (f64, f64) {
        (self.x(size as f64), self.y(value))
    }

    fn axes(&self, svg: &mut String, sizes: &[usize], label: fn(f64) -> String) {
        let mut value = self.values.0;
        while value <= self.values.1 * 1.001 {
            let y = self.y(value);
            rule(svg, (self.left, y), (self.left + PANEL, y), "stroke=\"#dddddd\"");
            text(svg, (self.left - 8.0, y + 4.0), "end", &label(value));
            value *= 10.0;
        }
        let bottom = self.top + DEEP;
        for size in sizes {
            let x = self.x(*size as f64);
            rule(svg, (x, bottom), (x, bottom + 5.0), "stroke=\"black\"");
            text(svg, (x, bottom + 20.0), "middle", &tick(*size));
        }
        rule(svg, (self.left, bottom), (self.left + PANEL, bottom), "stroke=\"black\"");
    }
}

/// A size in so few characters that it does not touch the next.
fn tick(size: usize) -> String {
    short(size).replace(" KiB", "K").replace(" MiB", "M")
}

impl Comparison {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let plots = self.plots();
        let height = HEAD + 18.0 + plots.len() as f64 * (ABOVE + DEEP + BELOW);
        let mut svg = begin((WIDTH, height));
        text(&mut svg, (PANELS[0], HEAD), "start", &escaped(&self.cable()));
        for (nth, (title, rows)) in plots.iter().enumerate() {
            let top = HEAD + 18.0 + nth as f64 * (ABOVE + DEEP + BELOW);
            text(&mut svg, (PANELS[0], top + 16.0), "start", &escaped(title));
            self.plot(&mut svg, top + ABOVE, rows);
        }
        svg + "</svg>\n"
    }

    /// What is drawn together: all that was measured where it is no more than there are colours, else a plot a family.
    fn plots(&self) -> Vec<(&'static str, Vec<&Row>)> {
        let measured: Vec<&Row> = self.rows.iter().filter(|row| !row.turns.is_empty()).collect();
        if measured.len() <= COLOURS.len() {
            return vec![("", measured)];
        }
        let members = |names: &[&str]| measured.iter().copied().filter(|row| names.contains(&row.name)).collect();
        let plots = FAMILIES.iter().map(|family| (family.title, members(family.members)));
        plots.filter(|(_, rows): &(_, Vec<&Row>)| !rows.is_empty()).collect()
    }

    /// Two panels side by side, in the same colours.
    fn plot(&self, svg: &mut String, top: f64, rows: &[&Row]) {
        let one_way = |row: &Row, size: usize| row.spread(|turn| turn.one_way(size)?.middle()).map(|one| one.median);
        let rate =
            |row: &Row, size: usize| row.spread(|turn| turn.stream(size).map(Stream::bytes)).map(|one| one.median);
        let (times, rates) = (self.curves(rows, one_way), self.curves(rows, rate));
        self.panel(svg, (PANELS[0], top), ("one way, half of a round trip, by size", &times), |ns| {
            nanoseconds(ns.round() as u64)
        });
        self.panel(svg, (PANELS[1], top), ("bytes a second, one way, by size", &rates), |rate| {
            format!("{}B/s", metric(rate))
        });
    }

    /// Those of the rows that have anything to draw; a colour stays its row's.
    fn curves<'a>(&self, rows: &[&'a Row], figure: impl Fn(&Row, usize) -> Option<f64>) -> Vec<Curve<'a>> {
        let points = |row: &Row| -> Points {
            let all = self.asked.sizes.iter().filter_map(|size| Some((*size, figure(row, *size)?)));
            all.filter(|(size, value)| *size > 0 && *value > 0.0).collect()
        };
        let curves = rows.iter().zip(COLOURS).map(|(row, colour)| Curve { row, colour, points: points(row) });
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }

    fn panel(
        &self,
        svg: &mut String,
        (left, top): (f64, f64),
        (title, curves): (&str, &[Curve<'_>]),
        label: fn(f64) -> String,
    ) {
        let Some(paper) = Paper::of((left, top), curves) else { return };
        text(svg, (left, top - 14.0), "start", title);
        paper.axes(svg, &self.asked.sizes, label);
        let mut labels = Vec::new();
        for curve in curves {
            let look = format!("stroke=\"{}\" stroke-width=\"2\"", curve.colour);
            styled(svg, curve.points.iter().map(|point| paper.at(*point)), &look);
            let Some(end) = curve.points.last().map(|point| paper.at(*point)) else { continue };
            dot_of(svg, end, 3.0, curve.colour);
            labels.push(Label { end, y: end.1, name: curve.row.name, colour: curve.colour });
        }
        for Label { end, y, name, colour } in place(labels, (top, top + DEEP)) {
            let x = end.0 + 26.0;
            rule(svg, (end.0 + 4.0, end.1), (x - 3.0, y), &format!("stroke=\"{colour}\" stroke-width=\"0.7\""));
            coloured(svg, (x, y + 4.0), colour, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::peers::chosen;
    use super::super::rows::tests::{comparison, row};
    use super::*;

    #[test]
    fn each_peer_has_a_named_line_in_both_panels() {
        let all = comparison(vec![row("am", &[1000.0]), row("udp", &[2000.0]), row("missing", &[])]);
        let svg = all.svg();
        assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
        assert!(svg.contains(">veth pair of MTU 1500: TSO on, GSO on, GRO off<"), "{svg}");
        assert_eq!([">am<", ">udp<", "missing"].map(|name| svg.matches(name).count()), [2, 2, 0], "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        let none = comparison(vec![row("missing", &[])]).svg();
        assert!(none.ends_with("</svg>\n") && !none.contains("NaN"), "{none}");
    }

    /// Counted in the picture itself.
    #[test]
    fn of_all_peers_a_panel_has_six_to_eight_curves_each_of_its_own_colour() {
        let rows = chosen(&[], None).unwrap().iter().map(|peer| row(peer.name(), &[1000.0, 2000.0])).collect();
        let svg = comparison(rows).svg();
        let panels: Vec<&str> = svg.split("by size</text>").skip(1).collect();
        assert_eq!(panels.len(), 2 * FAMILIES.len());
        for panel in panels {
            let colours: Vec<&str> = panel.lines().filter(|line| line.starts_with("<polyline")).map(stroke).collect();
            let names: HashMap<&str, &str> =
                panel.lines().filter_map(|line| Some((named(line)?, stroke(line)))).collect();
            assert!((6..=8).contains(&colours.len()), "{colours:?}");
            let mut once = colours.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), colours.len(), "two curves of one colour: {colours:?}");
            let mut labelled: Vec<&str> = names.into_values().collect();
            labelled.sort_unstable();
            assert_eq!(labelled, once, "each has its label, in its colour");
        }
    }

    /// The colour of a line or of words.
    fn stroke(line: &str) -> &str {
        let colour = line.split(['"']).find(|part| part.starts_with('#'));
        colour.unwrap_or("none")
    }

    /// What a label says.
    fn named(line: &str) -> Option<&str> {
        line.strip_prefix("<text class=\"label\"")?.split(['<', '>']).nth(1)
    }

    #[test]
    fn few_peers_are_in_one_plot() {
        let of = |names: &[&'static str]| comparison(names.iter().map(|name| row(name, &[1000.0])).collect());
        assert_eq!(of(&["am", "tcp", "ucx-tcp"]).plots().len(), 1);
        let nine = ["am", "am-bundles", "raw", "udp", "tcp", "ucx-tcp", "fi-tcp", "am-shm", "ucx-shm"];
        let all = of(&nine);
        let sizes: Vec<usize> = all.plots().iter().map(|(_, rows)| rows.len()).collect();
        assert_eq!(sizes, [4, 1, 1, 3, 2], "those without a row are left out");
    }
}
