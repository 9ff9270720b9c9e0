//! The picture: the phases by size over each transport, and the memory copies.

use am_measure::chart::{self, COLOURS, Curve, Horizontal, Label, Names, Panel, SeriesLabelPosition, Vertical};
use am_measure::error::Error;
use am_measure::report::columns::metric;
use am_measure::spread::{median, quantile};

use super::copies::{self, Kind};
use super::report::PHASES;
use super::{Cache, Part, Phases};

impl Phases {
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut panels: Vec<Panel<'_>> = self.parts.iter().map(Part::panel).collect();
        panels.push(self.copies_panel());
        let mut rows = vec![];
        while !panels.is_empty() {
            rows.push(panels.drain(..panels.len().min(2)).collect());
        }
        chart::svg("phases of a Directed Point message, and memory copies; medians", &rows, 620, 420)
    }

    fn copies_panel(&self) -> Panel<'_> {
        let curve = |(kind, colour): (Kind, _)| {
            let point = |size: usize| Some((size as f64, median(self.copies.of(kind, size))?));
            Curve::line(kind.name(), colour, copies::SIZES.into_iter().filter_map(point))
        };
        let curves: Vec<Curve> = Kind::ALL.into_iter().zip(COLOURS).map(curve).collect();
        let title = "memory copies by size: bytes a second".to_owned();
        panel(title, curves, SeriesLabelPosition::LowerRight, &|rate| format!("{}B/s", metric(rate)))
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
        let drawn = curves.into_iter().filter_map(|(name, points)| Some(Curve::line(name, colours.next()?, points)));
        let title = format!("over {}, {}: time by size; a negative transfer is left out", self.transport, self.mode);
        panel(title, drawn.collect(), SeriesLabelPosition::UpperLeft, &|time| format!("{time} µs"))
    }
}

fn panel<'a>(title: String, curves: Vec<Curve>, corner: SeriesLabelPosition, label: Label<'a>) -> Panel<'a> {
    let powers = (0..=18).step_by(2).map(|power| f64::from(1u32 << power)).collect();
    let x = Horizontal("bytes", powers, &|size| format!("{size:.0}"));
    Panel::new(title, curves, Names::Box(corner), x, Vertical::Decades(label))
}
