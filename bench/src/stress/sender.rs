//! The sending process.

use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Message, Node, RegionId, RequestError, Transfer, TransferKind};

use super::process::{ANSWER, ASK, DATA, ENDPOINT, ProgressReporter, conclude, say};
use super::report::Outcome;
use super::workload::{Ledger, MessageKind, MessageShape, Workload};
use super::{Line, NODES, PUT};
use am_measure::drivers::am::facility;
use am_measure::error::Error;
use am_measure::watch::Watch;

/// Connections. Runs of messages take turns on them.
const FLOWS: usize = 4;
/// Requests between two polls.
const BURST: u64 = 32;
/// Requests between the starts of two transfers.
const PUT_EVERY: u64 = 20_000;
/// Payloads from this length on are built in the frame that they leave in.
const IN_PLACE: usize = 512;
const MAX_WAIT: Duration = Duration::from_millis(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of the handlers.
struct State {
    workload: Workload,
    answers: Ledger,
    outcome: Outcome,
    putting: bool,
}

struct Sender<'a> {
    endpoint: Endpoint<State>,
    state: State,
    flows: Vec<Connection>,
    region: RegionId,
    scratch: Vec<u8>,
    /// Transfers that have begun.
    puts: u64,
    reporter: ProgressReporter,
    watch: &'a Watch,
}

/// Send everything, check the replies, and wait for the order to end.
pub(super) fn run(node: &Node, workload: Workload, region: u32, watch: &Watch) -> Result<(), Error> {
    let mut endpoint = node.endpoint(ENDPOINT).map_err(facility)?;
    endpoint.on_reply(ANSWER, |state: &mut State, message| on_answer(state, &message));
    endpoint.on_returned(|state, _| state.outcome.returned += 1);
    endpoint.on_transfer(|state, over| on_transfer(state, &over));
    let answers = Ledger::new(workload.answers());
    let mut sender = Sender {
        endpoint,
        state: State { workload, answers, outcome: Outcome::default(), putting: false },
        flows: Vec::new(),
        region: RegionId(region),
        scratch: vec![0; 1 << 16],
        puts: 0,
        reporter: ProgressReporter::new(),
        watch,
    };
    match sender.all(workload) {
        // The order to end.
        Ok(()) | Err(Error::PeerGone(_)) => conclude(node, sender.state.outcome),
        Err(error) => Err(error),
    }
}

fn on_answer(state: &mut State, message: &Message<'_, State>) {
    match state.workload.recognise(message.words(), message.payload()) {
        Some((number, shape)) if Workload::kind(number) == MessageKind::Answer => {
            state.answers.note(number / 4, &mut state.outcome);
            state.outcome.bytes += shape.bytes();
        }
        _ => state.outcome.wrong += 1,
    }
}

fn on_transfer(state: &mut State, over: &Transfer<'_, State>) {
    state.putting = false;
    match (over.kind, over.result) {
        (TransferKind::Put, Ok(())) => state.outcome.puts += 1,
        _ => state.outcome.wrong += 1,
    }
}

impl Sender<'_> {
    fn all(&mut self, workload: Workload) -> Result<(), Error> {
        for _ in 0..FLOWS {
            let to = self.endpoint.connect(NODES[1], ENDPOINT).map_err(facility)?;
            self.endpoint.wait_open(&mut self.state, to, CONNECT_TIMEOUT).map_err(facility)?;
            self.flows.push(to);
        }
        say(&Line::Open(0))?;
        for number in (0..workload.messages).filter(|&number| Workload::kind(number) != MessageKind::Answer) {
            self.send(number)?;
            if number % BURST == 0 {
                self.endpoint.poll(&mut self.state);
                self.look(false)?;
            }
            if number % PUT_EVERY == 0 && !self.state.putting {
                self.put()?;
            }
        }
        loop {
            self.endpoint.wait(&mut self.state, MAX_WAIT);
            let all_accepted = self.flows.iter().all(|&to| self.endpoint.is_accepted(to));
            let complete = self.state.outcome.arrived == workload.answers() && all_accepted && !self.state.putting;
            self.look(complete)?;
        }
    }

    fn look(&mut self, complete: bool) -> Result<(), Error> {
        self.watch.check()?;
        self.reporter.report(self.state.outcome.arrived, complete)
    }

    fn send(&mut self, number: u64) -> Result<(), Error> {
        let shape = self.state.workload.shape(number);
        let to = self.flows[(number / 16) as usize % FLOWS];
        if shape.payload >= IN_PLACE {
            return self.send_in_place(to, number, &shape);
        }
        self.state.workload.fill(number, &mut self.scratch[..shape.payload]);
        loop {
            match self.endpoint.try_request(to, handler(number), shape.words(), &self.scratch[..shape.payload]) {
                Ok(()) => return Ok(()),
                Err(error) => self.rest(error)?,
            }
        }
    }

    fn send_in_place(&mut self, to: Connection, number: u64, shape: &MessageShape) -> Result<(), Error> {
        let length = shape.payload;
        let mut prepared = loop {
            match self.endpoint.prepare(to, handler(number), shape.words(), length, length) {
                Ok(prepared) => break prepared,
                Err(error) => self.rest(error)?,
            }
        };
        self.state.workload.fill(number, prepared.space());
        loop {
            match prepared.commit(length) {
                Ok(()) => return Ok(()),
                Err((error, same)) => {
                    prepared = same;
                    self.rest(error)?;
                }
            }
        }
    }

    /// Wait for room, unless the error is permanent.
    fn rest(&mut self, error: RequestError) -> Result<(), Error> {
        if !error.is_temporary() {
            return Err(Error::Lost(error.to_string()));
        }
        let start = Instant::now();
        self.endpoint.wait(&mut self.state, MAX_WAIT);
        // After a real wait, checking for the order to end costs little.
        if start.elapsed() > MAX_WAIT / 10 { self.look(false) } else { Ok(()) }
    }

    fn put(&mut self) -> Result<(), Error> {
        let mut data = vec![0; PUT];
        self.state.workload.fill(u64::MAX - self.puts, &mut data);
        data[..8].copy_from_slice(&self.puts.to_be_bytes());
        self.endpoint.put(self.flows[0], self.region, 0, data).map_err(facility)?;
        self.state.putting = true;
        self.puts += 1;
        Ok(())
    }
}

fn handler(number: u64) -> am_api::HandlerId {
    if Workload::kind(number) == MessageKind::Ask { ASK } else { DATA }
}
