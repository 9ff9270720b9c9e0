use crate::tool::{IP, STANDARD_INPUT};
use crate::{Host, HostError, Interface};

/// The properties of a cable, the same at both ends.
#[derive(Clone, Copy, Debug)]
pub struct VethOptions<'a> {
    /// Bytes after the Ethernet header.
    pub mtu: u32,
    /// Receive and transmit queues of each end; fixed when the cable is made.
    pub queues: u32,
    /// Generic receive offload, and with it NAPI: see [`Interface::set_gro`].
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
    configure(&ends.0, options, options.addresses.map(|(a, _)| a))?;
    configure(&ends.1, options, options.addresses.map(|(_, b)| b))?;
    ends.0.wait_for_carrier()?;
    ends.1.wait_for_carrier()?;
    Ok(ends)
}

fn configure(end: &Interface, options: &VethOptions<'_>, address: Option<&str>) -> Result<(), HostError> {
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
    end.set_up()
}
