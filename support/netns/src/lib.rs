//! **Hosts on one machine**: network namespaces, joined by cables (veth pairs) and switches (Linux bridges), for tests,
//! demo and bench.
//!
//! ```text
//!   Host "alpha"          Host "beta"            Host "switch"
//!  ┌─────────────┐       ┌─────────────┐       ┌───────────────────┐
//!  │        am0 ─┼─veth──┼─ am0        │       │        br0        │
//!  └─────────────┘       └─────────────┘       │  ┌─────┼─────┐    │
//!                                              │ p0    p1    p2    │
//!                                              └──┼─────┼─────┼────┘
//!                                               am0   am0   am0   each in a host
//! ```
//!
//! A [`Host`] is an *anonymous* namespace: it has no name in `/run/netns`, and only an open file of this process refers
//! to it. When the last such file closes, on `kill -9` too, the kernel removes the namespace and all cables that end in
//! it. So nothing is left behind, and nothing needs cleaning before the next run.
//!
//! Read first: [`Host::enter`], then [`veth()`], then [`Bridge`].
//!
//! ```no_run
//! use std::net::UdpSocket;
//! use am_netns::{Host, VethOptions, veth};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (alpha, beta) = (Host::new("alpha")?, Host::new("beta")?);
//! let options = VethOptions { addresses: Some(("10.77.0.1/24", "10.77.0.2/24")), ..VethOptions::default() };
//! let (a, b) = veth(&alpha, "am0", &beta, "am0", &options)?;
//! println!("{a} is {:02x?}, {b} is {:02x?}", a.address(), b.address());
//!
//! // A socket belongs to the host that it was opened in, whoever uses it later.
//! let from = alpha.enter(|| UdpSocket::bind("10.77.0.1:0"))??;
//! from.send_to(b"hello", "10.77.0.2:7")?;
//! # Ok(())
//! # }
//! ```
//!
//! Needs root (`CAP_SYS_ADMIN` and `CAP_NET_ADMIN`) and iproute2; each error
//! says what is missing and how to get it.
#![forbid(unsafe_code)]

mod bridge;
mod error;
mod free_port;
mod host;
mod interface;
mod tap;

pub use bridge::{Bridge, BridgeOptions, FdbEntry, WIRE_OVERHEAD};
pub use error::HostError;
pub use free_port::free_port;
pub use host::Host;
pub use interface::{Interface, VethOptions, veth};
pub use tap::Tap;
