//! Starts this program again as a child process. A child ends when its standard input does. The far side of `--hosts`
//! gets its plans there.

use std::env::current_exe;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cores::{Cores, pin, processor_time};
use crate::deploy::link::NamedLink;
use crate::error::Error;
use crate::plan::{Answer, Plan, Side, SideInfo};
use crate::session::{Link, PlanChannel, Session, Setup, follow, run};
use crate::watch::Watch;

use super::ANSWER_TIMEOUT;
use super::processes::SocketDirectory;

/// How long a child may take to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The two sides of a driver that neither can open fail within this time.
const BOTH_FAIL_TIME: Duration = Duration::from_millis(500);

/// A program and its process group; killed when it is dropped, if it does not end by itself.
#[derive(Debug)]
pub struct Group(pub process::Child);

impl Group {
    /// Start a program. Ctrl-C is for this process, which then ends the program.
    pub fn start(command: &mut Command, doing: &'static str) -> Result<Group, Error> {
        command.process_group(0).spawn().map(Group).map_err(Error::system(doing))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A program whose input closes ends, and a sandbox with all its processes.
        drop(self.0.stdin.take());
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if start.elapsed() > EXIT_TIMEOUT {
                let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
                let _ = self.0.wait();
            }
            sleep(Duration::from_millis(2));
        }
    }
}

/// The process of the far side of `--hosts`, and its standard input and output.
pub struct Far {
    plans: ChildStdin,
    answers: Lines<Answer>,
    process: Group,
}

impl Far {
    /// Start it on this transport, on the host of the calling thread. Its node is called "beta".
    pub fn start(on: &str, cores: Cores, watch: &Watch) -> Result<Far, Error> {
        let core = cores.far.map_or("none".to_owned(), |core| core.to_string());
        let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
        command.args(["far", "--name", "beta", "--on", on, "--cores", &core]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Group::start(&mut command, "starting this program again")?;
        let pipes = process.0.stdin.take().zip(process.0.stdout.take());
        let (plans, answers) = pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))?;
        let closed = watch.clone();
        Ok(Far { plans, answers: Lines::read(answers, move || closed.peer_is_gone()), process })
    }

    /// Measure against it over this transport, on the calling thread.
    pub fn measure(mut self, on: &str, setup: Setup<'_>) -> Result<Session, Error> {
        let mut link = NamedLink::new(Side::Near, "alpha", on, pin(setup.cores.near)?)?;
        run(setup, &mut self, &mut link)
    }
}

impl PlanChannel for Far {
    fn ask(&mut self, plan: &Plan, watch: &Watch) -> Result<SideInfo, Error> {
        write_line(&mut self.plans, plan)?;
        self.answers.next(ANSWER_TIMEOUT, watch)?.ok_or_else(Error::gone)?.into_place()
    }

    fn cpu_time(&self) -> Option<Duration> {
        Some(processor_time(process::id())? + processor_time(self.process.0.id())?)
    }
}

/// Be that process. Plans arrive on its standard input, and it ends when that closes.
pub fn serve(name: &str, on: &str, core: Option<usize>, watch: &Watch) -> Result<(), Error> {
    let plans: Lines<Plan> = Lines::from_parent(watch);
    let core = pin(core)?;
    let _files = SocketDirectory::of(on);
    let mut link = NamedLink::new(Side::Far, name, on, core)?;
    let mut next = || match plans.next(Duration::MAX, watch)? {
        Some(plan) => {
            let answer = plan.answer(link.here());
            write_line(&mut stdout(), &answer)?;
            let is_accepted = matches!(answer, Answer::Accepted(_));
            let end = if is_accepted { follow(&plan, &mut link, watch) } else { Ok(()) };
            end.map(|()| true)
        }
        None => Ok(false),
    };
    loop {
        match next() {
            // The near side reports its own reason.
            Ok(true) | Err(Error::GivenUp) => {}
            // Nobody is left to read an error.
            Ok(false) | Err(Error::PeerGone(_)) => return Ok(()),
            // What cannot be opened: the near side may report the same of its own, and close the pipe.
            Err(error @ (Error::Usage(_) | Error::Facility(_))) => match plans.next(BOTH_FAIL_TIME, watch) {
                Err(Error::PeerGone(_)) => return Ok(()),
                _ => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
}

/// Every loop checks the watch. If one does not, a process whose parent is gone ends after this time.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(5);
/// How often signals are checked while nothing arrives.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Lines of `T` as they arrive. A thread of its own reads them, and sleeps in between.
#[derive(Debug)]
pub struct Lines<T> {
    lines: Receiver<Result<T, serde_json::Error>>,
}

impl<T: DeserializeOwned + Send + 'static> Lines<T> {
    /// Read from here; `closed` is called at the end of the input.
    pub fn read(from: impl Read + Send + 'static, closed: impl FnOnce() + Send + 'static) -> Lines<T> {
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if send.send(serde_json::from_str(&line)).is_err() {
                    break;
                }
            }
            closed();
        });
        Lines { lines }
    }

    /// Read from standard input. When the parent process closes it, `watch` says so, and this process ends.
    pub fn from_parent(watch: &Watch) -> Lines<T> {
        let watch = watch.clone();
        Lines::read(stdin(), move || {
            watch.peer_is_gone();
            thread::sleep(ORPHAN_TIMEOUT);
            process::exit(1);
        })
    }

    /// The next line if it is here: then `Some`, with `None` within if the other side is gone.
    ///
    /// # Errors
    /// [`Error::Refused`] if the line cannot be parsed.
    pub fn try_next(&self) -> Result<Option<Option<T>>, Error> {
        match self.lines.try_recv() {
            Ok(line) => line.map(|line| Some(Some(line))).map_err(not_understood),
            Err(TryRecvError::Disconnected) => Ok(Some(None)),
            Err(TryRecvError::Empty) => Ok(None),
        }
    }

    /// The next line within `patience`; `None` if the other side is gone.
    ///
    /// # Errors
    /// A reason to stop; [`Error::Refused`] if the line cannot be parsed, or none arrived.
    pub fn next(&self, patience: Duration, watch: &Watch) -> Result<Option<T>, Error> {
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => return line.map(Some).map_err(not_understood),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => watch.check()?,
            }
            if start.elapsed() > patience {
                return Err(Error::Refused(format!("no answer within {} s", patience.as_secs())));
            }
        }
    }
}

fn not_understood(why: serde_json::Error) -> Error {
    Error::Refused(format!("not understood: {why}"))
}

/// Write one line, and flush it.
pub fn write_line(to: &mut dyn Write, what: &impl Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(what).map_err(|e| Error::Refused(e.to_string()))?;
    writeln!(to, "{line}").and_then(|()| to.flush()).map_err(|_| Error::gone())
}
