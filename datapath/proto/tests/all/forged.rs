//! Forged frames between honest ones, by random scripts. The fuzz target `core` searches for worse scripts for hours.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn honest_messages_get_through(script in prop::collection::vec(any::<u8>(), 1..600)) {
        crate::forger::play(&script);
    }
}
