//! The client's process.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_measure::deploy::Lines;
use am_measure::members::{LIMIT, LOOK, Led, answer, clock};
use am_measure::{Error, Watch, changed};

use super::resp::{Connection, Reply, command};
use crate::protocol::{Answer, Connecting, Job, Order};
use crate::repeat::repeat;

const KEY: &str = "subject";
/// What a replica says of itself once it follows.
const LINK: &str = "\r\nmaster_link_status:up\r\n";

pub(crate) struct Client<'a> {
    /// The primary's first.
    servers: Vec<Connection>,
    orders: Lines<Order>,
    watch: &'a Watch,
    /// The writes so far. The last one is the key's value.
    writes: u64,
}

fn lost(why: io::Error) -> Error {
    Error::Lost(format!("Redis: {why}"))
}

/// Ask until there is an answer.
fn until<T>(watch: &Watch, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, Error> {
    let begin = Instant::now();
    loop {
        watch.check()?;
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if begin.elapsed() > LIMIT {
            return Err(Error::Lost(format!("Redis: {what} did not come within {} s", LIMIT.as_secs())));
        }
        sleep(LOOK);
    }
}

/// The replicas that a write waits for: a majority, with the primary.
fn acknowledged_by(servers: usize) -> usize {
    servers / 2
}

impl Led<Order> for Client<'_> {
    fn orders(&self) -> &Lines<Order> {
        &self.orders
    }

    fn turn(&mut self) -> Result<(), Error> {
        sleep(LOOK);
        self.watch.check()
    }
}

impl<'a> Client<'a> {
    /// Wait for the servers, and for the replicas to follow.
    pub(crate) fn open(to: &Connecting, orders: Lines<Order>, watch: &'a Watch) -> Result<Client<'a>, Error> {
        let connect = |address: &String| until(watch, address, || Connection::open(address).ok());
        let mut servers = to.servers.iter().map(connect).collect::<Result<Vec<_>, _>>()?;
        for replica in servers.iter_mut().skip(1) {
            until(watch, "a replica", || match replica.call(&["INFO", "replication"]) {
                Ok(Reply::Bulk(Some(text))) => String::from_utf8_lossy(&text).contains(LINK).then_some(()),
                _ => None,
            })?;
        }
        let mut client = Client { servers, orders, watch, writes: 0 };
        // The primary sends a replica nothing before the first acknowledgement, which comes once a second.
        client.write(client.servers.len() - 1)?;
        client.writes = 0;
        Ok(client)
    }

    pub(crate) fn run(mut self) -> Result<(), Error> {
        answer(&Answer::Ready)?;
        while let Some(order) = self.next()? {
            match order {
                Order::Begin(Job::Call { warm_up, time, .. }) => self.measure(warm_up, time)?,
                other => return Err(Error::Refused(format!("{other:?} out of turn"))),
            }
        }
        Ok(())
    }

    fn measure(&mut self, warm_up: u64, time: u64) -> Result<(), Error> {
        answer(&Answer::Begun)?;
        let Some(Order::Go) = self.next()? else { return Err(Error::GivenUp) };
        let watch = self.watch;
        let done = repeat(watch, Duration::from_nanos(warm_up), Duration::from_nanos(time), |done| {
            done.writes += 1;
            self.write(acknowledged_by(self.servers.len()))
        })?;
        answer(&Answer::Done(done))?;
        let Some(Order::Finish { writes, .. }) = self.next()? else { return Err(Error::GivenUp) };
        self.check(writes)?;
        answer(&Answer::Finished { pushed: vec![] })
    }

    /// Write, and wait for this number of replicas. Returns how long it took.
    fn write(&mut self, replicas: usize) -> Result<u64, Error> {
        self.writes += 1;
        let (value, wanted, limit) = (self.writes.to_string(), replicas.to_string(), LIMIT.as_millis().to_string());
        let began = clock();
        let mut both = Vec::with_capacity(128);
        command(&mut both, &["SET", KEY, &value]);
        command(&mut both, &["WAIT", &wanted, &limit]);
        let primary = &mut self.servers[0];
        primary.send(&both).map_err(lost)?;
        let (set, waited) = (primary.reply().map_err(lost)?, primary.reply().map_err(lost)?);
        let took = clock() - began;
        match (set, waited) {
            (Reply::Simple(_), Reply::Integer(count)) if count >= replicas as i64 => Ok(took),
            (set, waited) => Err(Error::Lost(format!("Redis answers {set:?} and {waited:?}"))),
        }
    }

    /// Every server must have the last value.
    fn check(&mut self, writes: u64) -> Result<(), Error> {
        let wanted = Reply::Bulk(Some(writes.to_string().into_bytes()));
        if writes != self.writes {
            return Err(changed());
        }
        for server in &mut self.servers {
            until(self.watch, "the last write", || (server.call(&["GET", KEY]).ok()? == wanted).then_some(()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_has_a_majority() {
        assert_eq!([2, 3, 4, 5, 16].map(acknowledged_by), [1, 1, 2, 2, 8]);
        assert!((2..=16).all(|servers| 2 * (acknowledged_by(servers) + 1) > servers));
    }
}
