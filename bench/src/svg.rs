//! What pictures are made of: lines and words, as SVG by hand
//! (docs/decisions, "The three figures of a curve").

use std::fmt::Write;

/// The start of a picture of this size, white. Writing to a string cannot fail, here and below.
pub(crate) fn begin((width, height): (f64, f64)) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

/// Words at a place: `anchor` is `start`, `middle` or `end`.
pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

/// A straight line.
pub(crate) fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64), look: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {look}/>");
}

/// A line through these places.
pub(crate) fn curve(svg: &mut String, places: impl Iterator<Item = (f64, f64)>, colour: &str) {
    styled(svg, places, &format!("stroke=\"{colour}\" stroke-width=\"2\""));
}

/// A line through these places that looks so.
pub(crate) fn styled(svg: &mut String, places: impl Iterator<Item = (f64, f64)>, look: &str) {
    let line: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline points=\"{}\" fill=\"none\" {look}/>", line.join(" "));
}

/// The name of a curve in its colour, legible where it stands on another.
pub(crate) fn coloured(svg: &mut String, (x, y): (f64, f64), colour: &str, words: &str) {
    let look = format!("fill=\"{colour}\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\"");
    let _ = writeln!(svg, "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\" {look}>{words}</text>");
}

/// A dot.
pub(crate) fn dot(svg: &mut String, at: (f64, f64), colour: &str) {
    dot_of(svg, at, 5.0, colour);
}

/// A dot of this radius.
pub(crate) fn dot_of(svg: &mut String, (x, y): (f64, f64), radius: f64, colour: &str) {
    let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>");
}

/// What a file's name or a mode may hold and SVG may not.
pub(crate) fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
