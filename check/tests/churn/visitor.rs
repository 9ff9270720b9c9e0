//! One who comes, says some words, and leaves.

use std::net::UdpSocket;

use am_api::{Connection, Endpoint, Node, Request};

use crate::NAMES;
use crate::cut::{Cut, State, Switch};
use crate::hub::{HELLO, Hub, PATIENCE};

/// Greetings in all.
const WORDS: u64 = 3;

pub(crate) struct Visitor {
    number: usize,
    endpoint: Endpoint<u64>,
    answers: u64,
    switch: Switch,
    /// Its place, where the hub was told of it.
    introduced: Option<String>,
    /// The conversation, at who began it: the visitor or the hub.
    to: Connection,
    by_hub: bool,
    said: u64,
}

/// A name like the others', at a port that is known beforehand where it is by UDP.
fn at_port(link: &str) -> String {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    link.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"))
}

/// The part of a name that can be introduced.
fn place(of: &str) -> Option<String> {
    let udp = of.split('+').find(|name| name.starts_with("udp:"))?;
    udp.split(',').next().map(str::to_owned)
}

impl Visitor {
    /// Comes, and is introduced: from either side, both at once, or before it is there.
    pub(crate) fn join(number: usize, link: &str, hub: &mut Hub) -> Visitor {
        let (name, link) = (format!("visitor{}", number % NAMES), at_port(link));
        let mut introduced = place(&link).filter(|_| !number.is_multiple_of(4));
        let (is_early, is_mutual) = (number % 4 == 1, number % 4 == 2);
        let tell = |hub: &Hub| introduced.iter().for_each(|place| hub.node.add_peer_address(place).unwrap());
        if is_early {
            tell(hub);
            hub.poll();
        }
        let transport = am_api::transports::open(&link).unwrap_or_else(|error| panic!("{error}"));
        let (transport, switch) = Cut::new(&link, transport);
        let builder = Node::builder(&name).patience(PATIENCE).receive_frames(64).send_frames(64);
        let node = builder.open_on(Box::new(transport)).unwrap();
        if introduced.is_none() || is_mutual {
            hub.place().iter().for_each(|place| node.add_peer_address(place).unwrap());
        }
        if !is_early {
            tell(hub);
        }
        let mut endpoint = node.endpoint::<u64>("main").unwrap();
        endpoint.on_request(HELLO, |_, Request { message, token }| token.reply(HELLO, message.words(), b"").unwrap());
        endpoint.on_reply(HELLO, |answers, _| *answers += 1);
        let by_hub = number / 4 % 2 == 1;
        let to = if by_hub { hub.endpoint.connect(&name, "main") } else { endpoint.connect("hub", "main") };
        hub.seen.answers.remove(&(number as u64));
        let introduced = introduced.take();
        Visitor { number, endpoint, answers: 0, switch, introduced, to: to.unwrap(), by_hub, said: 0 }
    }

    fn name(&self) -> String {
        format!("visitor{}", self.number % NAMES)
    }

    /// Goes on talking.
    pub(crate) fn turn(&mut self, hub: &mut Hub) {
        self.endpoint.poll(&mut self.answers);
        let number = self.number as u64;
        if self.said < WORDS {
            let said = if self.by_hub {
                hub.endpoint.try_request(self.to, HELLO, &[number], b"")
            } else {
                self.endpoint.try_request(self.to, HELLO, &[number], b"")
            };
            self.said += u64::from(said.is_ok());
        }
        if self.by_hub {
            self.answers = hub.seen.answers.get(&number).copied().unwrap_or(0);
        }
    }

    pub(crate) fn is_content(&self) -> bool {
        assert!(self.answers <= WORDS, "answered twice");
        self.answers == WORDS
    }

    /// How far it has come, for who waits in vain.
    pub(crate) fn describe(&self, hub: &Hub) -> String {
        let (who, is) = match self.by_hub {
            true => ("the hub asked", hub.endpoint.ready(self.to)),
            false => ("it asked", self.endpoint.ready(self.to)),
        };
        let Visitor { number, said, answers, .. } = self;
        format!("{} (number {number}): {who}: {is:?}; {said} said, {answers} answered\n", self.name())
    }

    /// Says so, or not: then the hub's program is who says that it is gone.
    pub(crate) fn leave(self, hub: &mut Hub) {
        let is_killed = self.number / 8 % 2 == 1;
        if is_killed {
            self.switch.set(State::Silent);
        }
        let (name, to) = (self.name(), self.to);
        let Visitor { introduced, by_hub, endpoint, .. } = self;
        drop(endpoint);
        introduced.iter().for_each(|place| hub.node.remove_peer_address(place).unwrap());
        if is_killed {
            hub.node.remove_peer(&name).unwrap();
        }
        if by_hub {
            hub.endpoint.close(to);
        }
    }
}
