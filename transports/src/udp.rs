//! `udp:ADDRESS:PORT`: the kernel's UDP.

use sockets::{Options, udp};
use transport::Name;

use crate::kind::{Kind, Opened};

pub(crate) const KIND: Kind = Kind {
    scheme: "udp",
    example: "udp:10.0.0.7:7000",
    what: "UDP: any network, no rights; a frame is a datagram",
    open,
};

fn open(name: &Name) -> Opened {
    Ok(Box::new(udp::open(&Options::from_name(name)?)?))
}
