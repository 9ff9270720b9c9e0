//! Clients connect, exchange some messages and are killed while a server keeps running; one more leaves with each four.
//! Checks that the server keeps nothing of them.
//!
//! Starting a process for each client would take most of the time. So one process has several clients, each a node with
//! its own transport, and all are killed with it.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, Node, Request};
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use super::book;
use super::book::Book;
use super::peer::WORK;
use super::process::{self, ENDPOINT, Leave, Place, Role, SERVER, open};
use crate::Error;
use crate::program::say;
use am_testing::example::{Running, local};

/// The number of messages that each client exchanges before it is killed.
const MESSAGES: u64 = 10;
/// The clients of one process. In shared memory a link has at most 64 members.
const EACH: u64 = 20;
/// How long the rate of the steady client is measured before and after the churn.
const WHILE: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);
const TRANSPORTS: [&str; 2] = ["udp", "shm"];

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
    #[arg(value_parser = TRANSPORTS)]
    transports: Vec<String>,
}

/// One row of the table.
#[derive(Serialize)]
struct Row {
    transport: String,
    when: &'static str,
    killed: u64,
    flows: u64,
    kilobytes: u64,
    files: usize,
    rate: u64,
}

struct Churn {
    transport: String,
    directory: TempDir,
    /// The server, and the client that stays.
    running: Vec<Running>,
    keepalive: f64,
    stop: Leave,
    runs: u64,
    rows: Vec<Row>,
}

/// Returns `false` if the server still has state of killed clients.
pub(crate) fn run(plan: &Plan) -> Result<bool, Error> {
    let all = TRANSPORTS.map(str::to_owned);
    let transports = if plan.transports.is_empty() { &all[..] } else { &plan.transports };
    say(&format_args!(
        "{:<6}{:<8}{:>10}{:>10}{:>14}{:>8}{:>24}",
        "", "", "killed", "flows", "memory, KiB", "files", "one client, requests/s"
    ));
    let (mut good, stop) = (true, process::interrupted()?);
    for transport in transports {
        let (transport, directory, stop) = (transport.clone(), process::directory()?, stop.clone());
        let (running, rows) = (vec![], vec![]);
        let mut churn = Churn { transport, directory, running, keepalive: plan.keepalive, stop, runs: 0, rows };
        churn.all(plan.clients)?;
        good &= churn.is_good();
        if plan.json {
            churn.rows.iter().for_each(|row| say(&json!(row)));
        }
    }
    Ok(good)
}

impl Churn {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A process of this name, whose book is called as it is.
    fn start(&mut self, role: Role, name: &str) -> Result<Running, Error> {
        let directory = self.directory.path().display();
        let on = match (&*self.transport, role) {
            ("udp", Role::Stay) => format!("udp:{}", local(1)),
            ("udp", _) => format!("udp:{},frames=256,peer={}", local(2).replace(":7000", ":0"), local(1)),
            (_, Role::Stay) => format!("shm:churn,members=64,frames=1024,frame=2048,dir={directory}"),
            _ => format!("shm:churn,frames=256,dir={directory}"),
        };
        // Many clients start at once, so each needs more patience.
        let patience = if role == Role::Stay { 1.5 } else { PATIENCE.as_secs_f64() };
        let (host, keepalive, run) = (None, self.keepalive, self.runs);
        self.runs += 1;
        let (book, name) = (self.path(name), name.to_owned());
        let place = Place { role, on, book, name, host, run, seed: 0, twice: false, loss: 0.0, keepalive, patience };
        place.start(Stdio::inherit())
    }

    /// Wait for this time, or until the condition holds before: whether it does.
    ///
    /// # Errors
    /// The user interrupts the program.
    fn wait(&self, time: Duration, condition: impl Fn() -> bool) -> Result<bool, Error> {
        let begin = Instant::now();
        while !self.stop.load(Relaxed) {
            if condition() || begin.elapsed() >= time {
                return Ok(condition());
            }
            sleep(Duration::from_millis(10).min(time));
        }
        Err("interrupted".into())
    }

    /// Wait until the condition holds. Otherwise `error` is the error.
    fn appears(&self, error: &str, condition: impl Fn() -> bool) -> Result<(), Error> {
        if self.wait(PATIENCE, condition)? { Ok(()) } else { Err(error.into()) }
    }

    fn rest(&self, time: Duration) -> Result<(), Error> {
        self.wait(time, || false).map(|_| ())
    }

    fn all(&mut self, clients: u64) -> Result<(), Error> {
        let server = self.start(Role::Stay, SERVER)?;
        self.running.push(server);
        // The process that opens a segment first sets its size.
        self.appears("the server does not open", || self.path(SERVER).exists())?;
        let steady = self.start(Role::Steady, "steady")?;
        self.running.push(steady);
        self.appears("the server does not answer", || book::total(&self.path("steady")) > 0)?;
        self.rest(Duration::from_secs(1))?;
        self.row("before", 0, |churn| churn.rest(WHILE))?;
        let mut killed = 0;
        for part in 1..=4 {
            let until = clients * part / 4;
            self.row("during", until, |churn| {
                while killed < until {
                    let clients = EACH.min(until - killed);
                    churn.batch(clients)?;
                    killed += clients;
                }
                Ok(())
            })?;
        }
        // The server notices the last killed clients after at most 1.25 times the keepalive time.
        self.rest(Duration::from_secs_f64(self.keepalive * 1.3 + 1.0))?;
        self.row("after", killed, |churn| churn.rest(WHILE))
    }

