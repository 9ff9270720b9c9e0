use crate::tool::IP;
use crate::{FdbEntry, Host, HostError, Interface, VethOptions, fdb, veth};

const BRIDGE: &str = "br0";

/// The properties of a switch, the same at all of its ports.
#[derive(Clone, Copy, Debug)]
pub struct BridgeOptions {
    /// Whether it learns which address is behind which port.
    pub learning: bool,
    /// Bytes after the Ethernet header.
    pub mtu: u32,
    /// Generic receive offload, and with it NAPI, at the switch's end of each cable: without it, frames that a host
    /// sends by `XDP_TX` are lost.
    pub gro: bool,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        BridgeOptions { learning: true, mtu: 1500, gro: true }
    }
}

/// A switch on its own host, with a cable to each of some hosts.
#[derive(Debug)]
pub struct Bridge {
    switch: Host,
    ports: Vec<Interface>,
    ends: Vec<Interface>,
}

impl Bridge {
    /// Make a switch, and a cable to each host, where its end is called `name`. Without spanning tree and multicast
    /// snooping it forwards at once, and by address alone.
    ///
    /// # Errors
    /// As [`veth()`].
    pub fn new(hosts: &[&Host], name: &str, options: &BridgeOptions) -> Result<Bridge, HostError> {
        let switch = Host::new("switch")?;
        let kind = ["type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"];
        switch.run(&IP, &[&["link", "add", "name", BRIDGE][..], &kind].concat())?;
        switch.run(&IP, &["link", "set", "dev", BRIDGE, "addrgenmode", "none", "up"])?;
        let mut bridge = Bridge { switch, ports: Vec::new(), ends: Vec::new() };
        for host in hosts {
            bridge.plug(host, name, options)?;
        }
        Ok(bridge)
    }

    fn plug(&mut self, host: &Host, name: &str, options: &BridgeOptions) -> Result<(), HostError> {
        let port = format!("p{}", self.ports.len());
        let cable = VethOptions { mtu: options.mtu, ..VethOptions::default() };
        let (port, end) = veth(&self.switch, &port, host, name, &cable)?;
        port.set_gro(options.gro)?;
        port.set(&["master", BRIDGE])?;
        port.set(&["type", "bridge_slave", "learning", if options.learning { "on" } else { "off" }])?;
        self.ports.push(port);
        self.ends.push(end);
        Ok(())
    }

    /// The host that is the switch.
    pub fn switch(&self) -> &Host {
        &self.switch
    }

    /// The switch's ends of the cables, in the order of the hosts.
    pub fn ports(&self) -> &[Interface] {
        &self.ports
    }

    /// The hosts' ends of the cables, in the order of the hosts.
    pub fn ends(&self) -> &[Interface] {
        &self.ends
    }

    /// All addresses that the switch knows, with those of its own ports.
    ///
    /// # Errors
    /// [`HostError::Answer`] if the output of `bridge` cannot be parsed.
    pub fn fdb(&self) -> Result<Vec<FdbEntry>, HostError> {
        fdb::show(&self.switch, BRIDGE)
    }

    /// The addresses that it learned from frames.
    ///
    /// # Errors
    /// As [`fdb`](Bridge::fdb).
    pub fn learned(&self) -> Result<Vec<FdbEntry>, HostError> {
        Ok(self.fdb()?.into_iter().filter(|entry| entry.learned).collect())
    }
}
