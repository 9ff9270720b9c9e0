//! The structure that is marshalled by generated code and by serde, and what each takes alone.

use std::hint::black_box;
use std::time::Instant;

use am_measure::Error;
use am_rpc::Wire;
use am_rpc::codec::{Encode, Serde, from_bytes, to_vec};
use serde::{Deserialize, Serialize};

/// As programs have them: numbers, text, a list, an enum. It borrows its texts from the frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Wire)]
pub(crate) struct Order<'a> {
    id: u64,
    #[serde(borrow)]
    customer: &'a str,
    remark: Option<&'a str>,
    is_paid: bool,
    lines: [Line<'a>; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Wire)]
struct Line<'a> {
    #[serde(borrow)]
    item: &'a str,
    count: u32,
    price: f64,
    state: State<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Wire)]
enum State<'a> {
    Open,
    Sent {
        parcel: u64,
    },
    #[serde(borrow)]
    Returned(&'a str),
}

impl Order<'_> {
    /// A number from all parts, so that all are read.
    pub(crate) fn count(&self) -> u64 {
        let lines = self.lines.iter().map(|line| {
            let state = match line.state {
                State::Open => 0,
                State::Sent { parcel } => parcel,
                State::Returned(why) => why.len() as u64,
            };
            line.item.len() as u64 + u64::from(line.count) + line.price.to_bits() + state
        });
        let all = lines.fold(self.id, u64::wrapping_add);
        all.wrapping_add((self.customer.len() + self.remark.map_or(0, str::len)) as u64 + u64::from(self.is_paid))
    }
}

pub(crate) fn order() -> Order<'static> {
    let line = |item, count, state| Line { item, count, price: f64::from(count) * 1.25, state };
    Order {
        id: 0x0123_4567_89ab,
        customer: "a hardware shop near the station",
        remark: Some("two parcels if need be"),
        is_paid: true,
        lines: [
            line("screws, 4 by 40", 200, State::Sent { parcel: 771_204_113 }),
            line("dowels", 200, State::Sent { parcel: 771_204_113 }),
            line("a drill", 1, State::Open),
            line("bits, in a box", 12, State::Returned("one is missing")),
            line("a spirit level", 1, State::Open),
            line("gloves", 2, State::Sent { parcel: 771_204_114 }),
        ],
    }
}

/// How often the order is written and read in a round.
const PASSES: u32 = 10_000;

/// What marshalling the order takes, without a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Marshalling {
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
    /// Nanoseconds of writing and reading, of each round.
    pub(crate) by_round: Vec<f64>,
}

impl Marshalling {
    pub(crate) fn of_both() -> [Marshalling; 2] {
        ["generated", "serde"].map(|name| Marshalling { name, bytes: 0, by_round: vec![] })
    }

    /// Measure both once more.
    pub(crate) fn round(both: &mut [Marshalling; 2]) -> Result<(), Error> {
        let [generated, serde] = both;
        generated.add(&order(), |bytes| from_bytes::<Order<'_>>(bytes).map(black_box).is_ok())?;
        serde.add(&Serde(order()), |bytes| from_bytes::<Serde<Order<'_>>>(bytes).map(black_box).is_ok())
    }

    fn add(&mut self, order: &impl Encode, read: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
        let bad = || Error::Changed("an order is not read as it was written".to_owned());
        let pass = || to_vec(black_box(order)).ok().filter(|bytes| read(black_box(bytes))).ok_or_else(bad);
        self.bytes = pass()?.len();
        let begin = Instant::now();
        for _ in 0..PASSES {
            pass()?;
        }
        self.by_round.push(begin.elapsed().as_nanos() as f64 / f64::from(PASSES));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_read_the_order_that_was_written() {
        let (generated, serde) = (to_vec(&order()).unwrap(), to_vec(&Serde(order())).unwrap());
        assert_eq!(from_bytes(&generated), Ok(order()));
        assert_eq!(from_bytes(&serde), Ok(Serde(order())));
        let mut both = Marshalling::of_both();
        Marshalling::round(&mut both).unwrap();
        assert_eq!(both.each_ref().map(|each| each.bytes), [generated.len(), serde.len()]);
        assert!(both.iter().all(|each| each.by_round.len() == 1 && each.by_round[0] > 0.0));
    }
}
