//! A bare request and its reply between two nodes: what a multicast is made of, without a group. The first member serves.

use std::time::Duration;

use am_api::{Connection, Endpoint, HandlerId, Node, NotOpen, Request};
use am_measure::Error;
use am_measure::drivers::facility;
use am_measure::members::name;

use super::{Member, Shared};
use crate::protocol::Opening;

const ENDPOINT: &str = "am-bench";
const DATA: HandlerId = HandlerId(0);

pub(super) struct Pair {
    endpoint: Endpoint<Shared>,
    seen: Shared,
    /// The member that sends has one.
    to: Option<Connection>,
}

impl Pair {
    pub(super) fn open(node: &Node, opening: &Opening, seen: Shared) -> Result<Pair, Error> {
        let mut endpoint: Endpoint<Shared> = node.endpoint(ENDPOINT).map_err(facility)?;
        endpoint.on_request(DATA, |seen, Request { message, token }| {
            seen.lock().delivered(false, message.payload());
            // Fails only if the other side is gone, which knows it.
            _ = token.reply(DATA, &[], &[]);
        });
        endpoint.on_reply(DATA, |seen, _| seen.lock().returned());
        let to = if opening.seat.index == 0 { None } else { Some(connect(&endpoint)?) };
        Ok(Pair { endpoint, seen, to })
    }
}

fn connect(endpoint: &Endpoint<Shared>) -> Result<Connection, Error> {
    endpoint.connect(&name(0), ENDPOINT).map_err(facility)
}

impl Member for Pair {
    fn send(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Some(to) = self.to else { return Err(Error::Refused("the one that serves does not send".to_owned())) };
        match self.endpoint.try_request(to, DATA, &[], bytes) {
            Ok(()) => {
                self.endpoint.flush();
                Ok(true)
            }
            Err(why) if why.is_temporary() => Ok(false),
            Err(why) => Err(Error::Lost(why.to_string())),
        }
    }

    fn turn(&mut self, longest: Duration) -> Result<(), Error> {
        self.endpoint.wait(&mut self.seen, longest);
        if let Some(to) = self.to
            && !matches!(self.endpoint.ready(to), Ok(()) | Err(NotOpen::Connecting))
        {
            // The other one is not there yet.
            self.endpoint.close(to);
            self.to = Some(connect(&self.endpoint)?);
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.to.is_none_or(|to| self.endpoint.ready(to).is_ok())
    }
}
