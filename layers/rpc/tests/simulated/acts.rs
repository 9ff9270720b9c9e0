//! What a node does: calls of every kind, of which some are dropped at some time.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use am_netdev_sim::{MS, Nanos, US};
use am_rpc::{Call, CallError, ItemError, Peer, Retries, STREAM_WINDOW};
use futures_util::future::{Either, select};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::history::{AGAIN, History, Run};
use crate::service::{BACK, FAILED, TrialClient};
use crate::timers::Timers;

/// No deadline.
pub(crate) const FOR_EVER: Nanos = 3_600_000 * MS;

/// What all nodes of a world share, as nodes never do.
#[derive(Default)]
pub(crate) struct Common {
    pub(crate) history: History,
    pub(crate) timers: Timers,
}

pub(crate) fn name(node: u16) -> String {
    format!("node{node}")
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Echo {
        bytes: usize,
    },
    Fail,
    Panic,
    CallBack {
        drops: bool,
    },
    Ready,
    /// It is sent again, if need be.
    Again,
    Wait {
        time: Nanos,
    },
    Hang,
    Nest {
        path: Vec<u8>,
    },
    /// Reads at most so many.
    Count {
        count: u64,
        reads: u64,
    },
    /// The method reads at most so many.
    Sum {
        count: u64,
        most: u64,
    },
    Both {
        count: u64,
    },
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) kind: Kind,
    pub(crate) within: Nanos,
    /// When its future is dropped, if it has no outcome then.
    pub(crate) drop_after: Option<Nanos>,
}

impl Act {
    /// `nodes`: how many there are. `longest`: what nodes accept.
    pub(crate) fn draw(random: &mut SmallRng, nodes: u16, longest: usize) -> Act {
        let kind = match random.random_range(0..17) {
            0 | 1 => Kind::Echo { bytes: random.random_range(0..100) },
            2 => Kind::Echo { bytes: random.random_range(0..longest + longest / 8) },
            3 => Kind::Fail,
            4 => Kind::Panic,
            5 => Kind::CallBack { drops: random.random_bool(0.5) },
            6 => Kind::Ready,
            7 | 8 => Kind::Wait { time: random.random_range(0..5 * MS) },
            16 => Kind::Again,
            9..=11 => Kind::Hang,
            12 => {
                let length = random.random_range(1..8);
                let step = |random: &mut SmallRng| match random.random_range(0..nodes * 2) {
                    node if node < nodes => node as u8,
                    _ => BACK,
                };
                Kind::Nest { path: (0..length).map(|_| step(random)).collect() }
            }
            13 => {
                let count = random.random_range(0..100);
                let reads = if random.random_bool(0.5) { u64::MAX } else { random.random_range(0..=count) };
                Kind::Count { count, reads }
            }
            14 => {
                let count = random.random_range(0..100);
                let most = if random.random_bool(0.5) { u64::MAX } else { random.random_range(0..=count) };
                Kind::Sum { count, most }
            }
            _ => Kind::Both { count: random.random_range(0..60) },
        };
        let within = match random.random_range(0..8) {
            0 => random.random_range(0..500 * US),
            1 | 2 => random.random_range(US..20 * MS),
            3 | 4 => random.random_range(10 * MS..200 * MS),
            _ => FOR_EVER,
        };
        let drops = random.random_bool(0.25) || matches!(kind, Kind::Hang) && within == FOR_EVER;
        let drop_after = drops.then(|| if random.random_bool(0.2) { 0 } else { random.random_range(0..50 * MS) });
        Act { kind, within, drop_after }
    }

    /// What a node without faults does with each other: each has its value.
    pub(crate) fn all(longest: usize) -> Vec<Act> {
        let kinds = [
            Kind::Echo { bytes: 0 },
            Kind::Echo { bytes: longest / 2 },
            Kind::Fail,
            Kind::Panic,
            Kind::CallBack { drops: true },
            Kind::CallBack { drops: false },
            Kind::Ready,
            Kind::Again,
            Kind::Wait { time: MS },
            Kind::Hang,
            Kind::Nest { path: vec![BACK; 6] },
            Kind::Count { count: 100, reads: u64::MAX },
            Kind::Count { count: 100, reads: 3 },
            Kind::Sum { count: 100, most: u64::MAX },
            Kind::Sum { count: 100, most: 40 },
            Kind::Both { count: 50 },
        ];
        let act = |kind| {
            let drop_after = matches!(kind, Kind::Hang).then_some(2 * MS);
            Act { kind, within: FOR_EVER, drop_after }
        };
        kinds.map(act).into()
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Echo { .. } => "echo",
            Kind::Fail => "fail",
            Kind::Panic => "panic",
            Kind::CallBack { .. } => "call_back",
            Kind::Ready => "ready",
            Kind::Again => AGAIN,
            Kind::Wait { .. } => "wait",
            Kind::Hang => "hang",
            Kind::Nest { .. } => "nest",
            Kind::Count { .. } => "count",
            Kind::Sum { .. } => "sum",
            Kind::Both { .. } => "both",
        }
    }

    /// Make this call of this node, `by`. Returns whether it went as it does without faults.
    pub(crate) async fn run(self, common: Rc<Common>, by: Run, (to, peer): (u16, Peer)) -> bool {
        let number = common.history.begins(self.name(), by, to, self.within);
        let client = TrialClient::new(&peer.within(Duration::from_nanos(self.within)));
        let caller = Caller { common, number, drop_after: self.drop_after };
        match self.kind {
            Kind::Echo { bytes } => {
                let bytes: Vec<u8> = (0..bytes).map(|at| (number as usize * 31 + at * 7) as u8).collect();
                caller.is(client.echo(number, &bytes), Ok(bytes)).await
            }
            Kind::Fail => caller.is(client.fail(number), Err(number)).await,
            Kind::Panic => matches!(caller.outcome(client.panic(number)).await, Some(Err(CallError::Panicked))),
            Kind::CallBack { drops } => caller.is(client.call_back(number, drops), Ok(!number)).await,
            Kind::Ready => caller.is(client.ready(number), Ok(!number)).await,
            Kind::Again => {
                let retries = Retries { attempts: 5, pause: Duration::from_millis(2), percent: 100 };
                let client = TrialClient::new(&client.peer().retrying(retries));
                caller.is(client.again(number), Ok(!number)).await
            }
            Kind::Wait { time } => caller.is(client.wait(number, time), Ok(!number)).await,
            Kind::Hang => caller.outcome(client.hang(number)).await.is_none(),
            Kind::Nest { path } => {
                let depth = path.len() as u64;
                let outcome = caller.outcome(client.nest(number, &path)).await;
                if let Some(Ok(returned)) = outcome
                    && returned != depth
                    && returned != FAILED
                {
                    caller.wrong(format!("a path of {depth} returned {returned}"));
                }
                outcome == Some(Ok(depth))
            }
            Kind::Count { count, reads } => caller.count(&client, count, reads).await,
            Kind::Sum { count, most } => caller.sum(&client, count, most).await,
            Kind::Both { count } => caller.both(&client, count).await,
        }
    }
}

