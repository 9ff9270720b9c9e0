//! Where the two sides run, and which options go together there.

use am_netdev_sim::live::SimSettings;
use am_transport::{NameError, TransportName};
use am_wire::frame::ETHERNET_HEADER;
use clap::{Args, ValueEnum};

use crate::cores::CoresArg;
use crate::deploy::LocalTransport;
use crate::deploy::Sides;
use crate::deploy::veth::WireRate;
use crate::driver::Driver;
use crate::error::Error;
use crate::options::{self, CoresOption, DEFAULT_MTU, OpenOptions, Origin, usage};
use crate::out;
use crate::plan::{Bench, FramingArg};

/// The value of `--hosts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HostsArg {
    /// Two network namespaces of this machine, joined by a veth pair
    Veth,
    /// Two threads of this process, joined by memory
    Loopback,
    /// Two processes of this machine, joined by UDP on the loopback interface
    Udp,
    /// Two processes of this machine, joined by TCP
    Tcp,
    /// Two processes of this machine, joined by shared memory
    Shm,
    /// Two processes of this machine, joined by DPDK's memif
    Memif,
    /// Two processes of this machine, joined by DPDK's vhost and virtio-user
    VirtioUser,
    /// Two threads of this process, joined by a simulated network: the default one, or that of --on sim:SEED,...
    Sim,
}

impl HostsArg {
    /// Hosts or processes of their own.
    pub const APART: &[HostsArg] = HostsArg::WITH_SIM.split_at(6).0;
    /// The same, and a simulated network.
    pub const WITH_SIM: &[HostsArg] = {
        use HostsArg::{Memif, Shm, Sim, Tcp, Udp, Veth, VirtioUser};
        &[Veth, Udp, Tcp, Shm, Memif, VirtioUser, Sim]
    };
    /// Where many hosts run.
    pub const MANY: &[HostsArg] = &[HostsArg::Veth, HostsArg::Sim];

    /// The transport that joins two processes, if there are two.
    pub fn local_transport(self) -> Option<LocalTransport> {
        match self {
            HostsArg::Veth | HostsArg::Loopback | HostsArg::Sim => None,
            HostsArg::Udp => Some(LocalTransport::Udp),
            HostsArg::Tcp => Some(LocalTransport::Tcp),
            HostsArg::Shm => Some(LocalTransport::Shm),
            HostsArg::Memif => Some(LocalTransport::Memif),
            HostsArg::VirtioUser => Some(LocalTransport::VirtioUser),
        }
    }
}

/// Where the far side runs.
#[derive(Debug, PartialEq, Eq)]
pub enum Topology {
    /// On its own host, at the other end of a cable with this MTU, and this rate if it is limited.
    Veth(u32, Option<WireRate>),
    /// In this process, joined by memory.
    Loopback,
    /// In another process of this machine, joined by this transport, with frames of this many payload bytes.
    Processes(LocalTransport, Option<u32>),
    /// In this process, on the simulated network of this name.
    Sim(String),
    /// On another machine.
    Peer {
        /// The name of the node there.
        peer: String,
        /// The transport of this side.
        on: String,
        /// The name of this node.
        name: String,
    },
}

impl Topology {
    /// The name of the transport that carries our messages there.
    pub fn transport(&self) -> &str {
        match self {
            Topology::Veth(..) => "xdp",
            Topology::Loopback => "memory",
            Topology::Sim(_) => SIM,
            Topology::Processes(local_transport, _) => local_transport.name(),
            Topology::Peer { on, .. } => on.split(':').next().unwrap_or(on),
        }
    }

    /// Where figures over these are from.
    pub fn origin(places: &[Topology]) -> Origin {
        if let [one] = places { Origin::new(one.transport(), None) } else { Origin::new("all", None) }
    }

