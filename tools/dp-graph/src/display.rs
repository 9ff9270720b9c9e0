//! Where the live graph goes: a terminal, a file of JSON lines, a file of DOT, or a table at the end.

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

/// Lines of a terminal that the table leaves free.
const FREE_LINES: usize = 3;

/// Why something is not shown.
pub(crate) enum ShowError {
    /// Standard output or standard error takes nothing more.
    Output(io::Error),
    /// A file cannot be written. The text names it.
    File(String),
}

pub(crate) struct Display {
    graph: Graph,
    start: Instant,
    /// On a terminal.
    bar: Option<ProgressBar>,
    json: Option<Json>,
    dot: Option<Latest>,
    /// The table at the end.
    has_table: bool,
}

/// Where lines of JSON go.
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

    /// The job starts: the graph without figures.
    ///
    /// # Errors
    /// See [`ShowError`].
    pub(crate) fn begin(&mut self) -> Result<(), ShowError> {
        self.write_dot(&[])
    }

    /// Whether the processes' output has to pass by here, so that the table stays below it.
    pub(crate) fn takes_output(&self) -> bool {
        self.bar.is_some() && io::stdout().is_terminal()
    }

    /// Whether JSON has standard output for itself. The processes' output goes to standard error.
    pub(crate) fn json_takes_output(&self) -> bool {
        matches!(self.json, Some(Json::Output))
    }

    /// Output of the processes.
    ///
    /// # Errors
    /// Those of standard output and standard error.
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

    /// An interval is over. Returns what cannot be shown.
    pub(crate) fn show(&mut self, live: &Live) -> Vec<ShowError> {
        let rows = live.rows();
        if let Some(bar) = &self.bar {
            bar.set_message(fitted(table::table(&self.graph, &rows, |row| row.rate)));
        }
        [self.write_json(&rows), self.write_dot(&rows)].into_iter().filter_map(Result::err).collect()
    }

    /// The job has ended. Returns what cannot be shown.
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

/// What a terminal has room for.
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
