//! `dpdk:DEVICE`: what DPDK drives.

use dpdk::Options;
use transport::Name;

use crate::kind::{Kind, Opened};

pub(crate) const KIND: Kind = Kind {
    scheme: "dpdk",
    example: "dpdk:net_memif0,role=server",
    what: "DPDK: a PCI port or a virtual device; needs scripts/setup --with-dpdk",
    open,
};

fn open(name: &Name) -> Opened {
    Ok(Box::new(dpdk::open(&Options::of(name)?)?))
}
