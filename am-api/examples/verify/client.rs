//! The side that asks, one phase after the other.

mod bulk;
pub(crate) mod keep;
mod messages;
mod returned;

use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, Node, RequestError, TransferKind};
use serde_json::json;

use crate::content::Shape;
use crate::ledger::Ledger;
use crate::protocol::{ANSWER, BYE, ECHO, MAIN, SAME, SPOILT};
use crate::{Error, Settings, server};

/// A server may be started later, and its interface take some seconds.
const APPEARS: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(5);

/// What the handlers of this side know.
pub(crate) struct State {
    ledger: Ledger,
    /// The answer to the last question, once it is there.
    answer: Option<u64>,
    /// How the last transfer ended, once it has.
    transfer: Option<Result<(), String>>,
    returned: u64,
}

pub(crate) struct Client {
    node: Node,
    endpoint: Endpoint<State>,
    state: State,
    to: Connection,
    patience: Duration,
    next: u64,
}

type Phase<'a> = &'a dyn Fn(&mut Client) -> Result<(), Error>;

/// Everything, then the sum. `false` where something was wrong or is missing.
pub(crate) fn run(settings: &Settings) -> Result<bool, Error> {
    let mut client = Client::open(settings)?;
    let step = settings.step;
    let begin = Instant::now();
    let mut sum = Ledger::new("sum");
    let mut good = true;
    let phases: [(&'static str, Phase<'_>); 6] = [
        ("alone", &|client| messages::alone(client, step)),
        ("together", &|client| messages::together(client, step)),
        ("bundles", &messages::bundles),
        ("bulk", &bulk::transfers),
        ("full", &returned::full),
        ("returned", &returned::returned),
    ];
    for (phase, run) in phases {
        client.state.ledger.follow(phase);
        if let Err(error) = run(&mut client) {
            client.state.ledger.wrong(error.to_string());
        }
        client.state.ledger.print(&json!({}));
        good &= client.state.ledger.is_good();
        sum.add(&client.state.ledger);
    }
    let described = client.endpoint.describe(client.to).map(|how| how.to_string());
    let framing = client.endpoint.describe(client.to).map(|how| how.framing.to_string());
    good &= client.ask(BYE, &[]).is_ok();
    sum.print(&json!({
        "good": good, "framing": framing, "connection": described, "transport": client.node.transport(),
        "took": begin.elapsed().as_secs(), "counters": server::counters(&client.node),
    }));
    Ok(good)
}

impl Client {
    fn open(settings: &Settings) -> Result<Client, Error> {
        let node = settings.builder("alpha").open(&settings.on)?;
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
        let to = connect(&node, &mut endpoint, &mut state, MAIN, APPEARS.min(settings.patience))?;
        Ok(Client { node, endpoint, state, to, patience: settings.patience, next: 1 })
    }

    /// Send one, as soon as there is room.
    fn send(&mut self, to: Connection, handler: HandlerId, shape: Shape) -> Result<(), Error> {
        let (words, payload) = (shape.words(), shape.payload());
        self.request(to, handler, &words, &payload)?;
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

    /// A message of the next number, with so many bytes of words and payload, to be echoed.
    fn send_numbered(&mut self, to: Connection, body: usize) -> Result<(), Error> {
        let number = self.next;
        self.next += 1;
        match Shape::numbered(number, body) {
            Some(shape) => self.send(to, ECHO, shape),
            None => Ok(()),
        }
    }

    /// Until all echoes are there; those that are not count as missing.
    fn settle(&mut self) {
        self.endpoint.wait_until(&mut self.state, self.patience, |state| state.ledger.missing() == 0);
    }

    /// A question and its answer.
    fn ask(&mut self, what: HandlerId, words: &[u64]) -> Result<bool, Error> {
        self.state.answer = None;
        self.request(self.to, what, words, b"")?;
        self.endpoint.wait_until(&mut self.state, self.patience, |state| state.answer.is_some());
        Ok(self.state.answer.ok_or("the peer does not answer")? == 1)
    }
}

/// Connect, and ask again while the peer is not there yet.
fn connect(
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
                let problem = node.health().err().map_or(String::new(), |problem| format!(": {problem}"));
                return Err(format!("{error}{problem}").into());
            }
            Err(_) => endpoint.close(to),
        }
    }
}
