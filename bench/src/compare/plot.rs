//! Time and bandwidth by size, on logarithmic axes. Each curve has its name at its end.

use super::families::FAMILIES;
use super::peer::Stream;
use super::rows::{Comparison, Row};
use super::table::short;
use crate::chart::{self, Axis, COLOURS, Curve, Names, Panel};
use crate::error::Error;
use crate::report::table::{metric, nanoseconds};

impl Comparison {
    /// The plot.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let plots = self.plots();
        let rows: Vec<Vec<Panel<'_>>> = plots.iter().map(|(title, rows)| self.panels(title, rows)).collect();
        chart::svg(&self.cable(), &rows, (780, 420))
    }

    /// The curves of each plot: one plot if there are colours for all rows, else one for each family.
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
    fn panels(&self, title: &str, rows: &[&Row]) -> Vec<Panel<'_>> {
        let title = |what: &str| if title.is_empty() { what.to_owned() } else { format!("{title}: {what}") };
        let time = |row: &Row, size: usize| Some(row.spread(|turn| turn.one_way(size)?.middle())?.median);
        let rate = |row: &Row, size: usize| Some(row.spread(|turn| turn.stream(size).map(Stream::bytes))?.median);
        vec![
            self.panel(title("one way, half of a round trip"), self.curves(rows, time), &|ns| {
                nanoseconds(ns.round() as u64)
            }),
            self.panel(title("bytes a second, one way"), self.curves(rows, rate), &|rate| {
                format!("{}B/s", metric(rate))
            }),
        ]
    }

    /// The curves of the rows that have figures. A row keeps its colour.
    fn curves(&self, rows: &[&Row], figure: impl Fn(&Row, usize) -> Option<f64>) -> Vec<Curve> {
        let points = |row: &Row| -> Vec<(f64, f64)> {
            let all = self.settings.sizes.iter().filter_map(|size| Some((*size as f64, figure(row, *size)?)));
            all.filter(|(size, value)| *size > 0.0 && *value > 0.0).collect()
        };
        let curves = rows.iter().zip(COLOURS).map(|(row, colour)| {
            let (name, dots, bars) = (row.name.to_owned(), Vec::new(), Vec::new());
            Curve { name, colour, points: points(row), dots, bars }
        });
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }

    fn panel<'a>(&self, title: String, curves: Vec<Curve>, label: &'a dyn Fn(f64) -> String) -> Panel<'a> {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let of =
            |axis: fn(&(f64, f64)) -> f64| points().map(axis).reduce(f64::min).zip(points().map(axis).reduce(f64::max));
        let (least, most) = of(|point| point.0).unwrap_or((1.0, 2.0));
        let sizes = (least, most.max(least * 2.0));
        // Whole decades.
        let (least, most) = of(|point| point.1).unwrap_or((1.0, 2.0));
        let (low, high) = (least.log10().floor() as i32, (most * 1.01).log10().ceil() as i32);
        let axes = [
            Axis {
                name: "size",
                is_log: true,
                range: sizes,
                ticks: self.settings.sizes.iter().map(|size| *size as f64).collect(),
                label: &|size| short(size.round() as usize).replace(" KiB", "K").replace(" MiB", "M"),
            },
            Axis {
                name: "",
                is_log: true,
                range: (10f64.powi(low), 10f64.powi(high)),
                ticks: (low..=high).map(|power| 10f64.powi(power)).collect(),
                label,
            },
        ];
        Panel { title, axes, curves, names: Names::AtEnds, steps: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::peers::chosen;
    use super::super::rows::tests::{comparison, row};
    use super::*;

    #[test]
    fn each_peer_has_a_named_line_in_both_panels() {
        let all = comparison(vec![row("am", &[1000.0]), row("udp", &[2000.0]), row("missing", &[])]);
        let svg = all.svg().unwrap();
        assert_eq!(colours(&svg).len(), 4, "{svg}");
        assert!(svg.contains("\nveth pair of MTU 1500: TSO on, GSO on, GRO off\n"), "{svg}");
        assert_eq!(["\nam\n", "\nudp\n", "missing"].map(|name| svg.matches(name).count()), [2, 2, 0], "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        let none = comparison(vec![row("missing", &[])]).svg().unwrap();
        assert!(none.ends_with("</svg>\n") && !none.contains("NaN"), "{none}");
    }

    /// Counted in the picture itself.
    #[test]
    fn of_all_peers_a_panel_has_six_to_eight_curves_each_of_its_own_colour() {
        let rows = chosen(&[], None).unwrap().iter().map(|peer| row(peer.name(), &[1000.0, 2000.0])).collect();
        let svg = comparison(rows).svg().unwrap();
        let panels: Vec<&str> = svg.split("one way").skip(1).collect();
        assert_eq!(panels.len(), 2 * FAMILIES.len());
        for panel in panels {
            let colours = colours(panel);
            assert!((6..=8).contains(&colours.len()), "{colours:?}");
            let once: BTreeSet<&str> = colours.iter().copied().collect();
            assert_eq!(once.len(), colours.len(), "two curves of one colour: {colours:?}");
            for colour in colours {
                // The labels of the axes are black too.
                let named =
                    panel.lines().any(|line| line.starts_with("<text") && line.contains(&format!("fill=\"{colour}\"")));
                assert!(named, "a curve without a name in its colour: {colour}");
            }
        }
    }

    /// The colours of the curves. Axes and meshes have thinner lines.
    fn colours(svg: &str) -> Vec<&str> {
        let curves = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains("stroke-width=\"2\""));
        curves.filter_map(|line| line.split('"').find(|part| part.starts_with('#'))).collect()
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
