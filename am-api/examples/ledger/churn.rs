//! Clients connect, exchange some messages and are killed while a server keeps running. Checks that the server keeps
//! nothing of the killed clients.
//!
//! Starting a process for each client would take most of the time. So one process has several clients, each a node with
//! its own transport, and all are killed with it.

pub(crate) mod roles;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::process::{self, Leave};
use crate::{Error, book, say};

/// The number of messages that each client exchanges before it is killed.
pub(super) const MESSAGES: u64 = 10;
/// The clients of one process. In shared memory a link has at most 64 members.
const EACH: u64 = 20;
/// How long the rate of the steady client is measured before and after the churn.
const WHILE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Carrier {
    Udp,
    Shm,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Clients to kill over each transport
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Seconds after which the server ends the connection of a silent client
    #[arg(long, default_value_t = 20.0)]
    keepalive: f64,
    /// Also print each row of the table as a line of JSON
    #[arg(long)]
    json: bool,
    /// Transports to test (default: both)
    transports: Vec<Carrier>,
}

/// A child process. It is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = (self.0.kill(), self.0.wait());
    }
}

/// One row of the table.
struct Row {
    when: &'static str,
    killed: u64,
    flows: u64,
    kilobytes: u64,
    rate: f64,
}

struct Churn {
    carrier: Carrier,
    directory: TempDir,
    server: Running,
    _steady: Running,
    keepalive: f64,
    stop: Leave,
    runs: u64,
    rows: Vec<Row>,
}

/// Returns `false` if the server still has state of killed clients.
pub(crate) fn run(plan: &Plan) -> Result<bool, Error> {
    let carriers = if plan.transports.is_empty() { vec![Carrier::Udp, Carrier::Shm] } else { plan.transports.clone() };
    say(&format_args!(
        "{:<6}{:<8}{:>10}{:>10}{:>14}{:>24}",
        "", "", "killed", "flows", "memory, KiB", "one client, requests/s"
    ));
    let (mut good, stop) = (true, process::interrupted()?);
    for carrier in carriers {
        let mut churn = Churn::new(carrier, plan.keepalive, stop.clone())?;
        churn.all(plan.clients)?;
        good &= churn.is_good();
        if plan.json {
            churn.rows.iter().for_each(|row| say(&row.json(carrier)));
        }
    }
    Ok(good)
}

impl Carrier {
    fn name(self) -> &'static str {
        ["udp", "shm"][self as usize]
    }

    fn server(self, directory: &Path) -> String {
        match self {
            Carrier::Udp => format!("udp:{}", local(1)),
            Carrier::Shm => format!("shm:churn,members=64,frames=1024,frame=2048,dir={}", directory.display()),
        }
    }

    fn client(self, directory: &Path) -> String {
        match self {
            Carrier::Udp => format!("udp:{},frames=256,peer={}", local(2).replace(":7000", ":0"), local(1)),
            Carrier::Shm => format!("shm:churn,frames=256,dir={}", directory.display()),
        }
    }
}

/// An address of this driver's own on the loopback network.
fn local(host: u8) -> String {
    let [low, high] = (std::process::id() as u16).to_be_bytes();
    format!("127.{high}.{low}.{host}:7000")
}

