//! Any bytes as a stream, with lengths that make sense among them more often than by chance.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn streams_of_any_bytes(
        seed in any::<u8>(),
        records in prop::collection::vec((10..320u32, prop::collection::vec(any::<u8>(), 0..310)), 0..40),
        sense in 0..40usize,
    ) {
        let mut stream = vec![seed];
        for (number, (len, bytes)) in records.iter().enumerate() {
            let len = if number < sense { bytes.len().max(14) as u32 } else { *len };
            stream.extend(len.to_be_bytes());
            stream.extend(bytes);
            stream.extend(std::iter::repeat_n(0, 14usize.saturating_sub(bytes.len())));
        }
        crate::checks::stream(&stream);
    }
}
