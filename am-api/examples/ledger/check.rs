//! Both sides' books, compared.

mod connection;
mod judge;
mod tally;

use std::collections::HashMap;
use std::io;

use connection::Connection;
pub(crate) use tally::Tally;

use crate::book;
use crate::players::{End, Life, Silence};

/// What is known beside the books.
pub(crate) struct World<'a> {
    pub(crate) lives: &'a [Life],
    pub(crate) silences: &'a [Silence],
}

/// The two reasons for which the fate of a message may be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excuse {
    Killed,
    Silent,
}

/// A silence is noticed within the patience of a node, which began to ask a while before.
const NOTICED: u64 = 2500;
/// Between what the driver does and what a process notes.
const SLACK: u64 = 200;

/// Read all books, and judge each connection.
pub(crate) fn check(world: &World<'_>) -> io::Result<Tally> {
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    for (at, life) in world.lives.iter().enumerate() {
        for record in book::read(&life.book)? {
            connections.entry(record.connection).or_default().add(at, &record);
        }
    }
    let mut names: Vec<u64> = connections.keys().copied().collect();
    names.sort_unstable();
    let mut tally = Tally::default();
    for name in names {
        judge::judge(world, name, &connections[&name], &mut tally);
    }
    Ok(tally)
}

impl World<'_> {
    /// The process that has opened a connection.
    fn client(&self, connection: u64) -> Option<&Life> {
        self.lives.get((connection >> 32) as usize).filter(|life| life.player > 0)
    }

    /// Why it may be unknown what the server, or else the client, has done on a connection that ended at this time.
    fn excuse(&self, name: u64, connection: &Connection, of_server: bool, ended: u64) -> Option<Excuse> {
        let client = self.client(name)?;
        let server = connection.server.map(|at| &self.lives[at]);
        let within =
            |end: End| matches!(end, End::Killed(at) if at + SLACK >= connection.opened && at <= ended + SLACK);
        let is_killed = match (of_server, server) {
            (true, Some(server)) => within(server.end),
            (true, None) => self.lives.iter().any(|life| life.player == 0 && within(life.end)),
            (false, _) => within(client.end),
        };
        let is_silent = self.silences.iter().any(|silence| {
            let concerns = silence.player == 0 || silence.player == client.player;
            concerns && silence.from <= ended + SLACK && silence.to + NOTICED >= ended
        });
        is_killed.then_some(Excuse::Killed).or(is_silent.then_some(Excuse::Silent))
    }
}
