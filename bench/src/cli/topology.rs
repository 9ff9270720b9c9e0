//! Where the two sides run, and which options go together there.

use std::fmt::Display;
use std::path::PathBuf;

use am_netdev_sim::live::SimSettings;
use am_transport::{NameError, TransportName};
use am_wire::frame::ETHERNET_HEADER;
use clap::ValueEnum;

use super::files::{check_file, is_same};
use super::options::{HostsArg, Options};
use super::{BandwidthArgs, Task, usage};
use crate::ablation;
use crate::cores::CoresArg;
use crate::deploy::processes::LocalTransport;
use crate::deploy::sides::Sides;
use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::{Bench, FramingArg};
use crate::size::Size;
use crate::wire::WireRate;

/// Where the far side runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// On its own host, at the other end of a cable with this MTU.
    Veth(u32),
    /// The same, and the cable has this rate.
    Wire(u32, WireRate),
    /// In this process, joined by memory.
    Loopback,
    /// In another process of this machine, joined by this transport, with frames of this many payload bytes.
    Processes(LocalTransport, Option<u32>),
    /// In this process, on the simulated network of this name.
    Sim(String),
    /// On another machine: the peer's name, and this side's transport.
    Peer(String, String),
}

impl Topology {
    /// Two hosts and a cable with this MTU, and with this rate if it is limited.
    pub(crate) fn cable(mtu: u32, rate: Option<WireRate>) -> Topology {
        rate.map_or(Topology::Veth(mtu), |rate| Topology::Wire(mtu, rate))
    }

    /// The name of the transport that carries our messages there.
    pub(crate) fn transport(&self) -> &str {
        match self {
            Topology::Veth(_) | Topology::Wire(..) => "xdp",
            Topology::Loopback => "memory",
            Topology::Sim(_) => SIM,
            Topology::Processes(local_transport, _) => local_transport.name(),
            Topology::Peer(_, on) => on.split(':').next().unwrap_or(on),
        }
    }

    /// Both sides, if they have hosts or processes of their own, on a wire that these drivers can use.
    pub(crate) fn sides(&self, drivers: &[Driver]) -> Result<Sides, Error> {
        match self {
            Topology::Veth(mtu) => Sides::cabled(*mtu, None, drivers),
            Topology::Wire(mtu, rate) => Sides::cabled(*mtu, Some(*rate), drivers),
            Topology::Processes(local_transport, mtu) => Sides::joined(*local_transport, *mtu),
            Topology::Sim(on) => Sides::simulated(on),
            Topology::Loopback | Topology::Peer(..) => {
                Err(usage("this command runs both sides on their own hosts: give --hosts veth"))
            }
        }
    }

    /// The default framing. On a cable of our own nothing needs to be found out, and every round has to be the same.
    pub(crate) fn framing(&self) -> FramingArg {
        match self {
            Topology::Veth(_)
            | Topology::Wire(..)
            | Topology::Loopback
            | Topology::Processes(..)
            | Topology::Sim(_) => FramingArg::Bare,
            Topology::Peer(..) => FramingArg::Auto,
        }
    }

    pub(crate) fn layers(&self) -> Vec<Driver> {
        match self {
            Topology::Veth(_) | Topology::Wire(..) | Topology::Peer(..) => ablation::drivers(),
            Topology::Processes(local_transport, _) => ablation::between(*local_transport),
            Topology::Loopback | Topology::Sim(_) => ablation::IN_MEMORY.to_vec(),
        }
    }

    pub(crate) fn drivers(&self, bench: Bench) -> &'static [Driver] {
        match self {
            Topology::Processes(LocalTransport::Shm, _) if bench == Bench::Latency => &[Driver::Am, Driver::Cacheline],
            Topology::Loopback | Topology::Sim(_) => &[Driver::Am, Driver::Raw],
            Topology::Processes(LocalTransport::Shm, _) => &[Driver::Am],
            Topology::Processes(..) => &[Driver::Am, Driver::Raw],
            Topology::Peer(_, on) => drivers_on(on),
            Topology::Veth(_) | Topology::Wire(..) => &[Driver::Am, Driver::Raw, Driver::Udp],
        }
    }
}

