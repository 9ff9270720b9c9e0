//! Forged frames between honest ones, as random scripts say; the fuzz target
//! `core` looks for worse ones for hours.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whoever_is_honest_gets_through(script in prop::collection::vec(any::<u8>(), 1..600)) {
        crate::forger::play(&script);
    }
}
