//! Calls over a wire that loses, doubles and reorders frames: each has one outcome, and runs at most once.

use std::pin::Pin;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Instant;

use am_rpc::{Call, CallError, Rpc};
use am_transport::faulty::{Faults, Faulty};
use am_transport::loopback;

use crate::common::{LONG, MS, Missing, Shelf, Side, StoreClient, StoreServer, plain, turn, until};

/// A sequence of numbers that looks random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn bad_pair(seed: u64) -> [Side; 2] {
    let [left, right] = loopback::pair();
    [("alpha", left, seed), ("beta", right, seed + 1000)].map(|(name, plug, seed)| {
        let faults = Faults { duplicate: 0.02, reorder: 0.05, reorder_by: 6, ..Faults::lossy(seed, 0.03) };
        let transport = Box::new(Faulty::new(plug.open().expect("memory"), faults));
        let node = plain(name).open_on(transport).unwrap_or_else(|error| panic!("{error}"));
        Side { rpc: Rpc::open(&node).expect("an endpoint"), node }
    })
}

enum Under {
    Nothing(Call<()>),
    Double(u64, Call<u64>),
    Wait(Call<Vec<u8>, Missing>),
}

/// What became of calls: how many had a value, and how many did certainly not run.
#[derive(Default)]
struct Tally {
    begun: usize,
    values: usize,
    not_run: usize,
}

impl Tally {
    fn note<V, E>(&mut self, outcome: Result<V, CallError<E>>) {
        match outcome {
            Ok(_) => self.values += 1,
            Err(error) => self.not_run += usize::from(!error.may_have_run()),
        }
    }

    /// Whether the call is over.
    fn look(&mut self, under: &mut Under) -> bool {
        let context = &mut PollContext::from_waker(Waker::noop());
        match under {
            Under::Nothing(call) => match Pin::new(call).poll(context) {
                Poll::Ready(outcome) => self.note(outcome),
                Poll::Pending => return false,
            },
            Under::Double(number, call) => match Pin::new(call).poll(context) {
                Poll::Ready(outcome) => {
                    if let Ok(doubled) = outcome {
                        assert_eq!(doubled, 2 * *number);
                    }
                    self.note(outcome);
                }
                Poll::Pending => return false,
            },
            Under::Wait(call) => match Pin::new(call).poll(context) {
                // Its service's error is an outcome of a method that ran.
                Poll::Ready(outcome) => self.note(outcome),
                Poll::Pending => return false,
            },
        }
        true
    }
}

fn exchange(seed: u64) {
    let mut sides = bad_pair(seed);
    let (mut dice, mut tally, mut under) = (Dice(seed), Tally::default(), vec![]);
    let shelf = std::sync::Arc::new(Shelf::default());
    sides[1].rpc.serve(StoreServer::shared(shelf.clone())).expect("the only service");
    let peer = sides[0].rpc.peer("beta").expect("a name");
    let clients = [LONG, 5 * MS, 50 * MS].map(|time| StoreClient::new(&peer.within(time)));
    for round in 0..600 {
        let store = &clients[dice.roll(3) as usize];
        under.push(match dice.roll(3) {
            0 => Under::Nothing(store.nothing()),
            1 => Under::Double(round, store.double(round)),
            _ => Under::Wait(clients[1 + dice.roll(2) as usize].wait_for("never")),
        });
        tally.begun += 1;
        if dice.roll(8) == 0 {
            // It may have run, or not.
            under.swap_remove(dice.roll(under.len() as u64) as usize);
        }
        (0..dice.roll(6)).for_each(|_| turn(&mut sides));
        under.retain_mut(|call| !tally.look(call));
    }
    let begin = Instant::now();
    while !under.is_empty() {
        turn(&mut sides);
        under.retain_mut(|call| !tally.look(call));
        assert!(begin.elapsed() < LONG, "seed {seed}: {} calls have no outcome", under.len());
    }
    until(&mut sides, "nothing is left", |sides| sides.iter().all(|side| side.rpc.under_way() == 0));
    let runs = shelf.runs();
    assert!(runs >= tally.values, "seed {seed}: {} values of {runs} runs", tally.values);
    assert!(runs + tally.not_run <= tally.begun, "seed {seed}: {runs} runs of {} calls", tally.begun);
    assert!(tally.values > 100, "seed {seed}: {} values", tally.values);
}

#[test]
fn each_call_has_one_outcome_and_runs_at_most_once() {
    (0..12).for_each(exchange);
}
