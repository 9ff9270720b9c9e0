//! The side that asks.

use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, Node, RequestError, TransferKind};

use super::Settings;
use super::ledger::Ledger;
use super::server::{self, ANSWER, ECHO, MAIN, SAME, SPOILT};
use crate::Error;
use crate::content::Shape;

/// A server may be started later, and its interface take some seconds.
pub(crate) const APPEARS: Duration = Duration::from_secs(20);
pub(crate) const TURN: Duration = Duration::from_millis(5);

/// What the handlers of this side know.
pub(crate) struct State {
    pub(crate) ledger: Ledger,
    /// The answer to the last question, once it is there.
    answer: Option<u64>,
    /// How the last transfer ended, once it has.
    pub(crate) transfer: Option<Result<(), String>>,
    pub(crate) returned: u64,
}

pub(crate) struct Client {
    pub(crate) node: Node,
    pub(crate) endpoint: Endpoint<State>,
    pub(crate) state: State,
    pub(crate) to: Connection,
    pub(crate) patience: Duration,
    pub(crate) next: u64,
}

impl Client {
    pub(crate) fn open(settings: &Settings) -> Result<Client, Error> {
        let node = settings.open("alpha", None)?;
        let mut endpoint = node.endpoint::<State>("asks")?;
        endpoint.on_reply(SAME, |state, message| state.ledger.check_echo(&message));
        endpoint.on_reply(SPOILT, |state, message| state.ledger.spoilt(message.word(0)));
        endpoint.on_reply(ANSWER, |state, message| state.answer = Some(message.word(0)));
        endpoint.on_returned(|state, returned| {
            state.returned += 1;
            state.ledger.check_returned(&returned.message);
        });
        endpoint.on_transfer(|state: &mut State, transfer| {
            if matches!(transfer.kind, TransferKind::Put | TransferKind::Get) {
                state.transfer = Some(transfer.result.map_err(|error| error.to_string()));
            }
        });
        let mut state = State { ledger: Ledger::new("connect"), answer: None, transfer: None, returned: 0 };
        let to = connect(&node, &mut endpoint, &mut state, MAIN, APPEARS.min(settings.limit()))?;
        Ok(Client { node, endpoint, state, to, patience: settings.limit(), next: 1 })
    }

    /// Send one, as soon as there is room.
    pub(crate) fn send(&mut self, to: Connection, shape: Shape) -> Result<(), Error> {
        self.request(to, ECHO, &shape.words(), &shape.payload())?;
        self.state.ledger.await_echo(shape);
        Ok(())
    }

    fn request(&mut self, to: Connection, handler: HandlerId, words: &[u64], payload: &[u8]) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            match self.endpoint.try_request(to, handler, words, payload) {
                Err(RequestError::NoCredit | RequestError::NoFrame | RequestError::QueueFull)
                    if begin.elapsed() < self.patience =>
                {
                    self.endpoint.wait(&mut self.state, TURN);
                }
                done => return Ok(done?),
            }
        }
    }

    /// A message of the next number, of the given length with its words, to be echoed.
    pub(crate) fn send_numbered(&mut self, to: Connection, body: usize) -> Result<(), Error> {
        let number = self.next;
        self.next += 1;
        Shape::numbered(number, body).map_or(Ok(()), |shape| self.send(to, shape))
    }

    /// The most bytes of a message.
    pub(crate) fn longest(&self, to: Connection) -> Result<usize, Error> {
        Ok(self.endpoint.frame_payload(to, 0).ok_or("the connection is closed")?)
    }

    /// Until all echoes are there; those that are not count as missing.
    pub(crate) fn settle(&mut self) {
        self.endpoint.wait_until(&mut self.state, self.patience, |state| state.ledger.missing() == 0);
    }

    /// A question and its answer.
    pub(crate) fn ask(&mut self, what: HandlerId, words: &[u64]) -> Result<bool, Error> {
        self.state.answer = None;
        self.request(self.to, what, words, b"")?;
        self.endpoint.wait_until(&mut self.state, self.patience, |state| state.answer.is_some());
        Ok(self.state.answer.ok_or("the peer does not answer")? == 1)
    }
}

/// Connect, and ask again while the peer is not there yet.
pub(crate) fn connect(
    node: &Node,
    endpoint: &mut Endpoint<State>,
    state: &mut State,
    name: &str,
    within: Duration,
) -> Result<Connection, Error> {
    let begin = Instant::now();
    loop {
        let to = endpoint.connect("beta", name)?;
        match endpoint.wait_open(state, to, within) {
            Ok(()) => return Ok(to),
            Err(error) if begin.elapsed() > within => {
                return Err(format!("{error}{}", server::problem(node)).into());
            }
            Err(_) => endpoint.close(to),
        }
    }
}
