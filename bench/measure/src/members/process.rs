//! The processes of a group's members, as the bench leads them.

use std::env::current_exe;
use std::fmt::Debug;
use std::process::{ChildStdin, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{LIMIT, Said};
use crate::deploy::{Group, Lines, write_line};
use crate::error::Error;
use crate::watch::Watch;

/// A member's process. It ends when this is dropped.
pub struct Process<A> {
    // In this order: it ends when its input does.
    orders: ChildStdin,
    answers: Lines<Said<A>>,
    group: Group,
    index: usize,
}

impl<A: DeserializeOwned + Debug + Send + 'static> Process<A> {
    /// Start one on the host of the calling thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, index: usize) -> Result<Process<A>, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut group = Group::start(command, "starting a member")?;
        let pipes = group.0.stdin.take().zip(group.0.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))?;
        Ok(Process { orders, answers: Lines::read(answers, || ()), group, index })
    }

    /// Order this.
    ///
    /// # Errors
    /// It has ended.
    pub fn order(&mut self, order: &impl Serialize) -> Result<(), Error> {
        write_line(&mut self.orders, order)
    }

    /// Its next answer.
    fn answer(&self, watch: &Watch) -> Result<A, Error> {
        let answer = self.answers.next(LIMIT + LIMIT / 2, watch)?;
        let answer =
            answer.ok_or_else(|| Error::PeerGone(format!("member m{}, which says its reason itself", self.index)))?;
        match answer {
            Said::Answer(answer) => Ok(answer),
            Said::Failed(why) => Err(Error::Lost(format!("member m{}: {why}", self.index))),
        }
    }

    /// Its next answer, which has to be such a one.
    ///
    /// # Errors
    /// It has failed, it is silent, or it answers something else.
    pub fn expect<T>(&self, what: fn(A) -> Option<T>, watch: &Watch) -> Result<T, Error> {
        let answer = self.answer(watch)?;
        let unexpected = Error::Refused(format!("member m{} answers {answer:?} out of turn", self.index));
        what(answer).ok_or(unexpected)
    }

    /// Kill it, as by `kill -9`, and wait until it has ended: before that its XDP program still gives numbers.
    ///
    /// # Errors
    /// It has ended.
    pub fn kill(&mut self) -> Result<(), Error> {
        let child = &mut self.group.0;
        child.kill().and_then(|()| child.wait()).map(drop).map_err(Error::system("killing a member"))
    }
}

/// This program with this command, which makes it a member.
///
/// # Errors
/// The program is not found.
pub fn member(command: &str) -> Result<Command, Error> {
    let mut program = Command::new(current_exe().map_err(Error::system("finding this program"))?);
    program.arg(command);
    Ok(program)
}

/// End all of them: first close the inputs of all, so that none waits for another.
pub fn end<A>(all: Vec<Process<A>>) {
    let groups: Vec<Group> = all.into_iter().map(|Process { group, .. }| group).collect();
    drop(groups);
}
