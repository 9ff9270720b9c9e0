//! Runs the commands with many hosts.

use std::fs;
use std::time::Duration;

use am_wire::frame::ETHERNET_HEADER;

use crate::cli::{Clients, ManyHosts, Options};
use crate::contention::{self, Server};
use crate::cores::Cores;
use crate::deploy::veth::check_mtu;
use crate::driver::Driver;
use crate::error::Error;
use crate::hosts::bridge::Bridged;
use crate::hosts::simulation::{PRICES, Simulation};
use crate::hosts::{Arena, Span};
use crate::origin::Origin;
use crate::permute::{self, Permute};
use crate::plan::{DriverOptions, FramingArg};
use crate::progress::Progress;
use crate::scale::Scale;
use crate::watch::Watch;
use crate::{publish, rights};

/// Length of a measurement on a bridge, and in virtual time.
pub(crate) const BRIDGED_TIME: Duration = Duration::from_millis(200);
pub(crate) const CONTENTION_TIME: Duration = Duration::from_millis(10);
/// All hosts send and receive at once: as much virtual time would take much longer.
const PERMUTE_TIME: Duration = Duration::from_millis(1);
/// Rounds on a bridge. Virtual time needs one: the others would have the same figures.
pub(crate) const BRIDGED_ROUNDS: usize = 3;

const DEFAULT_MTU: u32 = 1500;

/// The rounds, and the length of each measurement, in virtual time `simulated`.
fn amount(hosts: &ManyHosts, simulated: Duration, options: &Options) -> (usize, Span) {
    let (time, rounds) = if hosts.is_simulated { (simulated, 1) } else { (BRIDGED_TIME, BRIDGED_ROUNDS) };
    let amount = options.amount(time);
    (options.rounds.unwrap_or(rounds), Span { warm_up: options.warm_up.unwrap_or(amount.time), time: amount.time })
}

/// Build a place for so many hosts, and let `work` use it.
fn with_arena<T>(
    hosts: &ManyHosts,
    ports: usize,
    oversubscription: Option<u64>,
    options: &Options,
    watch: &Watch,
    work: impl FnOnce(&mut dyn Arena) -> Result<T, Error>,
) -> Result<T, Error> {
    // Bare frames are for two nodes: a switch would have to learn an address for every message.
    let how: DriverOptions = options.how(FramingArg::Split);
    let mtu = options.mtu.unwrap_or(DEFAULT_MTU);
    if hosts.is_simulated {
        let most = 65_536 - ETHERNET_HEADER as u32;
        if !(DEFAULT_MTU..=most).contains(&mtu) {
            return Err(Error::Usage(format!("--mtu goes from {DEFAULT_MTU} to {most} with --hosts sim")));
        }
        return work(&mut Simulation { how, mtu, prices: PRICES, oversubscription, watch });
    }
    rights::check(true, &[Driver::Am])?;
    check_mtu(mtu, &[Driver::Am])?;
    let core = Cores::both(options.cores.unwrap_or_default())?.far;
    work(&mut Bridged::new(ports, mtu, (how, core), watch)?)
}

/// Many clients and one server.
pub(crate) fn contention(
    hosts: &ManyHosts,
    servers: Vec<Server>,
    options: &Options,
    watch: &Watch,
) -> Result<(), Error> {
    let (rounds, span) = amount(hosts, CONTENTION_TIME, options);
    let most = hosts.counts.most();
    let ports = if servers.contains(&Server::Threads) { 2 * most } else { most + 1 };
    let order = contention::Order { servers, clients: hosts.counts.clone(), sizes: hosts.sizes.clone(), rounds, span };
    let progress = Progress::new(order.count(), options.json);
    let (figures, end) = with_arena(hosts, ports, None, options, watch, |arena| {
        let (figures, end) = contention::measure(&order, arena, &progress);
        if figures.is_empty() { end.map(|()| (figures, Ok(()))) } else { Ok((figures, end)) }
    })?;
    drop(progress);
    publish(figures.json(), || figures.table(), &origin(hosts, options), options)?;
    if let Some(file) = &hosts.plot {
        fs::write(file, figures.svg()?).map_err(Error::system("writing the plot"))?;
    }
    end
}

/// Permutations of hosts, on one switch, and on two with a trunk.
pub(crate) fn permute(
    hosts: &ManyHosts,
    oversubscription: Option<u64>,
    options: &Options,
    watch: &Watch,
) -> Result<(), Error> {
    let (rounds, span) = amount(hosts, PERMUTE_TIME, options);
    let size = hosts.sizes.first().copied().unwrap_or_default();
    let order = permute::Order { hosts: hosts.counts.0.clone(), size, rounds, span };
    let switches = [None, oversubscription.filter(|_| hosts.is_simulated)];
    let switches = if switches[1].is_some() { &switches[..] } else { &switches[..1] };
    let progress = Progress::new(order.count() * switches.len(), options.json);
    let mut figures = Permute::new(order);
    let end = switches.iter().try_for_each(|trunk| {
        let measure = |arena: &mut dyn Arena| figures.measure(*trunk, arena, &progress);
        with_arena(hosts, hosts.counts.most(), *trunk, options, watch, measure)
    });
    drop(progress);
    if figures.is_empty() {
        return end;
    }
    publish(figures.json(), || figures.table(), &origin(hosts, options), options)?;
    if let Some(file) = &hosts.plot {
        fs::write(file, figures.svg()?).map_err(Error::system("writing the plot"))?;
    }
    end
}

/// Groups with more and more members, in virtual time.
pub(crate) fn scale(members: &[usize], options: &Options, watch: &Watch) -> Result<(), Error> {
    let hosts = ManyHosts { is_simulated: true, counts: Clients(members.to_vec()), sizes: Vec::new(), plot: None };
    let (_, span) = amount(&hosts, CONTENTION_TIME, options);
    let progress = Progress::new(members.len(), options.json);
    let measure = |arena: &mut dyn Arena| Scale::measure(members, span, arena, &progress);
    let scale = with_arena(&hosts, 0, None, options, watch, measure)?;
    drop(progress);
    publish(scale.json(), || scale.table(), &origin(&hosts, options), options)
}

fn origin(hosts: &ManyHosts, options: &Options) -> Origin {
    Origin::new(if hosts.is_simulated { "sim" } else { "xdp" }, Some(options.mtu.unwrap_or(DEFAULT_MTU)))
}
