//! The processes' output, line by line.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::protocol::Stream;

/// A line that is longer is written in pieces.
const MAX_LINE: usize = 1 << 20;

/// Collects the lines of all processes and writes each as a whole.
#[derive(Debug, Default)]
pub(crate) struct Output {
    prefix: bool,
    /// The lines that have no end yet.
    open: Mutex<BTreeMap<(u32, Stream), Vec<u8>>>,
}

impl Output {
    pub(crate) fn new(prefix: bool) -> Output {
        Output { prefix, ..Output::default() }
    }

    /// A process wrote this.
    ///
    /// # Errors
    /// Those of standard output and standard error.
    pub(crate) fn write(&self, rank: u32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let line = open.entry((rank, stream)).or_default();
        line.extend_from_slice(bytes);
        let whole = match line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if line.len() > MAX_LINE => line.len(),
            None => return Ok(()),
        };
        let lines: Vec<u8> = line.drain(..whole).collect();
        self.put(rank, stream, &lines)
    }

    /// A process has ended: its last line may have no end.
    ///
    /// # Errors
    /// Those of standard output and standard error.
    pub(crate) fn end(&self, rank: u32) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in [Stream::Output, Stream::Error] {
            if let Some(line) = open.remove(&(rank, stream)).filter(|line| !line.is_empty()) {
                self.put(rank, stream, &line)?;
            }
        }
        Ok(())
    }

    fn put(&self, rank: u32, stream: Stream, lines: &[u8]) -> io::Result<()> {
        let prefixed = || lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [tag(rank), line.to_vec()]);
        let text = if self.prefix { prefixed().flatten().collect() } else { lines.to_vec() };
        let write = |to: &mut dyn Write| to.write_all(&text).and_then(|()| to.flush());
        match stream {
            Stream::Output => write(&mut io::stdout().lock()),
            Stream::Error => write(&mut io::stderr().lock()),
        }
    }
}

fn tag(rank: u32) -> Vec<u8> {
    format!("[{rank}] ").into_bytes()
}
