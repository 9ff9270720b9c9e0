//! Frames that are lost on purpose.

use std::fmt;
use std::str::FromStr;

/// A share of frames, in thousandths of a per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loss(pub(crate) u16);

impl Loss {
    /// Nothing is lost on purpose.
    pub const NONE: Loss = Loss(0);

    /// Thousandths of a per cent in the whole.
    const ALL: u64 = 100_000;

    pub(crate) fn per_cent(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// Whether a random number of 32 bits selects its frame to be lost.
    #[inline]
    pub(crate) fn selects(self, drawn: u32) -> bool {
        u64::from(drawn) * Self::ALL < u64::from(self.0) << 32
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.per_cent())
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Loss, String> {
        let per_cent = per_cent(text).filter(|per_cent| (0.001..=50.0).contains(per_cent));
        let loss = per_cent.map(|per_cent| Loss((per_cent * 1e3).round() as u16));
        loss.ok_or_else(|| "per cent of the frames, from 0.001 to 50, as in 0.1 or 0.1%".to_owned())
    }
}

pub(crate) fn per_cent(text: &str) -> Option<f64> {
    text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cents() {
        assert_eq!(["0.01", "1", "10"].map(str::parse), [Ok(Loss(10)), Ok(Loss(1000)), Ok(Loss(10_000))]);
        assert_eq!(["0.01%", "1 %", "10%"].map(str::parse), [Ok(Loss(10)), Ok(Loss(1000)), Ok(Loss(10_000))]);
        for text in ["0", "0%", "1%%", "%", "51", "-1", "one", "NaN", ""] {
            assert!(text.parse::<Loss>().is_err(), "{text}");
        }
        assert_eq!(Loss(10).to_string(), "0.01 %");
    }

    #[test]
    fn as_many_are_struck_as_it_says() {
        let struck = |loss: Loss| (0..=u16::MAX).filter(|&high| loss.selects(u32::from(high) << 16)).count();
        assert_eq!((struck(Loss::NONE), struck(Loss(1000)), struck(Loss(50_000))), (0, 656, 32768));
    }
}
