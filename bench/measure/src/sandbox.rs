//! Foreign programs. A script runs both sides of them in a sandbox, and prints lines of JSON.
//!
//! ```text
//!   am-bench                a sandbox: its own processes, mounts, System V memory, host names; the near side's network
//!  ┌───────────────┐ stdin ┌──────────────────────────────────────────────────────────────┐
//!  │  run(command) ├──────▶│ sandbox.sh: process 1, empty /tmp and /dev/shm               │
//!  │ with a limit  │◀──────┤     └─ PEER.sh ─┬─ client        near side, one core         │
//!  └──────┬────────┘ JSON  │                 └─ far.sh ─▶ server   far side, another      │
//!         │                └──────────────────────────────────────────────────────────────┘
//!         └─ is gone, or has waited long enough: stdin closes, process 1 ends, and the kernel kills all
//!            others; the mounts go with them
//! ```
//!
//! The scripts are in `bench/peers`; read `peer.sh` first.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::cores::Cores;
use crate::deploy::Group;
use crate::error::Error;
use crate::plan::Amount;
use crate::watch::Watch;

const SANDBOX: &str = include_str!("../../peers/sandbox.sh");

/// What every script finds beside it: a name, and a text.
pub const FILES: [(&str, &str); 4] = [
    ("far.sh", include_str!("../../peers/far.sh")),
    ("agent.sh", include_str!("../../peers/agent.sh")),
    ("peer.sh", include_str!("../../peers/peer.sh")),
    ("measure.h", include_str!("../../peers/measure.h")),
];

/// A PVM of two hosts, for tasks that are compared with ours and for those that use ours.
pub const PVM_FILES: [(&str, &str); 2] =
    [("pvm.c", include_str!("../../peers/pvm.c")), ("pvm.sh", include_str!("../../peers/pvm.sh"))];

/// A script in a sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The script, and its arguments.
    pub script: &'a str,
    /// The path of the far side's network namespace; empty without a far side.
    pub far: &'a str,
    /// What the script finds beside it, and beside [`FILES`].
    pub files: &'a [(&'a str, &'a str)],
    /// A library of this machine, which the script finds too, as `library.so`.
    pub library: Option<&'a Path>,
}

impl Job<'_> {
    /// The command that starts it. It is not pinned, and measures nothing: see [`Job::measure`].
    pub fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "sh", "-c", SANDBOX, "sandbox"])
            .args([self.script, self.far])
            .arg(self.library.unwrap_or(Path::new("")))
            .args(FILES.iter().chain(self.files).flat_map(|(name, text)| [name, text]))
            .env("AM_BENCH_CORES", "none,none");
        command
    }

    /// The command that measures messages of these sizes on these cores.
    pub fn measure(&self, amount: Amount, cores: Cores, sizes: &[usize]) -> Command {
        let core = |core: Option<usize>| core.map_or("none".to_owned(), |core| core.to_string());
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let mut command = self.command();
        command
            .env("AM_BENCH_CORES", format!("{},{}", core(cores.near), core(cores.far)))
            .env("TIME", amount.time.as_nanos().to_string())
            .env("WARM_UP", amount.warm_up.as_nanos().to_string())
            .env("SIZES", sizes.join(" "));
        command
    }
}

/// The lines of JSON. Launchers print other lines in between.
///
/// # Errors
/// There are none, or others.
pub fn lines<T: DeserializeOwned>(output: &Output) -> Result<Vec<T>, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str);
    let lines: Vec<T> = lines.collect::<Result<_, _>>().unwrap_or_default();
    match !lines.is_empty() {
        true => Ok(lines),
        false => Err(unreadable(output)),
    }
}

/// What is said of an output that is not what it should be.
pub fn unreadable(output: &Output) -> String {
    format!("its output cannot be parsed: `{}`", end_of(&output.stdout))
}

/// The limit of a program's output.
const MAX_OUTPUT: usize = 1 << 20;
/// The limit of the characters of output in an error.
const MAX_ERROR_CHARS: usize = 300;
/// How often the caller is asked whether to go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Run a program until it ends, with this input. Its standard input is a pipe that closes when this process ends. After
/// an error, the program and its process group have ended too.
///
/// # Errors
/// It cannot be started, or was killed: after `limit`, or because it printed too much, or because this process shall end.
pub fn run(command: &mut Command, input: &[u8], limit: Duration, watch: &Watch) -> Result<Output, Error> {
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

/// The same, of a program that has to end well.
///
/// # Errors
/// As [`run`], and where it says that it has failed: `name` is its name.
pub fn run_well(name: &str, command: &mut Command, limit: Duration, watch: &Watch) -> Result<Output, Error> {
    let output = run(command, &[], limit, watch)?;
    if output.status.success() {
        return Ok(output);
    }
    let said = end_of(&[&output.stdout[..], &output.stderr].concat());
    Err(Error::Facility(format!("{name} ({}): {said}", output.status)))
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
pub fn end_of(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let said: String = said.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text: Vec<char> = lines.join("; ").chars().collect();
    let end: String = text[text.len().saturating_sub(MAX_ERROR_CHARS)..].iter().collect();
    if end.is_empty() { "it printed nothing".to_owned() } else { end }
}
