//! TEMPORARY: until transport::loopback.
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use am_api::{Address, Transport};
use ring::{Frame, Layout, Pool};
use transport::Caps;
use wire::Flow;

type Queue = Rc<RefCell<VecDeque<Frame>>>;

struct Loop {
    caps: Caps,
    in_: Queue,
    out: Queue,
}

pub(crate) fn pair() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let (a, b): (Queue, Queue) =
        (Rc::new(RefCell::new(VecDeque::with_capacity(4096))), Rc::new(RefCell::new(VecDeque::with_capacity(4096))));
    let one = |n: u8, in_: &Queue, out: &Queue| -> Box<dyn Transport> {
        let caps = Caps {
            name: "loopback".into(),
            mode: "memory".into(),
            address: Address([2, 0, 0, 0, 0, n]),
            max_frame: 1514,
            reliable: true,
            ordered: true,
            pool: Pool::heap(Layout { frames: 8192, stride: 2048, headroom: 256 }).unwrap(),
            wake: None,
        };
        Box::new(Loop { caps, in_: in_.clone(), out: out.clone() })
    };
    (one(1, &a, &b), one(2, &b, &a))
}

impl Transport for Loop {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let mut n = 0;
        while n < budget {
            let Some(f) = self.in_.borrow_mut().pop_front() else { break };
            each(f);
            n += 1
        }
        n
    }
    fn send(&mut self, _: Address, frame: Frame) -> Result<(), Frame> {
        let mut out = self.out.borrow_mut();
        if out.len() >= 1024 {
            return Err(frame);
        }
        out.push_back(frame);
        Ok(())
    }
    fn flush(&mut self) {}
    fn steer(&mut self, _: Flow, _: bool) {}
    fn counters(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}
