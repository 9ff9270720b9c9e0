//! The service of each node: methods of every kind, which say what runs.

use std::panic::resume_unwind;
use std::pin::pin;
use std::rc::Rc;

use am_netdev_sim::Nanos;
use am_rpc::{Context, Local, Peer, StreamReader, StreamWriter, service};
use futures_util::future::{Either, select};

use crate::acts::{Common, name};
use crate::history::Run;

/// A step of [`Trial::nest`] that goes back to its caller.
pub(crate) const BACK: u8 = u8::MAX;
/// What a nested call that failed is worth.
pub(crate) const FAILED: u64 = u64::MAX;

/// Each method gets the number of its call.
#[service]
pub(crate) trait Trial {
    /// The same bytes.
    fn echo(&self, call: u64, bytes: &[u8]) -> Vec<u8>;
    /// This number as an error.
    fn fail(&self, call: u64) -> Result<(), u64>;
    fn panic(&self, call: u64);
    /// Begins a call back to its caller, and drops it or lets a task wait for it.
    fn call_back(&self, context: &Context, call: u64, drops: bool) -> u64;
    async fn ready(&self, call: u64) -> u64;
    /// May run more than once.
    #[idempotent]
    fn again(&self, call: u64) -> u64;
    /// Takes so long, unless it is cancelled.
    async fn wait(&self, context: &Context, call: u64, time: u64) -> u64;
    /// Until it is cancelled.
    async fn hang(&self, context: &Context, call: u64);
    /// Calls the first node of the path, and gives it the rest. Returns how many nodes there were.
    async fn nest(&self, context: &Context, call: u64, path: &[u8]) -> u64;
    /// So many numbers.
    async fn count(&self, call: u64, count: u64, numbers: StreamWriter<u64>) -> u64;
    /// Reads at most so many. Returns how many, and their sum.
    async fn sum(&self, call: u64, most: u64, numbers: StreamReader<u64>) -> (u64, u64);
    /// Each number that is read is written.
    async fn both(&self, call: u64, numbers: StreamReader<u64>, echoed: StreamWriter<u64>) -> u64;
}

pub(crate) struct Served {
    pub(crate) common: Rc<Common>,
    pub(crate) run: Run,
    pub(crate) local: Local,
}

impl Served {
    fn runs(&self, call: u64) {
        self.common.history.runs(call, self.run.node);
    }

    /// A reader or writer that is slow in some calls.
    async fn pause(&self, call: u64, item: u64) {
        if call.is_multiple_of(5) && item.is_multiple_of(7) {
            self.common.timers.sleep(call % 300 * 1000).await;
        }
    }

    /// A call to the node at the other side of this one, which has a number of its own.
    fn other_side(&self, context: &Context, what: &'static str, within: Nanos) -> Option<(Peer, u64)> {
        let caller = context.caller()?;
        let to = caller.node.as_str().strip_prefix("node")?.parse().ok()?;
        Some((context.peer(), self.common.history.begins(what, self.run, to, within)))
    }
}

impl Trial for Served {
    fn echo(&self, call: u64, bytes: &[u8]) -> Vec<u8> {
        self.runs(call);
        bytes.to_vec()
    }

    fn fail(&self, call: u64) -> Result<(), u64> {
        self.runs(call);
        Err(call)
    }

    fn panic(&self, call: u64) {
        self.runs(call);
        // A panic that prints nothing.
        resume_unwind(Box::new("as the trial wants"));
    }

    fn call_back(&self, context: &Context, call: u64, drops: bool) -> u64 {
        self.runs(call);
        let within = context.remaining().as_nanos() as Nanos;
        let Some((peer, number)) = self.other_side(context, "ready, called back", within) else { return FAILED };
        let ready = TrialClient::new(&peer).ready(number);
        if drops {
            self.common.history.dropped(number);
            return !call;
        }
        let common = self.common.clone();
        self.local.spawn(async move { common.history.over(number, &ready.await) });
        !call
    }

    fn again(&self, call: u64) -> u64 {
        self.runs(call);
        !call
    }

    async fn ready(&self, call: u64) -> u64 {
        self.runs(call);
        !call
    }

    async fn wait(&self, context: &Context, call: u64, time: u64) -> u64 {
        self.runs(call);
        let sleep = pin!(self.common.timers.sleep(time));
        if let Either::Right((why, _)) = select(sleep, pin!(context.cancelled())).await {
            self.common.history.cancelled(call, why);
        }
        !call
    }

    async fn hang(&self, context: &Context, call: u64) {
        self.runs(call);
        let why = context.cancelled().await;
        self.common.history.cancelled(call, why);
        // It may take its time even so.
        self.common.timers.sleep(call % 3 * 100_000).await;
    }

    async fn nest(&self, context: &Context, call: u64, path: &[u8]) -> u64 {
        self.runs(call);
        let Some((&step, rest)) = path.split_first() else { return 0 };
        let within = context.remaining().as_nanos() as Nanos;
        let (peer, number) = match step {
            BACK => match self.other_side(context, "nest, called back", within) {
                Some(other) => other,
                None => return FAILED,
            },
            to => {
                let peer = self.local.peer(&name(to.into())).expect("a name");
                (peer, self.common.history.begins("nest, called on", self.run, to.into(), within))
            }
        };
        let outcome = TrialClient::new(&peer).nest(number, rest).await;
        self.common.history.over(number, &outcome);
        outcome.map_or(FAILED, |more| more.saturating_add(1))
    }

    async fn count(&self, call: u64, count: u64, mut numbers: StreamWriter<u64>) -> u64 {
        self.runs(call);
        for item in 0..count {
            self.pause(call, item).await;
            if numbers.send(&(call ^ item)).await.is_err() {
                return item;
            }
        }
        count
    }

    async fn sum(&self, call: u64, most: u64, mut numbers: StreamReader<u64>) -> (u64, u64) {
        self.runs(call);
        let (mut count, mut sum) = (0, 0u64);
        while count < most
            && let Some(Ok(number)) = numbers.next().await
        {
            (count, sum) = (count + 1, sum.wrapping_add(number));
            self.pause(call, count).await;
        }
        (count, sum)
    }

    async fn both(&self, call: u64, mut numbers: StreamReader<u64>, mut echoed: StreamWriter<u64>) -> u64 {
        self.runs(call);
        let mut count = 0;
        while let Some(Ok(number)) = numbers.next().await {
            count += 1;
            if echoed.send(&!number).await.is_err() {
                break;
            }
        }
        count
    }
}
