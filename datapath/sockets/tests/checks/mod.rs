//! What the cutter of streams promises, for any bytes: for the tests and the fuzzer.

use am_sockets::tcp::deframer::{Deframer, InvalidLength};

/// Frames up to this length: short enough that what is tried has many.
const LONGEST: usize = 300;

/// The first byte says how the others arrive. In whatever pieces, what comes
/// out is what is in the stream.
pub(crate) fn stream(bytes: &[u8]) {
    let Some((seed, stream)) = bytes.split_first() else { return };
    let expected = read(stream);
    let mut state = *seed as usize + 1;
    let pieces = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (state >> 33) % (8 << (state >> 60))
    });
    assert_eq!(cut(stream, pieces), expected);
    assert_eq!(cut(stream, std::iter::repeat(1)), expected);
}

type Cut = (Vec<Vec<u8>>, Option<InvalidLength>);

/// The frames of a stream that is all here, without a cutter.
fn read(mut stream: &[u8]) -> Cut {
    let mut frames = vec![];
    while let Some((prefix, rest)) = stream.split_first_chunk::<4>() {
        let len = u32::from_be_bytes(*prefix);
        if !(14..=LONGEST as u32).contains(&len) {
            return (frames, Some(InvalidLength(len)));
        }
        let Some((frame, rest)) = rest.split_at_checked(len as usize) else { break };
        frames.push(frame.to_vec());
        stream = rest;
    }
    (frames, None)
}

fn cut(mut stream: &[u8], mut pieces: impl Iterator<Item = usize>) -> Cut {
    let mut cutter = Deframer::new(LONGEST);
    let mut frames = vec![];
    while !stream.is_empty() {
        let space = cutter.space();
        assert!(!space.is_empty(), "there is always room when all whole frames are taken");
        let (piece, rest) = stream.split_at(pieces.next().unwrap_or(1).min(space.len()).min(stream.len()));
        space[..piece.len()].copy_from_slice(piece);
        cutter.advance(piece.len());
        stream = rest;
        loop {
            match cutter.peek() {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(nonsense) => return (frames, Some(nonsense)),
            }
            cutter.consume();
        }
    }
    (frames, None)
}