impl Options {
    /// The checks that every command shares. A command with `has_its_cable` works without `--hosts`.
    pub(super) fn check(&self, has_its_cable: bool) -> Result<(), Error> {
        check_file("--save", self.save.as_deref())?;
        self.check_trace()?;
        check_once("--driver", &self.driver)?;
        let size = |size: &Size| if let Size::Bytes(bytes) = size { bytes.to_string() } else { "full".to_owned() };
        check_once("--size", &self.size.iter().map(size).collect::<Vec<_>>())?;
        if self.driver.contains(&Driver::Cacheline) && self.hosts != Some(HostsArg::Shm) {
            return Err(usage("--driver cacheline is for --hosts shm: two processes share the cache line"));
        }
        match self.hosts {
            Some(HostsArg::Loopback) if self.mtu.is_some() => {
                Err(usage("--hosts loopback has frames of one length: omit --mtu, or give --hosts sim"))
            }
            None if self.mtu.is_some() && !has_its_cable => {
                Err(usage("--mtu is for --hosts that make their own wire; an interface keeps its MTU"))
            }
            _ => Ok(()),
        }
    }

    /// A trace holds our messages alone, and needs its own file.
    fn check_trace(&self) -> Result<(), Error> {
        let Some(trace) = self.trace else { return Ok(()) };
        check_file("--trace", Some(trace))?;
        if !self.driver.is_empty() && !self.driver.contains(&Driver::Am) {
            return Err(usage("--trace is for am: add it to --driver"));
        }
        if self.save.as_ref().is_some_and(|save| is_same(save, trace)) {
            return Err(Error::Usage(format!("--save and --trace are one file, {}: name two files", trace.display())));
        }
        Ok(())
    }

    pub(super) fn place(&self) -> Result<Topology, Error> {
        match (self.hosts, &self.peer) {
            (Some(_), Some(_)) => Err(usage("--hosts is for one machine and --peer for two: give one of them")),
            (None, None) => Err(usage(
                "name the far side: on this machine --hosts shm, udp or tcp (no rights needed), veth (root), or loopback (one \
                 process); on another --peer NAME --on xdp:INTERFACE, or --on udp:IP:PORT,peer=IP:PORT",
            )),
            (Some(hosts), _) => self.joined(hosts),
            (None, Some(peer)) if *peer == self.node_name() => {
                Err(usage("this node and its peer have the same name: give this node another with --name"))
            }
            (None, Some(peer)) => self.own_core().and_then(|()| Ok(Topology::Peer(peer.clone(), self.on()?))),
        }
    }

    /// Both sides on this machine.
    pub(super) fn joined(&self, hosts: HostsArg) -> Result<Topology, Error> {
        match hosts {
            HostsArg::Sim if self.name.is_some() => return Err(usage(NAMED_HERE)),
            HostsArg::Sim => {}
            _ => self.no_on()?,
        }
        if hosts == HostsArg::Veth {
            return Ok(Topology::Veth(self.mtu.unwrap_or(DEFAULT_MTU)));
        }
        let value = hosts.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        if self.xdp.is_some() {
            return Err(Error::Usage(format!("--xdp is for interfaces; --hosts {name} has none: give no --xdp")));
        }
        if self.driver.contains(&Driver::Udp) {
            return Err(Error::Usage(format!(
                "--driver udp is for interfaces; with --hosts {name} give --driver am,raw"
            )));
        }
        match hosts.local_transport() {
            Some(local_transport) => Ok(Topology::Processes(local_transport, self.mtu)),
            None if hosts == HostsArg::Sim => self.simulated(),
            None => Ok(Topology::Loopback),
        }
    }

    /// The network of `--on`, by default one without faults.
    fn simulated(&self) -> Result<Topology, Error> {
        let on = self.on.as_deref().unwrap_or("sim:1");
        let settings = |on: &str| {
            let name: TransportName = on.parse().map_err(|error: NameError| Error::Usage(error.to_string()))?;
            if name.scheme() != SIM {
                return Err(Error::Usage(format!(
                    "{on} is no simulated network: with --hosts sim give --on sim:7,loss=0.01 or the like"
                )));
            }
            SimSettings::from_name(&name).map_err(|error| Error::Usage(error.to_string()))
        };
        match (settings(on)?.frame, self.mtu) {
            (Some(_), Some(_)) => Err(usage("--mtu and frame= mean the same: omit one of them")),
            (Some(_), None) => Ok(Topology::Sim(on.to_owned())),
            (None, mtu) => {
                let on = format!("{on},frame={}", mtu.unwrap_or(DEFAULT_MTU) as usize + ETHERNET_HEADER);
                let most = 65_536 - ETHERNET_HEADER;
                let bad = |_| Error::Usage(format!("--mtu goes from {DEFAULT_MTU} to {most} with --hosts sim"));
                settings(&on).map_err(bad).map(|_| Topology::Sim(on))
            }
        }
    }

