//! A message of PVM's as active messages, straight from its fragments.

use std::ffi::c_int;
use std::io::IoSlice;

use am_api::RequestError;

use crate::layout::{self, IN_PLACE, Pmsg};
use crate::library::Library;
use crate::pair::{Head, LENGTH, next};
use crate::process::{self, PIECE, Process};

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

/// The next piece: how many fragments of a message, and how many bytes of the last one.
#[derive(Debug)]
struct Piece<'a> {
    fragments: Vec<IoSlice<'a>>,
    then: Progress,
    has_more: bool,
}

/// The next piece of a message, of at most `longest` bytes. Fragments stay whole unless the message is bytes as they lie in memory.
fn next_piece<'a>(all: &[&'a [u8]], from: Progress, may_cut: bool, longest: usize) -> Piece<'a> {
    let (mut fragments, mut room, mut at) = (vec![], longest, from);
    while let Some(fragment) = all.get(at.fragment) {
        let rest = &fragment[at.bytes..];
        let cost = if may_cut { rest.len() } else { rest.len() + LENGTH };
        if cost > room && may_cut && room > 0 {
            fragments.push(IoSlice::new(&rest[..room]));
            at.bytes += room;
            break;
        }
        if cost > room && !fragments.is_empty() {
            break;
        }
        fragments.push(IoSlice::new(rest));
        room = room.saturating_sub(cost);
        at = Progress { fragment: at.fragment + 1, bytes: 0 };
    }
    Piece { fragments, then: at, has_more: at.fragment < all.len() }
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
    let may_cut = encoding == IN_PLACE || encoding == own;
    let encoding = if encoding == IN_PLACE { own } else { encoding };
    let total = all.iter().map(|fragment| fragment.len()).sum::<usize>() as u32;
    let head = Head {
        tag,
        context,
        encoding,
        wait_id,
        source: library.own_tid(),
        is_cut: may_cut,
        size: total,
        has_more: false,
        is_later: false,
        nth: 0,
        destination: to,
    };
    let sent = process::with(|process| {
        let Some(longest) = process.longest_to(to) else { return Sent::Ended };
        loop {
            let piece = next_piece(&all, *progress, may_cut, longest);
            let is_later = *progress != Progress::default();
            let (has_more, then) = (piece.has_more, piece.then);
            match send_piece(process, Head { is_later, ..head }, piece) {
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
    let (mut lengths, mut parts, has_more) = (vec![], piece.fragments, piece.has_more);
    let mut head = Head { has_more, ..head };
    if !head.is_cut {
        head.size = parts.len() as u32;
        lengths.extend(parts.iter().flat_map(|fragment| (fragment.len() as u32).to_le_bytes()));
        parts.insert(0, IoSlice::new(&lengths));
    }
    let pair = process.pairs.pair(head.destination);
    let connection = pair.connection.ok_or(RequestError::Closed)?;
    process.endpoint.try_request_vectored(connection, PIECE, &Head { nth: pair.sends, ..head }.words(), &parts)?;
    pair.sends = next(pair.sends);
    process.endpoint.flush();
    process.pairs.counts.sent += u64::from(!has_more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(piece: &Piece<'_>) -> Vec<usize> {
        piece.fragments.iter().map(|fragment| fragment.len()).collect()
    }

    #[test]
    fn bytes_are_cut_and_fragments_are_not() {
        let all = [&b"abc"[..], b"", b"defgh"];
        let first = next_piece(&all, Progress::default(), true, 5);
        assert_eq!((lengths(&first), first.has_more), (vec![3, 0, 2], true));
        let second = next_piece(&all, first.then, true, 5);
        assert_eq!((&second.fragments[0][..], second.fragments.len(), second.has_more), (&b"fgh"[..], 1, false));

        let first = next_piece(&all, Progress::default(), false, 12);
        assert_eq!((lengths(&first), first.has_more), (vec![3, 0], true));
        let second = next_piece(&all, first.then, false, 12);
        assert_eq!((lengths(&second), second.has_more), (vec![5], false));
        let long = next_piece(&[b"abcdefgh"], Progress::default(), false, 4);
        assert_eq!((lengths(&long), long.has_more), (vec![8], false));
    }

    #[test]
    fn an_empty_message_is_one_piece() {
        let piece = next_piece(&[], Progress::default(), true, 5);
        assert_eq!((piece.fragments.len(), piece.has_more), (0, false));
        let whole = next_piece(&[b"abcde"], Progress::default(), true, 5);
        assert_eq!((lengths(&whole), whole.has_more), (vec![5], false));
    }
}
