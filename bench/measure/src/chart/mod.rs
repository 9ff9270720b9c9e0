//! Plots of curves, as SVG; `bars` has those of bars.

pub mod bars;

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::Error;

/// One for each curve of a panel; a panel has no more curves.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(122, 82, 48),
];

const MESH_COLOUR: RGBColor = RGBColor(221, 221, 221);
const FONT: (&str, u32) = ("sans-serif", 16);
/// The least distance between the names at the ends of curves.
const MIN_NAME_DISTANCE: i32 = 15;

/// One axis, linear or logarithmic.
#[derive(Clone)]
pub struct Axis<'a> {
    /// Its title; empty for a vertical axis.
    pub name: &'a str,
    /// Whether the axis is logarithmic.
    pub is_log: bool,
    /// The values at its ends.
    pub range: (f64, f64),
    /// The values that have labels.
    pub ticks: Vec<f64>,
    /// The text of a tick.
    pub label: &'a dyn Fn(f64) -> String,
}

impl<'a> Axis<'a> {
    /// A vertical axis of whole decades around these values.
    pub fn decades(least: f64, most: f64, label: &'a dyn Fn(f64) -> String) -> Axis<'a> {
        let (low, high) = decades(least, most);
        let ticks = (low..=high).map(|power| 10f64.powi(power)).collect();
        Axis { name: "", is_log: true, range: (10f64.powi(low), 10f64.powi(high.max(low + 1))), ticks, label }
    }
}

/// The powers of ten below and above.
fn decades(least: f64, most: f64) -> (i32, i32) {
    (least.log10().floor() as i32, (most * 1.01).log10().ceil() as i32)
}

/// The least and the greatest value of these curves' points, on one axis; 1 and 2 where there are none.
fn span(curves: &[Curve], axis: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = || curves.iter().flat_map(|curve| &curve.points).map(axis);
    values().reduce(f64::min).zip(values().reduce(f64::max)).unwrap_or((1.0, 2.0))
}

impl Ranged for Axis<'_> {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let on = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (on(*value) - on(self.range.0)) / (on(self.range.1) - on(self.range.0));
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.0..self.range.1
    }
}

/// A curve.
pub struct Curve {
    /// In the legend.
    pub name: String,
    /// Of the line, the dots and the bars.
    pub colour: RGBColor,
    /// Joined by lines.
    pub points: Vec<(f64, f64)>,
    /// Marked places.
    pub dots: Vec<(f64, f64)>,
    /// Vertical bars: x, from, to.
    pub bars: Vec<(f64, f64, f64)>,
}

impl Curve {
    /// A line without dots and bars.
    pub fn line(name: impl Into<String>, colour: RGBColor, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.into(), colour, points, dots: vec![], bars: vec![] }
    }
}

/// Where the names of curves are.
pub enum Names {
    /// Beside the last point of each.
    AtEnds,
    /// In a box in a corner.
    Box(SeriesLabelPosition),
}

