//! The application closes flows and its endpoint at random times.

use am_engine::Engine;
use am_netdev_sim::Nanos;
use am_proto::{FlowId, FlowState};
use am_wire::Class;
use rand::Rng;

use super::{App, is_open};
use crate::nodes::checks::Checks;
use crate::nodes::node::{TAG, app_name};

impl App {
    /// Close some, with some probability, before a burst of requests.
    pub fn close_some(&mut self, now: Nanos, engine: &mut Engine, checks: &mut Checks) {
        if now < self.next || self.requests_left == 0 {
            return;
        }
        if self.random.random_bool(self.work.close) {
            if self.random.random_bool(0.5) {
                self.close_ours(engine, checks)
            } else {
                self.close_theirs(engine, checks)
            }
        }
        if self.random.random_bool(self.work.reopen) {
            self.reopen(engine, checks);
        }
    }

    /// Close a flow that this node asked for, open or not yet.
    fn close_ours(&mut self, engine: &mut Engine, checks: &mut Checks) {
        if self.flows.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.flows.len());
        let flow = self.flows.swap_remove(at);
        let is_open = matches!(engine.core().state(flow.id), FlowState::Open { .. });
        checks.count_event(if is_open { "closed" } else { "closed while connecting" });
        close(flow.id, flow.serial, Class::Reply, engine, checks);
    }

    /// Close a flow that a peer asked for.
    fn close_theirs(&mut self, engine: &mut Engine, checks: &mut Checks) {
        let Some((&serial, &id)) = self.accepted.iter().nth(self.random.random_range(0..4)) else { return };
        checks.count_event("closed by who had accepted");
        close(id, serial, Class::Request, engine, checks);
        self.accepted.remove(&serial);
    }

    /// Close the endpoint with all its flows, its messages that were not extracted and those that were not acknowledged.
    /// Open another of the same name.
    fn reopen(&mut self, engine: &mut Engine, checks: &mut Checks) {
        checks.count_event("endpoint closed and opened again");
        let node = self.run.node;
        for &(serial, from, to) in &checks.asked {
            if from == node || to == node {
                checks.endings.closed.insert(serial);
            }
        }
        checks.deliveries.excuse(self.run);
        engine.core_mut().close_endpoint(self.endpoint, &[]);
        self.endpoint = engine.core_mut().add_endpoint(app_name(), TAG).expect("its name is free again");
        self.flows.clear();
        self.granted.clear();
        self.accepted.clear();
    }
}

/// Close a flow. The core first does what it had postponed, so the peer, which sends these messages, may get more credit, and learn of that
/// before it learns of the end.
fn close(id: FlowId, serial: u64, class: Class, engine: &mut Engine, checks: &mut Checks) {
    let was_open = is_open(engine, id);
    checks.endings.closed.insert(serial);
    engine.core_mut().close(id);
    if was_open {
        _ = checks.credits.change_grant(serial, class, engine.core().granted_to(id, class));
    }
}