    /// Both sides, if they have hosts or processes of their own, on a wire that these drivers can use.
    pub fn sides(&self, drivers: &[Driver]) -> Result<Sides, Error> {
        match self {
            Topology::Veth(mtu, rate) => Sides::cabled(*mtu, *rate, drivers),
            Topology::Processes(local_transport, mtu) => Sides::joined(*local_transport, *mtu),
            Topology::Sim(on) => Sides::simulated(on),
            Topology::Loopback | Topology::Peer { .. } => {
                Err(usage("this command runs both sides on their own hosts: give --hosts veth"))
            }
        }
    }

    /// The sides over each of these, and the name of its transport. Of several, one that lacks a right is left out.
    pub fn all_sides(topologies: &[Topology]) -> Result<Vec<(&str, Sides)>, Error> {
        let mut places = vec![];
        for topology in topologies {
            match topology.sides(&[Driver::Am]) {
                Ok(sides) => places.push((topology.transport(), sides)),
                Err(why) if topologies.len() > 1 && why.exit_code() == 3 => {
                    out::status(&format!("nothing over {}: {why}", topology.transport()));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(places)
    }

    /// The default framing. On a cable of our own nothing needs to be found out, and every round has to be the same.
    pub fn framing(&self) -> FramingArg {
        if matches!(self, Topology::Peer { .. }) { FramingArg::Auto } else { FramingArg::Bare }
    }

    /// The drivers that exist there for this bench.
    pub fn drivers(&self, bench: Bench) -> &'static [Driver] {
        match self {
            Topology::Processes(LocalTransport::Shm, _) if bench == Bench::Latency => &[Driver::Am, Driver::Cacheline],
            Topology::Loopback | Topology::Sim(_) => &[Driver::Am, Driver::Raw],
            Topology::Processes(LocalTransport::Shm, _) => &[Driver::Am],
            Topology::Processes(..) => &[Driver::Am, Driver::Raw],
            Topology::Peer { on, .. } => drivers_on(on),
            Topology::Veth(..) => &[Driver::Am, Driver::Raw, Driver::Udp],
        }
    }
}

/// Both sides on this machine.
#[derive(Clone, Debug, Default, Args)]
pub struct Here {
    /// Run both hosts on this machine
    #[arg(long, value_name = "WHERE", help_heading = "Where")]
    pub hosts: Option<HostsArg>,
    /// MTU of the veth pair, 148 to 65535 [default: 1500]; with other --hosts, the payload bytes of a frame, within the
    /// transport's limits [default: the transport's own]
    #[arg(long, value_name = "BYTES", help_heading = "Where")]
    pub mtu: Option<u32>,
    /// The cores of both sides.
    #[command(flatten)]
    pub cores: CoresOption,
}

impl Here {
    /// On these hosts; on a cable if none are named.
    pub fn topology(&self, open: &OpenOptions) -> Result<Topology, Error> {
        self.on(self.hosts.unwrap_or(HostsArg::Veth), "sim:1", open, &[])
    }

    /// On these hosts, for these drivers; `network` is the simulated one.
    pub fn on(
        &self,
        hosts: HostsArg,
        network: &str,
        open: &OpenOptions,
        drivers: &[Driver],
    ) -> Result<Topology, Error> {
        if hosts == HostsArg::Veth {
            return Ok(Topology::Veth(self.mtu.unwrap_or(DEFAULT_MTU), None));
        }
        let value = hosts.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        if open.xdp.is_some() {
            return Err(usage(format!("--xdp is for interfaces; --hosts {name} has none: give no --xdp")));
        }
        if drivers.contains(&Driver::Udp) {
            return Err(usage(format!("--driver udp is for interfaces; with --hosts {name} give --driver am,raw")));
        }
        match hosts.local_transport() {
            Some(local_transport) => Ok(Topology::Processes(local_transport, self.mtu)),
            None if hosts == HostsArg::Sim => self.simulated(network),
            None if self.mtu.is_some() => {
                Err(usage("--hosts loopback has frames of one length: omit --mtu, or give --hosts sim"))
            }
            None => Ok(Topology::Loopback),
        }
    }

    fn simulated(&self, on: &str) -> Result<Topology, Error> {
        let settings = |on: &str| {
            let name: TransportName = on.parse().map_err(|error: NameError| usage(error.to_string()))?;
            if name.scheme() != SIM {
                return Err(usage(format!(
                    "{on} is no simulated network: with --hosts sim give --on sim:7,loss=0.01 or the like"
                )));
            }
            SimSettings::from_name(&name).map_err(|error| usage(error.to_string()))
        };
        match (settings(on)?.frame, self.mtu) {
            (Some(_), Some(_)) => Err(usage("--mtu and frame= mean the same: omit one of them")),
            (Some(_), None) => Ok(Topology::Sim(on.to_owned())),
            (None, mtu) => {
                let on = format!("{on},frame={}", mtu.unwrap_or(DEFAULT_MTU) as usize + ETHERNET_HEADER);
                let most = 65_536 - ETHERNET_HEADER;
                let bad = |_| usage(format!("--mtu goes from {DEFAULT_MTU} to {most} with --hosts sim"));
                settings(&on).map_err(bad).map(|_| Topology::Sim(on))
            }
        }
    }
}

/// This side's end of a wire between two machines.
#[derive(Clone, Debug, Default, Args)]
pub struct End {
    /// The transport to the other machine, such as xdp:eth1, or udp:10.0.0.1:7000,peer=10.0.0.2:7000; with --hosts sim
    /// the network, such as sim:7,loss=0.01,delay=10us. An interface is named without queue= and other settings
    #[arg(long, value_name = "TRANSPORT", help_heading = "Where")]
    pub on: Option<String>,
    /// The name of this node [default: the host's name]
    #[arg(long, value_parser = options::node_name, value_name = "NAME", help_heading = "Where")]
    pub(crate) name: Option<String>,
}

impl End {
    /// The name of this node.
    pub fn node_name(&self) -> String {
        self.name.clone().unwrap_or_else(options::host_name)
    }

    /// The transport, if these drivers can use it.
    pub fn transport(&self, open: &OpenOptions, drivers: &[Driver]) -> Result<String, Error> {
        let on = self.on.as_deref().ok_or_else(|| usage("name the transport, as in --on xdp:eth1"))?;
        let names = am_api::transports::split(on);
        names.iter().try_for_each(|name| fits(name, names.len() > 1, open))?;
        match drivers.iter().find(|driver| !drivers_on(on).contains(driver)) {
            Some(driver) => {
                let kinds: Vec<&str> = names.iter().filter_map(|name| name.split(':').next()).collect();
                Err(usage(format!("--driver {driver} is not for --on {}: omit it", kinds.join("+"))))
            }
            None => Ok(on.to_owned()),
        }
    }
}

/// Both sides on this machine, or the near side here and the far side on another machine.
#[derive(Clone, Debug, Default, Args)]
#[command(mut_arg("cores", |cores| cores.value_parser(options::cores).help(
    "Cores of the near and the far side, or `none`; with --peer one core, for this side [default: the last two]")))]
