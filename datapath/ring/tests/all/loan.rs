//! Places that are lent out, against a count of each.
#![cfg(not(loom))]

use std::thread;

use am_ring::{Lease, LeaseTable};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Lend,
    Again(usize),
    Drop(usize),
    DropElsewhere(usize),
    ComeBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Lend),
        2 => (0usize..8).prop_map(Step::Again),
        3 => (0usize..8).prop_map(Step::Drop),
        1 => (0usize..8).prop_map(Step::DropElsewhere),
        2 => Just(Step::ComeBack),
    ]
}

const PLACES: usize = 4;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn a_place_comes_back_when_nobody_has_it(steps in prop::collection::vec(step(), 1..64)) {
        let mut lender = LeaseTable::new(PLACES);
        let mut loans: Vec<Lease> = vec![];
        // Places that are out, whether or not anybody has them.
        let mut out: Vec<usize> = vec![];
        for step in steps {
            match step {
                Step::Lend => {
                    let loan = lender.lease();
                    prop_assert_eq!(loan.is_some(), out.len() < PLACES);
                    out.extend(loan.iter().map(Lease::place));
                    loans.extend(loan);
                }
                Step::Again(place) => {
                    let loan = lender.lease_again(place);
                    prop_assert_eq!(loan.as_ref().map(Lease::place), out.contains(&place).then_some(place));
                    loans.extend(loan);
                }
                Step::Drop(n) | Step::DropElsewhere(n) if n >= loans.len() => {}
                Step::Drop(n) => drop(loans.swap_remove(n)),
                Step::DropElsewhere(n) => {
                    let loan = loans.swap_remove(n);
                    thread::spawn(move || drop(loan)).join().unwrap();
                }
                Step::ComeBack => {
                    let back = lender.reclaim();
                    let has_gone = |place: &usize| loans.iter().all(|loan| loan.place() != *place);
                    prop_assert_eq!(back.is_some(), out.iter().any(has_gone));
                    prop_assert!(back.is_none_or(|place| has_gone(&place) && out.contains(&place)));
                    out.retain(|place| Some(*place) != back);
                }
            }
            prop_assert_eq!(lender.is_empty(), out.is_empty());
        }
    }
}
