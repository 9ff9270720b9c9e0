//! The plots: time and bytes a second over size, as figures 2 to 5 of the paper, and the transform over the slaves, as figures 6 and 7.

use am_measure::Error;
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Names, Panel, Vertical};
use am_measure::report::{Cell, bytes, metric};

use crate::measured::{Figure, Figures, Work};
use crate::route::{Route, Way};

impl Figures {
    /// All panels, as SVG.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let (size, count) = (|size: f64| bytes(size as usize), |count: f64| format!("{count}"));
        let sizes: Vec<f64> = self.sizes.iter().map(|size| *size as f64).collect();
        let slaves: Vec<f64> = self.slaves.iter().map(|slaves| *slaves as f64).collect();
        let (time, rate, times) =
            (|ns| Cell::Time(ns).print(), |rate| metric(rate) + "B/s", |ratio| Cell::Times(ratio).print());
        let by_size = || Horizontal("bytes of a message", sizes.clone(), &size);
        let by_slaves = || Horizontal("slaves", slaves.clone(), &count);
        let work = |size: f64| Work::pair(Way::Psend, size as usize);
        let panel = |title: &str, curves, x, y| Panel::new(title.to_owned(), curves, Names::AtEnds, x, y);
        let pair = vec![
            panel(
                "psend, precv: half of a round trip, p50",
                self.curves(&sizes, |route, size| self.figure(route, &work(size), Figure::Time)),
                by_size(),
                Vertical::Decades(&time),
            ),
            panel(
                "psend, precv: bytes a second, one way",
                self.curves(&sizes, |route, size| self.bytes_per_s(route, &work(size))),
                by_size(),
                Vertical::Decades(&rate),
            ),
        ];
        let transform = vec![
            panel(
                "Fourier transform of 1152 x 1152 numbers: time",
                self.curves(&slaves, |route, slaves| {
                    self.figure(route, &self.transform(slaves as usize)?, Figure::Time)
                }),
                by_slaves(),
                Vertical::Decades(&time),
            ),
            panel(
                "Fourier transform: times as fast as with one slave",
                self.curves(&slaves, |route, slaves| self.speed_up(route, slaves as usize)),
                by_slaves(),
                Vertical::Decades(&times),
            ),
        ];
        let rows = if slaves.is_empty() { vec![pair] } else { vec![pair, transform] };
        chart::svg(&format!("{}, by its own routes and by active messages", self.version), &rows, 700, 450)
    }

    fn curves(&self, places: &[f64], value: impl Fn(Route, f64) -> Option<f64>) -> Vec<Curve> {
        let curves = Route::ALL.into_iter().zip(COLOURS).map(|(route, colour)| {
            Curve::line(route.name(), colour, places.iter().filter_map(|place| Some((*place, value(route, *place)?))))
        });
        curves.collect()
    }
}
