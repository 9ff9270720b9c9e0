//! Plots of stacked bars in groups, as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::Error;

use super::{COLOURS, Drawn, FONT, MESH_COLOUR};

/// Parts on each other, from the bottom up. A part that is not positive is left out.
pub struct Bar {
    /// The name of each, and its height.
    pub parts: Vec<(&'static str, f64)>,
}

/// Bars side by side, with a name below them, which may have two lines.
pub struct Group {
    /// Below the group.
    pub name: String,
    /// From the left.
    pub bars: Vec<Bar>,
}

/// The least width, that of a group, and the height.
const MIN_WIDTH: u32 = 900;
const GROUP_WIDTH: u32 = 80;
const HEIGHT: u32 = 480;
const LINE_HEIGHT: i32 = 17;

/// The plot. Parts of one name have one colour.
pub fn svg(title: &str, groups: &[Group]) -> Result<String, Error> {
    let mut text = String::new();
    draw(&mut text, title, groups).map_err(|why| Error::Facility(format!("the plot: {why}")))?;
    Ok(text)
}

fn draw(text: &mut String, title: &str, groups: &[Group]) -> Drawn {
    let area =
        SVGBackend::with_string(text, (MIN_WIDTH.max(GROUP_WIDTH * groups.len() as u32), HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let heights =
        groups.iter().flat_map(|group| &group.bars).map(|bar| bar.parts.iter().map(|part| part.1.max(0.0)).sum());
    let most = heights.fold(0.1, f64::max) * 1.3;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, FONT)
        .margin(15)
        .set_label_area_size(LabelAreaPosition::Left, 60)
        .set_label_area_size(LabelAreaPosition::Bottom, 45)
        .build_cartesian_2d(0.0..groups.len().max(1) as f64, 0.0..most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .max_light_lines(0)
        .bold_line_style(MESH_COLOUR)
        .label_style(FONT)
        .draw()?;
    for (name, colour) in part_names(groups).into_iter().zip(COLOURS) {
        let its = groups.iter().enumerate().flat_map(|(nth, group)| boxes(nth as f64, group, name));
        let drawn = chart.draw_series(its.map(|ends| Rectangle::new(ends, colour.filled())))?;
        drawn.label(name).legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(FONT)
        .draw()?;
    let style = FONT.into_text_style(&area).pos(Pos::new(HPos::Center, VPos::Top));
    for (nth, group) in groups.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(nth as f64 + 0.5, 0.0));
        for (line, height) in group.name.lines().zip((y + 8..).step_by(LINE_HEIGHT as usize)) {
            area.draw(&Text::new(line, (x, height), style.clone()))?;
        }
    }
    area.present()?;
    Ok(())
}

/// The names of all parts, each once.
fn part_names(groups: &[Group]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.bars).flat_map(|bar| &bar.parts) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
}

/// The boxes of the parts of this name in the nth group: two corners each.
fn boxes(nth: f64, group: &Group, name: &str) -> Vec<[(f64, f64); 2]> {
    // A fifth of the width stays free on both sides.
    let width = 0.6 / group.bars.len().max(1) as f64;
    let mut boxes = Vec::new();
    for (bar, left) in group.bars.iter().zip((0..).map(|bar| nth + 0.2 + f64::from(bar) * width)) {
        let mut bottom = 0.0;
        for (part, height) in &bar.parts {
            let top = bottom + height.max(0.0);
            if *part == name && top > bottom {
                boxes.push([(left, bottom), (left + width * 0.92, top)]);
            }
            bottom = top;
        }
    }
    boxes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_on_each_other_and_negative_ones_are_left_out() {
        let parts = vec![("os", 2.0), ("l", -1.0), ("or", 3.0)];
        let group = Group { name: "am".to_owned(), bars: vec![Bar { parts }, Bar { parts: vec![("g", 4.0)] }] };
        let ends =
            |name| boxes(1.0, &group, name).iter().map(|[(_, low), (_, high)]| (*low, *high)).collect::<Vec<_>>();
        assert_eq!(
            [ends("os"), ends("l"), ends("or"), ends("g")],
            [vec![(0.0, 2.0)], vec![], vec![(2.0, 5.0)], vec![(0.0, 4.0)]]
        );
        let svg = svg("title", &[group]).unwrap();
        // The background, three parts, and four in the legend.
        assert!(svg.matches("<rect").count() >= 7 && svg.contains("\nam\n"), "{svg}");
    }
}
