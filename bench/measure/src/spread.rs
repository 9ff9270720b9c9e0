//! Medians and ranges over the rounds.

/// A figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Spread {
    /// `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let (least, most) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some(Spread { median: median(&values)?, least, most })
    }

    /// Half of the range of the rounds, in per cent of the median.
    pub fn per_cent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / 2.0 / self.median * 100.0 }
    }

    /// The ratio of two figures in the rounds that have both; each comes with its round. Its `median` is the ratio of the medians, which
    /// a table has; `least` and `most` are of the rounds' ratios.
    pub fn of_ratios(over: &[(usize, f64)], under: &[(usize, f64)]) -> Option<Spread> {
        let same_round = |round| under.iter().find(|(other, _)| *other == round).map(|(_, value)| *value);
        let pairs = over.iter().filter_map(|(round, value)| Some((*value, same_round(*round)?)));
        let (over, under): (Vec<f64>, Vec<f64>) = pairs.filter(|(over, under)| (over / under).is_finite()).unzip();
        let rounds = Spread::of(over.iter().zip(&under).map(|(over, under)| over / under))?;
        Some(Spread { median: median(&over)? / median(&under)?, ..rounds })
    }
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub fn median(of: &[f64]) -> Option<f64> {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The smallest and the largest of these over their mean; 1 of nothing.
pub fn shares(all: &[f64]) -> (f64, f64) {
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Spread::of(all.iter().map(|one| one / mean)).map_or((1.0, 1.0), |spread| (spread.least, spread.most))
}

/// The median of a figure of these.
pub fn median_of<T>(all: &[&T], figure: impl Fn(&T) -> f64) -> f64 {
    median(&all.iter().map(|one| figure(one)).collect::<Vec<_>>()).unwrap_or_default()
}

/// All with one key together, in the order of the first of each.
pub fn grouped<T, K: PartialEq>(all: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| key(group[0]) == key(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// The sample that this share of the others is below; `None` of nothing.
pub fn quantile(samples: &[u64], share: f64) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_medians_of_the_same_rounds() {
        let over = [(0, 11.0), (1, 20.0), (2, 10.0), (3, 90.0)];
        let under = [(0, 10.0), (1, 10.0), (2, 20.0), (4, 1.0)];
        let expected = Spread { median: 11.0 / 10.0, least: 0.5, most: 2.0 };
        assert_eq!(Spread::of_ratios(&over, &under), Some(expected));
        assert_eq!(Spread::of_ratios(&over[3..], &under), None);
        assert_eq!(
            Spread::of_ratios(&[(0, 1.0), (1, 2.0)], &[(0, 0.0), (1, 1.0)]).map(|ratio| ratio.median),
            Some(2.0)
        );
    }

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(
            [&[][..], &[3.0], &[9.0, 1.0, 2.0], &[4.0, 1.0, 2.0, 9.0]].map(median),
            [None, Some(3.0), Some(2.0), Some(3.0)]
        );
        let samples: Vec<u64> = (0..100).rev().collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| quantile(&samples, share)), [0, 50, 99, 99].map(Some));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
