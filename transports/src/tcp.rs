//! `tcp:ADDRESS:PORT`: the kernel's TCP.

use sockets::{Options, tcp};
use transport::Name;

use crate::kind::{Kind, Opened};

pub(crate) const KIND: Kind = Kind {
    scheme: "tcp",
    example: "tcp:10.0.0.7:7000",
    what: "TCP: any network, no rights; nothing is lost while a connection lives",
    open,
};

fn open(name: &Name) -> Opened {
    Ok(Box::new(tcp::open(&Options::from_name(name)?)?))
}