    /// Run a process with this many clients, and kill it after all have exchanged their messages.
    fn batch(&mut self, clients: u64) -> Result<(), Error> {
        self.rest(Duration::ZERO)?;
        let name = clients.to_string();
        let book = self.path(&name);
        _ = fs::remove_file(&book);
        let Running(batch) = &mut self.start(Role::Visit, &name)?;
        let (begin, run) = (Instant::now(), self.runs);
        while book::total(&book) < clients * MESSAGES {
            if let Some(status) = self.running[0].0.try_wait()? {
                return Err(format!("the server ended: {status}").into());
            }
            if let Some(status) = batch.try_wait()? {
                return Err(format!("the clients of batch {run} ended: {status}").into());
            }
            if begin.elapsed() > Duration::from_secs(60) {
                return Err(format!("batch {run}: {} replies in a minute", book::total(&book)).into());
            }
            sleep(Duration::from_millis(1));
        }
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
        let rate = (replies as f64 / begin.elapsed().as_secs_f64()).round() as u64;
        let server = PathBuf::from(format!("/proc/{}", self.running[0].0.id()));
        let files = fs::read_dir(server.join("fd"))?.count();
        let status = fs::read_to_string(server.join("status"))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel does not say VmRSS")?;
        let kilobytes = line.trim().trim_end_matches(" kB").parse()?;
        let (transport, flows) = (self.transport.clone(), book::total(&self.path(SERVER)));
        say(&format_args!("{transport:<6}{when:<8}{killed:>10}{flows:>10}{kilobytes:>14}{files:>8}{rate:>24}"));
        self.rows.push(Row { transport, when, killed, flows, kilobytes, files, rate });
        Ok(())
    }

    /// Only the steady client's flow is left, and the server's memory and open files do not grow with the killed clients.
    fn is_good(&self) -> bool {
        const GROWTH: u64 = 16 << 10;
        let [before, first, .., after] = &self.rows[..] else { return false };
        let has_grown = after.kilobytes >= first.kilobytes + GROWTH || after.files > before.files;
        after.flows == 1 && after.rate > 0 && !has_grown
    }
}

/// Answers; its book's total is the flows that are open.
pub(crate) fn stay(place: &Place, leave: &Leave) -> Result<(), Error> {
    let Some(node) = open(place, leave)? else { return Ok(()) };
    let mut book = Book::create(&place.book)?;
    let mut endpoint = node.endpoint::<u64>(ENDPOINT)?;
    // A client that is gone needs no answer.
    endpoint.on_request(WORK, |_, Request { message, token }| _ = token.reply(WORK, message.words(), b""));
    endpoint.on_connection(|flows, event| match event.change {
        ConnectionChange::Accepted => *flows += 1,
        ConnectionChange::Ended(_) => *flows -= 1,
        ConnectionChange::Opened | ConnectionChange::Failed(_) => {}
    });
    let (mut flows, mut said) = (0, 0);
    while !leave.load(Relaxed) {
        endpoint.wait(&mut flows, TURN);
        if flows != said {
            book.set(flows);
            said = flows;
        }
    }
    Ok(())
}

/// A client.
struct Visitor {
    _node: Node,
    endpoint: Endpoint<u64>,
    to: Connection,
    replies: u64,
    asked: u64,
}

impl Visitor {
    fn connect(node: Node) -> Result<Visitor, Error> {
        let mut endpoint = node.endpoint::<u64>(ENDPOINT)?;
        endpoint.on_reply(WORK, |replies, _| *replies += 1);
        let to = endpoint.connect(SERVER, ENDPOINT)?;
        Ok(Visitor { _node: node, endpoint, to, replies: 0, asked: 0 })
    }

    /// Ask until this is the number of requests, or there is no room now.
    fn ask(&mut self, until: u64) -> Result<(), Error> {
        while self.asked < until {
            match self.endpoint.try_request(self.to, WORK, &[], b"") {
                Ok(()) => self.asked += 1,
                Err(error) if error.is_temporary() => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Asks all the time, some requests at once.
pub(crate) fn steady(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut book = Book::create(&place.book)?;
    let Some(node) = open(place, leave)? else { return Ok(()) };
    let (mut visitor, mut said) = (Visitor::connect(node)?, 0);
    while !leave.load(Relaxed) {
        visitor.ask(visitor.replies + 8)?;
        visitor.endpoint.wait(&mut visitor.replies, TURN);
        if visitor.replies > said + 64 {
            said = visitor.replies;
            book.set(said);
        }
    }
    Ok(())
}

/// As many clients as it is called, and a quarter more, at once. The others leave, and these wait to be killed.
pub(crate) fn visit(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut book = Book::create(&place.book)?;
    let mut visitors = vec![];
    let clients = place.name.parse::<usize>()?;
    for n in 0..clients + clients.div_ceil(4) {
        let place = Place { name: format!("client-{}-{n}", place.run), ..place.clone() };
        let Some(node) = open(&place, leave)? else { return Ok(()) };
        visitors.push(Visitor::connect(node)?);
    }
    let begin = Instant::now();
    while visitors.iter().any(|visitor| visitor.replies < MESSAGES) {
        for visitor in &mut visitors {
            visitor.ask(MESSAGES.min(visitor.replies + 1))?;
            visitor.endpoint.poll(&mut visitor.replies);
        }
        if begin.elapsed() > PATIENCE {
            return Err("not all were answered".into());
        }
        yield_now();
    }
    visitors.truncate(clients);
    book.set(visitors.iter().map(|visitor| visitor.replies).sum());
    loop {
        // None is polled: they are as idle as can be.
        sleep(PATIENCE);
    }
}
