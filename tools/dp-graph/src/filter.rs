//! Extracts the processes' reports from am-run's standard error.

use am_dp::{REPORT_MARK, Report};

/// A longer line is forwarded before its end.
const MAX_LINE: usize = 1 << 16;

/// The incomplete last line.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    line: Vec<u8>,
}

impl Filter {
    /// Add bytes. Returns the bytes to forward, and gives the reports among them to `take`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Report)) -> Vec<u8> {
        let mut rest = vec![];
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > MAX_LINE {
                rest.extend(split(&std::mem::take(&mut self.line), &mut take));
            }
        }
        rest
    }

    /// Handle the incomplete last line, at the end of the bytes.
    pub(crate) fn end(&mut self, mut take: impl FnMut(Report)) -> Vec<u8> {
        split(&std::mem::take(&mut self.line), &mut take)
    }
}

/// Take the report out of a line. Returns the part to forward: the program may have written a part of a line before the report.
fn split(line: &[u8], take: &mut impl FnMut(Report)) -> Vec<u8> {
    let Some(at) = line.iter().position(|byte| *byte == REPORT_MARK) else { return line.to_vec() };
    let (before, report) = line.split_at(at);
    match std::str::from_utf8(report).ok().and_then(|report| report.trim_end_matches('\n').parse().ok()) {
        Some(report) => {
            take(report);
            if is_prefix(before) { vec![] } else { before.to_vec() }
        }
        None => line.to_vec(),
    }
}

/// Whether the text is what `am-run --prefix` writes before a line: `[2] `.
fn is_prefix(text: &[u8]) -> bool {
    let number = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"] "));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By pieces of every length.
    fn filtered(text: &str) -> (String, usize) {
        let all = |len: usize| {
            let (mut filter, mut count, mut rest) = (Filter::default(), 0, vec![]);
            for piece in text.as_bytes().chunks(len) {
                rest.extend(filter.push(piece, |_| count += 1));
            }
            rest.extend(filter.end(|_| count += 1));
            (String::from_utf8(rest).unwrap(), count)
        };
        let result = all(1);
        (2..=text.len()).for_each(|len| assert_eq!(all(len), result));
        result
    }

    #[test]
    fn reports_are_taken_out() {
        let report = "\u{1e}dp 0 5 1>2.3:4,5,6,7,8\n";
        for (text, rest, count) in [
            (format!("one\n{report}two\n{report}"), "one\ntwo\n", 2),
            (format!("no end {report}of this line\n"), "no end of this line\n", 1),
            (format!("[12] {report}[12] text\n"), "[12] text\n", 1),
            (format!("[x] {report}"), "[x] ", 1),
            ("\u{1e}another's\nlast".to_owned(), "\u{1e}another's\nlast", 0),
        ] {
            assert_eq!(filtered(&text), (rest.to_owned(), count));
        }
    }

    #[test]
    fn a_line_without_end_does_not_grow() {
        let mut filter = Filter::default();
        let rest: usize = (0..100).map(|_| filter.push(&[b'x'; 4096], |_| {}).len()).sum();
        assert!(rest > 300_000 && filter.line.len() <= MAX_LINE);
    }
}
