//! The picture: the phases by size over each transport, and the memory copies.

use plotters::prelude::SeriesLabelPosition;

use crate::chart::{self, Axis, COLOURS, Curve, Names, Panel};
use crate::error::Error;
use crate::report::table::metric;
use crate::stats::median;

use super::copies::{self, Kind};
use super::report::PHASES;
use super::{Cache, Part, Phases, quantile};

/// Pixels of a panel.
const PANEL: (u32, u32) = (620, 420);

impl Phases {
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut panels: Vec<Panel<'_>> = self.parts.iter().map(Part::panel).collect();
        panels.push(self.copies_panel());
        let mut rows = vec![];
        while !panels.is_empty() {
            rows.push(panels.drain(..panels.len().min(2)).collect());
        }
        chart::svg("phases of a Directed Point message, and memory copies; medians", &rows, PANEL)
    }

    fn copies_panel(&self) -> Panel<'_> {
        let curve = |(kind, colour): (Kind, _)| {
            let point = |size: usize| Some((size as f64, median(self.copies.of(kind, size))?));
            let points = copies::SIZES.into_iter().filter_map(point).collect();
            Curve { name: kind.name().to_owned(), colour, points, dots: vec![], bars: vec![] }
        };
        let curves: Vec<Curve> = Kind::ALL.into_iter().zip(COLOURS).map(curve).collect();
        let title = "memory copies by size: bytes a second".to_owned();
        panel(title, curves, SeriesLabelPosition::UpperLeft, &|rate| format!("{}B/s", metric(rate)))
    }
}

impl Part {
    fn panel(&self) -> Panel<'_> {
        let mut colours = COLOURS.into_iter();
        let mut curves = vec![];
        for (name, of) in [PHASES[0], PHASES[1]] {
            for cache in Cache::BOTH {
                let points = self.messages.iter().filter_map(|messages| {
                    let all = messages.all(|round| of(round, cache));
                    Some((messages.size as f64, quantile(&all, 0.5)? as f64 / 1e3))
                });
                curves.push((format!("{name}, {}", cache.name()), points.collect::<Vec<_>>()));
            }
        }
        let transfer =
            self.messages.iter().filter_map(|messages| Some((messages.size as f64, messages.transfer()?.median / 1e3)));
        curves.push(("transfer".to_owned(), transfer.collect()));
        let drawn = curves.into_iter().filter_map(|(name, points)| {
            Some(Curve { name, colour: colours.next()?, points, dots: vec![], bars: vec![] })
        });
        let title = format!("over {}, {}: µs by size", self.transport, self.mode);
        panel(title, drawn.collect(), SeriesLabelPosition::UpperLeft, &|time| format!("{time:.0} µs"))
    }
}

/// A panel over the logarithm of the size. Times and rates begin at zero, or below where a transfer does.
fn panel<'a>(
    title: String,
    curves: Vec<Curve>,
    corner: SeriesLabelPosition,
    label: &'a dyn Fn(f64) -> String,
) -> Panel<'a> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let of = |axis: fn(&(f64, f64)) -> f64, pick: fn(f64, f64) -> f64| points().map(axis).reduce(pick);
    let (least_size, most_size) =
        (of(|point| point.0, f64::min).unwrap_or(1.0), of(|point| point.0, f64::max).unwrap_or(2.0));
    let (least, most) = (of(|point| point.1, f64::min).unwrap_or(0.0), of(|point| point.1, f64::max).unwrap_or(1.0));
    let step = chart_step((most - least.min(0.0)).max(1.0) / 6.0);
    let low = (least.min(0.0) / step).floor() * step;
    let high = (most / step).ceil().max(1.0) * step;
    let ticks = (0..).map(|nth| low + f64::from(nth) * step).take_while(|value| *value <= high * 1.001);
    let axes = [
        Axis {
            name: "bytes",
            is_log: true,
            range: (least_size, most_size.max(least_size * 2.0)),
            ticks: (0..=18)
                .step_by(2)
                .map(|power| f64::from(1u32 << power))
                .filter(|size| *size >= least_size && *size <= most_size)
                .collect(),
            label: &|size| format!("{size:.0}"),
        },
        Axis { name: "", is_log: false, range: (low, high), ticks: ticks.collect(), label },
    ];
    Panel { title, axes, curves, names: Names::Box(corner), steps: vec![] }
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn chart_step(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].map(|digit| digit * power).into_iter().find(|step| *step >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::phases;
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!([0.7, 1.0, 1.1, 3.0, 7.0].map(chart_step), [1.0, 1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn there_is_a_panel_for_each_transport_and_one_for_copies() {
        let svg = phases().svg().unwrap();
        for word in ["over shm, shared memory", "send, warm", "receive, cold", "transfer", "memory to memory"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains("NaN") && svg.ends_with("</svg>\n"));
    }
}
