//! A channel that hands over one message with each call, whatever the batch: as a program does that sends a message when
//! it has one.

use crate::batching::Batching;
use crate::channel::{Arrived, Channel, ChannelInfo, ControlMessage};
use crate::error::Error;
use crate::loss::Loss;

pub(crate) struct Single(pub(crate) Box<dyn Channel>);

impl Channel for Single {
    fn info(&self) -> ChannelInfo<'_> {
        ChannelInfo { batching: Batching::Single, ..self.0.info() }
    }

    fn frames_sent(&self) -> Option<u64> {
        self.0.frames_sent()
    }

    fn trace_error(&self) -> Option<Error> {
        self.0.trace_error()
    }

    fn problem(&self) -> Option<String> {
        self.0.problem()
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.0.prepare(size)
    }

    fn transfer(&mut self, size: usize) -> Result<(), Error> {
        self.0.transfer(size)
    }

    fn volley(&mut self, size: usize) -> Result<(), Error> {
        self.0.volley(size)
    }

    fn lose(&mut self, loss: Loss) -> bool {
        self.0.lose(loss)
    }

    fn echo(&mut self, on: bool) {
        self.0.echo(on);
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let mut sent = 0;
        while sent < count && self.0.send(1)? == 1 {
            sent += 1;
        }
        // The next messages are ready, though the channel has seen no batch.
        if count > 1 && sent == count {
            self.0.keep_sending();
        }
        Ok(sent)
    }

    fn keep_sending(&mut self) {
        self.0.keep_sending();
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        self.0.receive(budget)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.0.send_control(control)
    }

    fn window(&self) -> Option<u64> {
        self.0.window()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Notes the batches that it is given; it has room for two messages more.
    struct Noted(Rc<RefCell<Vec<usize>>>);

    impl Channel for Noted {
        fn info(&self) -> ChannelInfo<'_> {
            ChannelInfo::new("noted", 1500)
        }

        fn prepare(&mut self, _: usize) -> Result<(), Error> {
            Ok(())
        }

        fn echo(&mut self, _: bool) {}

        fn send(&mut self, count: usize) -> Result<usize, Error> {
            self.0.borrow_mut().push(count);
            Ok(usize::from(self.0.borrow().len() <= 2))
        }

        fn receive(&mut self, _: usize) -> Result<Arrived, Error> {
            Ok(Arrived::default())
        }

        fn send_control(&mut self, _: ControlMessage) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn every_message_is_handed_over_alone() {
        let batches = Rc::<RefCell<Vec<usize>>>::default();
        let mut single = Single(Box::new(Noted(batches.clone())));
        assert_eq!(single.send(32).unwrap(), 2, "as many as have room");
        assert_eq!(*batches.borrow(), [1, 1, 1]);
        assert_eq!(single.info().batching, Batching::Single);
    }
}
