//! A job on a graph: am-run, its reports, its output, its end.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use am_dp::{GRAPH_VARIABLE, Graph, REPORT_VARIABLE};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::USAGE;
use crate::display::{Display, ShowError};
use crate::ending::{self, LOOK, Signals, end_of};
use crate::filter::Filter;
use crate::live::Live;
use crate::options::RunOptions;
use crate::source;
use crate::start::START;
use am_input::command_line::{NO_JOB, NO_OUTPUT};

/// The kernel's limit of a variable, with its name (MAX_ARG_STRLEN).
const MAX_VARIABLE: usize = 128 * 1024 - 64;
/// How long output may follow am-run's end.
const AFTER_END: Duration = Duration::from_secs(1);
/// The exit code of am-run after SIGTERM.
const BY_SIGTERM: u8 = 128 + SIGTERM as u8;
/// Pieces of output on their way.
const PIECES: usize = 64;

enum Event {
    Bytes {
        bytes: Vec<u8>,
        is_error: bool,
    },
    /// A pipe has ended.
    End,
}

pub(crate) fn run(options: &RunOptions) -> Result<u8, (u8, String)> {
    let usage = |why: String| (USAGE, why);
    let graph = source::load(&options.graph).map_err(usage)?;
    let text = variable(options, &graph).map_err(usage)?;
    let mut display = Display::open(options, graph.clone()).map_err(usage)?;
    let no_job = |why: &dyn std::fmt::Display| (NO_JOB, format!("am-run cannot be started: {why}"));
    let (events, received) = mpsc::sync_channel(PIECES);
    let begun = display.begin();
    // Before there is something to end.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]).map_err(|why| no_job(&why))?;
    let (am_run, pipes) = start(command(options, &graph, &text), &display, &events).map_err(|why| no_job(&why))?;
    drop(events);
    ending::forward_signals(signals, am_run);
    let mut job = Job {
        am_run,
        pipes,
        filter: Filter::default(),
        live: Live::new(graph),
        display,
        failed: BTreeSet::new(),
        has_no_output: false,
    };
    job.note(begun.err());
    Ok(job.run(&received, options.every))
}

/// The value of DP_GRAPH: short where the graph is generated.
fn variable(options: &RunOptions, graph: &Graph) -> Result<String, String> {
    let long = graph.to_string();
    let text = if options.graph.parse::<Graph>().as_ref() == Ok(graph) { options.graph.clone() } else { long };
    if text.len() + GRAPH_VARIABLE.len() > MAX_VARIABLE {
        return Err(format!(
            "{}: its text has {} bytes, and a variable holds {MAX_VARIABLE}: shorten the names, or use fewer edges",
            options.graph,
            text.len()
        ));
    }
    Ok(text)
}

/// am-run, and before it this program, which sees to it that am-run does not outlive it.
fn command(options: &RunOptions, graph: &Graph, text: &str) -> Command {
    let own = std::env::current_exe().unwrap_or_else(|_| "dp-graph".into());
    let beside = own.with_file_name("am-run");
    let default = || if beside.exists() { beside.clone().into_os_string() } else { "am-run".into() };
    let am_run = options.am_run.clone().unwrap_or_else(default);
    let mut command = Command::new(&own);
    command.arg(START).arg(std::process::id().to_string()).arg(&am_run);
    command.arg("-n").arg(graph.count().to_string());
    let mut option = |name: &str, value: &Option<OsString>| {
        value.iter().for_each(|value| _ = command.arg(name).arg(value));
    };
    option("--hosts", &options.hosts.clone().map(Into::into));
    option("--rsh", &options.rsh.clone().map(Into::into));
    option("--transport", &options.transport.clone().map(Into::into));
    option("--directory", &options.directory);
    option("--am-run", &options.am_run);
    options.exports.iter().for_each(|export| _ = command.arg("-x").arg(export));
    if options.prefix {
        command.arg("--prefix");
    }
    command.arg("-x").arg(format!("{GRAPH_VARIABLE}={text}"));
    command.arg("-x").arg(format!("{REPORT_VARIABLE}={}", options.every.as_millis()));
    command.arg("--").args(&options.program);
    command
}

