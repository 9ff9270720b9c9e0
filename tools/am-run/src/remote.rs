//! The launcher's side of an agent: a child process that is the agent, or the remote shell that runs it.

use std::ffi::OsStr;
use std::io::{self, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use am_spmd::rendezvous;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::event::Event;
use crate::options::Options;
use crate::output::Output;
use crate::protocol::{self, AGENT, FromAgent, MAX_MESSAGE, ToAgent};
use crate::ranks::advice;

/// How long a command may take to end after its output has ended.
const LAST_STATUS: Duration = Duration::from_millis(500);

/// A started agent. A separate thread writes the messages to it, because its pipe may be full.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) host: String,
    /// The command that started it.
    pub(crate) command: String,
    to: Sender<ToAgent>,
    child: Arc<Mutex<Child>>,
}

/// The channels that an agent's threads use.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub(crate) events: Sender<Event>,
    pub(crate) output: Arc<Output>,
}

impl Agent {
    /// Start the agent of this host, which is number `at` in the list.
    ///
    /// # Errors
    /// The command cannot be started; the text names it.
    pub(crate) fn start(options: &Options, host: &str, at: usize, ways: &Ways) -> Result<Agent, String> {
        let (mut command, shown) = command(options, host)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|error| format!("`{shown}` cannot be started: {error}{}", advice(&error)))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("`{shown}` has no pipes"));
        };
        let (to, messages) = mpsc::channel();
        let agent = Agent { host: host.to_owned(), command: shown, to, child: Arc::new(Mutex::new(child)) };
        let ways = ways.clone();
        let threads = thread::Builder::new().spawn(move || speak(stdin, &messages));
        let threads = threads.and_then(|_| thread::Builder::new().spawn(move || listen(at, stdout, &ways)));
        match threads {
            Ok(_) => Ok(agent),
            Err(error) => {
                agent.kill();
                Err(no_thread(&error))
            }
        }
    }

    /// Send this to the agent. Errors are ignored: the end of the agent is an event of its own.
    pub(crate) fn say(&self, message: ToAgent) {
        _ = self.to.send(message);
    }

    /// Describe how the command ended. If it has closed its output and still runs, end it.
    pub(crate) fn end(&self) -> String {
        let start = Instant::now();
        while start.elapsed() < LAST_STATUS {
            let ended = lock(&self.child).try_wait();
            match ended {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) => return format!("the command ended with {status}"),
                Err(error) => return error.to_string(),
            }
        }
        self.kill();
        "the command was ended".to_owned()
    }

    /// Ask the agent to end its processes. If it is stopped, it reads no message until it is continued.
    pub(crate) fn ask_to_end(&self, message: ToAgent) {
        self.say(message);
        self.signal(Signal::SIGCONT);
    }

    /// End the command with its process group, and with it the agent.
    pub(crate) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Send a signal to the command's process group.
    fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        // After the child was waited for, the kernel may reuse its number.
        if let Ok(None) = child.try_wait() {
            _ = killpg(Pid::from_raw(child.id().cast_signed()), signal);
        }
    }
}

/// The error text for a thread that the launcher cannot create.
pub(crate) fn no_thread(error: &io::Error) -> String {
    format!("no thread for this job: {error}; raise the limit of processes here (`ulimit -u`), or name fewer hosts")
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn command(options: &Options, host: &str) -> Result<(Command, String), String> {
    let own = std::env::current_exe().map_err(|error| format!("am-run does not find itself: {error}"))?;
    if is_here(host) {
        let mut command = Command::new(&own);
        command.arg(AGENT);
        return Ok((command, format!("{} {AGENT}", own.display())));
    }
    let there = options.am_run.as_deref().unwrap_or(own.as_os_str());
    let mut words = options.rsh.split_whitespace();
    let shell = words.next().ok_or("--rsh names no command")?;
    let mut command = Command::new(shell);
    // Some remote shells accept IPv6 addresses only without brackets.
    command.args(words).arg(host.trim_matches(['[', ']'])).arg(there).arg(AGENT);
    let shown = format!("{} {host} {} {AGENT}", options.rsh, there.to_string_lossy());
    Ok((command, shown))
}

/// Whether this name means the local host.
fn is_here(host: &str) -> bool {
    let own = nix::unistd::gethostname().unwrap_or_default();
    host == "localhost" || OsStr::new(host) == own
}

fn speak(mut stdin: ChildStdin, messages: &Receiver<ToAgent>) {
    while let Ok(message) = messages.recv() {
        if rendezvous::write(&mut stdin, &message).is_err() {
            return;
        }
    }
}

/// Read the agent's messages: write output at once, and pass on everything else as an event.
fn listen(at: usize, stdout: ChildStdout, ways: &Ways) {
    let mut from = BufReader::new(stdout);
    // The launcher's main thread outlives this one.
    let send = |event| _ = ways.events.send(event);
    match protocol::await_greeting(&mut from) {
        Ok(before) => _ = std::io::stderr().write_all(&before),
        Err(error) => return send(Event::NoAgent(at, error.to_string())),
    }
    send(Event::Ready(at));
    while let Ok(Some(message)) = rendezvous::read(&mut from, MAX_MESSAGE) {
        let written = match &message {
            FromAgent::Written(rank, stream, bytes) => ways.output.write(*rank, *stream, bytes),
            FromAgent::Ended(rank, _) => ways.output.end(*rank),
            _ => Ok(()),
        };
        if let Err(error) = written {
            send(Event::NoOutput(error));
        }
        if !matches!(message, FromAgent::Written(..)) {
            send(Event::Said(at, message));
        }
    }
    send(Event::Gone(at));
}
