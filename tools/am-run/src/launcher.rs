//! The launcher: starts an agent on each host, and decides when the job ends.

use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use am_spmd::rendezvous::variables;
use am_spmd::segment;
use nix::sys::signal::{Signal, raise};
use nix::unistd;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::event::Event;
use crate::hosts::{self, HostSlots, Placed};
use crate::options::Options;
use crate::output::Output;
use crate::protocol::{CHUNK, End, FromAgent, Job, ToAgent};
use crate::ranks::GRACE;
use crate::remote::{Agent, Ways, no_thread};
use crate::report::{self, Report};
use crate::stop::Stop;
use crate::table::random;
use am_input::command_line::{NO_JOB, NO_OUTPUT};

/// What stops a process.
const STOP: i32 = Signal::SIGSTOP as i32;
/// The agent of rank 0: ranks fill the hosts in order.
const READER: usize = 0;
/// How long the agents have to end their processes.
const END: Duration = Duration::from_secs(10);
/// How long those have that have not answered yet.
const END_UNREADY: Duration = Duration::from_secs(1);
/// How long the processes have to end after a signal that asks for it, before SIGTERM and SIGKILL.
const AFTER_SIGNAL: Duration = Duration::from_secs(5).saturating_sub(GRACE);
/// How long the last messages have after such a signal.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A job that runs.
#[derive(Debug)]
struct Launcher {
    agents: Vec<Agent>,
    /// What else to say when a host does not answer.
    hint: Option<String>,
    report: Report,
    output: Arc<Output>,
    /// Whether each agent answers, and whether it is gone.
    ready: Vec<bool>,
    gone: Vec<bool>,
    /// The processes that have ended.
    ended: Vec<bool>,
    /// The blobs of the present exchange.
    blobs: Vec<Option<Vec<u8>>>,
    /// The channel to the thread that reads input.
    taken: mpsc::Sender<()>,
    stop: Stop,
    /// The exit code, once it is decided.
    code: Option<u8>,
    /// Whether a signal asks for the end.
    is_interrupted: bool,
    /// The time at which the agents were asked to end, or will be asked.
    end_at: Option<Instant>,
    /// The time at which the agents were asked to end.
    ending_since: Option<Instant>,
}

pub(crate) fn run(options: &Options) -> ExitCode {
    let result = place(options).and_then(|placed| launch(options, &placed));
    ExitCode::from(result.unwrap_or_else(|why| {
        report::say(why);
        NO_JOB
    }))
}

fn place(options: &Options) -> Result<Vec<Placed>, String> {
    let here = || Ok(vec![HostSlots { name: "localhost".to_owned(), slots: options.processes.unwrap_or(1) }]);
    let listed = options.hosts.as_deref().map_or_else(here, hosts::parse);
    listed.and_then(|hosts| hosts::place(&hosts, options.processes)).map_err(|error| error.to_string())
}

fn launch(options: &Options, placed: &[Placed]) -> Result<u8, String> {
    let (events, received) = mpsc::channel();
    let ways = Ways { events: events.clone(), output: Arc::new(Output::new(options.prefix)) };
    watch_signals(&events)?;
    let size = placed.iter().map(|placed| placed.ranks.len()).sum();
    let job = job(options, size)?;
    check_segment(&job, placed)?;
    let mut agents = vec![];
    for (at, Placed { host, ranks }) in placed.iter().enumerate() {
        let agent = Agent::start(options, host, at, &ways)?;
        agent.say(ToAgent::Start(Job {
            ranks: ranks.clone(),
            host: host.rsplit('@').next().unwrap_or(host).to_owned(),
            reader: ranks.contains(&0).then_some(0),
            ..job.clone()
        }));
        agents.push(agent);
    }
    let (taken, count) = (read_input(&events)?, agents.len());
    let launcher = Launcher {
        agents,
        hint: options.host_hint(),
        output: ways.output,
        report: Report::start().map_err(|error| no_thread(&error))?,
        ready: vec![false; count],
        gone: vec![false; count],
        ended: vec![false; size],
        blobs: vec![None; size],
        taken,
        stop: Stop::default(),
        code: None,
        is_interrupted: false,
        end_at: None,
        ending_since: None,
    };
    Ok(launcher.run(&received, Duration::from_secs(options.patience)))
}

/// The part of a job that all hosts share.
fn job(options: &Options, size: usize) -> Result<Job, String> {
    let directory = match &options.directory {
        Some(directory) => directory.as_bytes().to_vec(),
        None => std::env::current_dir().map_err(|error| error.to_string())?.as_os_str().as_bytes().to_vec(),
    };
    let mut environment = options.environment()?;
    if let Some(transport) = &options.transport {
        environment.push((variables::TRANSPORT.to_owned(), transport.clone()));
    }
    let name = random::<4>().map_err(|error| format!("no random numbers: {error}"))?;
    Ok(Job {
        name: format!("job{name}"),
        size: u32::try_from(size).unwrap_or(u32::MAX),
        ranks: vec![],
        host: String::new(),
        program: options.program.iter().map(|part| part.as_bytes().to_vec()).collect(),
        directory,
        environment,
        reader: None,
    })
}

