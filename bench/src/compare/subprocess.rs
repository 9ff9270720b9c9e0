//! Runs a program to its end, with limits on its time and its output.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use am_measure::deploy::Group;
use am_measure::{Error, Watch};

/// The limit of a program's output.
const MAX_OUTPUT: usize = 1 << 20;
/// The limit of the characters of output in an error.
const MAX_ERROR_CHARS: usize = 300;
/// How often the caller is asked whether to go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Run a program until it ends, with this input. Its standard input is a pipe that closes when this process ends. After
/// an error, the program and its process group have ended too.
pub(super) fn run(command: &mut Command, input: &[u8], limit: Duration, watch: &Watch) -> Result<Output, Error> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = Group::start(command, "starting a program")?;
    if let Some(stdin) = &mut group.0.stdin {
        // A program that does not read it says why.
        let _ = stdin.write_all(input);
    }
    let mut readers = [read(group.0.stdout.take()), read(group.0.stderr.take())];
    let (mut texts, mut status, begin) = ([Vec::new(), Vec::new()], None, Instant::now());
    while status.is_none() || readers.iter().any(Option::is_some) {
        watch.check()?;
        if begin.elapsed() > limit {
            return Err(Error::Facility(format!("it did not end within {} s", limit.as_secs_f64())));
        }
        for (reader, text) in readers.iter_mut().zip(&mut texts) {
            let Some(ended) = reader.take_if(|reader| reader.is_finished()) else { continue };
            *text = ended.join().unwrap_or_default();
            if text.len() > MAX_OUTPUT {
                let mebibytes = MAX_OUTPUT >> 20;
                return Err(Error::Facility(format!("it was killed because it printed more than {mebibytes} MiB")));
            }
        }
        status = group.0.try_wait().map_err(Error::system("starting a program"))?;
        sleep(CHECK_INTERVAL);
    }
    let [stdout, stderr] = texts;
    Ok(Output { status: status.unwrap_or_default(), stdout, stderr })
}

/// Read an output on its own thread, because a program blocks on a full pipe.
fn read(output: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let output = output?;
    Some(thread::spawn(move || {
        let mut text = Vec::new();
        // Bytes read before an error count.
        let _ = output.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut text);
        text
    }))
}

/// The end of an output, on one line. A program that fails prints its reason last.
pub(super) fn end_of(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let said: String = said.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text: Vec<char> = lines.join("; ").chars().collect();
    let end: String = text[text.len().saturating_sub(MAX_ERROR_CHARS)..].iter().collect();
    if end.is_empty() { "it printed nothing".to_owned() } else { end }
}
