//! Where server and clients run: what a transport needs, and what can be done to it.

use std::path::Path;

use am_netns::{Bridge, BridgeOptions, Host, Interface, VethOptions, veth};

use crate::Error;

const INTERFACE: &str = "am0";
const SUBNET: &str = "10.77.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Kind {
    Xdp,
    Shm,
    Udp,
    Tcp,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Xdp, Kind::Shm, Kind::Udp, Kind::Tcp];

    pub(crate) fn name(self) -> &'static str {
        ["xdp", "shm", "udp", "tcp"][self as usize]
    }
}

/// Host 0 is the server's, the others are the clients'. Shared memory needs none.
pub(crate) struct Stage {
    kind: Kind,
    segment: String,
    hosts: Vec<Host>,
    ends: Vec<Interface>,
    _switch: Option<Bridge>,
}

impl Stage {
    /// A cable for one client, a switch for several.
    pub(crate) fn new(kind: Kind, clients: usize, directory: &Path) -> Result<Stage, Error> {
        let segment = format!("shm:ledger,dir={}", directory.display());
        let mut stage = Stage { kind, segment, hosts: vec![], ends: vec![], _switch: None };
        if kind == Kind::Shm {
            return Ok(stage);
        }
        stage.hosts = (0..=clients).map(|n| Host::new(&format!("host{n}"))).collect::<Result<_, _>>()?;
        if let [server, client] = &stage.hosts[..] {
            let (near, far) = veth(server, INTERFACE, client, INTERFACE, &VethOptions::default())?;
            stage.ends = vec![near, far];
        } else {
            let all: Vec<&Host> = stage.hosts.iter().collect();
            let switch = Bridge::new(&all, INTERFACE, &BridgeOptions::default())?;
            stage.ends = switch.ends().to_vec();
            stage._switch = Some(switch);
        }
        for (at, end) in stage.ends.iter().enumerate() {
            end.add_ip(&format!("{SUBNET}.{}/24", at + 1))?;
        }
        Ok(stage)
    }

    pub(crate) fn has_links(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The transport of the server (0) or a client.
    pub(crate) fn on(&self, at: usize) -> String {
        let (scheme, host) = (self.kind.name(), at + 1);
        match self.kind {
            Kind::Xdp => format!("xdp:{INTERFACE}"),
            Kind::Shm => self.segment.clone(),
            Kind::Udp | Kind::Tcp if at == 0 => format!("{scheme}:{SUBNET}.{host}:7000"),
            Kind::Udp | Kind::Tcp => format!("{scheme}:{SUBNET}.{host}:7000,peer={SUBNET}.1:7000"),
        }
    }

    /// Where another process finds its namespace.
    pub(crate) fn host(&self, at: usize) -> Option<String> {
        self.hosts.get(at).map(Host::path)
    }

    pub(crate) fn set_link(&self, at: usize, up: bool) -> Result<(), Error> {
        let end = &self.ends[at];
        Ok(if up { end.set_up() } else { end.set_down() }?)
    }
}