impl Churn {
    fn new(carrier: Carrier, keepalive: f64, stop: Leave) -> Result<Churn, Error> {
        let directory = process::directory()?;
        let path = directory.path();
        let server = start("stay", &carrier.server(path), &path.join("server"), "server", 0, keepalive)?;
        // The process that opens a segment first sets its size.
        appears(&stop, "the server does not open", || path.join("server").exists())?;
        let steady = start("steady", &carrier.client(path), &path.join("steady"), "steady", 1, keepalive)?;
        appears(&stop, "the server does not answer", || book::total(&path.join("steady")) > 0)?;
        Ok(Churn { carrier, directory, server, _steady: steady, keepalive, stop, runs: 1, rows: vec![] })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sleep for this time.
    ///
    /// # Errors
    /// The user interrupts the program.
    fn rest(&self, time: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        while !self.stop.load(Relaxed) {
            if begin.elapsed() >= time {
                return Ok(());
            }
            sleep(Duration::from_millis(10).min(time));
        }
        Err("interrupted".into())
    }

    fn all(&mut self, clients: u64) -> Result<(), Error> {
        self.rest(Duration::from_secs(1))?;
        self.row("before", 0, |churn| churn.rest(WHILE))?;
        let mut killed = 0;
        for part in 1..=4 {
            let until = clients * part / 4;
            let from = killed;
            self.row("during", until, |churn| {
                let mut killed = from;
                while killed < until {
                    let clients = EACH.min(until - killed);
                    churn.batch(clients)?;
                    killed += clients;
                }
                Ok(())
            })?;
            killed = until;
        }
        // The server notices the last killed clients after at most 1.25 times the keepalive time.
        self.rest(Duration::from_secs_f64(self.keepalive * 1.3 + 1.0))?;
        self.row("after", killed, |churn| churn.rest(WHILE))
    }

    /// Run a process with this many clients, and kill it after all have exchanged their messages.
    fn batch(&mut self, clients: u64) -> Result<(), Error> {
        self.rest(Duration::ZERO)?;
        self.runs += 1;
        let (transport, book) = (self.carrier.client(self.directory.path()), self.path("batch"));
        _ = fs::remove_file(&book);
        let mut batch = start("visit", &transport, &book, &clients.to_string(), self.runs, self.keepalive)?;
        let begin = Instant::now();
        while book::total(&book) < clients * MESSAGES {
            if let Some(status) = self.server.0.try_wait()? {
                return Err(format!("the server ended: {status}").into());
            }
            if let Some(status) = batch.0.try_wait()? {
                return Err(format!("the clients of batch {} ended: {status}", self.runs).into());
            }
            if begin.elapsed() > Duration::from_secs(60) {
                return Err(format!("batch {}: {} replies in a minute", self.runs, book::total(&book)).into());
            }
            sleep(Duration::from_millis(1));
        }
        drop(batch);
        Ok(())
    }

    /// Run `work` and measure the steady client's rate meanwhile, then the server's memory and flows.
    fn row(
        &mut self,
        when: &'static str,
        killed: u64,
        work: impl FnOnce(&mut Churn) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (before, begin) = (book::total(&self.path("steady")), Instant::now());
        work(self)?;
        let replies = book::total(&self.path("steady")) - before;
        let rate = replies as f64 / begin.elapsed().as_secs_f64();
        let (flows, kilobytes) = (book::total(&self.path("server")), resident(self.server.0.id())?);
        let row = Row { when, killed, flows, kilobytes, rate };
        say(&format_args!(
            "{:<6}{:<8}{:>10}{:>10}{:>14}{:>24.0}",
            self.carrier.name(),
            when,
            killed,
            flows,
            kilobytes,
            rate
        ));
        self.rows.push(row);
        Ok(())
    }

    /// Only the steady client's flow is left, and the server's memory does not grow with the killed clients.
    fn is_good(&self) -> bool {
        const GROWTH: u64 = 16 << 10;
        let [_, first, .., after] = &self.rows[..] else { return false };
        after.flows == 1 && after.rate > 0.0 && after.kilobytes < first.kilobytes + GROWTH
    }
}

impl Row {
    fn json(&self, carrier: Carrier) -> serde_json::Value {
        json!({"transport": carrier.name(), "when": self.when, "killed": self.killed, "flows": self.flows,
            "kilobytes": self.kilobytes, "rate": self.rate as u64})
    }
}

/// Wait until the condition holds, at most 20 seconds. Otherwise `error` is the error.
fn appears(stop: &Leave, error: &str, condition: impl Fn() -> bool) -> Result<(), Error> {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > Duration::from_secs(20) || stop.load(Relaxed) {
            return Err(error.into());
        }
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The resident memory of a process, in KiB.
fn resident(process: u32) -> Result<u64, Error> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel does not say VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn start(role: &str, transport: &str, book: &Path, name: &str, run: u64, keepalive: f64) -> Result<Running, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).arg(transport).arg(book).args(["--name", name, "--run", &run.to_string()]);
    command.args(["--keepalive", &keepalive.to_string()]).process_group(0);
    if role != "stay" {
        // Many clients start at once, so each needs more patience.
        command.args(["--patience", "20"]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Ok(Running(command.spawn()?))
}
