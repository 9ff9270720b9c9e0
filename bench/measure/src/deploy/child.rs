//! Starts this program again as a child process. A child ends when its standard input does. The far side of `--hosts`
//! gets its plans there.

use std::env::current_exe;
use std::io::stdout;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cores::{Cores, pin, processor_time};
use crate::deploy::link::NamedLink;
use crate::error::Error;
use crate::plan::{Answer, Plan, Side, SideInfo};
use crate::session::{Link, PlanChannel, Session, Setup, follow, run};
use crate::watch::Watch;

use super::ANSWER_TIMEOUT;
use super::pipe::{Lines, write_line};
use super::processes::SocketDirectory;

/// How long a child may take to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The two sides of a driver that neither can open fail within this time.
const BOTH_FAIL_TIME: Duration = Duration::from_millis(500);

/// A child process; killed when it is dropped, if it has not ended by then.
#[derive(Debug)]
pub(crate) struct Child(process::Child);

impl Child {
    /// Start this program with these arguments, on the host of the calling thread.
    pub(crate) fn start(words: &[&str]) -> Result<Child, Error> {
        let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
        // Ctrl-C is for the parent, which then ends the child.
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.spawn().map(Child).map_err(Error::system("starting this program again"))
    }

    /// Its standard input and output. They can be taken once.
    pub(crate) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), Error> {
        let pipes = self.0.stdin.take().zip(self.0.stdout.take());
        pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Pipes that were taken are closed by now.
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && start.elapsed() < EXIT_TIMEOUT {
            sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process of the far side of `--hosts`, and its standard input and output.
pub struct Far {
    plans: ChildStdin,
    answers: Lines<Answer>,
    process: Child,
}

impl Far {
    /// Start it on this transport, on the host of the calling thread. Its node is called "beta".
    pub fn start(on: &str, cores: Cores, watch: &Watch) -> Result<Far, Error> {
        let core = cores.far.map_or("none".to_owned(), |core| core.to_string());
        let mut process = Child::start(&["far", "--name", "beta", "--on", on, "--cores", &core])?;
        let (plans, answers) = process.pipes()?;
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
        Some(processor_time(process::id())? + processor_time(self.process.id())?)
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
