//! Forged parts of transfers, as random scripts say; the fuzz target
//! `transfers` looks for worse ones for hours.

#[test]
fn a_forger_reaches_what_it_may_and_nothing_else() {
    let mut random = 1u64;
    let mut byte = || {
        // Knuth's MMIX: its upper bits are random enough.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    };
    for _ in 0..1000 {
        let length = 8 * byte() as usize;
        let script: Vec<u8> = (0..length).map(|_| byte()).collect();
        crate::forger::play(&script);
    }
}
