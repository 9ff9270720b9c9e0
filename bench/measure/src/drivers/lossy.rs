//! Drops arriving frames at random before anything reads them.
//!
//! Frames are dropped at the end of their path, so a lost frame costs the sender, the kernel and the wire as much as
//! one that a switch loses. A frame dropped at the sender would cost nothing, and losses would make a sender faster.

use std::cell::Cell;
use std::rc::Rc;

use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, PeerInfo, Transport};
use am_wire::Address;

use crate::content::mix;
use crate::loss::Loss;

/// The share of frames to lose, from now on.
pub(crate) type LossSetting = Rc<Cell<Loss>>;

struct Lossy {
    inner: Box<dyn Transport>,
    caps: Caps,
    loss: LossSetting,
    /// The number of the last random number.
    random: u64,
    lost: u64,
}

/// The transport itself, or with `lossy` one that drops frames.
pub(crate) fn over(transport: Box<dyn Transport>, lossy: bool) -> (Box<dyn Transport>, Option<LossSetting>) {
    if !lossy {
        return (transport, None);
    }
    let (loss, caps) = (LossSetting::default(), Caps { reliable: false, ..transport.caps().clone() });
    let lossy = Lossy { inner: transport, caps, loss: Rc::clone(&loss), random: 0, lost: 0 };
    (Box::new(lossy), Some(loss))
}

impl Transport for Lossy {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let loss = self.loss.get();
        if loss == Loss::NONE {
            return self.inner.receive(budget, each);
        }
        let (random, lost) = (&mut self.random, &mut self.lost);
        self.inner.receive(budget, &mut |frame| {
            *random += 1;
            if loss.selects((mix(*random) >> 32) as u32) {
                *lost += 1;
            } else {
                each(frame);
            }
        })
    }

    #[inline]
    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.inner.send(to, frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.inner.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn peer(&self, at: Address) -> PeerInfo {
        self.inner.peer(at)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
        each("lost_on_purpose", self.lost);
    }
}

#[cfg(test)]
mod tests {
    use am_transport::TransportExt;
    use am_transport::loopback::wire;

    use super::*;

    #[test]
    fn about_as_many_are_lost_as_the_knob_says() {
        let ends: Vec<_> = wire(2).into_iter().map(|plug| (plug.address(), plug.open().unwrap())).collect();
        let [(_, mut near), (to, far)] = <[_; 2]>::try_from(ends).unwrap();
        let (mut far, setting) = over(Box::new(far), true);
        far.steer(crate::drivers::queues::flow_of(1), true);
        let head = crate::drivers::queues::head(1, near.caps().address, to, 0);
        let mut arrived = |loss| {
            setting.as_ref().unwrap().set(loss);
            let mut arrived = 0;
            for _ in 0..20_000 {
                let frame = near.caps().pool.copy(&[&head[..], &[0; 46]].concat()).unwrap();
                assert!(near.send(to, &frame), "room");
                near.flush();
                far.receive(8, &mut |_| arrived += 1);
                far.flush();
            }
            arrived
        };
        assert_eq!(arrived(Loss::NONE), 20_000);
        assert!((17_600..18_400).contains(&arrived(Loss(10_000))));
    }
}