pub struct Place {
    /// Both sides on this machine.
    #[command(flatten)]
    pub here: Here,
    /// Measure against the node of this name, which runs `am-bench --serve`
    #[arg(long, value_parser = options::node_name, value_name = "NAME", help_heading = "Where")]
    pub peer: Option<String>,
    /// This side's end of a wire.
    #[command(flatten)]
    pub end: End,
}

impl Place {
    /// Whether the command line names a place.
    pub fn is_said(&self) -> bool {
        self.here.hosts.is_some() || self.peer.is_some()
    }

    /// The cores that the command line names.
    pub fn cores(&self) -> CoresArg {
        self.here.cores.cores.unwrap_or_default()
    }

    /// Where both sides run, if these drivers can run there.
    pub fn topology(&self, open: &OpenOptions, drivers: &[Driver]) -> Result<Topology, Error> {
        let End { on, name } = &self.end;
        match (self.here.hosts, &self.peer) {
            (Some(_), Some(_)) => Err(usage("--hosts is for one machine and --peer for two: give one of them")),
            (None, None) => Err(usage(
                "name the far side: on this machine --hosts shm, udp or tcp (no rights needed), veth (root), or loopback (one \
                 process); on another --peer NAME --on xdp:INTERFACE, or --on udp:IP:PORT,peer=IP:PORT",
            )),
            (Some(_), _) if name.is_some() => Err(usage("--name is for two machines; --hosts names its own nodes")),
            (Some(hosts), _) if hosts != HostsArg::Sim && on.is_some() => {
                Err(usage("--on is for two machines; --hosts makes its own cable"))
            }
            (Some(hosts), _) => self.here.on(hosts, on.as_deref().unwrap_or("sim:1"), open, drivers),
            (None, Some(_)) if self.here.mtu.is_some() => {
                Err(usage("--mtu is for --hosts that make their own wire; an interface keeps its MTU"))
            }
            (None, Some(peer)) if *peer == self.end.node_name() => {
                Err(usage("this node and its peer have the same name: give this node another with --name"))
            }
            (None, Some(peer)) => {
                own_core(self.here.cores.cores)?;
                let on = self.end.transport(open, drivers)?;
                Ok(Topology::Peer { peer: peer.clone(), on, name: self.end.node_name() })
            }
        }
    }

