//! Plots, as SVG: curves over a logarithmic axis, and bars in groups.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
pub use plotters::prelude::{RGBColor, SeriesLabelPosition};
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
/// Bars: the least width of a plot, that of a group, the height, and the height of a line below a group.
const MIN_WIDTH: u32 = 900;
const GROUP_WIDTH: u32 = 80;
const HEIGHT: u32 = 480;
const LINE_HEIGHT: usize = 17;

/// The text of a value on an axis.
pub type Label<'a> = &'a dyn Fn(f64) -> String;

/// One axis, linear or logarithmic.
#[derive(Clone)]
struct Axis<'a> {
    /// Empty for a vertical axis.
    name: &'a str,
    is_log: bool,
    range: (f64, f64),
    /// The values that have labels.
    ticks: Vec<f64>,
    label: Label<'a>,
}

/// A horizontal axis: its title, the values that have labels, and their texts. It is logarithmic.
pub struct Horizontal<'a>(pub &'a str, pub Vec<f64>, pub Label<'a>);

/// A vertical axis, and the texts of its values.
pub enum Vertical<'a> {
    /// Whole decades. What is not positive has no place there.
    Decades(Label<'a>),
    /// Linear, from 0 to this value at least.
    FromZero(f64, Label<'a>),
}

impl<'a> Vertical<'a> {
    /// The axis for values between these.
    fn axis(self, least: f64, most: f64) -> Axis<'a> {
        match self {
            Vertical::Decades(label) => {
                let (low, high) = decades(least, most);
                let ticks = (low..=high).map(|power| 10f64.powi(power)).collect();
                Axis { name: "", is_log: true, range: (10f64.powi(low), 10f64.powi(high.max(low + 1))), ticks, label }
            }
            Vertical::FromZero(at_least, label) => {
                let most = most.max(at_least) * 1.05;
                let step = round(most / 6.0);
                let ticks = (0..).map(|nth| f64::from(nth) * step).take_while(|value| *value <= most).collect();
                Axis { name: "", is_log: false, range: (0.0, most), ticks, label }
            }
        }
    }
}

/// The powers of ten below and above.
fn decades(least: f64, most: f64) -> (i32, i32) {
    (least.log10().floor() as i32, (most * 1.01).log10().ceil() as i32)
}

/// The next larger number with one digit that is 1, 2 or 5.
fn round(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|round| *round >= number).unwrap_or(number)
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
    /// Of the line, the dots, the bars and the boxes.
    pub colour: RGBColor,
    /// Joined by lines.
    pub points: Vec<(f64, f64)>,
    /// Marked places.
    pub dots: Vec<(f64, f64)>,
    /// Vertical bars: x, from, to.
    pub bars: Vec<(f64, f64, f64)>,
    /// Filled boxes: two corners each.
    pub boxes: Vec<[(f64, f64); 2]>,
}

