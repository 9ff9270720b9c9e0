//! A message of PVM's as active messages, straight from its fragments.

use std::ffi::c_int;
use std::io::IoSlice;

use am_api::RequestError;

use crate::layout::{self, IN_PLACE, Pmsg};
use crate::library::Library;
use crate::pair::{Head, LENGTH, next};
use crate::process::{self, PIECE, Process};

/// The bytes that leave together: with one system call over UDP. The first ones wake the other task, which receives them meanwhile.
const BATCH: usize = 64 << 10;
const FIRST_BATCH: usize = 16 << 10;

/// How far a message was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    fragment: usize,
    /// Bytes of this fragment that have left.
    bytes: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// There is no room now. Poll, and go on from here.
    Blocked,
    /// The connection has ended. Nothing of the message arrives.
    Ended,
}

/// The next piece of a message: a part of one fragment, or whole fragments.
#[derive(Debug)]
struct Piece<'a> {
    bytes: Vec<IoSlice<'a>>,
    is_part: bool,
    /// The length of the fragment whose first part it is.
    begins: Option<usize>,
    then: Progress,
    has_more: bool,
}

/// The next piece of a message, of at most `longest` bytes. With `is_one` all fragments become one: their bytes are as they lie in memory. Otherwise
/// they stay as they are, because each is decoded by itself, and one that is too long for a piece is cut.
fn next_piece<'a>(all: &[&'a [u8]], from: Progress, is_one: bool, longest: usize) -> Piece<'a> {
    let next = all.get(from.fragment).map_or(0, |fragment| fragment.len());
    let is_part = is_one || from.bytes > 0 || next + LENGTH > longest;
    let begins = match is_one {
        true => (from == Progress::default()).then(|| all.iter().map(|fragment| fragment.len()).sum()),
        false => (is_part && from.bytes == 0).then_some(next),
    };
    let (mut bytes, mut room, mut at) = (vec![], longest, from);
    while let Some(fragment) = all.get(at.fragment) {
        let rest = &fragment[at.bytes..];
        let cost = if is_part { rest.len() } else { rest.len() + LENGTH };
        if cost > room {
            if is_part && room > 0 {
                bytes.push(IoSlice::new(&rest[..room]));
                at.bytes += room;
            }
            break;
        }
        bytes.push(IoSlice::new(rest));
        room -= cost;
        at = Progress { fragment: at.fragment + 1, bytes: 0 };
        if is_part && !is_one {
            break;
        }
    }
    Piece { bytes, is_part, begins, then: at, has_more: at.fragment < all.len() }
}

/// Send the rest of a message to a task with which active messages are agreed on.
///
/// # Safety
/// The message is PVM's, and nothing changes it meanwhile.
pub(crate) unsafe fn send(
    library: &Library,
    message: *const Pmsg,
    to: c_int,
    tag: c_int,
    progress: &mut Progress,
) -> Sent {
    // SAFETY: the caller's promise.
    let (context, encoding, wait_id, all) = unsafe {
        let fragments: Vec<&[u8]> = layout::fragments(message).collect();
        ((*message).context, (*message).encoding, (*message).wait_id, fragments)
    };
    let own = library.own_encoding();
    let is_one = encoding == IN_PLACE || encoding == own;
    let encoding = if encoding == IN_PLACE { own } else { encoding };
    let head = Head {
        tag,
        context,
        encoding,
        wait_id,
        source: library.own_tid(),
        is_part: false,
        is_first_part: false,
        size: 0,
        has_more: false,
        is_later: false,
        nth: 0,
        destination: to,
    };
    let sent = process::with(|process| {
        let Some(longest) = process.longest_to(to) else { return Sent::Ended };
        let (mut held, mut batch) = (0, FIRST_BATCH);
        loop {
            let piece = next_piece(&all, *progress, is_one, longest);
            let is_later = *progress != Progress::default();
            let (has_more, then) = (piece.has_more, piece.then);
            let sent = send_piece(process, Head { is_later, ..head }, piece);
            held += longest;
            if sent.is_err() || !has_more || held + longest > batch {
                process.endpoint.flush();
                (held, batch) = (0, BATCH.min(2 * batch));
            }
            match sent {
                Ok(()) if has_more => *progress = then,
                Ok(()) => return Sent::All,
                Err(error) if error.is_temporary() => return Sent::Blocked,
                Err(_) => return Sent::Ended,
            }
        }
    });
    sent.unwrap_or(Sent::Ended)
}

fn send_piece(process: &mut Process, head: Head, piece: Piece<'_>) -> Result<(), RequestError> {
    let (mut lengths, mut bytes, has_more) = (vec![], piece.bytes, piece.has_more);
    let size = piece.begins.unwrap_or(bytes.len()) as u32;
    if !piece.is_part {
        lengths.extend(bytes.iter().flat_map(|fragment| (fragment.len() as u32).to_le_bytes()));
        bytes.insert(0, IoSlice::new(&lengths));
    }
    let head = Head { size, is_part: piece.is_part, is_first_part: piece.begins.is_some(), has_more, ..head };
    let pair = process.pairs.pair(head.destination);
    let connection = pair.connection.ok_or(RequestError::Closed)?;
    process.endpoint.try_request_vectored(connection, PIECE, &Head { nth: pair.sends, ..head }.words(), &bytes)?;
    pair.sends = next(pair.sends);
    process.pairs.counts.sent += u64::from(!has_more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(piece: &Piece<'_>) -> Vec<usize> {
        piece.bytes.iter().map(|bytes| bytes.len()).collect()
    }

    #[test]
    fn bytes_become_one_fragment() {
        let all = [&b"abc"[..], b"", b"defgh"];
        let first = next_piece(&all, Progress::default(), true, 5);
        assert_eq!(
            (lengths(&first), first.is_part, first.begins, first.has_more),
            (vec![3, 0, 2], true, Some(8), true)
        );
        let second = next_piece(&all, first.then, true, 5);
        assert_eq!((&second.bytes[0][..], second.is_part, second.begins), (&b"fgh"[..], true, None));
        assert!(!second.has_more);
    }

    #[test]
    fn fragments_stay_as_they_are_and_a_long_one_is_cut() {
        let all = [&b"abc"[..], b"", b"defgh"];
        let first = next_piece(&all, Progress::default(), false, 12);
        assert_eq!((lengths(&first), first.is_part, first.has_more), (vec![3, 0], false, true));
        let second = next_piece(&all, first.then, false, 12);
        assert_eq!((lengths(&second), second.is_part, second.has_more), (vec![5], false, false));

        let all = [&b"a"[..], b"bcdefghijk", b"l", b"m"];
        let (mut at, mut pieces) = (Progress::default(), vec![]);
        loop {
            let piece = next_piece(&all, at, false, 6);
            pieces.push((lengths(&piece), piece.is_part, piece.begins));
            at = piece.then;
            if !piece.has_more {
                break;
            }
        }
        let whole = (vec![1], false, None);
        let (begin, end) = ((vec![6], true, Some(10)), (vec![4], true, None));
        assert_eq!(pieces, [whole.clone(), begin, end, whole.clone(), whole]);
    }

    #[test]
    fn an_empty_message_is_one_piece() {
        for is_one in [true, false] {
            let piece = next_piece(&[], Progress::default(), is_one, 5);
            assert_eq!((piece.bytes.len(), piece.is_part, piece.begins), (0, is_one, is_one.then_some(0)));
            assert!(!piece.has_more);
        }
        let whole = next_piece(&[b"abcde"], Progress::default(), true, 5);
        assert_eq!((lengths(&whole), whole.has_more), (vec![5], false));
    }
}
