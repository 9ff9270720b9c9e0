//! Requests of all lengths for a while, whatever happens to the network: what came back, and the longest pause.

use std::time::{Duration, Instant};

use am_api::RequestError;
use serde_json::json;

use super::Settings;
use super::client::{Client, TURN, connect};
use super::server::{self, ECHO, MAIN};
use crate::Error;
use crate::content::Shape;
use crate::program::say;

/// At the end of it messages must arrive again.
const RECENT: Duration = Duration::from_secs(2);

/// One attempt to connect again.
const AGAIN: Duration = Duration::from_secs(1);

/// What happened on the way.
struct Watch {
    begin: Instant,
    /// Messages received, and when the last of them was.
    received: u64,
    last: Instant,
    pause: Duration,
    reconnects: u32,
    /// What the interface has now, and what it had last.
    trouble: Option<String>,
    last_trouble: Option<String>,
}

/// Send for so long, connecting again where the connection ends. `false` where something was wrong, or nothing arrives
/// any more.
pub(crate) fn run(settings: &Settings) -> Result<bool, Error> {
    let mut client = Client::open(settings)?;
    say(&json!({"phase": "open", "transport": client.node.transport()}));
    client.state.ledger.follow("keep");
    let begin = Instant::now();
    let (pause, trouble, last_trouble) = (Duration::ZERO, None, None);
    let mut watch = Watch { begin, received: 0, last: begin, pause, reconnects: 0, trouble, last_trouble };
    while begin.elapsed() < settings.limit() {
        if !client.endpoint.is_open(client.to) {
            reconnect(&mut client, &mut watch, settings);
        }
        while client.state.ledger.awaited() < settings.together && send(&mut client)? {}
        client.endpoint.wait(&mut client.state, TURN);
        watch.look(&client);
    }
    let recent = watch.last.elapsed() < RECENT;
    client.settle();
    watch.look(&client);
    let good = client.state.ledger.wrong == 0 && recent;
    client.state.ledger.print(&json!({
        "good": good, "returned": client.state.returned, "pause": round(watch.pause), "reconnects": watch.reconnects,
        "trouble": watch.trouble, "last_trouble": watch.last_trouble, "transport": client.node.transport(), "counters": server::counters(&client.node),
    }));
    Ok(good)
}

impl Watch {
    fn look(&mut self, client: &Client) {
        let received = client.state.ledger.received;
        if received > self.received {
            (self.received, self.last) = (received, Instant::now());
        }
        self.pause = self.pause.max(self.last.elapsed());
        let trouble = client.node.health().err().map(|problem| problem.to_string());
        if trouble != self.trouble {
            say(&json!({"phase": "trouble", "at": round(self.begin.elapsed()), "trouble": trouble}));
            self.last_trouble = trouble.clone().or(self.trouble.take());
            self.trouble = trouble;
        }
    }
}

/// The next one. `false` where there is no room for it now.
fn send(client: &mut Client) -> Result<bool, Error> {
    let number = client.next;
    let Some(longest) = client.endpoint.frame_payload(client.to, 0) else { return Ok(false) };
    // Steps through all lengths, far from the last one each time.
    let body = 8 + number as usize * 641 % (longest - 7);
    let shape = Shape::numbered(number, body).ok_or("the longest message holds no word")?;
    match client.endpoint.try_request(client.to, ECHO, &shape.words(), &shape.payload()) {
        Ok(()) => {
            client.next += 1;
            client.state.ledger.await_echo(shape);
            Ok(true)
        }
        Err(error) if error.is_temporary() => Ok(false),
        Err(RequestError::Dead(_) | RequestError::Refused(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Until it is open again, or time is up. What was acknowledged and not answered stays unanswered.
fn reconnect(client: &mut Client, watch: &mut Watch, settings: &Settings) {
    client.endpoint.close(client.to);
    client.state.ledger.give_up();
    while watch.begin.elapsed() < settings.limit() {
        watch.reconnects += 1;
        match connect(&client.node, &mut client.endpoint, &mut client.state, MAIN, AGAIN) {
            Ok(to) => return client.to = to,
            Err(error) => say(&json!({"phase": "reconnect", "error": error.to_string()})),
        }
        watch.look(client);
    }
}

fn round(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
