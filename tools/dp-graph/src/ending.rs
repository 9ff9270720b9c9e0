//! The end of am-run: dp-graph forwards signals to it, and ends it by force if it does not react.

use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use am_input::command_line::NO_JOB;

pub(crate) type Signals = SignalsInfo<WithOrigin>;

/// How long to wait for am-run after the first signal: it takes 14 s at most, if its agents do not answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait for am-run after the second signal: it takes 3 s, if its agents answer.
const PATIENCE_AFTER_SECOND: Duration = Duration::from_secs(5);
/// How long dp-graph's own output may take after am-run's end.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// The interval at which dp-graph checks whether am-run has ended.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Forward dp-graph's signals to am-run.
pub(crate) fn forward_signals(mut signals: Signals, am_run: Pid) {
    thread::spawn(move || {
        let mut patience = PATIENCE;
        for origin in signals.forever() {
            if !is_sent_to_both(&origin) {
                // It may have ended.
                _ = kill(am_run, Signal::try_from(origin.signal).ok());
            }
            if matches!(origin.signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT) {
                insist(am_run, patience);
                thread::spawn(move || end_after(am_run, origin.signal));
                patience = PATIENCE_AFTER_SECOND;
            }
        }
    });
}

/// A terminal sends Ctrl-C to both: they are in one process group. A hang-up is for the leader of the session alone;
/// where a shell sends it to both, am-run gets a second one, and ends sooner.
fn is_sent_to_both(origin: &Origin) -> bool {
    matches!(origin.cause, Cause::Kernel) && origin.signal != SIGHUP
}

/// Ask am-run to end the job.
pub(crate) fn end(am_run: Pid) {
    // It may have ended.
    _ = kill(am_run, Signal::SIGTERM);
    insist(am_run, PATIENCE);
}

/// Make sure that am-run ends after a signal that ends it. Continue it, as a stopped process reacts only to SIGCONT and SIGKILL, and kill it when
/// the patience is over. The agents end their processes after SIGKILL, too.
fn insist(am_run: Pid, patience: Duration) {
    _ = kill(am_run, Signal::SIGCONT);
    thread::spawn(move || {
        let start = Instant::now();
        while end_of(am_run).is_none() {
            if start.elapsed() > patience {
                _ = kill(am_run, Signal::SIGKILL);
            }
            thread::sleep(LOOK);
        }
    });
}

/// End this process after am-run has ended, because the main thread may be blocked by the reader of its output.
fn end_after(am_run: Pid, signal: i32) {
    while end_of(am_run).is_none() {
        thread::sleep(LOOK);
    }
    thread::sleep(AFTER_SIGNAL);
    std::process::exit(128 + signal);
}

/// The exit code of am-run, if it has ended. The kernel keeps its process id until dp-graph ends, so no signal goes to another process.
pub(crate) fn end_of(am_run: Pid) -> Option<u8> {
    let code = match waitid(Id::Pid(am_run), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG) {
        Ok(WaitStatus::Exited(_, code)) => code,
        Ok(WaitStatus::Signaled(_, signal, _)) => 128 + signal as i32,
        Ok(_) | Err(Errno::EINTR) => return None,
        Err(_) => NO_JOB.into(),
    };
    Some(u8::try_from(code).unwrap_or(NO_JOB))
}
