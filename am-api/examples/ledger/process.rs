//! What all processes that the driver starts have in common.

use std::io::{BufRead, stdin};
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node};
use am_netns::Host;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::Error;

pub(crate) const SERVER: &str = "server";
pub(crate) const ENDPOINT: &str = "ledger";
/// Request and reply: connection, number, what both make; a reply's fourth word is the server's run.
pub(crate) const WORK: HandlerId = HandlerId(0);

/// How a process is started.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Its transport.
    pub(crate) on: String,
    /// Where it writes its book.
    pub(crate) book: PathBuf,
    /// Its node's name.
    #[arg(long, default_value = SERVER)]
    pub(crate) name: String,
    /// The network namespace that it runs in.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Number of the process, among all.
    #[arg(long, default_value_t = 0)]
    pub(crate) run: u64,
    /// Draws what it does.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Call handlers twice, now and then.
    #[arg(long)]
    pub(crate) twice: bool,
    /// Seconds after which a silent peer is given up.
    #[arg(long, default_value_t = 20.0)]
    pub(crate) keepalive: f64,
    /// And after how many while something is asked of it.
    #[arg(long, default_value_t = 1.5)]
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

/// Where books and segments are; it goes with the driver.
pub(crate) fn directory() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("am-ledger-{}-", std::process::id())).tempdir_in("/dev/shm")
}

/// Run this, until the driver says "leave" or dies.
pub(crate) fn run(place: &Place, work: impl FnOnce(&Place, &Leave) -> Result<(), Error> + Send) -> Result<(), Error> {
    set_pdeathsig(Signal::SIGKILL)?;
    let leave = Leave::default();
    let told = Leave::clone(&leave);
    thread::spawn(move || {
        for line in stdin().lock().lines() {
            told.store(line.is_ok_and(|line| line == "leave"), Relaxed);
        }
        exit(3);
    });
    match &place.host {
        Some(path) => Host::at("host", path)?.enter(|| work(place, &leave))?,
        None => work(place, &leave),
    }
}

/// Open the node; an interface that is down, or a predecessor that is not gone yet, are waited for.
pub(crate) fn open(place: &Place, leave: &Leave) -> Result<Option<Node>, Error> {
    const LONG: Duration = Duration::from_secs(20);
    let begin = Instant::now();
    while !leave.load(Relaxed) {
        let [keepalive, patience] = [place.keepalive, place.patience].map(Duration::from_secs_f64);
        match Node::builder(&place.name).keepalive(keepalive).patience(patience).open(&place.on) {
            Ok(node) => return Ok(Some(node)),
            Err(error) if begin.elapsed() > LONG => return Err(error.into()),
            Err(error) => eprintln!("{error}; once more"),
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}

/// What connection and number make.
pub(crate) fn seal(connection: u64, number: u64) -> u64 {
    let value = (connection ^ number.rotate_left(40)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value ^ value >> 29
}

/// Bytes that a message carries besides: mostly few, now and then many.
pub(crate) fn payload(seal: u64) -> &'static [u8] {
    static BYTES: [u8; 1200] = [0xA5; 1200];
    let most = if seal.is_multiple_of(16) { BYTES.len() as u64 } else { 64 };
    &BYTES[..((seal >> 8) % most) as usize]
}

/// Whether a message is as it was sent.
pub(crate) fn is_whole(words: &[u64], bytes: &[u8]) -> bool {
    words.len() > 2 && seal(words[0], words[1]) == words[2] && bytes == payload(words[2])
}
