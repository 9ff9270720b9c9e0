//! Where the live graph goes: a terminal, a file of JSON lines, a file of DOT, or a table at the end.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use am_dp::Graph;
use console::{Term, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::draw;
use crate::live::Live;
use crate::options::RunOptions;
use crate::table;

/// Lines of a terminal that the table leaves free.
const FREE_LINES: usize = 3;

/// Why something is not shown.
pub(crate) enum ShowError {
    /// Standard output or standard error takes nothing more.
    Output(io::Error),
    /// A file cannot be written.
    File(String),
}

pub(crate) struct Display {
    graph: Graph,
    start: Instant,
    /// On a terminal.
    bar: Option<ProgressBar>,
    json: Option<Json>,
    dot: Option<PathBuf>,
    /// The table at the end.
    has_table: bool,
}

/// Where lines of JSON go.
enum Json {
    Output,
    File(File),
}

impl Display {
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn open(options: &RunOptions, graph: Graph) -> Result<Display, String> {
        let json = match options.json.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") => Some(Json::Output),
            Some(path) => Some(Json::File(File::create(path).map_err(|why| format!("{}: {why}", path.display()))?)),
        };
        let has_table = json.is_none();
        let bar = (has_table && io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        let display = Display { graph, start: Instant::now(), bar, json, dot: options.dot.clone(), has_table };
        display.write_dot(&[])?;
        Ok(display)
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

    /// An interval is over.
    ///
    /// # Errors
    /// See [`ShowError`].
    pub(crate) fn show(&mut self, live: &Live) -> Result<(), ShowError> {
        let rows = live.rows();
        if let Some(bar) = &self.bar {
            bar.set_message(fitted(table::table(&self.graph, &rows, |row| row.rate)));
        }
        if let Some(json) = &mut self.json {
            let lines = table::json(&self.graph, &rows, self.start.elapsed().as_secs_f64());
            match json {
                Json::Output => write_output(lines.as_bytes()).map_err(ShowError::Output)?,
                Json::File(file) => {
                    file.write_all(lines.as_bytes()).map_err(|why| ShowError::File(format!("JSON: {why}")))?;
                }
            }
        }
        self.write_dot(&rows).map_err(ShowError::File)
    }

    /// The job has ended.
    ///
    /// # Errors
    /// See [`ShowError`].
    pub(crate) fn end(&mut self, live: &Live) -> Result<(), ShowError> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.show(live)?;
        if self.has_table && live.has_figures() {
            let text = table::table(&self.graph, &live.rows(), |row| row.mean).join("\n") + "\n";
            io::stderr().write_all(text.as_bytes()).map_err(ShowError::Output)?;
        }
        Ok(())
    }

    /// Nobody sees half a file. A device or a pipe is written to: a new file would take its place.
    fn write_dot(&self, rows: &[crate::live::Row]) -> Result<(), String> {
        let Some(path) = &self.dot else { return Ok(()) };
        let text = draw::draw(&self.graph, rows);
        let written = if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            fs::write(path, text)
        } else {
            let mut new = path.clone().into_os_string();
            new.push(".new");
            fs::write(&new, text).and_then(|()| fs::rename(&new, path))
        };
        written.map_err(|why| format!("{}: {why}", path.display()))
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