/// Waits for the outcome of a call.
struct Caller {
    common: Rc<Common>,
    number: u64,
    drop_after: Option<Nanos>,
}

impl Caller {
    fn wrong(&self, what: String) {
        self.common.history.wrong(format!("call {}: {what}", self.number));
    }

    /// `None`: it was dropped before.
    async fn outcome<V, E>(&self, call: Call<V, E>) -> Option<Result<V, CallError<E>>> {
        let Common { history, timers } = &*self.common;
        let outcome = match self.drop_after {
            None => call.await,
            Some(after) => match select(call, pin!(timers.sleep(after))).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), call)) => {
                    history.dropped(self.number);
                    drop(call);
                    return None;
                }
            },
        };
        history.over(self.number, &outcome);
        Some(outcome)
    }

    /// Its value or its own error is this one, if it has one.
    async fn is<V, E>(&self, call: Call<V, E>, wanted: Result<V, E>) -> bool
    where
        V: PartialEq + std::fmt::Debug,
        E: PartialEq + std::fmt::Debug,
    {
        let got = match self.outcome(call).await {
            Some(Ok(value)) => Ok(value),
            Some(Err(CallError::Service(error))) => Err(error),
            _ => return false,
        };
        if got != wanted {
            self.wrong(format!("the outcome {got:?} is not {wanted:?}"));
        }
        true
    }

    async fn count(&self, client: &TrialClient, count: u64, reads: u64) -> bool {
        let (call, mut numbers) = client.count(self.number, count);
        let mut read = 0;
        let ended = loop {
            if read == reads {
                break false;
            }
            match numbers.next().await {
                Some(Ok(item)) if item == self.number ^ read => read += 1,
                Some(Err(ItemError::Cut)) => break false,
                Some(item) => self.wrong(format!("item {read} is {item:?}")),
                None => break true,
            }
            self.common.history.saw("item");
        };
        // A reader that is kept and does not read holds up the method.
        let keeps = self.number.is_multiple_of(2) && count.saturating_sub(read) < STREAM_WINDOW as u64 / 2;
        let numbers = keeps.then_some(numbers);
        let outcome = self.outcome(call).await;
        drop(numbers);
        let Some(Ok(written)) = outcome else { return false };
        if ended && read != count.min(written) || written > count || read > written {
            self.wrong(format!("read {read} of {count}, and {written} were written"));
        }
        true
    }

    async fn sum(&self, client: &TrialClient, count: u64, most: u64) -> bool {
        let (call, mut numbers) = client.sum(self.number, most);
        let (mut sent, mut is_closed) = (0, false);
        while sent < count && !is_closed {
            is_closed = numbers.send(&(self.number + sent)).await.is_err();
            sent += u64::from(!is_closed);
        }
        drop(numbers);
        let Some(Ok((read, sum))) = self.outcome(call).await else { return false };
        let wanted = sent.min(most);
        let wanted_sum = (0..wanted).fold(0, |sum: u64, item| sum.wrapping_add(self.number + item));
        if (read, sum) != (wanted, wanted_sum) || is_closed && most > count {
            self.wrong(format!("sent {sent} of {count}, and {read} were read, of {most}, with the sum {sum}"));
        }
        true
    }

    async fn both(&self, client: &TrialClient, count: u64) -> bool {
        let (call, mut numbers, mut echoed) = client.both(self.number);
        let (mut back, mut is_cut) = (0, false);
        while back < count && numbers.send(&back).await.is_ok() {
            match echoed.next().await {
                Some(Ok(item)) if item == !back => back += 1,
                Some(Err(ItemError::Cut)) => {
                    is_cut = true;
                    break;
                }
                Some(item) => self.wrong(format!("the echo of {back} is {item:?}")),
                None => break,
            }
        }
        drop(numbers);
        let Some(Ok(read)) = self.outcome(call).await else { return false };
        if !is_cut && (read != count || back != count) {
            self.wrong(format!("{back} of {count} came back, and {read} were read"));
        }
        true
    }
}
