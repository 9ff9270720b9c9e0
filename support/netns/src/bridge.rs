use serde::Deserialize;

use crate::HostError;
use crate::host::{BRIDGE_TOOL, Host, IP, TC};
use crate::interface::{Interface, VethOptions, parse_address, veth};

const BRIDGE: &str = "br0";

/// Bytes of a frame that only the wire has: preamble, check sequence, gap. [`Bridge::limit_rate`] counts them.
pub const WIRE_OVERHEAD: u32 = 24;
/// A timer of the kernel may be late by a quarter of a millisecond. The frames of that time may leave at once, so that the
/// rate does not fall.
const LATE_SHARE: u64 = 4000;
/// The longest frame that may pass, in bytes. A queueing discipline drops longer ones than its burst.
const MIN_BURST: u64 = 8192;
/// The buffer of a port, as of a small switch: 1 MiB. A full buffer drops frames.
const BUFFER: &str = "1048576";

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
        for (number, host) in hosts.iter().enumerate() {
            let cable = VethOptions { mtu: options.mtu, ..VethOptions::default() };
            let (port, end) = veth(&bridge.switch, &format!("p{number}"), host, name, &cable)?;
            port.set_gro(options.gro)?;
            port.set(&["master", BRIDGE])?;
            port.set(&["type", "bridge_slave", "learning", if options.learning { "on" } else { "off" }])?;
            bridge.ports.push(port);
            bridge.ends.push(end);
        }
        Ok(bridge)
    }

    /// Limit the bits that each port sends in a second to its host, as a cable does: every frame counts with preamble,
    /// check sequence and gap. The limit is at the switch, because frames of AF_XDP pass no queueing discipline of the host
    /// that sends them. No offload joins segments, neither at the hosts nor here: each is a frame.
    ///
    /// # Errors
    /// [`HostError::MissingQdisc`] if the kernel has no token bucket filter; as [`Interface::set_up`].
    pub fn limit_rate(&self, bits_per_s: u64) -> Result<(), HostError> {
        let burst = (bits_per_s / 8 / LATE_SHARE).max(MIN_BURST).to_string();
        let (rate, overhead) = (format!("{bits_per_s}bit"), WIRE_OVERHEAD.to_string());
        let tbf = ["root", "tbf", "rate", &rate, "burst", &burst, "limit", BUFFER, "overhead", &overhead];
        for (port, end) in self.ports.iter().zip(&self.ends) {
            end.set(&["gso_max_segs", "1"])?;
            port.set_gro(false)?;
            self.switch.run(&TC, &[&["qdisc", "replace", "dev", port.name()][..], &tbf].concat())?;
        }
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

    /// The addresses that it learned from frames.
    ///
    /// # Errors
    /// [`HostError::Answer`] if the output of `bridge` cannot be parsed.
    pub fn learned(&self) -> Result<Vec<FdbEntry>, HostError> {
        let arguments = ["-json", "fdb", "show", "br", BRIDGE];
        let text = self.switch.run(&BRIDGE_TOOL, &arguments)?;
        parse(&text).map_err(|source| HostError::Answer { command: format!("bridge {}", arguments.join(" ")), source })
    }
}

/// One line of a switch's forwarding database: an address, and the port behind which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// The Ethernet address.
    pub address: [u8; 6],
    /// The port's name on the switch: `p0`, `p1`, ...
    pub port: String,
}

#[derive(Deserialize)]
struct Line {
    mac: String,
    ifname: String,
    #[serde(default)]
    state: String,
}

/// The entries that were learned from frames. The others were configured, or are the ports' own: they have a state.
fn parse(text: &str) -> Result<Vec<FdbEntry>, serde_json::Error> {
    // Without entries it prints nothing, which is not JSON.
    let lines: Vec<Line> = serde_json::from_str(if text.trim().is_empty() { "[]" } else { text })?;
    let learned = lines.into_iter().filter(|line| matches!(line.state.as_str(), "" | "stale"));
    Ok(learned.filter_map(|line| Some(FdbEntry { address: parse_address(&line.mac)?, port: line.ifname })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_learned_from_configured() {
        let text = r#"[
            {"mac":"26:22:60:74:a7:14","ifname":"p0","flags":[],"master":"br0","state":""},
            {"mac":"33:33:00:00:00:01","ifname":"p0","flags":["self"],"state":"permanent"}]"#;
        let entries = parse(text).unwrap();
        let short: Vec<_> = entries.iter().map(|e| (e.address[0], e.port.as_str())).collect();
        assert_eq!(short, [(0x26, "p0")]);
    }

    #[test]
    fn an_empty_database_has_no_entries() {
        assert_eq!(parse("\n").unwrap(), []);
    }
}
