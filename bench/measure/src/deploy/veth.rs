//! Both hosts are on this machine: two network namespaces and a cable.
//!
//! ```text
//!   near: a thread of this process       far: a process of its own
//!  ┌───────────────────────────────┐    ┌───────────────────────────────┐
//!  │ namespace "alpha"         am0 ┼veth┼ am0          namespace "beta" │
//!  └──────────────┬────────────────┘    └──────────────▲────────────────┘
//!                 └── plan: standard input ────────────┘  its end ends the far side
//! ```
//!
//! Namespaces and cable have no names on this machine. They live as long as open files and processes of this program,
//! so nothing is left when either side ends.

use am_afxdp::Interface;
use am_netns::{Bridge, BridgeOptions, Host, VethOptions, veth};

use crate::driver::Driver;
use crate::error::Error;
use crate::wire::WireRate;

/// The name of both ends of the cable.
pub const INTERFACE: &str = "am0";
/// The IP addresses of both ends.
pub const ADDRESSES: (&str, &str) = ("10.77.0.1/24", "10.77.0.2/24");
/// The smallest MTU of a veth. AF_XDP carries the largest.
const MIN_VETH_MTU: u32 = 68;

/// Two hosts and the cable between them, as long as this lives.
#[derive(Debug)]
pub struct Pair {
    /// The near and the far one.
    pub hosts: [Host; 2],
    /// In the middle of a cable with a limited rate.
    pub _switch: Option<Bridge>,
}

impl Pair {
    /// A cable with this MTU.
    pub fn new(mtu: u32) -> Result<Pair, Error> {
        let (alpha, beta) = (Host::new("alpha")?, Host::new("beta")?);
        let options = VethOptions { mtu, addresses: Some(ADDRESSES), ..VethOptions::default() };
        veth(&alpha, INTERFACE, &beta, INTERFACE, &options)?;
        Ok(Pair { hosts: [alpha, beta], _switch: None })
    }

    /// The cable has this rate. A switch in the middle limits it, and learns no addresses: bare frames have another one each.
    pub(crate) fn limited(mtu: u32, rate: WireRate) -> Result<Pair, Error> {
        let hosts = [Host::new("alpha")?, Host::new("beta")?];
        let options = BridgeOptions { mtu, learning: false, ..BridgeOptions::default() };
        let switch = Bridge::new(&hosts.each_ref(), INTERFACE, &options)?;
        switch.limit_rate(rate.bits_per_s())?;
        for (end, address) in switch.ends().iter().zip([ADDRESSES.0, ADDRESSES.1]) {
            end.add_ip(address)?;
        }
        Ok(Pair { hosts, _switch: Some(switch) })
    }
}

/// The names of the transports at both ends.
pub fn interfaces() -> [String; 2] {
    [(); 2].map(|()| format!("xdp:{INTERFACE}"))
}

/// Check the MTU here: later errors would name an interface that the user cannot reach.
pub fn check_mtu(mtu: u32, drivers: &[Driver]) -> Result<(), Error> {
    let most = most(drivers);
    let least = if drivers.contains(&Driver::Am) { super::MIN_MTU } else { MIN_VETH_MTU };
    if (least..=most).contains(&mtu) {
        return Ok(());
    }
    Err(Error::Usage(format!("--mtu {mtu} is out of range: from {least} to {most} for these drivers")))
}

fn most(drivers: &[Driver]) -> u32 {
    // The rows of the ablation write each frame in one piece.
    let is_row = |driver: &Driver| matches!(driver, Driver::Row(_)) && !driver.is_kernel();
    if drivers.iter().any(is_row) { am_afxdp::MAX_SINGLE_CHUNK_MTU } else { am_afxdp::MAX_MTU }
}

/// Check an interface whose MTU is fixed.
pub(super) fn check_interface(interface: &Interface, drivers: &[Driver]) -> Result<(), Error> {
    let (Interface { name, mtu, .. }, most) = (interface, most(drivers));
    if *mtu <= most {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the MTU of {name} is {mtu}, and these drivers allow at most {most}: run `ip link set dev {name} mtu {most}`, and the \
         same on the other machine"
    )))
}