/// Start am-run. Returns its process id, and the number of pipes to read.
fn start(mut command: Command, display: &Display, events: &SyncSender<Event>) -> io::Result<(Pid, usize)> {
    let (errors, writer) = io::pipe()?;
    if display.takes_output() {
        command.stdout(Stdio::piped());
    }
    if display.json_takes_output() {
        // Whole lines of both: am-run writes no others.
        command.stdout(writer.try_clone()?);
    }
    let mut child = command.stderr(writer).spawn()?;
    // The pipe ends with am-run.
    drop(command);
    read(errors, true, events.clone());
    let output = child.stdout.take();
    let pipes = 1 + usize::from(output.is_some());
    output.into_iter().for_each(|output| read(output, false, events.clone()));
    Ok((Pid::from_raw(child.id().cast_signed()), pipes))
}

fn read(mut from: impl Read + Send + 'static, is_error: bool, events: SyncSender<Event>) {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        // Nobody may be left to take it.
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            if events.send(Event::Bytes { bytes: buffer[..len].to_vec(), is_error }).is_err() {
                return;
            }
        }
        _ = events.send(Event::End);
    });
}

struct Job {
    am_run: Pid,
    /// Pipes that have not ended.
    pipes: usize,
    filter: Filter,
    live: Live,
    display: Display,
    /// Files that cannot be written, as it was said.
    failed: BTreeSet<String>,
    /// The output takes nothing more.
    has_no_output: bool,
}

impl Job {
    fn run(mut self, events: &Receiver<Event>, every: Duration) -> u8 {
        let mut next = Instant::now() + every;
        let mut ended: Option<Instant> = None;
        while self.pipes > 0 && ended.is_none_or(|ended| ended.elapsed() < AFTER_END) {
            match events.recv_timeout(next.saturating_duration_since(Instant::now()).min(LOOK)) {
                Ok(event) => self.on_event(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if ended.is_none() && end_of(self.am_run).is_some() {
                        ended = Some(Instant::now());
                    }
                }
            }
            if Instant::now() >= next {
                next = (next + every).max(Instant::now());
                let shown = self.display.show(&self.live);
                self.note(shown);
            }
        }
        let rest = self.filter.end(|report| self.live.take(&report));
        self.forward(&rest, true);
        let code = loop {
            match end_of(self.am_run) {
                Some(code) => break code,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let shown = self.display.end(&self.live);
        self.note(shown);
        match code {
            // By the SIGTERM for the output.
            0 | BY_SIGTERM if self.has_no_output => NO_JOB,
            code => code,
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Bytes { bytes, is_error: true } => {
                let rest = self.filter.push(&bytes, |report| self.live.take(&report));
                self.forward(&rest, true);
            }
            Event::Bytes { bytes, is_error: false } => self.forward(&bytes, false),
            Event::End => self.pipes -= 1,
        }
    }

    fn forward(&mut self, bytes: &[u8], is_error: bool) {
        if !self.has_no_output {
            let written = self.display.forward(bytes, is_error);
            self.note(written.err().map(ShowError::Output));
        }
    }

    /// A job goes on without a file that cannot be written; that is said once. Without its output it ends.
    fn note(&mut self, errors: impl IntoIterator<Item = ShowError>) {
        for error in errors {
            match error {
                ShowError::Output(why) => self.end_without_output(&why),
                ShowError::File(why) => {
                    if self.failed.insert(why.clone()) {
                        self.forward(format!("dp-graph: {why}; the job goes on\n").as_bytes(), true);
                    }
                }
            }
        }
    }

    fn end_without_output(&mut self, why: &io::Error) {
        if std::mem::replace(&mut self.has_no_output, true) {
            return;
        }
        // A reader that has left, as in `| head`, needs no words.
        if why.kind() != ErrorKind::BrokenPipe {
            let text = format!("dp-graph: {NO_OUTPUT}: {why}; ending the processes\n");
            _ = self.display.forward(text.as_bytes(), true);
        }
        ending::end(self.am_run);
    }
}
