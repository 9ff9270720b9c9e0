//! `shm:NAME`: shared memory.

use shm::Options;
use transport::Name;

use crate::kind::{Kind, Opened};

pub(crate) const KIND: Kind =
    Kind { scheme: "shm", example: "shm:lab", what: "shared memory: processes of this machine", open };

fn open(name: &Name) -> Opened {
    Ok(Box::new(shm::open(&Options::from_name(name)?)?))
}
