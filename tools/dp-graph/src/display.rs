//! The outputs of the live graph: a terminal, a file of JSON lines, a file of DOT, or a table at the end.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use am_dp::Graph;
use console::{Term, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::draw;
use crate::file::{Latest, Stream};
use crate::live::{Live, Row};
use crate::options::RunOptions;
use crate::table;

/// The number of terminal lines that the table leaves free.
const FREE_LINES: usize = 3;

/// An error of an output.
pub(crate) enum ShowError {
    /// Standard output or standard error cannot be written.
    Output(io::Error),
    /// A file cannot be written. The text names it.
    File(String),
}

pub(crate) struct Display {
    graph: Graph,
    start: Instant,
    /// The table on a terminal.
    bar: Option<ProgressBar>,
    json: Option<Json>,
    dot: Option<Latest>,
    /// Whether to print the table at the end.
    has_table: bool,
}

/// The output of the JSON lines.
enum Json {
    Output,
    File(Stream),
}

impl Display {
    /// # Errors
    /// A file cannot be opened.
    pub(crate) fn open(options: &RunOptions, graph: Graph) -> Result<Display, String> {
        let json = match options.json.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") => Some(Json::Output),
            Some(path) => Some(Json::File(Stream::open(path)?)),
        };
        let dot = options.dot.as_deref().map(Latest::open).transpose()?;
        let has_table = json.is_none();
        let bar = (has_table && io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Ok(Display { graph, start: Instant::now(), bar, json, dot, has_table })
    }

    /// Show the graph without figures, when the job starts.
    ///
    /// # Errors
    /// See [`ShowError`].
    pub(crate) fn begin(&mut self) -> Result<(), ShowError> {
        self.write_dot(&[])
    }

    /// Whether the processes' output must go through [`forward`](Self::forward), so that the table stays below it.
    pub(crate) fn takes_output(&self) -> bool {
        self.bar.is_some() && io::stdout().is_terminal()
    }

    /// Whether standard output is for JSON alone. Then the processes' output goes to standard error.
    pub(crate) fn json_takes_output(&self) -> bool {
        matches!(self.json, Some(Json::Output))
    }

    /// Write output of the processes.
    ///
    /// # Errors
    /// The errors of standard output and standard error.
    pub(crate) fn forward(&self, bytes: &[u8], is_error: bool) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let write = || match is_error {
            true => io::stderr().write_all(bytes),
            false => write_output(bytes),
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Show the figures after an interval. Returns the errors.
    pub(crate) fn show(&mut self, live: &Live) -> Vec<ShowError> {
        let rows = live.rows();
        if let Some(bar) = &self.bar {
            bar.set_message(fitted(table::table(&self.graph, &rows, |row| row.rate)));
        }
        [self.write_json(&rows), self.write_dot(&rows)].into_iter().filter_map(Result::err).collect()
    }

    /// Show the final figures, when the job has ended. Returns the errors.
    pub(crate) fn end(&mut self, live: &Live) -> Vec<ShowError> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let mut errors = self.show(live);
        if self.has_table && live.has_figures() {
            let text = table::table(&self.graph, &live.rows(), |row| row.mean).join("\n") + "\n";
            errors.extend(io::stderr().write_all(text.as_bytes()).err().map(ShowError::Output));
        }
        errors
    }

    fn write_json(&mut self, rows: &[Row]) -> Result<(), ShowError> {
        let Some(json) = &mut self.json else { return Ok(()) };
        let lines = table::json(&self.graph, rows, self.start.elapsed().as_secs_f64());
        match json {
            Json::Output => write_output(lines.as_bytes()).map_err(ShowError::Output),
            Json::File(file) => file.write(&lines).map_err(ShowError::File),
        }
    }

    fn write_dot(&mut self, rows: &[Row]) -> Result<(), ShowError> {
        let Some(dot) = &mut self.dot else { return Ok(()) };
        dot.write(&draw::draw(&self.graph, rows)).map_err(ShowError::File)
    }
}

/// Write this to standard output at once.
pub(crate) fn write_output(bytes: &[u8]) -> io::Result<()> {
    io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())
}

/// The lines for which the terminal has room.
fn fitted(lines: Vec<String>) -> String {
    let (height, width) = Term::stderr().size();
    let room = usize::from(height).saturating_sub(FREE_LINES).max(2);
    let count = lines.len();
    let mut lines: Vec<String> =
        lines.into_iter().take(room).map(|line| truncate_str(&line, usize::from(width), "").into_owned()).collect();
    if count > room {
        lines.push(format!("and {} more edges", count - room));
    }
    lines.join("\n")
}
