//! Plans how a batch of frames becomes the messages of one system call.
//!
//! A run is a sequence of frames to one peer, all of one length except that the last may be shorter. A run becomes one
//! message, which the kernel splits (*GSO*, generic segmentation offload). The segment length is an option of the socket,
//! so all messages of a call have the same one. The kernel must not split a message of one frame, so such a message must
//! not be longer than a segment.
//!
//! ```text
//!   frames   a1500 a1500 a1500 a900 │ b60 │ a1500 a1500 │ a1600 ...
//!   messages ──────── one ───────── │ one │ ─── one ─── │ next call: no length fits both
//! ```

/// The most frames of a batch, and messages of a call.
pub(super) const BATCH: usize = 64;

/// The kernel's limits of one message: segments, and bytes.
const MAX_SEGMENTS: usize = 64;
const MAX_MESSAGE_BYTES: usize = 65_000;

/// One system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The number of frames of each message.
    pub(super) runs: [u8; BATCH],
    pub(super) messages: usize,
    /// Frames in all.
    pub(super) frames: usize,
    /// The segment length; 0 if no message is split.
    pub(super) segment: usize,
    /// The longest message that is not split.
    pub(super) longest_single: usize,
}

impl Call {
    /// Plan a call with as many of the first frames as possible. `frame` returns the destination and the length of a frame.
    /// Without `gso` each frame is a message.
    pub(super) fn plan<To: PartialEq>(frames: usize, frame: impl Fn(usize) -> (To, usize), gso: bool) -> Call {
        let mut call = Call { runs: [0; BATCH], messages: 0, frames: 0, segment: 0, longest_single: 0 };
        while call.frames < frames.min(BATCH) {
            let (_, len) = frame(call.frames);
            let run = if gso { run(frames.min(BATCH), &frame, call.frames) } else { 1 };
            if !call.add(run, len) {
                break;
            }
        }
        call
    }

    /// Add a message. `false` if its segment length does not suit those before it.
    fn add(&mut self, run: usize, len: usize) -> bool {
        let is_run = run > 1;
        let fits = match self.segment {
            0 => !is_run || self.longest_single <= len,
            segment if is_run => segment == len,
            segment => len <= segment,
        };
        if fits {
            if is_run {
                self.segment = len;
            } else {
                self.longest_single = self.longest_single.max(len);
            }
            self.runs[self.messages] = run as u8;
            self.messages += 1;
            self.frames += run;
        }
        fits
    }
}

/// The number of frames from `start` on that can be one message.
fn run<To: PartialEq>(frames: usize, frame: &impl Fn(usize) -> (To, usize), start: usize) -> usize {
    let (to, segment) = frame(start);
    let mut bytes = segment;
    let mut run = 1;
    while run < MAX_SEGMENTS && start + run < frames {
        let (next, len) = frame(start + run);
        if next != to || len > segment || bytes + len > MAX_MESSAGE_BYTES {
            break;
        }
        bytes += len;
        run += 1;
        if len < segment {
            break;
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(frames: &[(char, usize)], gso: bool) -> Vec<(Vec<u8>, usize)> {
        let mut calls = vec![];
        let mut at = 0;
        while at < frames.len() {
            let call = Call::plan(frames.len() - at, |index| frames[at + index], gso);
            assert!(call.frames > 0, "no call is empty");
            at += call.frames;
            calls.push((call.runs[..call.messages].to_vec(), call.segment));
        }
        calls
    }

    #[test]
    fn a_run_ends_with_what_is_shorter_or_for_another() {
        let frames =
            [('a', 1500), ('a', 1500), ('a', 900), ('a', 900), ('b', 900), ('b', 60), ('a', 1500), ('a', 1500)];
        let expected = [(vec![3, 1], 1500), (vec![2], 900), (vec![2], 1500)];
        assert_eq!(calls(&frames, true), expected);
    }

    #[test]
    fn without_it_each_frame_is_a_message() {
        assert_eq!(calls(&[('a', 100); 5], false), [(vec![1; 5], 0)]);
        assert_eq!(calls(&[('a', 100); 70], false).len(), 2);
    }

    #[test]
    fn what_is_longer_than_a_run_goes_with_another_call() {
        assert_eq!(calls(&[('a', 100), ('a', 100), ('b', 200)], true), [(vec![2], 100), (vec![1], 0)]);
        assert_eq!(calls(&[('b', 200), ('a', 100), ('a', 100)], true), [(vec![1], 0), (vec![2], 100)]);
        assert_eq!(calls(&[('b', 60), ('a', 100), ('a', 100)], true), [(vec![1, 2], 100)]);
    }

    #[test]
    fn a_message_is_no_longer_than_ip_can_say() {
        for len in [1000, 8972, 30_000, 65_000] {
            let frames = [('a', len); 100];
            for (runs, _) in calls(&frames, true) {
                assert!(
                    runs.iter().all(|run| *run as usize * len <= MAX_MESSAGE_BYTES && *run as usize <= MAX_SEGMENTS)
                );
            }
        }
    }
}
