//! A key-value store: a value is the payload of one message, whether it has no byte or 100 KB.
//!
//!     store serve shm:lab                   the node "store"
//!     store put NAME shm:lab <file          keep standard input under a name
//!     store get NAME shm:lab >file          print it; status 1 if there is none

use std::io::{Read, Write, stdin, stdout};
use std::{collections::HashMap, error::Error, time::Duration};

use am_api::{HandlerId, Node, Request};

const PUT: HandlerId = HandlerId(0);
const GET: HandlerId = HandlerId(1);
const DEADLINE: Duration = Duration::from_secs(5);

fn serve(on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::open("store", on)?;
    let mut endpoint = node.endpoint::<HashMap<Vec<u8>, Vec<u8>>>("values")?;
    // The words are the call's id and the length of the name, which is in front of the value.
    endpoint.on_request(PUT, |values, Request { message, token }| {
        let (name, value) = message.payload().split_at((message.word(1) as usize).min(message.payload().len()));
        values.insert(name.to_vec(), value.to_vec());
        _ = token.answer(&[1], b"");
    });
    endpoint.on_request(GET, |values, Request { message, token }| {
        let found = values.get(message.payload());
        _ = token.answer(&[found.is_some().into()], found.map_or(&[], Vec::as_slice));
    });
    writeln!(stdout(), "serving on {}", node.local_address())?;
    let mut values = HashMap::new();
    loop {
        endpoint.wait(&mut values, Duration::from_secs(1));
    }
}

fn ask(what: HandlerId, name: &str, value: &[u8], on: &str) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let mut endpoint =
        Node::builder("client").unique_name().open(on)?.endpoint::<Option<Result<_, String>>>("client")?;
    endpoint.on_outcome(what, |state, outcome| {
        let found = outcome.result.map(|answer| (answer.word(1) == 1).then(|| answer.payload().to_vec()));
        *state = Some(found.map_err(|error| error.to_string()));
    });
    let (to, mut state) = (endpoint.connect("store", "values")?, None);
    endpoint.wait_open(&mut state, to, DEADLINE)?;
    endpoint.try_call(to, what, &[name.len() as u64], &[name.as_bytes(), value].concat(), DEADLINE)?;
    endpoint.wait_until(&mut state, 2 * DEADLINE, Option::is_some);
    Ok(state.ok_or("no outcome")??)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match *arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["serve", on] => serve(on)?,
        ["put", name, on] => drop(ask(PUT, name, &stdin().lock().bytes().collect::<Result<Vec<u8>, _>>()?, on)?),
        ["get", name, on] => stdout().write_all(&ask(GET, name, b"", on)?.ok_or("there is no such value")?)?,
        _ => Err("usage: store serve ON, store put NAME ON, store get NAME ON")?,
    }
    Ok(())
}
