//! Server and clients as processes: started, stopped, killed, and when each of that was.

use std::fs::File;
use std::io::{Write, read_to_string};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;
use crate::book::now;
use crate::stage::Stage;

/// How the life of a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lives,
    Killed(u64),
    Left,
}

impl End {
    /// How it ended, for people: by when a connection had opened.
    pub(crate) fn after(self, opened: u64) -> String {
        match self {
            End::Lives => "it lives".to_owned(),
            End::Killed(at) => format!("killed at {} ms", at as i64 - opened as i64),
            End::Left => "it left".to_owned(),
        }
    }
}

/// A process that was, or is.
#[derive(Debug)]
pub(crate) struct Life {
    /// 0 is the server, the others are clients.
    pub(crate) player: usize,
    pub(crate) book: PathBuf,
    pub(crate) end: End,
}

/// A player that could not be heard: it was stopped, or its interface was down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) player: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// All players of one transport.
pub(crate) struct Players {
    pub(crate) stage: Stage,
    directory: PathBuf,
    seed: u64,
    twice: bool,
    running: Vec<Option<(Child, usize)>>,
    pub(crate) lives: Vec<Life>,
    pub(crate) silences: Vec<Silence>,
}

/// A process that was told to leave and has not by then is at fault.
const LEAVES: Duration = Duration::from_secs(15);

impl Players {
    pub(crate) fn new(stage: Stage, clients: usize, directory: PathBuf, seed: u64, twice: bool) -> Players {
        let running = (0..=clients).map(|_| None).collect();
        Players { stage, directory, seed, twice, running, lives: vec![], silences: vec![] }
    }

    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn is_running(&self, player: usize) -> bool {
        self.running[player].is_some()
    }

    /// From the driver's main thread only: a process dies with the thread that started it.
    pub(crate) fn start(&mut self, player: usize) -> Result<(), Error> {
        let run = self.lives.len();
        let book = self.directory.join(format!("{run}.book"));
        let (role, name) = if player == 0 { ("serve", "server".into()) } else { ("ask", format!("client{player}")) };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).arg(self.stage.on(player)).arg(&book).args(["--name", &name, "--run", &run.to_string()]);
        command.args(["--seed", &self.seed.wrapping_add(run as u64).to_string()]);
        if self.twice && player == 0 {
            command.arg("--twice");
        }
        if let Some(host) = self.stage.host(player) {
            command.args(["--host", &host]);
        }
        // Ctrl-C is the driver's business.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(book.with_extension("said"))?);
        self.running[player] = Some((command.spawn()?, run));
        self.lives.push(Life { player, book, end: End::Lives });
        Ok(())
    }

    /// An error where a process has ended that was not told to.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        for (child, run) in self.running.iter_mut().flatten() {
            if let Some(status) = child.try_wait()? {
                return Err(died(&self.lives[*run], &status.to_string()));
            }
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self, player: usize) -> Result<(), Error> {
        if let Some((mut child, run)) = self.running[player].take() {
            self.lives[run].end = End::Killed(now());
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Tell these to leave, and wait until they have.
    pub(crate) fn leave(&mut self, players: &[usize]) -> Result<(), Error> {
        for &player in players {
            if let Some((child, _)) = &mut self.running[player] {
                // A process that has died already is found below.
                _ = child.stdin.as_mut().map(|stdin| stdin.write_all(b"leave\n"));
            }
        }
        let begin = Instant::now();
        for &player in players {
            let Some((child, run)) = &mut self.running[player] else { continue };
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break status,
                    None if begin.elapsed() > LEAVES => return Err(died(&self.lives[*run], "it does not leave")),
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            if !status.success() {
                return Err(died(&self.lives[*run], &status.to_string()));
            }
            self.lives[*run].end = End::Left;
            self.running[player] = None;
        }
        Ok(())
    }

    pub(crate) fn signal(&self, player: usize, signal: Signal) -> Result<(), Error> {
        if let Some((child, _)) = &self.running[player] {
            kill(Pid::from_raw(child.id() as i32), signal)?;
        }
        Ok(())
    }
}

impl Drop for Players {
    fn drop(&mut self) {
        for (child, _) in self.running.iter_mut().flatten() {
            _ = (child.kill(), child.wait());
        }
    }
}

fn died(life: &Life, how: &str) -> Error {
    let name = if life.player == 0 { "the server".to_owned() } else { format!("client {}", life.player) };
    let said = File::open(life.book.with_extension("said")).and_then(read_to_string).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    format!("{name}: {how}\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n")).into()
}
