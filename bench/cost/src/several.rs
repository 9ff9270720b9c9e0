//! A server with several endpoints, polled in turn or as a set. Only with the feature `several`: code that polls endpoints in two
//! ways is compiled otherwise than a program's that has one.

use am_api::{Endpoint, EndpointSet, Node};

use crate::Error;
use crate::over::{Over, POLLED};
use crate::trips::{echo, name};

pub(crate) enum Several {
    InTurn(Vec<Endpoint<u64>>),
    Set(EndpointSet<u64>),
}

impl Several {
    pub(crate) fn open(node: &Node, over: Over) -> Result<Several, Error> {
        let mut all = (0..POLLED).map(|number| echo(node, &name(number)));
        if matches!(over, Over::Turns | Over::Turns8) {
            return Ok(Several::InTurn(all.collect::<Result<_, _>>()?));
        }
        let mut set = EndpointSet::new(node);
        all.try_for_each(|endpoint| set.insert(endpoint?).map(|_| ()).map_err(|_| Error::from("of another node")))?;
        Ok(Several::Set(set))
    }

    pub(crate) fn poll(&mut self, handled: &mut u64) {
        match self {
            Several::InTurn(all) => all.iter_mut().for_each(|endpoint| _ = endpoint.poll(handled)),
            Several::Set(set) => _ = set.poll(handled),
        }
    }
}
