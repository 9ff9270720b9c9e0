use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::HostError;
use crate::host::{ETHTOOL, Host, IP, STANDARD_INPUT};

/// Linkwatch may take a second to report a carrier, on a loaded machine longer.
const CARRIER: Duration = Duration::from_secs(10);

/// A network interface of a [`Host`]. It exists as long as its host and, for a cable, the host at the other end.
/// Dropping this value does not remove it.
#[derive(Clone, Debug)]
pub struct Interface {
    pub(crate) host: Host,
    name: String,
    index: u32,
    address: [u8; 6],
}

/// The output of `ip -json link show` for an interface.
#[derive(Deserialize)]
struct Link {
    ifindex: u32,
    #[serde(default)]
    address: String,
    flags: Vec<String>,
    mtu: u32,
    /// Present while a program is attached.
    xdp: Option<serde_json::Value>,
}

impl Host {
    /// The interface of this name.
    ///
    /// # Errors
    /// [`HostError::NoSuchInterface`].
    pub fn interface(&self, name: &str) -> Result<Interface, HostError> {
        let link = Link::show(self, name)?;
        let address = parse_address(&link.address).unwrap_or_default();
        Ok(Interface { host: self.clone(), name: name.to_owned(), index: link.ifindex, address })
    }
}

impl Interface {
    /// Its name on that host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its index on that host (`ifindex`).
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its Ethernet address; zeros where it has none.
    pub fn address(&self) -> [u8; 6] {
        self.address
    }

    /// Its MTU, in bytes after the Ethernet header.
    ///
    /// # Errors
    /// [`HostError::NoSuchInterface`] if it is gone, as for all methods below.
    pub fn mtu(&self) -> Result<u32, HostError> {
        Ok(Link::show(&self.host, &self.name)?.mtu)
    }

    /// Whether an XDP program is attached to it.
    ///
    /// # Errors
    /// As [`mtu`](Interface::mtu).
    pub fn has_xdp(&self) -> Result<bool, HostError> {
        Ok(Link::show(&self.host, &self.name)?.xdp.is_some())
    }

