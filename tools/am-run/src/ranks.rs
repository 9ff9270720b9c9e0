//! The processes of a host: each in a process group of its own, which ends as a whole.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use am_spmd::rendezvous::variables;
use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::protocol::{CHUNK, End, FromAgent, Job, Stream, ToLauncher};
use crate::start::START;

/// How long a process has between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the end of the output of an ended process. A limit is needed because another process may hold its pipe open.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// The existing process groups. The kernel may reuse a group's number once its process was waited for, so signalling and waiting both hold
/// this lock.
type Groups = Arc<Mutex<Vec<Pid>>>;

/// All processes of this host.
#[derive(Debug)]
pub(crate) struct Ranks {
    groups: Groups,
    input: Option<Sender<Vec<u8>>>,
}

impl Ranks {
    /// Start the processes. If that fails, report the reason to the launcher and return `None`.
    pub(crate) fn start(job: &Job, own: [(&str, &str); 2], to: &ToLauncher) -> Option<Ranks> {
        let mut ranks = Ranks { groups: Groups::default(), input: None };
        for (local, &rank) in job.ranks.iter().enumerate() {
            let started = command(job, own, rank, local).and_then(|mut command| command.spawn());
            if let Err(error) = started.and_then(|child| ranks.watch(rank, child, to)) {
                let directory = String::from_utf8_lossy(&job.directory);
                let why = format!("rank {rank} cannot be started in {directory}: {error}{}", advice(&error));
                // Report this before ending the other processes: it is the reason for their end.
                to.say(&FromAgent::Failed(why));
                ranks.end();
                return None;
            }
        }
        Some(ranks)
    }

    /// Watch a process. End it if it cannot be watched.
    fn watch(&mut self, rank: u32, mut child: Child, to: &ToLauncher) -> io::Result<()> {
        let group = Pid::from_raw(child.id().cast_signed());
        lock(&self.groups).push(group);
        let (give, given) = mpsc::channel();
        let watched = self.start_threads(rank, &mut child, given, to);
        match watched {
            // The thread that waits for it has started.
            Ok(()) => _ = give.send(child),
            Err(_) => {
                _ = signal::killpg(group, Signal::SIGKILL);
                reap(&self.groups, group, child);
            }
        }
        watched
    }

    /// Start the threads of a process. The last of them waits for the process that it is given.
    fn start_threads(
        &mut self,
        rank: u32,
        child: &mut Child,
        given: Receiver<Child>,
        to: &ToLauncher,
    ) -> io::Result<()> {
        let group = Pid::from_raw(child.id().cast_signed());
        if let Some(stdin) = child.stdin.take() {
            let (input, bytes) = mpsc::channel();
            self.input = Some(input);
            let to = to.clone();
            thread::Builder::new().spawn(move || feed(stdin, &bytes, &to))?;
        }
        // Each thread has a clone, so the channel ends with the last of them.
        let (open, ended) = mpsc::channel::<()>();
        if let Some(stdout) = child.stdout.take() {
            carry(rank, Stream::Output, stdout, to, open.clone())?;
        }
        if let Some(stderr) = child.stderr.take() {
            carry(rank, Stream::Error, stderr, to, open)?;
        }
        let (groups, to) = (self.groups.clone(), to.clone());
        thread::Builder::new().spawn(move || {
            let Ok(child) = given.recv() else { return };
            let end = reap(&groups, group, child);
            // The channel's end, not a message.
            _ = ended.recv_timeout(LAST_OUTPUT);
            to.say(&FromAgent::Ended(rank, end));
        })?;
        Ok(())
    }

    /// Input for the reader; none means its end.
    pub(crate) fn input(&self, bytes: Vec<u8>) {
        // An error is ignored: the process that reads the input has ended.
        self.input.iter().for_each(|input| _ = input.send(bytes.clone()));
    }

    /// Send a signal to all processes.
    pub(crate) fn signal(&self, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        // Fails only for a group whose processes have all ended.
        lock(&self.groups).iter().for_each(|group| _ = signal::killpg(*group, signal));
    }

    /// End all processes, at first politely. Returns when they have ended.
    pub(crate) fn end(&self) {
        let is_empty = || lock(&self.groups).is_empty();
        let start = Instant::now();
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            self.signal(signal as i32);
        }
        while !is_empty() {
            if start.elapsed() > GRACE {
                self.signal(Signal::SIGKILL as i32);
            }
            thread::sleep(Duration::from_millis(5));
        }
        // The threads still send the last output and the exit codes.
        thread::sleep(Duration::from_millis(50));
    }
}

/// What to do about it.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE) => "; raise the limit of open files there (`ulimit -n`), each process takes three",
        Some(Errno::EAGAIN | Errno::ENOMEM) => "; start fewer processes there, or raise `ulimit -u`",
        _ => "",
    }
}

fn lock(groups: &Groups) -> std::sync::MutexGuard<'_, Vec<Pid>> {
    groups.lock().unwrap_or_else(PoisonError::into_inner)
}

fn command(job: &Job, own: [(&str, &str); 2], rank: u32, local: usize) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(START).arg(std::process::id().to_string());
    command.args(job.program.iter().map(|part| OsStr::from_bytes(part)));
    command.current_dir(OsStr::from_bytes(&job.directory)).process_group(0);
    // Where another launcher has started am-run, its processes are not those of that launcher.
    variables::OF_OTHERS.iter().for_each(|name| _ = command.env_remove(name));
    command.envs(job.environment.iter().map(|(name, value)| (name, value))).envs(own);
    for (name, value) in [
        (variables::RANK, rank.to_string()),
        (variables::SIZE, job.size.to_string()),
        (variables::LOCAL_RANK, local.to_string()),
        (variables::LOCAL_SIZE, job.ranks.len().to_string()),
        (variables::JOB, job.name.clone()),
        (variables::HOST, job.host.clone()),
    ] {
        command.env(name, value);
    }
    command.stdin(if job.reader == Some(rank) { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Wait for a process, end what is left of its group, and forget the group.
fn reap(groups: &Groups, group: Pid, mut child: Child) -> End {
    // The errors are ignored: an interrupted wait is repeated, and no other thread waits for this process.
    while waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(nix::Error::EINTR) {}
    let mut groups = lock(groups);
    _ = signal::killpg(group, Signal::SIGKILL);
    let status = child.wait();
    groups.retain(|other| *other != group);
    status.map_or(End::Code(1), end_of)
}

fn end_of(status: ExitStatus) -> End {
    status.code().map_or(End::Signal(status.signal().unwrap_or_default()), End::Code)
}

/// Carry an output of a process to the launcher.
fn carry(
    rank: u32,
    stream: Stream,
    mut from: impl Read + Send + 'static,
    to: &ToLauncher,
    open: Sender<()>,
) -> io::Result<()> {
    let to = to.clone();
    let carry = move || {
        let mut bytes = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            to.say(&FromAgent::Written(rank, stream, bytes[..length].to_vec()));
        }
        drop(open);
    };
    thread::Builder::new().spawn(carry).map(drop)
}

/// Carry the launcher's input to the process that reads it. A process that does not read, or has ended, gets no more.
fn feed(mut stdin: ChildStdin, bytes: &Receiver<Vec<u8>>, to: &ToLauncher) {
    while let Ok(bytes) = bytes.recv() {
        if bytes.is_empty() || stdin.write_all(&bytes).is_err() {
            return;
        }
        to.say(&FromAgent::InputTaken);
    }
}