impl Curve {
    /// A line without dots and bars.
    pub fn line(name: impl Into<String>, colour: RGBColor, points: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        let points = points.into_iter().collect();
        Curve { name: name.into(), colour, points, dots: vec![], bars: vec![], boxes: vec![] }
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
    title: String,
    axes: [Axis<'a>; 2],
    curves: Vec<Curve>,
    names: Names,
    /// Marked places of the horizontal axis, and their labels.
    pub steps: Vec<(f64, String)>,
    /// Names below the horizontal axis, each in the middle of its part; with several lines.
    groups: Vec<String>,
}

/// A group of bars side by side, with a name below them, which may have two lines. A bar has named parts on each other, from
/// the bottom up; one that is not positive is left out.
pub type Group = (String, Vec<Vec<(&'static str, f64)>>);

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

/// The plot of groups of bars. Parts of one name have one colour.
pub fn bars(title: &str, groups: &[Group]) -> Result<String, Error> {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in groups.iter().flat_map(|(_, bars)| bars).flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let heights = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.iter().map(|part| part.1.max(0.0)).sum());
    let most = heights.fold(0.1, f64::max) * 1.25;
    let curves = names.into_iter().zip(COLOURS).map(|(name, colour)| {
        let boxes = groups.iter().enumerate().flat_map(|(nth, (_, bars))| boxes(nth as f64, bars, name)).collect();
        Curve { boxes, ..Curve::line(name, colour, []) }
    });
    let label: Label<'_> = &|height| format!("{}", (height * 1e4).round() / 1e4);
    let across = Axis { name: "", is_log: false, range: (0.0, groups.len().max(1) as f64), ticks: vec![], label };
    let (axes, names) =
        ([across, Vertical::FromZero(most, label).axis(0.0, most)], Names::Box(SeriesLabelPosition::UpperLeft));
    let groups: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    let width = MIN_WIDTH.max(GROUP_WIDTH * groups.len() as u32);
    let panel = Panel { title: title.to_owned(), axes, curves: curves.collect(), names, steps: vec![], groups };
    svg("", &[vec![panel]], width, HEIGHT)
}

/// A row of a plot: a dot, and a bar from there. Its name stands below it, and may have several lines.
pub struct Bar {
    /// Rows of one series have one colour.
    pub series: &'static str,
    /// Of the row.
    pub name: String,
    /// The dot.
    pub from: f64,
    /// The end of the bar.
    pub to: f64,
}

/// The plot of rows side by side, over whole decades.
pub fn ranges(title: &str, rows: &[Bar], label: Label<'_>) -> Result<String, Error> {
    let mut series: Vec<&'static str> = rows.iter().map(|row| row.series).collect();
    series.dedup();
    let curves = series.into_iter().zip(COLOURS).map(|(name, colour)| {
        let its = (0..).zip(rows).filter(|(_, row)| row.series == name);
        let its: Vec<(f64, &Bar)> = its.map(|(nth, row)| (f64::from(nth) + 0.5, row)).collect();
        let bars = its.iter().map(|(at, row)| (*at, row.from, row.to)).collect();
        let dots = its.iter().map(|(at, row)| (*at, row.from)).collect();
        Curve { bars, dots, ..Curve::line(name, colour, []) }
    });
    let ends = || rows.iter().flat_map(|row| [row.from, row.to]);
    let (least, most) = ends().reduce(f64::min).zip(ends().reduce(f64::max)).unwrap_or((1.0, 2.0));
    let across = Axis { name: "", is_log: false, range: (0.0, rows.len().max(1) as f64), ticks: vec![], label };
    let axes = [across, Vertical::Decades(label).axis(least, most)];
    let (names, groups) =
        (Names::Box(SeriesLabelPosition::UpperLeft), rows.iter().map(|row| row.name.clone()).collect());
    let width = MIN_WIDTH.max(GROUP_WIDTH * rows.len() as u32);
    let panel = Panel { title: title.to_owned(), axes, curves: curves.collect(), names, steps: vec![], groups };
    svg("", &[vec![panel]], width, HEIGHT)
}

/// The boxes of the parts of this name in the nth group.
fn boxes(nth: f64, bars: &[Vec<(&'static str, f64)>], name: &str) -> Vec<[(f64, f64); 2]> {
    // A fifth of the width stays free on both sides.
    let width = 0.6 / bars.len().max(1) as f64;
    let mut boxes = Vec::new();
    for (bar, left) in bars.iter().zip((0..).map(|bar| nth + 0.2 + f64::from(bar) * width)) {
        let mut bottom = 0.0;
        for (part, height) in bar {
            let top = bottom + height.max(0.0);
            if *part == name && top > bottom {
                boxes.push([(left, bottom), (left + width * 0.92, top)]);
            }
            bottom = top;
        }
    }
    boxes
}

impl<'a> Panel<'a> {
    /// These curves, those without points left out; each axis spans their points.
    pub fn new(title: String, mut curves: Vec<Curve>, names: Names, x: Horizontal<'a>, y: Vertical<'a>) -> Panel<'a> {
        if matches!(y, Vertical::Decades(_)) {
            curves.iter_mut().for_each(|curve| curve.points.retain(|(x, y)| *x > 0.0 && *y > 0.0));
        }
        curves.retain(|curve| !curve.points.is_empty());
        let ((left, right), (least, most)) = (span(&curves, |point| point.0), span(&curves, |point| point.1));
        let (Horizontal(name, ticks, label), range) = (x, (left, right.max(left * 2.0)));
        let ticks = ticks.into_iter().filter(|tick| (range.0..=range.1).contains(tick)).collect();
        let axes = [Axis { name, is_log: true, range, ticks, label }, y.axis(least, most)];
        Panel { title, axes, curves, names, steps: vec![], groups: vec![] }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let [x, y] = &self.axes;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, FONT)
            .margin(15)
            .margin_right(if matches!(self.names, Names::AtEnds) { 210 } else { 30 })
            .set_label_area_size(LabelAreaPosition::Left, 75)
            .set_label_area_size(LabelAreaPosition::Bottom, self.space_below())
            .build_cartesian_2d(x.clone(), y.clone())?;
        let (of_x, of_y) = (|at: &f64| (x.label)(*at), |at: &f64| (y.label)(*at));
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().bold_line_style(MESH_COLOUR).x_desc(x.name).label_style(FONT);
        mesh.x_label_formatter(&of_x).y_label_formatter(&of_y);
        mesh.draw()?;
        self.mark_steps(area, &mut chart)?;
        let style = FONT.into_text_style(area).pos(Pos::new(HPos::Center, VPos::Top));
        for (nth, name) in self.groups.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(nth as f64 + 0.5, y.range.0));
            let (left, above) = area.get_base_pixel();
            for (line, height) in name.lines().zip((y - above + 8..).step_by(LINE_HEIGHT)) {
                area.draw(&Text::new(line, (x - left, height), style.clone()))?;
            }
        }
        let mut ends = Vec::new();
        for curve in &self.curves {
            let (style, points) = (curve.colour.stroke_width(2), curve.points.iter().copied());
            if !curve.boxes.is_empty() {
                let colour = curve.colour.filled();
                let drawn = chart.draw_series(curve.boxes.iter().map(|ends| Rectangle::new(*ends, colour)))?;
                let mark = move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour);
                drawn.label(curve.name.as_str()).legend(mark);
                continue;
            }
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

    /// For labels, or for the lines of names.
    fn space_below(&self) -> u32 {
        let lines = self.groups.iter().map(|name| name.lines().count()).max().unwrap_or(0);
        45.max((LINE_HEIGHT * lines + 10) as u32)
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
    fn axes_have_round_ends() {
        assert_eq!(decades(0.11, 53.0), (-1, 2));
        assert_eq!(decades(1.0, 10.0), (0, 2), "nothing lies on the edge");
        assert_eq!([0.17, 0.9, 1.0, 110.0, 4.9e8].map(round), [0.2, 1.0, 1.0, 200.0, 5e8]);
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

    #[test]
    fn parts_stand_on_each_other_and_negative_ones_are_left_out() {
        let all = vec![vec![("os", 2.0), ("l", -1.0), ("or", 3.0)], vec![("g", 4.0)]];
        let ends = |name| boxes(1.0, &all, name).iter().map(|[(_, low), (_, high)]| (*low, *high)).collect::<Vec<_>>();
        assert_eq!([ends("os"), ends("l"), ends("or")], [vec![(0.0, 2.0)], vec![], vec![(2.0, 5.0)]]);
        let svg = bars("title", &[("am".to_owned(), all)]).unwrap();
        // The background, three parts, and three in the legend.
        assert!(svg.matches("<rect").count() >= 7 && svg.contains("\nam\n"), "{svg}");
    }

    #[test]
    fn a_row_has_a_dot_a_bar_and_its_name() {
        let row = |series, name: &str, from, to| Bar { series, name: name.to_owned(), from, to };
        let rows = [
            row("group", "message\nsafe", 10.0, 20.0),
            row("objects", "read", 0.1, 0.2),
            row("objects", "write", 9.0, 9.5),
        ];
        let svg = ranges("title", &rows, &|value| format!("{value} ns")).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        for text in ["message", "safe", "read", "write", "group", "objects", "100 ns"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
    }
}
