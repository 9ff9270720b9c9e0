//! One run of a node: an engine and its application.

use std::time::Duration;

use am_engine::{Engine, PollScope};
use am_netdev_sim::check::content::NodeRun;
use am_netdev_sim::check::{Checked, Violation};
use am_netdev_sim::{Nanos, Net, US};
use am_proto::{Config, Core, Event, Time};
use am_transport::Transport;
use am_wire::Address;
use am_wire::control::{Incarnation, Name, NodeId};

use super::app::App;
use super::checks::Checks;
use super::work::Work;

/// The time of a turn.
const TURN_TIME: Nanos = 2 * US;

/// The tag of every endpoint.
pub const TAG: u64 = 7;

pub struct Node {
    pub engine: Engine,
    pub app: App,
}

pub fn name(node: u16) -> Name {
    Name::new(&format!("node{node}")).expect("short")
}

pub fn app_name() -> Name {
    Name::new("app").expect("short")
}

impl Node {
    pub fn start(net: &mut Net, work: &Work, run: NodeRun) -> Node {
        let at = run.node as usize;
        let (now, address) = (Time(net.now()), net.address(at));
        // The time of the run's start, as in a real node.
        let incarnation = Incarnation(net.now() + run.run as u64);
        let mut config = Config::new(NodeId(run.node as u64 + 1), incarnation, name(run.node), address);
        config.seed ^= work.seed.rotate_left(17);
        config.framing = work.framing;
        config.receive_frames = work.receive_frames;
        config.send_frames = work.send_frames;
        config.window = work.window;
        config.first_seq = work.first_number;
        config.max_timeout = Duration::from_nanos(work.max_timeout);
        config.beacon = Duration::from_nanos(work.beacon);
        config.keepalive = 4 * config.beacon;
        config.patience = Duration::from_nanos(work.patience);
        let mut core = Core::new(config, now);
        let endpoint = core.add_endpoint(app_name(), TAG).expect("the first");
        let pool = net.nic(at).caps().pool.clone();
        Node { engine: Engine::new(core, pool), app: App::new(run, endpoint, work, net) }
    }

    /// Run a turn. Returns the time by which the next is due.
    pub fn turn(&mut self, net: &mut Net, checks: &mut Checks) -> Result<Nanos, Violation> {
        let (at, now) = (self.app.run.node as usize, net.now());
        let Node { engine, app } = self;
        let received = engine.inhale(PollScope::Everything, || Time(now), net.nic(at));
        checks.check_credits(engine, app)?;
        app.turn(now, engine, checks)?;
        let mut events = vec![];
        events.extend(std::iter::from_fn(|| engine.core_mut().poll_event()));
        let sent = engine.exhale(|| Time(now), net.nic(at));
        net.start_nic(at);
        // The checkers learn of the end of a flow before its Close can arrive.
        let had_news = !events.is_empty();
        events.into_iter().for_each(|event: Event| app.on_event(event, engine, checks));
        checks.check_nic(net, at, engine, app)?;
        let more = received + sent > 0 || had_news || net.nic(at).has_arrivals();
        let due = if more { 0 } else { engine.sleep_until().0.min(app.due(engine, checks, now)) };
        Ok(due.max(now + TURN_TIME))
    }

    /// Send a heartbeat, as another thread does while the node does not run.
    pub fn beat(&self, net: &mut Net) {
        let at = self.app.run.node as usize;
        if let Some(frame) = self.engine.pool().copy(&self.engine.core().heartbeat()) {
            // It may be lost.
            _ = net.nic(at).send(Address::BROADCAST, &frame);
            net.nic(at).flush();
            net.start_nic(at);
        }
    }

    /// The run has ended, and its NIC is gone. Check that all frames are back.
    pub fn end(self, frames: usize) -> Checked {
        let Node { engine, app } = self;
        let pool = engine.pool().clone();
        drop((engine, app));
        match pool.available() {
            free if free == frames => Ok(()),
            free => {
                Err(Violation { checker: "frames", what: format!("{free} of {frames} frames are free after a death") })
            }
        }
    }
}