    pub(super) fn no_on(&self) -> Result<(), Error> {
        match (&self.on, &self.name) {
            (Some(_), _) => Err(usage("--on is for two machines; --hosts makes its own cable")),
            (_, Some(_)) => Err(usage(NAMED_HERE)),
            (None, None) => Ok(()),
        }
    }

    /// On two machines each side has its own core.
    fn own_core(&self) -> Result<(), Error> {
        match self.cores {
            Some(CoresArg::Two(own, other)) => Err(Error::Usage(format!(
                "--cores {own},{other} is for both sides on one machine; on two machines each takes its own: --cores {own}"
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn serving(&self) -> Result<Task, Error> {
        if self.peer.is_some() || self.hosts.is_some() {
            return Err(usage("--serve is the far side: --peer and --hosts belong to the near side"));
        }
        let on = self.on()?;
        let what = !self.driver.is_empty() || !self.size.is_empty() || self.coalesce.is_some();
        if what || self.says_amount() || self.json || self.save.is_some() {
            return Err(usage(
                "the near side decides what is measured: give --driver, --size, --coalesce, --rounds, --time, --warm-up, \
                 --json and --save there, not with --serve",
            ));
        }
        self.own_core().map(|()| Task::Serve(on))
    }

    pub(super) fn demo(&self) -> Result<Task, Error> {
        let named = self.peer.is_some() || self.on.is_some() || self.name.is_some();
        if named || self.serve || self.hosts.is_some() {
            return Err(usage("demo makes its own hosts; for other hosts use latency, bandwidth or rate"));
        }
        Ok(Task::Demo)
    }

    pub(super) fn sweep(&self, plot: Option<&PathBuf>) -> Result<Task, Error> {
        if !self.size.is_empty() {
            return Err(usage("--sweep has its own sizes: omit --size"));
        }
        self.check_plot(plot)?;
        Ok(Task::Sweep(self.place()?, plot.cloned()))
    }

    pub(super) fn losses(&self, args: &BandwidthArgs) -> Result<Task, Error> {
        self.check_plot(args.plot.as_ref())?;
        if !self.driver.is_empty() && !self.driver.contains(&Driver::Am) {
            return Err(usage(
                "--loss is for am, and other drivers lose nothing on purpose: give --driver am, or omit --driver",
            ));
        }
        check_once("--loss", &args.loss)?;
        let losses = [&[Loss::NONE], &args.loss[..]].concat();
        Ok(Task::Loss(args.bench(), losses, self.place()?, args.plot.clone()))
    }

    pub(super) fn ablation(&self) -> Result<Task, Error> {
        if !self.size.is_empty() || !self.driver.is_empty() {
            return Err(usage("ablation has its own rows and sizes: omit --driver and --size"));
        }
        if self.peer.is_some() && !is_interface(&self.on()?) {
            return Err(usage(
                "between machines ablation measures AF_XDP: give --on xdp:INTERFACE; for other transports use --hosts on one machine",
            ));
        }
        Ok(Task::Ablation(self.place_or_cable()?))
    }

    /// The place of the command line, by default a cable of our own.
    pub(super) fn place_or_cable(&self) -> Result<Topology, Error> {
        let is_said = self.hosts.is_some() || self.peer.is_some();
        if is_said { self.place() } else { self.no_on().map(|()| Topology::Veth(self.mtu.unwrap_or(DEFAULT_MTU))) }
    }

    pub(super) fn bounce(&self) -> Result<Task, Error> {
        if self.peer.is_some() || self.serve || self.hosts == Some(HostsArg::Loopback) {
            return Err(usage(
                "bounce runs both sides on this machine: give --hosts veth, or another that is no loopback; omit --peer and --serve",
            ));
        }
        if !self.driver.is_empty() || self.coalesce.is_some() {
            return Err(usage("both rows of bounce are ours, one request a frame: omit --driver and --coalesce"));
        }
        if self.size.len() > 1 || self.size.contains(&Size::Full) {
            return Err(usage("bounce takes one --size, in bytes"));
        }
        Ok(Task::Bounce(self.place_or_cable()?))
    }

    pub(super) fn on(&self) -> Result<String, Error> {
        let on = self.on.as_deref().ok_or_else(|| usage("name the transport, as in --on xdp:eth1"))?;
        let names = am_api::transports::split(on);
        names.iter().try_for_each(|name| self.fits(name, names.len() > 1))?;
        match self.driver.iter().find(|driver| !drivers_on(on).contains(driver)) {
            Some(driver) => {
                let kinds: Vec<&str> = names.iter().filter_map(|name| name.split(':').next()).collect();
                Err(Error::Usage(format!("--driver {driver} is not for --on {}: omit it", kinds.join("+"))))
            }
            None => Ok(on.to_owned()),
        }
    }

    /// The plot has a file of its own. A program takes a file for what its name says, so the name says SVG.
    pub(super) fn check_plot(&self, plot: Option<&PathBuf>) -> Result<(), Error> {
        check_file("--plot", plot.map(PathBuf::as_path))?;
        let is_svg = |plot: &&PathBuf| plot.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("svg"));
        if let Some(plot) = plot.filter(|plot| plot.is_file() || !plot.exists()).filter(|plot| !is_svg(plot)) {
            let name = plot.display();
            return Err(Error::Usage(format!("--plot {name}: the plot is SVG: give a name that ends with .svg")));
        }
        match (plot, &self.save) {
            (Some(plot), Some(save)) if is_same(plot, save) => Err(Error::Usage(format!(
                "--save {} and --plot {} are one file, which the plot would overwrite: name two files",
                save.display(),
                plot.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether am-bench can measure this transport, alone or as one of several.
    fn fits(&self, on: &str, is_one_of_several: bool) -> Result<(), Error> {
        let kind = am_api::transports::kinds()
            .iter()
            .find(|kind| on.split_once(':').is_some_and(|(its, _)| its == kind.scheme));
        let bad = || {
            let kinds = am_api::transports::kinds().iter().filter(|kind| kind.scheme != SIM);
            let known: Vec<&str> = kinds.map(|kind| kind.example).collect();
            Error::Usage(format!("`{on}` is no transport that am-bench knows; it knows {}", known.join(", ")))
        };
        let kind = kind.filter(|kind| on.len() > kind.scheme.len() + 1).ok_or_else(bad)?;
        if kind.scheme == "xdp" && !is_one_of_several {
            return match on.find(',').filter(|at| on[*at..].contains('=')).map(|at| &on[..at]) {
                Some(interface) => Err(Error::Usage(format!(
                    "--on {on}: am-bench takes no settings of an interface, and its queue 0, because bare frames share it \
                     with the kernel: give --on {interface} alone, and --xdp for where the program runs"
                ))),
                None => Ok(()),
            };
        }
        if kind.scheme == SIM {
            return Err(usage(
                "a simulated network does not reach other processes: give --hosts sim, with both sides in this process",
            ));
        }
        if self.xdp.is_some() {
            return Err(usage("--xdp is for interfaces: --on xdp:INTERFACE"));
        }
        Ok(())
    }
}

/// No value may appear twice.
fn check_once<T: PartialEq + Display>(option: &str, values: &[T]) -> Result<(), Error> {
    match values.iter().enumerate().find(|(nth, value)| values[..*nth].contains(value)) {
        Some((_, twice)) => Err(Error::Usage(format!("{option} names {twice} twice"))),
        None => Ok(()),
    }
}

const NAMED_HERE: &str = "--name is for two machines; --hosts names its own nodes";

/// The default payload of a frame on a cable, and on a simulated network.
pub(super) const DEFAULT_MTU: u32 = 1500;

const SIM: &str = "sim";

const XDP: &str = "xdp:";

/// Whether this names one interface and nothing else.
pub(crate) fn is_interface(on: &str) -> bool {
    on.starts_with(XDP) && am_api::transports::split(on).len() == 1
}

/// The drivers that exist between two machines with this transport.
fn drivers_on(on: &str) -> &'static [Driver] {
    match on.split(':').next() {
        // Bare frames take a single path.
        _ if am_api::transports::split(on).len() > 1 => &[Driver::Am],
        Some("xdp") => &[Driver::Am, Driver::Raw, Driver::Udp],
        Some("udp" | "tcp") => &[Driver::Am, Driver::Raw],
        // A NIC has an address that bare frames can be sent to. Other devices have one only if their names say so.
        Some("dpdk") if is_nic(on) => &[Driver::Am, Driver::Raw],
        _ => &[Driver::Am],
    }
}

fn is_nic(on: &str) -> bool {
    let name = on.parse().ok();
    name.is_some_and(|name| am_dpdk::DpdkOptions::of(&name).is_ok_and(|options| options.is_pci()))
}
