//! `sim:SEED`: a simulated network.

use netdev_sim::live::{self, Settings};
use transport::Name;

use crate::kind::{Kind, Opened};

pub(crate) const KIND: Kind = Kind {
    scheme: "sim",
    example: "sim:7,loss=0.01",
    what: "a simulated network, with losses and delays as you like: nodes of one process, for tests",
    open,
};

fn open(name: &Name) -> Opened {
    Ok(Box::new(live::open(&Settings::from_name(name)?)?))
}
