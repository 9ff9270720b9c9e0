//! One run of a node.

use std::cell::RefCell;
use std::rc::Rc;

use am_api::{Clock, Endpoint, Incarnation, Node};
use am_netdev_sim::check::content::NodeRun;
use am_netdev_sim::check::{Checked, Violation};
use am_netdev_sim::{Disconnector, Nanos, Net, NicHandle, US};
use am_ring::Pool;
use am_transport::Transport;

use super::reading::Reading;
use super::seen::{Common, Memory, Seen};
use crate::simulated::app::{App, name};
use crate::simulated::work::Work;

/// A turn takes so long.
const TURN: Nanos = 2 * US;
/// Who finds nothing to do looks again after so long at the latest.
const NAP: Nanos = 200 * US;

pub(crate) struct Side {
    node: Node,
    endpoint: Option<Endpoint<App>>,
    pub(crate) app: App,
    cut: Disconnector,
    pool: Pool,
    idle: u32,
}

impl Side {
    pub(crate) fn start(net: &Rc<RefCell<Net>>, clock: &Clock, common: &Rc<Common>, work: &Work, run: NodeRun) -> Side {
        let plug = NicHandle::new(net, run.node as usize);
        let (cut, pool) = (plug.disconnector(), plug.caps().pool.clone());
        let now = net.borrow().now();
        let incarnation = Incarnation(work.seed << 16 | run.run as u64);
        let builder = work.builder(&name(run.node)).clock(clock.clone(), incarnation);
        let node = builder.open_on(Box::new(Reading::new(plug, work.seed))).expect("frames enough");
        let app = App::new(run, common, work, now);
        let mut side = Side { node, endpoint: None, app, cut, pool, idle: 0 };
        side.open();
        side
    }

    fn open(&mut self) {
        let mut endpoint = self.node.endpoint("main").expect("the name is free");
        App::handlers(&mut endpoint);
        let memory = Memory::register(&endpoint, self.app.run);
        self.app.common.memory.borrow_mut().insert(self.app.run.node, memory);
        self.endpoint = Some(endpoint);
    }

    /// A turn; when the next is due at the latest.
    pub(crate) fn turn(&mut self, now: Nanos) -> Nanos {
        self.app.now = now;
        let Some(endpoint) = &mut self.endpoint else { return Nanos::MAX };
        let handled = endpoint.poll(&mut self.app);
        let acted = self.app.act(endpoint);
        if acted {
            endpoint.flush();
        }
        if self.app.reopens {
            self.app.common.saw("endpoint closed and opened again");
            self.app.common.died(self.app.run);
            self.endpoint = None;
            self.app.reopened();
            self.open();
        }
        self.idle = if handled > 0 || acted { 0 } else { self.idle + 1 };
        now + (TURN << self.idle.min(10)).min(NAP)
    }

    pub(crate) fn undecided(&self) -> usize {
        self.endpoint.as_ref().map_or(0, |endpoint| self.app.undecided(endpoint))
    }

    pub(crate) fn count(&self, seen: &mut Seen) {
        self.node.counters().iter().for_each(|(name, count)| *seen.entry(name).or_default() += count);
    }

    /// Stop the node without notice to its peers. Returns its pool, to check that all frames were released.
    pub(crate) fn end(self) -> Pool {
        self.cut.disconnect();
        self.app.common.memory.borrow_mut().remove(&self.app.run.node);
        self.pool.clone()
    }

    /// The same, and its NIC is gone too: all frames are back.
    pub(crate) fn die(self) -> Checked {
        let pool = self.end();
        match (pool.available(), pool.layout().frames) {
            (free, frames) if free == frames => Ok(()),
            (free, frames) => {
                let what = format!("{free} of {frames} came back from the dead");
                Err(Violation { checker: "frames", what })
            }
        }
    }
}
