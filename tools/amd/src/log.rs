//! The daemon's log. A separate thread writes the lines, because a write may fail (full disk, reader gone) or block (reader stalled).
//! The daemon continues in each case; lines that do not fit the queue are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use crate::privileges;

/// The capacity of the queue of lines, in lines.
const MAX_LINES: usize = 1024;

/// How long a daemon that ends waits for its last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

enum Item {
    /// Text for standard error.
    Error(Vec<u8>),
    /// Text for standard output.
    Output(Vec<u8>),
    /// The thread answers on this channel when all items before this one are written.
    Flush(SyncSender<()>),
}

/// The queue to the writer thread.
#[derive(Clone)]
struct Lines {
    queue: SyncSender<Item>,
    /// The number of lines that were dropped because the queue was full.
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn put(&self, item: Item) {
        if self.queue.try_send(item).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(Item::Error(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of this process. Dropping it waits up to two seconds until the last lines are written.
pub struct Log(Lines);

impl Log {
    /// Write the process's events and panics to standard error from now on.
    ///
    /// # Errors
    /// The system cannot create the thread.
    pub fn start() -> io::Result<Log> {
        let (queue, items) = mpsc::sync_channel(MAX_LINES);
        let lines = Lines { queue, lost: Arc::default() };
        let lost = lines.lost.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&items, &lost))?;
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        subscriber.with_target(false).without_time().log_internal_errors(false).init();
        let panics = lines.clone();
        std::panic::set_hook(Box::new(move |panic| panics.put(Item::Error(format!("amd: {panic}\n").into_bytes()))));
        Ok(Log(lines))
    }

    /// Write this to standard error.
    pub fn error(&self, text: &str) {
        self.0.put(Item::Error(text.into()));
    }

    /// Write this to standard output.
    pub fn output(&self, text: &str) {
        self.0.put(Item::Output(text.into()));
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (written, is_written) = mpsc::sync_channel(1);
        // If the queue is full, the writer is blocked: the remaining lines are lost.
        if self.0.queue.try_send(Item::Flush(written)).is_ok() {
            _ = is_written.recv_timeout(LAST_LINES);
        }
    }
}

/// The writer thread: writes each item. A line that cannot be written is lost.
fn write_all(items: &Receiver<Item>, lost: &AtomicU64) {
    // Capabilities belong to a thread, and this thread needs none.
    if let Err(why) = privileges::drop_all_but_needed(None) {
        _ = writeln!(io::stderr(), "amd: the thread of the log keeps its capabilities: {why}");
    }
    loop {
        let item = match items.try_recv() {
            Err(TryRecvError::Empty) => {
                match lost.swap(0, Relaxed) {
                    0 => (),
                    lost => _ = writeln!(io::stderr(), "amd: {lost} lines of this log were lost: nothing took them"),
                }
                items.recv().ok()
            }
            item => item.ok(),
        };
        match item {
            Some(Item::Error(line)) => _ = io::stderr().write_all(&line),
            Some(Item::Output(line)) => _ = io::stdout().write_all(&line).and_then(|()| io::stdout().flush()),
            Some(Item::Flush(written)) => _ = written.send(()),
            None => return,
        }
    }
}