    /// The place of the command line, by default a cable of our own.
    pub fn or_cable(&self, open: &OpenOptions) -> Result<Topology, Error> {
        if self.is_said() { self.topology(open, &[]) } else { self.on(HostsArg::Veth, open) }
    }

    /// On these hosts of this machine.
    pub fn on(&self, hosts: HostsArg, open: &OpenOptions) -> Result<Topology, Error> {
        let here = Here { hosts: Some(hosts), ..self.here.clone() };
        Place { here, ..self.clone() }.topology(open, &[])
    }
}

/// On two machines each side has its own core.
pub fn own_core(cores: Option<CoresArg>) -> Result<(), Error> {
    match cores {
        Some(CoresArg::Two(own, other)) => Err(usage(format!(
            "--cores {own},{other} is for both sides on one machine; on two machines each takes its own: --cores {own}"
        ))),
        _ => Ok(()),
    }
}

/// Whether am-bench can measure this transport, alone or as one of several.
fn fits(on: &str, is_one_of_several: bool, open: &OpenOptions) -> Result<(), Error> {
    let kind =
        am_api::transports::kinds().iter().find(|kind| on.split_once(':').is_some_and(|(its, _)| its == kind.scheme));
    let bad = || {
        let kinds = am_api::transports::kinds().iter().filter(|kind| kind.scheme != SIM);
        let known: Vec<&str> = kinds.map(|kind| kind.example).collect();
        usage(format!("`{on}` is no transport that am-bench knows; it knows {}", known.join(", ")))
    };
    let kind = kind.filter(|kind| on.len() > kind.scheme.len() + 1).ok_or_else(bad)?;
    if kind.scheme == "xdp" && !is_one_of_several {
        return match am_api::transports::split_settings(on) {
            (interface, settings) if !settings.is_empty() => Err(usage(format!(
                "--on {on}: am-bench takes no settings of an interface, and its queue 0, because bare frames share it \
                 with the kernel: give --on {interface} alone, and --xdp for where the program runs"
            ))),
            _ => Ok(()),
        };
    }
    if kind.scheme == SIM {
        return Err(usage(
            "a simulated network does not reach other processes: give --hosts sim, with both sides in this process",
        ));
    }
    if open.xdp.is_some() {
        return Err(usage("--xdp is for interfaces: --on xdp:INTERFACE"));
    }
    Ok(())
}

const SIM: &str = "sim";

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
