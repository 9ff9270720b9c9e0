//! Where the names of curves stand: at their ends, and none on another.

/// The name of a curve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label<'a> {
    /// Where the curve ends.
    pub(super) end: (f64, f64),
    /// Where the name is, from above.
    pub(super) y: f64,
    pub(super) name: &'a str,
    pub(super) colour: &'static str,
}

/// From one name to the next below it.
const APART: f64 = 15.0;
/// Of a letter, at most.
const LETTER: f64 = 8.0;

impl Label<'_> {
    /// Whether they would stand on each other, were they as high.
    fn meets(&self, other: &Label<'_>) -> bool {
        let (left, right) = (self.end.0, self.end.0 + LETTER * self.name.len() as f64);
        other.end.0 <= right && left <= other.end.0 + LETTER * other.name.len() as f64
    }
}

/// Each as near to its curve's end as the others let it, within these heights.
pub(super) fn place(mut labels: Vec<Label<'_>>, (top, bottom): (f64, f64)) -> Vec<Label<'_>> {
    labels.sort_by(|one, other| one.end.1.total_cmp(&other.end.1));
    for nth in 0..labels.len() {
        let (above, rest) = labels.split_at_mut(nth);
        let least = above.iter().filter(|label| label.meets(&rest[0])).map(|label| label.y + APART);
        rest[0].y = least.fold(rest[0].end.1.max(top), f64::max);
    }
    // What went too far down pushes those above it up again.
    for nth in (0..labels.len()).rev() {
        let (rest, below) = labels.split_at_mut(nth + 1);
        let most = below.iter().filter(|label| label.meets(&rest[nth])).map(|label| label.y - APART);
        rest[nth].y = most.fold(rest[nth].y.min(bottom), f64::min);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ends: &[(f64, f64)]) -> Vec<Label<'static>> {
        ends.iter().map(|end| Label { end: *end, y: end.1, name: "am-bundles", colour: "#000000" }).collect()
    }

    #[test]
    fn no_two_names_are_on_each_other() {
        for ends in [vec![(100.0, 50.0); 8], vec![(100.0, 299.0); 8], (0..8).map(|at| (100.0, f64::from(at))).collect()]
        {
            let placed = place(labels(&ends), (0.0, 300.0));
            let apart = placed.windows(2).all(|two| two[1].y - two[0].y >= APART - 1e-9);
            assert!(apart && placed.iter().all(|label| (0.0..=300.0).contains(&label.y)), "{placed:?}");
        }
    }

    #[test]
    fn who_has_room_stays_at_its_end() {
        for ends in [[(100.0, 50.0), (100.0, 70.0)], [(100.0, 50.0), (400.0, 50.0)]] {
            assert!(place(labels(&ends), (0.0, 300.0)).iter().all(|label| label.y == label.end.1));
        }
    }
}
