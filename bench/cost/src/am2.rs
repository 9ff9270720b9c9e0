//! The same trips by the calls of Active Messages 2 in C: a medium message without arguments, and its reply.

use am_transport::loopback::Plug;
use am2::Echo;

use crate::Error;
use crate::marks::{Mode, Step, TOGETHER, announce, enter, marked};
use crate::over::plugs;
use crate::trips::{PAYLOAD, TICK};

/// Two processes in one. The calls act on alpha, and on beta between two switches.
struct Both {
    alpha: Echo,
    beta: Echo,
}

impl Both {
    /// The calls act on the other process from now on. Real processes need nothing for this, so it is not counted.
    fn switch(&mut self, next: Step) -> Result<(), Error> {
        enter(Step::Aside as u8);
        self.beta.switch()?;
        enter(next as u8);
        Ok(())
    }

    /// Poll until both together have handled this many messages.
    fn poll_until(process: &Echo, handled: u64) {
        for _ in 0..TOGETHER {
            process.poll();
            if Echo::handled() >= handled {
                break;
            }
        }
    }

    /// A message that opens the connection, and its answer.
    fn connect(&mut self) -> Result<(), Error> {
        if !self.alpha.map(&self.beta) {
            return Err("beta's endpoint cannot be mapped".into());
        }
        let mut has_asked = false;
        while Echo::handled() < 2 {
            Echo::advance(TICK);
            has_asked = has_asked || self.alpha.knock();
            self.alpha.poll();
            self.switch(Step::Outside)?;
            Echo::advance(TICK);
            self.beta.poll();
            self.switch(Step::Outside)?;
        }
        Ok(())
    }

    fn trip(&mut self, messages: u64) -> Result<(), Error> {
        // Each request leaves in a frame of its own. If no time passed meanwhile, the server would postpone what these bring until after the
        // trip, and so have too little credit for its replies.
        let ticks = TICK * messages.max(1) as u32;
        Echo::advance(ticks);
        self.switch(Step::Outside)?;
        Echo::advance(ticks);
        self.switch(Step::Outside)?;
        let before = Echo::handled();
        enter(Step::Request as u8);
        let asked = (0..messages).all(|_| self.alpha.request(&PAYLOAD));
        self.switch(Step::Serve)?;
        Both::poll_until(&self.beta, before + messages);
        self.switch(Step::Answer)?;
        Both::poll_until(&self.alpha, before + 2 * messages);
        if Mode::now().has_idle_turns(messages) {
            self.switch(Step::Idle)?;
            self.beta.poll();
            self.switch(Step::Idle)?;
            self.alpha.poll();
        }
        enter(Step::Outside as u8);
        match asked && Echo::handled() == before + 2 * messages {
            true => Ok(()),
            false => Err("not all that was sent was handled, once".into()),
        }
    }
}

pub(crate) fn run() -> Result<(), Error> {
    let [left, right] = <[_; 2]>::try_from(plugs(2)).map_err(|_| "a wire has two ends")?;
    let open = |name, plug: Plug| Echo::open(name, || Ok(marked(plug.open()?)));
    let mut both = Both { alpha: open("alpha", left)?, beta: open("beta", right)? };
    both.alpha.switch()?;
    both.connect()?;
    announce()?;
    Mode::now().trips().into_iter().try_for_each(|messages| both.trip(messages))
}
