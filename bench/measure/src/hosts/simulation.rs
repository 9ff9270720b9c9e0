//! Hosts that do what a [`HostPlan`] says on a simulated switch, in virtual time.

use std::time::Duration;

use am_api::{Address, Incarnation};
use am_netdev_sim::{MS, Nanos, US};

use super::host::{Host, HostClock, builder};
use super::world::{FRAME, LOOK, POLL, Seat, Simulated, VISIT, World};
use super::{Arena, HostPlan, Tally};
use crate::error::Error;
use crate::plan::{Amount, DriverOptions};
use crate::watch::Watch;

/// Between two attempts to reach a peer.
const CONNECT_INTERVAL: Nanos = 200 * US;
/// Within this virtual time all connections are open.
const CONNECT_TIMEOUT: Nanos = 2000 * MS;

/// A simulated switch.
pub struct Simulation<'a> {
    /// How nodes are opened.
    pub how: DriverOptions,
    /// Payload bytes of a frame.
    pub mtu: u32,
    /// How many times the bandwidth between the two halves of the hosts is less than that of their links.
    pub oversubscription: Option<u64>,
    /// Says when to stop.
    pub watch: &'a Watch,
}

impl Arena for Simulation<'_> {
    fn mode(&self) -> String {
        let trunk = self.oversubscription.map_or(String::new(), |times| format!(", trunk 1:{times}"));
        format!("simulated, 10 Gb/s, poll {POLL} ns, visit {VISIT} ns, look {LOOK} ns, frame {FRAME} ns{trunk}")
    }

    fn run(&mut self, plans: &[HostPlan], amount: Amount) -> Result<Vec<Tally>, Error> {
        let mut world = self.world(plans)?;
        let mut until = 0;
        while !world.hosts().all(Host::is_ready) {
            until += CONNECT_INTERVAL;
            world.run_until(until)?;
            if until > CONNECT_TIMEOUT {
                return Err(Error::Lost("not every connection opened in virtual time".to_owned()));
            }
            world.hosts_mut().try_for_each(Host::connect)?;
        }
        let nanos = |time: Duration| time.as_nanos() as Nanos;
        world.run_until(until + nanos(amount.warm_up))?;
        each(&mut world, Host::start_counting);
        world.run_until(until + nanos(amount.warm_up + amount.time))?;
        Ok(each(&mut world, Host::stop_counting))
    }
}

impl Simulation<'_> {
    fn world(&self, plans: &[HostPlan]) -> Result<World<'_, Host>, Error> {
        let open = |seat: Seat| {
            let plan = &plans[seat.at];
            let all = plans.iter().map(|plan| plan.name.clone()).zip(seat.addresses);
            let is_target = |name: &str| plan.targets.iter().any(|to| is_of_group(name, &to.0));
            let known: Vec<(String, Address)> = all.filter(|(name, _)| is_target(name)).collect();
            let builder = builder(plan, self.how, &known).clock(seat.clock, Incarnation(seat.at as u64 + 1));
            Host::open(builder, plan.clone(), seat.transport, HostClock::Virtual(0))
        };
        World::new(plans.len(), self.mtu, self.oversubscription, self.watch, open)
    }
}

/// Whether a node of this name is the target, or a member of the target's group.
fn is_of_group(name: &str, target: &str) -> bool {
    name.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

impl Simulated for Host {
    fn turn(&mut self, now: Nanos) -> Result<bool, Error> {
        self.set_time(now);
        Host::turn(self, None)
    }

    fn visits_and_looks(&self) -> (u64, u64) {
        Host::visits_and_looks(self)
    }
}

fn each<T>(world: &mut World<'_, Host>, mut what: impl FnMut(&mut Host) -> T) -> Vec<T> {
    let now = world.now();
    let one = |host: &mut Host| {
        host.set_time(now);
        what(host)
    };
    world.hosts_mut().map(one).collect()
}
