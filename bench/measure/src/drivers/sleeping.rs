//! A socket that sleeps while it is idle, as in most programs. It leaves the processor to others. The two sides of a
//! round trip wake each other.

use std::mem::take;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::channel::{Arrived, Channel, ChannelInfo, ControlMessage};
use crate::error::Error;

/// The longest sleep. The loops above check for reasons to stop every few turns.
pub(super) const MAX_SLEEP: TimeSpec = TimeSpec::new(0, 250_000);

/// A channel that sleeps in `poll(2)`.
pub(crate) struct Sleeping {
    channel: Box<dyn Channel>,
    /// Whether a whole batch was sent. The sender has the next one ready.
    has_more: bool,
    /// Whether the kernel had no room for everything.
    is_full: bool,
}

impl Sleeping {
    pub(crate) fn new(channel: impl Channel + 'static) -> Sleeping {
        let channel = Box::new(channel);
        Sleeping { channel, has_more: false, is_full: false }
    }

    fn sleep(&mut self) -> Result<(), Error> {
        let Some(descriptor) = self.channel.descriptor() else { return Ok(()) };
        let full = self.is_full || self.channel.has_rest();
        let events = if full { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        match ppoll(&mut [PollFd::new(descriptor, events)], Some(MAX_SLEEP), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(why) => Err(Error::System { doing: "waiting for a socket", source: why.into() }),
        }
    }
}

impl Channel for Sleeping {
    fn info(&self) -> &ChannelInfo {
        self.channel.info()
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.channel.prepare(size)
    }

    fn echo(&mut self, on: bool) {
        self.channel.echo(on);
    }

    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let sent = self.channel.send(count)?;
        (self.has_more, self.is_full) = (count > 1 && sent == count, sent < count);
        Ok(sent)
    }

    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let arrived = self.channel.receive(budget)?;
        if take(&mut self.has_more) || arrived != Arrived::default() {
            return Ok(arrived);
        }
        self.sleep()?;
        self.channel.receive(budget)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.channel.send_control(control)
    }

    fn window(&self) -> Option<u64> {
        self.channel.window()
    }
}
