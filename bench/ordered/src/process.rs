//! The processes of a group's members, as the bench leads them.

use std::env::current_exe;
use std::process::{ChildStdin, Command, Stdio};

use am_measure::deploy::{Group, Lines, write_line};
use am_measure::{Error, Watch};

use crate::member::LIMIT;
use crate::protocol::{Answer, Order};

/// A member's process. It ends when this is dropped.
pub(crate) struct Process {
    // In this order: it ends when its input does.
    orders: ChildStdin,
    answers: Lines<Answer>,
    group: Group,
    index: usize,
}

impl Process {
    /// Start one on the host of the calling thread.
    pub(crate) fn start(command: &mut Command, index: usize) -> Result<Process, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut group = Group::start(command, "starting a member")?;
        let pipes = group.0.stdin.take().zip(group.0.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| Error::PeerGone("it was started without a pipe".to_owned()))?;
        Ok(Process { orders, answers: Lines::read(answers, || ()), group, index })
    }

    pub(crate) fn order(&mut self, order: &Order) -> Result<(), Error> {
        write_line(&mut self.orders, order)
    }

    /// Its next answer.
    fn answer(&self, watch: &Watch) -> Result<Answer, Error> {
        let answer = self.answers.next(LIMIT + LIMIT / 2, watch)?;
        match answer.ok_or_else(|| Error::PeerGone(format!("member m{}, which says its reason itself", self.index)))? {
            Answer::Failed(why) => Err(Error::Lost(format!("member m{}: {why}", self.index))),
            answer => Ok(answer),
        }
    }

    /// Its next answer, which has to be such a one.
    pub(crate) fn expect<T>(&self, what: fn(Answer) -> Option<T>, watch: &Watch) -> Result<T, Error> {
        let answer = self.answer(watch)?;
        let unexpected = Error::Refused(format!("member m{} answers {answer:?} out of turn", self.index));
        what(answer).ok_or(unexpected)
    }

    /// Kill it, as by `kill -9`, and wait until it has ended: before that its XDP program still gives numbers.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        let child = &mut self.group.0;
        child.kill().and_then(|()| child.wait()).map(drop).map_err(Error::system("killing a member"))
    }
}

/// This program, as a member.
pub(crate) fn member() -> Result<Command, Error> {
    let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
    command.arg("member");
    Ok(command)
}

/// End all of them: first close the inputs of all, so that none waits for another.
pub(crate) fn end(all: Vec<Process>) {
    let groups: Vec<Group> = all.into_iter().map(|Process { group, .. }| group).collect();
    drop(groups);
}
