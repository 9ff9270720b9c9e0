//! The messages that have arrived: a bit for each number.

#[derive(Debug)]
pub(super) struct Ledger {
    bits: Vec<u64>,
    /// Numbers that have arrived.
    pub(super) came: u64,
    /// Repeated arrivals.
    pub(super) twice: u64,
}

impl Ledger {
    /// For the numbers below this.
    pub(super) fn new(numbers: u64) -> Ledger {
        Ledger { bits: vec![0; numbers.div_ceil(64) as usize], came: 0, twice: 0 }
    }

    /// Note an arrival.
    pub(super) fn note(&mut self, number: u64) {
        let (word, bit) = (&mut self.bits[(number / 64) as usize], 1 << (number % 64));
        let is_news = *word & bit == 0;
        *word |= bit;
        self.came += is_news as u64;
        self.twice += !is_news as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_and_twice() {
        let mut ledger = Ledger::new(130);
        [0, 129, 64, 129, 63].into_iter().for_each(|number| ledger.note(number));
        assert_eq!((ledger.came, ledger.twice), (4, 1));
    }
}