/// The processes of a host share a segment, which has a limit.
fn check_segment(job: &Job, placed: &[Placed]) -> Result<(), String> {
    let crowded = placed.iter().find(|placed| placed.ranks.len() > segment::MAX_MEMBERS);
    let Some(Placed { host, ranks }) = crowded.filter(|_| segment::directory(job.transport()).is_some()) else {
        return Ok(());
    };
    let (transport, count, most) = (job.transport(), ranks.len(), segment::MAX_MEMBERS);
    Err(format!(
        "{count} processes on host {host}, and `{transport}` is for {most} on a host at most: start fewer there, or use `--transport udp`"
    ))
}

/// Make an event of each signal.
fn watch_signals(events: &mpsc::Sender<Event>) -> Result<(), String> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT]);
    let mut signals = signals.map_err(|error| format!("signals cannot be handled: {error}"))?;
    let events = events.clone();
    let watch = move || signals.forever().for_each(|signal| _ = events.send(Event::Signal(signal)));
    thread::Builder::new().spawn(watch).map(drop).map_err(|error| no_thread(&error))
}

/// Read input in pieces: the next one when rank 0 has taken the last.
fn read_input(events: &mpsc::Sender<Event>) -> Result<mpsc::Sender<()>, String> {
    let (sender, taken) = mpsc::channel();
    let events = events.clone();
    let read = move || {
        let stdin = std::io::stdin();
        // A process in the background that reads from the terminal is stopped. It has no input.
        let is_background = unistd::tcgetpgrp(&stdin).is_ok_and(|group| group != unistd::getpgrp());
        let mut bytes = vec![0; CHUNK];
        loop {
            let length = if is_background { 0 } else { unistd::read(&stdin, &mut bytes).unwrap_or(0) };
            _ = events.send(Event::Input(bytes[..length].to_vec()));
            if length == 0 || taken.recv().is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read).map(|_| sender).map_err(|error| no_thread(&error))
}

impl Launcher {
    fn run(mut self, events: &Receiver<Event>, patience: Duration) -> u8 {
        let start = Instant::now();
        while !self.is_over() {
            match events.recv_timeout(Duration::from_millis(50)) {
                Ok(event) => self.on_event(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.ending_since.is_none() && start.elapsed() > patience {
                let late: Vec<_> = (0..self.agents.len()).filter(|at| !self.ready[*at]).collect();
                late.iter().for_each(|at| self.report.say(format_args!("no answer from {}", self.shown(*at))));
                if !late.is_empty() {
                    self.fail(NO_JOB);
                }
            }
            match self.end_at {
                Some(at) if at <= Instant::now() && self.ending_since.is_some() => break,
                Some(at) if at <= Instant::now() => self.end(),
                _ => {}
            }
        }
        self.agents.iter().for_each(Agent::kill);
        let (end, is_interrupted) = (Instant::now(), self.is_interrupted);
        // Whoever has ended the job is not kept waiting by the reader of its messages.
        self.report.finish(|| {
            events.try_iter().any(|event| matches!(event, Event::Signal(SIGINT | SIGTERM | SIGHUP | SIGQUIT)))
                || is_interrupted && end.elapsed() > LAST_WORDS
        });
        self.code.unwrap_or(0)
    }

    /// Whether nobody has to be waited for: agents that have not answered yet have little to end.
    fn is_over(&self) -> bool {
        let is_late = self.ending_since.is_some_and(|since| since.elapsed() > END_UNREADY);
        self.gone.iter().zip(&self.ready).all(|(gone, ready)| *gone || (is_late && !ready))
    }

    /// An agent for a message: its host, and what started it.
    fn shown(&self, at: usize) -> String {
        format!("host {} (`{}`)", self.agents[at].host, self.agents[at].command)
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Ready(at) => self.ready[at] = true,
            Event::NoAgent(at, why) => {
                self.gone[at] = true;
                if self.ending_since.is_none() {
                    let how = self.agents[at].end();
                    self.report.say(format_args!("no agent on {}: {why}; {how}", self.shown(at)));
                    self.report.say(
                        "is the host reachable without a password, and am-run installed there? See --rsh and --am-run",
                    );
                    self.hint.iter().for_each(|hint| self.report.say(hint));
                    self.fail(NO_JOB);
                }
            }
            Event::Said(_, FromAgent::Written(..)) => {}
            Event::Said(_, FromAgent::InputTaken) => _ = self.taken.send(()),
            Event::Said(_, FromAgent::Signalled(STOP)) => self.on_stopped(),
            Event::Said(_, FromAgent::Signalled(_)) => {}
            Event::Said(_, FromAgent::Blob(rank, blob)) => self.on_blob(rank, blob),
            Event::Said(at, FromAgent::EndJob(rank, code)) => self.on_end_job(at, rank, code),
            Event::Said(at, FromAgent::Ended(rank, end)) => self.on_ended(at, rank, end),
            Event::Said(at, FromAgent::Failed(why)) => {
                self.report.say(format_args!("host {}: {why}", self.agents[at].host));
                self.fail(NO_JOB);
            }
            Event::Gone(at) => {
                self.gone[at] = true;
                if self.ending_since.is_none() {
                    self.report.say(format_args!("host {} was lost", self.agents[at].host));
                    self.fail(NO_JOB);
                }
            }
            Event::NoOutput(why) => self.on_no_output(&why),
            Event::Signal(signal) => self.on_signal(signal),
            Event::Input(bytes) => self.agents[READER].say(ToAgent::Input(bytes)),
        }
    }

    fn on_blob(&mut self, rank: u32, blob: Vec<u8>) {
        if let Some(slot) = self.blobs.get_mut(rank as usize) {
            *slot = Some(blob);
        }
        if self.blobs.iter().all(Option::is_some) {
            let blobs: Vec<Vec<u8>> = self.blobs.iter_mut().map(|blob| blob.take().unwrap_or_default()).collect();
            self.agents.iter().for_each(|agent| agent.say(ToAgent::Blobs(blobs.clone())));
        }
        self.check_exchange();
    }

    /// A process ends the job on purpose.
    fn on_end_job(&mut self, at: usize, rank: u32, code: u8) {
        if code != 0 && self.code.is_none() {
            let host = &self.agents[at].host;
            self.report.say(format_args!("rank {rank} on host {host} has ended the job with exit code {code}"));
        }
        self.fail(code);
    }

    fn on_ended(&mut self, at: usize, rank: u32, end: End) {
        if let Some(ended) = self.ended.get_mut(rank as usize) {
            *ended = true;
        }
        let (code, how) = match end {
            End::Code(0) => (0, String::new()),
            End::Code(code) => (u8::try_from(code).unwrap_or(1), format!("ended with exit code {code}")),
            End::Signal(signal) => (by_signal(signal), format!("was ended by signal {signal}")),
        };
        if code != 0 && self.code.is_none() {
            let others = if self.ended.iter().all(|ended| *ended) { "" } else { "; ending the others" };
            self.report.say(format_args!("rank {rank} on host {} {how}{others}", self.agents[at].host));
            self.fail(code);
        } else if self.ended.iter().all(|ended| *ended) {
            self.end();
        } else {
            self.check_exchange();
        }
    }

    fn on_signal(&mut self, signal: i32) {
        let send = |signal: i32| self.agents.iter().for_each(|agent| agent.say(ToAgent::Signal(signal)));
        match signal {
            SIGTSTP => {
                send(STOP);
                self.stop.ask(self.gone.iter().filter(|gone| !**gone).count());
            }
            SIGCONT => {
                self.stop.cancel();
                send(signal);
            }
            SIGINT | SIGTERM | SIGHUP | SIGQUIT => {
                self.agents.iter().for_each(|agent| agent.ask_to_end(ToAgent::Signal(signal)));
                self.is_interrupted = true;
                self.output.interrupt();
                let is_second = self.code.is_some();
                self.code.get_or_insert(by_signal(signal));
                // A job that has not started everywhere has nothing to bring to its end.
                if is_second || !self.ready.iter().all(|ready| *ready) {
                    return self.end();
                }
                self.end_at = Some(Instant::now() + AFTER_SIGNAL);
            }
            _ => send(signal),
        }
    }

    /// The processes of one more host are stopped. The agents keep running, because they are in other process groups.
    fn on_stopped(&mut self) {
        if self.stop.answer() {
            // Fails only for a number that is no signal.
            _ = raise(Signal::SIGSTOP);
        }
    }

    /// A reader that has left, as in `| head`, needs no words.
    fn on_no_output(&mut self, why: &io::Error) {
        if self.ending_since.is_none() && why.kind() != ErrorKind::BrokenPipe {
            self.report.say(format_args!("{NO_OUTPUT}: {why}; ending the processes"));
        }
        self.fail(NO_JOB);
    }

    /// An ended process takes part in no exchange, so the others would wait for it forever.
    fn check_exchange(&mut self) {
        let mut missing = self.blobs.iter().zip(&self.ended).map(|(blob, ended)| blob.is_none() && *ended);
        let is_waiting = self.blobs.iter().any(Option::is_some);
        if let Some(rank) = missing.position(|missing| missing).filter(|_| is_waiting && self.code.is_none()) {
            self.report.say(format_args!(
                "rank {rank} has ended, and the others wait for it: all processes open their nodes, exchange and meet at \
                 barriers equally often, and one that means to end the job says so (Place::end_job, AM2_SpmdEndJob); ending \
                 the others"
            ));
            self.fail(NO_JOB);
        }
    }

    fn fail(&mut self, code: u8) {
        self.code.get_or_insert(code);
        self.end();
    }

    /// Ask the agents to end.
    fn end(&mut self) {
        if self.ending_since.is_none() {
            self.ending_since = Some(Instant::now());
            self.end_at = Some(Instant::now() + END);
            self.agents.iter().for_each(|agent| agent.ask_to_end(ToAgent::End));
        }
    }
}

fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