    /// Whether its XDP program is gone, within five seconds. A thread that starts a process holds copies of all descriptors until that
    /// runs, and with them the program.
    ///
    /// # Errors
    /// As [`mtu`](Interface::mtu).
    pub fn loses_xdp(&self) -> Result<bool, HostError> {
        let start = Instant::now();
        while self.has_xdp()? {
            if start.elapsed() > Duration::from_secs(5) {
                return Ok(false);
            }
            sleep(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Set it up.
    ///
    /// # Errors
    /// As [`mtu`](Interface::mtu).
    pub fn set_up(&self) -> Result<(), HostError> {
        self.set(&["up"])
    }

    /// Set it down: frames to and from it are lost.
    ///
    /// # Errors
    /// As [`mtu`](Interface::mtu).
    pub fn set_down(&self) -> Result<(), HostError> {
        self.set(&["down"])
    }

    /// Change its Ethernet address.
    ///
    /// # Errors
    /// As [`mtu`](Interface::mtu); [`HostError::Command`] for an address that no host can have.
    pub fn set_address(&mut self, address: [u8; 6]) -> Result<(), HostError> {
        self.set(&["address", &format_address(address)])?;
        self.address = address;
        Ok(())
    }

    /// Add an IP address, `10.77.0.1/24` or `fd77::1/64`. It is usable at once (no duplicate address detection).
    ///
    /// # Errors
    /// [`HostError::Command`] if it has that address already.
    pub fn add_ip(&self, address: &str) -> Result<(), HostError> {
        self.host.run(&IP, &["address", "add", address, "dev", &self.name, "nodad"]).map(drop)
    }

    /// Switch generic receive offload, and on a veth its NAPI.
    pub(crate) fn set_gro(&self, on: bool) -> Result<(), HostError> {
        self.host.run(&ETHTOOL, &["-K", &self.name, "gro", if on { "on" } else { "off" }]).map(drop)
    }

    /// Wait until its other end exists and is up.
    ///
    /// # Errors
    /// [`HostError::NoCarrier`] after ten seconds.
    pub fn wait_for_carrier(&self) -> Result<(), HostError> {
        let deadline = Instant::now() + CARRIER;
        while !Link::show(&self.host, &self.name)?.flags.iter().any(|flag| flag == "LOWER_UP") {
            if Instant::now() > deadline {
                let (host, interface) = (self.host.name().to_owned(), self.name.clone());
                return Err(HostError::NoCarrier { host, interface, seconds: CARRIER.as_secs() });
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(crate) fn set(&self, what: &[&str]) -> Result<(), HostError> {
        let arguments = [&["link", "set", "dev", self.name.as_str()], what].concat();
        self.host.run(&IP, &arguments).map(drop)
    }
}

impl Link {
    fn show(host: &Host, name: &str) -> Result<Link, HostError> {
        let arguments = ["-json", "link", "show", "dev", name];
        let text = host.run(&IP, &arguments).map_err(|error| match error {
            HostError::Command { stderr, .. } if stderr.contains("does not exist") => {
                HostError::NoSuchInterface { host: host.name().to_owned(), interface: name.to_owned() }
            }
            other => other,
        })?;
        let answer = |source| HostError::Answer { command: format!("ip {}", arguments.join(" ")), source };
        let [link] = serde_json::from_str::<[Link; 1]>(&text).map_err(answer)?;
        Ok(link)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.host)
    }
}

/// The properties of a cable, the same at both ends.
#[derive(Clone, Copy, Debug)]
pub struct VethOptions<'a> {
    /// Bytes after the Ethernet header.
    pub mtu: u32,
    /// Receive and transmit queues of each end; fixed when the cable is made.
    pub queues: u32,
    /// Generic receive offload, and with it NAPI. Without NAPI, frames that the other end sends by `XDP_TX` are lost, unless
    /// this end runs an XDP program itself.
    pub gro: bool,
    /// IP addresses of the two ends, with prefix: `10.77.0.1/24`.
    pub addresses: Option<(&'a str, &'a str)>,
}

impl Default for VethOptions<'_> {
    /// Ethernet's MTU, one queue, no offload, no addresses: a cable that carries only what a test sends.
    fn default() -> Self {
        VethOptions { mtu: 1500, queues: 1, gro: false, addresses: None }
    }
}

/// The smallest MTU for IPv6.
const IPV6_MTU: u32 = 1280;

/// Join two hosts, or a host with itself, by a cable. Both ends are up and have a carrier when this returns.
///
/// The cable vanishes with the host of either end.
///
/// # Errors
/// [`HostError::Command`] if a name is taken or invalid.
pub fn veth(
    a: &Host,
    a_name: &str,
    b: &Host,
    b_name: &str,
    options: &VethOptions<'_>,
) -> Result<(Interface, Interface), HostError> {
    let (mtu, queues) = (options.mtu.to_string(), options.queues.to_string());
    let shape = ["mtu", mtu.as_str(), "numtxqueues", queues.as_str(), "numrxqueues", queues.as_str()];
    let pair = ["type", "veth", "peer", "name", b_name, "netns", STANDARD_INPUT];
    let command = [&["link", "add", "name", a_name][..], &shape, &pair, &shape].concat();
    a.run_towards(b, &IP, &command)?;

    let ends = (a.interface(a_name)?, b.interface(b_name)?);
    let (a, b) = options.addresses.unzip();
    for (end, address) in [(&ends.0, a), (&ends.1, b)] {
        // No link-local IPv6 address: the kernel would send frames of its own.
        // Over a smaller MTU there is no IPv6, and nothing to set.
        if options.mtu >= IPV6_MTU {
            end.set(&["addrgenmode", "none"])?;
        }
        if options.gro {
            end.set_gro(true)?;
        }
        if let Some(address) = address {
            end.add_ip(address)?;
        }
        end.set_up()?;
    }
    ends.0.wait_for_carrier()?;
    ends.1.wait_for_carrier()?;
    Ok(ends)
}

/// Six hexadecimal bytes separated by colons.
pub(crate) fn parse_address(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

fn format_address(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let address = [0x02, 0, 0xab, 0xcd, 0xef, 0x01];
        assert_eq!(parse_address(&format_address(address)), Some(address));
        assert_eq!(parse_address("02:00"), None);
        assert_eq!(parse_address("02:00:00:00:00:00:00"), None);
    }
}
