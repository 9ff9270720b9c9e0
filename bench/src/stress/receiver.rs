//! The receiving process, which stalls.

use std::thread::sleep;
use std::time::Duration;

use am_api::{Endpoint, Message, Node, Region, Request, Rights, Transfer, TransferKind};

use super::process::{ANSWER, ASK, DATA, ENDPOINT, ProgressReporter, conclude, say};
use super::report::Outcome;
use super::workload::{Ledger, MessageKind, Workload};
use super::{Line, PUT, within};
use am_measure::drivers::am::facility;
use am_measure::error::Error;
use am_measure::watch::Watch;

/// The most messages between two stalls, and the longest stall.
const STALL_EVERY: u64 = 100_000;
const MAX_STALL: Duration = Duration::from_millis(30);
const MAX_WAIT: Duration = Duration::from_millis(5);

/// The state of the handlers.
struct State {
    workload: Workload,
    requests: Ledger,
    outcome: Outcome,
    region: Region,
    scratch: Vec<u8>,
}

/// Receive everything, check it, reply, and wait for the order to end.
pub(super) fn run(node: &Node, workload: Workload, stalls: bool, watch: &Watch) -> Result<(), Error> {
    let (mut endpoint, mut state) = open(node, workload)?;
    say(&Line::Open(state.region.id().0))?;
    let mut reporter = ProgressReporter::new();
    let (mut random, mut next_stall) = (!workload.seed, if stalls { 0 } else { u64::MAX });
    while watch.check().is_ok() {
        endpoint.wait(&mut state, MAX_WAIT);
        let arrived = state.outcome.arrived;
        if arrived >= next_stall {
            sleep(within(MAX_STALL, &mut random));
            next_stall = arrived + 1 + random % STALL_EVERY;
            state.outcome.stalls += 1;
        }
        reporter.report(arrived, arrived == workload.requests())?;
    }
    conclude(node, state.outcome)
}

/// The receiving endpoint, and the state of its handlers.
fn open(node: &Node, workload: Workload) -> Result<(Endpoint<State>, State), Error> {
    let mut endpoint = node.endpoint(ENDPOINT).map_err(facility)?;
    endpoint.on_request(DATA, |state: &mut State, Request { message, .. }| {
        _ = on_request(state, &message, MessageKind::Data)
    });
    endpoint.on_request(ASK, on_ask);
    endpoint.on_returned(|state, _| state.outcome.returned += 1);
    endpoint.on_transfer(|state, over| on_transfer(state, &over));
    let region = endpoint.register(vec![0; PUT], Rights::WRITE);
    // By position among the requests, which are three of four numbers.
    let requests = Ledger::new(workload.messages);
    let state = State { workload, requests, outcome: Outcome::default(), region, scratch: vec![0; 1 << 16] };
    Ok((endpoint, state))
}

/// The number of a message, if it was sent as this kind.
fn on_request(state: &mut State, message: &Message<'_, State>, kind: MessageKind) -> Option<u64> {
    let found = state.workload.recognise(message.words(), message.payload());
    let Some((number, shape)) = found.filter(|(number, _)| Workload::kind(*number) == kind) else {
        state.outcome.wrong += 1;
        return None;
    };
    state.requests.note(number, &mut state.outcome);
    state.outcome.bytes += shape.bytes();
    Some(number)
}

fn on_ask(state: &mut State, Request { message, token }: Request<'_, State>) {
    let Some(number) = on_request(state, &message, MessageKind::Ask) else { return };
    let shape = state.workload.shape(number + 1);
    state.workload.fill(number + 1, &mut state.scratch[..shape.payload]);
    let said = token.reply(ANSWER, shape.words(), &state.scratch[..shape.payload]);
    state.outcome.wrong += said.is_err() as u64;
}

fn on_transfer(state: &mut State, over: &Transfer<'_, State>) {
    let number = state.outcome.puts;
    let bytes = state.region.bytes();
    let is_whole = (over.kind, over.result, over.length) == (TransferKind::Deposited, Ok(()), PUT as u64);
    let is_it = bytes[..8] == number.to_be_bytes() && state.workload.is_payload_from(u64::MAX - number, &bytes, 1);
    drop(bytes);
    *(if is_whole && is_it { &mut state.outcome.puts } else { &mut state.outcome.wrong }) += 1;
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use am_transport::loopback::wire;

    use super::*;

    /// The first transfer.
    fn transfer(workload: Workload) -> Vec<u8> {
        let mut bytes = vec![0; PUT];
        workload.fill(u64::MAX, &mut bytes);
        bytes[..8].copy_from_slice(&0u64.to_be_bytes());
        bytes
    }

    /// The receiver's outcome of a hundred messages and a transfer after `spoil` changed them.
    fn outcome(spoil: impl Fn(&mut Vec<u8>)) -> Outcome {
        let mut ends = wire(2).into_iter().map(|plug| plug.open().unwrap());
        let mut node = |name| Node::open_on(name, Box::new(ends.next().unwrap())).unwrap();
        let (near, far) = (node("alpha"), node("beta"));
        let workload = Workload::of_mean(4000, 500.0, 1000, 7).expect("they fit");
        let mut sender = near.endpoint::<()>("sender").unwrap();
        let (mut receiver, mut state) = open(&far, workload).unwrap();
        let to = sender.connect("beta", ENDPOINT).unwrap();
        let is_it = |number: &u64| Workload::kind(*number) == MessageKind::Data && workload.shape(*number).payload > 8;
        let mut numbers = (0..workload.messages).filter(is_it);
        let (mut sent, mut is_put, begin) = (0, false, Instant::now());
        while state.outcome.arrived + state.outcome.wrong + state.outcome.puts < 101 {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", state.outcome);
            sender.poll(&mut ());
            receiver.poll(&mut state);
            if sender.ready(to).is_err() {
                continue;
            }
            if !is_put {
                let mut bytes = transfer(workload);
                spoil(&mut bytes);
                sender.put(to, state.region.id(), 0, bytes).unwrap();
                is_put = true;
            } else if sent < 100 {
                let number = numbers.next().unwrap();
                let shape = workload.shape(number);
                let mut payload = vec![0; shape.payload];
                workload.fill(number, &mut payload);
                spoil(&mut payload);
                while sender.try_request(to, DATA, shape.words(), &payload).is_err() {
                    sender.poll(&mut ());
                    receiver.poll(&mut state);
                }
                sent += 1;
            }
        }
        state.outcome
    }

    #[test]
    fn what_was_spoilt_or_cut_is_counted_and_the_rest_is_not() {
        let right = outcome(|_| {});
        assert_eq!((right.arrived, right.puts, right.wrong), (100, 1, 0));
        let spoils: [fn(&mut Vec<u8>); 3] = [
            |bytes| *bytes.last_mut().unwrap() ^= 1,
            |bytes| bytes[8] ^= 0x80,
            |bytes| bytes.truncate(bytes.len() - 1),
        ];
        for spoil in spoils {
            let wrong = outcome(spoil);
            assert_eq!((wrong.arrived, wrong.puts, wrong.wrong), (0, 0, 101), "{wrong:?}");
        }
    }
}
