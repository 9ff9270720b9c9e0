//! What all processes that the driver starts have in common.

use std::io::{Write, stderr, stdin};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_netns::Host;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::Error;
use crate::program;
use am_testing::example::Running;

pub(crate) const SERVER: &str = "server";
pub(crate) const ENDPOINT: &str = "ledger";

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Of `run`: the server, and a client.
    Serve,
    Ask,
    /// Of `churn`: the server, the client that stays, and those that are killed.
    Stay,
    Steady,
    Visit,
    /// Of `members`: it asks all others, and answers.
    Mesh,
    /// A daemon between them. Its name is its wire.
    Relay,
}

/// How a process is started: its argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) role: Role,
    /// Its transport.
    pub(crate) on: String,
    /// Where it writes its book.
    pub(crate) book: PathBuf,
    /// Its node's name.
    pub(crate) name: String,
    /// The network namespace that it runs in.
    pub(crate) host: Option<String>,
    /// Number of the process, among all.
    pub(crate) run: u64,
    /// Draws what it does.
    pub(crate) seed: u64,
    /// Call handlers twice, now and then.
    pub(crate) twice: bool,
    /// The percentage of its frames that it loses.
    pub(crate) loss: f64,
    /// Seconds after which a silent peer is given up.
    pub(crate) keepalive: f64,
    /// And after how many while something is asked of it.
    pub(crate) patience: f64,
}

/// Whether it is to end: the driver says so, or a signal does to the driver.
pub(crate) type Leave = Arc<AtomicBool>;

/// Ctrl-C and the like, for the driver: what it has started and made has to go with it.
pub(crate) fn interrupted() -> std::io::Result<Leave> {
    let leave = Leave::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, leave.clone())?;
    }
    Ok(leave)
}

/// Where books and segments are; it goes with the driver, and where that was killed, with the next one.
pub(crate) fn directory() -> std::io::Result<TempDir> {
    for entry in std::fs::read_dir("/dev/shm")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let driver = name.strip_prefix("am-ledger-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if driver.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            _ = std::fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(&format!("am-ledger-{}-", std::process::id())).tempdir_in("/dev/shm")
}

impl Place {
    /// From the driver's main thread only: a process dies with the thread that started it.
    pub(crate) fn start(&self, errors: Stdio) -> Result<Running, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        // Ctrl-C is the driver's business.
        command.arg("play").arg(serde_json::to_string(self)?).process_group(0);
        Ok(Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors).spawn()?))
    }
}

/// Be the process of this place, until the driver says "leave" or dies.
pub(crate) fn play(place: &Place, work: fn(&Place, &Leave) -> Result<(), Error>) -> Result<(), Error> {
    set_pdeathsig(Signal::SIGKILL)?;
    let leave = Leave::default();
    let told = Leave::clone(&leave);
    thread::spawn(move || {
        for line in stdin().lines() {
            told.store(line.is_ok_and(|line| line == "leave"), Relaxed);
        }
        exit(3);
    });
    match &place.host {
        Some(path) => Host::at("host", path)?.enter(|| work(place, &leave))?,
        None => work(place, &leave),
    }
}

/// Open the node. `None` if the process is told to leave before.
pub(crate) fn open(place: &Place, leave: &Leave) -> Result<Option<Node>, Error> {
    let [keepalive, patience] = [place.keepalive, place.patience].map(Duration::from_secs_f64);
    let builder = || Node::builder(&place.name).keepalive(keepalive).patience(patience);
    retry(leave, || program::open(builder(), &place.on, place.loss, place.seed))
}

/// Open a node or a daemon; an interface that is down, or a predecessor that is not gone yet, are waited for.
pub(crate) fn retry<T, E>(leave: &Leave, mut open: impl FnMut() -> Result<T, E>) -> Result<Option<T>, Error>
where
    E: std::error::Error + Send + Sync + 'static,
{
    const LONG: Duration = Duration::from_secs(20);
    let begin = Instant::now();
    while !leave.load(Relaxed) {
        match open() {
            Ok(opened) => return Ok(Some(opened)),
            Err(error) if begin.elapsed() > LONG => return Err(error.into()),
            Err(error) => _ = writeln!(stderr(), "{error}; once more"),
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}
