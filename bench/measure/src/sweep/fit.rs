//! The three figures of Fast Messages' §4.1 from a curve: `t0`, the start-up time of a message; `r_inf`, the bandwidth
//! of infinitely long ones; `n1/2`, the size that reaches half of it.

use super::Point;

/// The three figures of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Model {
    /// Nanoseconds.
    pub(crate) t0: f64,
    /// Bytes a second.
    pub(crate) r_inf: f64,
    /// Bytes; `None` if no size reaches half of `r_inf`.
    pub(crate) n_half: Option<f64>,
}

impl Model {
    /// From a curve that is sorted by size.
    ///
    /// `t0` is the start of the [`line()`] through the sizes in one frame. The slope of that line is no bandwidth: within
    /// a frame a byte may cost next to nothing. So `r_inf` comes from messages that fill all of their frames, as
    /// infinitely long ones do, and `n1/2` is read off the curve.
    ///
    /// `None` if fewer than two sizes fit one frame, or none fills one.
    pub(crate) fn of(curve: &[Point]) -> Option<Model> {
        let of = |which: fn(&&Point) -> bool| curve.iter().filter(which).map(Point::size_and_time).collect::<Vec<_>>();
        let (t0, _) = line(&of(|point| point.frames == 1))?;
        let full = of(|point| point.full);
        // A start-up time is not negative; if the line's is, a line through the origin fits better.
        let per_byte = match line(&full) {
            Some((start, per_byte)) if start >= 0.0 && per_byte > 0.0 => per_byte,
            _ => through_origin(&full)?,
        };
        let r_inf = 1e9 / per_byte;
        Some(Model { t0, r_inf, n_half: size_of_rate(&of(|_| true), r_inf / 2.0) })
    }

    /// `n1/2` of a curve that is one line.
    pub(crate) fn product(&self) -> f64 {
        self.t0 * self.r_inf / 1e9
    }
}

/// The nanoseconds of an empty message and of each byte, by the line through these sizes and times with the least
/// squares of **relative** errors: a disturbance is a share of the time, and the longest message must not decide alone.
/// `None` of fewer than two sizes.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let [mut w, mut wx, mut wy, mut wxx, mut wxy] = [0.0; 5];
    for (x, y) in points {
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let determinant = w * wxx - wx * wx;
    let per_byte = (w * wxy - wx * wy) / determinant;
    let start = (wy - per_byte * wx) / w;
    // Of one size, the determinant is only rounding.
    (determinant > 1e-9 * w * wxx && start.is_finite()).then_some((start, per_byte))
}

fn through_origin(points: &[(f64, f64)]) -> Option<f64> {
    let shares: Vec<f64> = points.iter().map(|(size, ns)| size / ns).collect();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / squares)
}

/// The smallest size that reaches this rate, by sizes and times. Between two sizes, times are interpolated.
pub fn size_of_rate(curve: &[(f64, f64)], rate: f64) -> Option<f64> {
    let per_ns = rate / 1e9;
    let at = curve.iter().position(|(size, ns)| size / ns >= per_ns)?;
    let (size, ns) = curve[at];
    let Some((below, ns_below)) = at.checked_sub(1).map(|below| curve[below]) else { return Some(size) };
    if below == size {
        return Some(size);
    }
    let slope = (ns - ns_below) / (size - below);
    let between = per_ns * (ns_below - below * slope) / (1.0 - per_ns * slope);
    Some(between.clamp(below, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 1500;

    /// The sizes of a sweep, with the times of `time`.
    fn curve(time: impl Fn(usize) -> f64) -> Vec<Point> {
        let mut sizes: Vec<usize> = (0..=16).map(|power| 1 << power).collect();
        sizes.extend([1, 2, 4, 8, 16].iter().flat_map(|k| [k * FRAME, k * FRAME + 1]));
        sizes.sort_unstable();
        let point = |size: usize| {
            let (frames, full) = (size.div_ceil(FRAME), size.is_multiple_of(FRAME));
            Point { size, frames, full, ns: time(size), frames_per_s: 0.0, lost: 0 }
        };
        sizes.into_iter().map(point).collect()
    }

    fn near(value: f64, expected: f64, share: f64) -> bool {
        (value / expected - 1.0).abs() < share
    }

    /// As on the paper's Myrinet, where every packet was one frame.
    #[test]
    fn a_straight_line_gives_back_what_it_is_made_of() {
        // 4.1 µs and 21.4 MB/s.
        let model = Model::of(&curve(|size| 4100.0 + size as f64 * 1e3 / 21.4)).unwrap();
        assert!(near(model.t0, 4100.0, 1e-6) && near(model.r_inf, 21.4e6, 1e-6), "{model:?}");
        assert!(near(model.n_half.unwrap(), model.product(), 1e-6), "{model:?}");
        assert!(near(model.product(), 87.74, 1e-4), "{model:?}");
    }

    /// As on Ethernet: each frame has a start-up time, and a byte costs little.
    #[test]
    fn steps_are_in_the_asymptote_and_not_in_the_start() {
        let frame = |size: usize| 1600.0 + size as f64 * 0.3;
        let time = |size: usize| {
            let (full, rest) = (size / FRAME, size % FRAME);
            full as f64 * frame(FRAME) + if rest > 0 { frame(rest) } else { 0.0 }
        };
        let model = Model::of(&curve(time)).unwrap();
        let r_inf = FRAME as f64 * 1e9 / frame(FRAME);
        assert!(near(model.t0, 1600.0, 1e-6) && near(model.r_inf, r_inf, 1e-6), "{model:?}");
        // Half of it is reached within the first frame: n = r/2 * (1600 + 0.3 n).
        let half = r_inf / 2e9;
        assert!(near(model.n_half.unwrap(), half * 1600.0 / (1.0 - half * 0.3), 1e-6), "{model:?}");
    }
    #[test]
    fn what_says_nothing_gives_nothing() {
        assert_eq!(Model::of(&[]), None);
        let all = curve(|size| 1000.0 + size as f64);
        assert_eq!(Model::of(&all[..1]), None, "one size");
        assert_eq!(Model::of(&all[..3]), None, "none fills a frame");
        assert_eq!(line(&[all[3].size_and_time(); 2]), None, "twice the same size");
    }
    #[test]
    fn half_of_the_asymptote_may_never_be_reached_or_at_once() {
        let all: Vec<_> = curve(|size| 1000.0 + size as f64).iter().map(Point::size_and_time).collect();
        assert_eq!(size_of_rate(&all, 2e9), None);
        assert_eq!(size_of_rate(&all, 1.0), Some(1.0));
    }
}