/// Curves with the same axes.
pub struct Panel<'a> {
    /// Above the panel.
    pub title: String,
    /// The horizontal axis, then the vertical one.
    pub axes: [Axis<'a>; 2],
    /// At most as many as there are [`COLOURS`].
    pub curves: Vec<Curve>,
    /// Where the curves have their names.
    pub names: Names,
    /// Marked places of the horizontal axis, and their labels.
    pub steps: Vec<(f64, String)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, 'c> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis<'c>, Axis<'c>>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The plot: rows of panels of this width and height, and a title above them.
pub fn svg(title: &str, rows: &[Vec<Panel<'_>>], width: u32, height: u32) -> Result<String, Error> {
    let mut text = String::new();
    draw(&mut text, title, rows, width, height).map_err(|why| Error::Facility(format!("the plot: {why}")))?;
    Ok(text)
}

fn draw(text: &mut String, title: &str, rows: &[Vec<Panel<'_>>], width: u32, height: u32) -> Drawn {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(1);
    let size = (width * columns as u32, height * rows.len().max(1) as u32 + 30);
    let all = SVGBackend::with_string(text, size).into_drawing_area();
    all.fill(&WHITE)?;
    let below = if title.is_empty() { all.clone() } else { all.titled(title, FONT)? };
    for (area, panel) in below.split_evenly((rows.len().max(1), columns)).iter().zip(rows.iter().flatten()) {
        panel.draw(area)?;
    }
    all.present()?;
    Ok(())
}

impl<'a> Panel<'a> {
    /// Curves over the logarithms of size and value, which have these labels. What is not positive has no place there.
    pub fn by_size(
        title: String,
        mut curves: Vec<Curve>,
        names: Names,
        sizes: Vec<f64>,
        size: &'a dyn Fn(f64) -> String,
        value: &'a dyn Fn(f64) -> String,
    ) -> Panel<'a> {
        curves.iter_mut().for_each(|curve| curve.points.retain(|(size, value)| *size > 0.0 && *value > 0.0));
        curves.retain(|curve| !curve.points.is_empty());
        let (smallest, largest) = span(&curves, |point| point.0);
        let (least, most) = span(&curves, |point| point.1);
        let (name, range) = ("bytes", (smallest, largest.max(smallest * 2.0)));
        let axes = [Axis { name, is_log: true, range, ticks: sizes, label: size }, Axis::decades(least, most, value)];
        Panel { title, axes, curves, names, steps: vec![] }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let [x, y] = &self.axes;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, FONT)
            .margin(15)
            .margin_right(if matches!(self.names, Names::AtEnds) { 210 } else { 30 })
            .set_label_area_size(LabelAreaPosition::Left, 75)
            .set_label_area_size(LabelAreaPosition::Bottom, 45)
            .build_cartesian_2d(x.clone(), y.clone())?;
        let (of_x, of_y) = (|at: &f64| (x.label)(*at), |at: &f64| (y.label)(*at));
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().bold_line_style(MESH_COLOUR).x_desc(x.name).label_style(FONT);
        mesh.x_label_formatter(&of_x).y_label_formatter(&of_y);
        mesh.draw()?;
        self.mark_steps(area, &mut chart)?;
        let mut ends = Vec::new();
        for curve in &self.curves {
            let (style, points) = (curve.colour.stroke_width(2), curve.points.iter().copied());
            let drawn = chart.draw_series(LineSeries::new(points, style))?;
            if matches!(self.names, Names::Box(_)) {
                let line = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style);
                drawn.label(curve.name.as_str()).legend(line);
            }
            let bars = curve.bars.iter().map(|(x, from, to)| [(*x, *from), (*x, *to)]);
            chart.draw_series(bars.map(|ends| PathElement::new(ends, curve.colour)))?;
            chart.draw_series(curve.dots.iter().map(|dot| Circle::new(*dot, 4, curve.colour.filled())))?;
            let end = curve.points.last().map(|end| chart.plotting_area().map_coordinate(end));
            ends.extend(end.map(|end| (end, curve)));
        }
        if let Names::Box(corner) = &self.names {
            let mut labels = chart.configure_series_labels();
            labels.position(corner.clone()).background_style(WHITE.mix(0.8)).label_font(FONT).draw()?;
            return Ok(());
        }
        let (_, heights) = chart.plotting_area().get_pixel_range();
        name_ends(area, ends, (heights.start, heights.end))
    }

    fn mark_steps(&self, area: &Area<'_>, chart: &mut Chart<'_, '_, '_>) -> Drawn {
        let (low, high) = self.axes[1].range;
        for (step, what) in &self.steps {
            let ends = [(*step, low), (*step, high)];
            chart.draw_series(DashedLineSeries::new(ends, 3, 4, RGBColor(153, 153, 153).into()))?;
            let style = FONT.into_text_style(area).pos(Pos::new(HPos::Center, VPos::Top));
            chart.draw_series([Text::new(what.clone(), ends[1], style)])?;
        }
        Ok(())
    }
}

/// Write the name of each curve beside its end, so that no two overlap.
fn name_ends(area: &Area<'_>, mut ends: Vec<((i32, i32), &Curve)>, (top, bottom): (i32, i32)) -> Drawn {
    ends.sort_by_key(|((_, y), _)| *y);
    let heights = apart(&ends.iter().map(|((_, y), _)| *y).collect::<Vec<_>>(), (top, bottom));
    let (left, above) = area.get_base_pixel();
    for (((x, y), curve), height) in ends.iter().zip(heights) {
        let (end, beside) = ((x - left + 3, y - above), (x - left + 22, height - above));
        area.draw(&PathElement::new([end, beside], curve.colour))?;
        let style = FONT.into_text_style(area).color(&curve.colour).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(curve.name.as_str(), (beside.0 + 3, beside.1), style))?;
    }
    Ok(())
}

/// Move heights apart, each as little as possible. They are sorted from the top.
fn apart(heights: &[i32], (top, bottom): (i32, i32)) -> Vec<i32> {
    let mut placed: Vec<i32> = Vec::new();
    for height in heights {
        placed.push(placed.last().map_or(top, |above| above + MIN_NAME_DISTANCE).max(*height));
    }
    // Move those that are below the bottom up again.
    let mut most = bottom;
    for height in placed.iter_mut().rev() {
        *height = most.min(*height);
        most = *height - MIN_NAME_DISTANCE;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_decades_hold_all_values() {
        assert_eq!(decades(0.11, 53.0), (-1, 2));
        assert_eq!(decades(1.0, 10.0), (0, 2), "nothing lies on the edge");
    }

    #[test]
    fn no_two_names_are_on_each_other() {
        for heights in [vec![50; 8], vec![299; 8], (0..8).collect(), vec![10, 200, 201]] {
            let placed = apart(&heights, (0, 300));
            assert!(placed.windows(2).all(|two| two[1] - two[0] >= MIN_NAME_DISTANCE), "{placed:?}");
            assert!(placed.iter().all(|height| (0..=300).contains(height)), "{placed:?}");
        }
        assert_eq!(apart(&[50, 70], (0, 300)), [50, 70]);
    }
}
