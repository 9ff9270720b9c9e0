//! The two ends of a link, and the operations of the checks.

use std::any::Any;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_wire::Address;

use super::frames::{self, FLOW, Spec};
use super::{CheckFailure, Checked, ensure};
use crate::{Transport, TransportExt};

/// A check fails after this time without progress.
pub(super) const PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time without an arrival on a lossy link, missing frames are sent again.
const QUIET_TIME: Duration = Duration::from_millis(20);
/// The most frames that are received at once.
const BURST: usize = 64;

/// The result of a step.
pub(super) enum StepResult {
    Done,
    Progress,
    Nothing,
}

/// Two ends of one link, opened on this thread.
pub struct Pair {
    /// The end that sends in most checks.
    pub near: Box<dyn Transport>,
    /// The end that receives in most checks.
    pub far: Box<dyn Transport>,
    /// An object that the ends need, dropped after them.
    _keep: Box<dyn Any>,
}

impl Pair {
    /// Two ends, on a network with the default EtherTypes.
    pub fn new(near: impl Transport + 'static, far: impl Transport + 'static) -> Pair {
        Pair { near: Box::new(near), far: Box::new(far), _keep: Box::new(()) }
    }

    /// Add an object that the ends need, such as a network namespace. It is dropped after them.
    #[must_use]
    pub fn keeping(self, keep: impl Any) -> Pair {
        Pair { _keep: Box::new(keep), ..self }
    }

    /// The pair with its ends exchanged.
    pub(super) fn swapped(self) -> Pair {
        Pair { near: self.far, far: self.near, ..self }
    }

    /// Open [`FLOW`] at both ends.
    pub(super) fn open_flow(&mut self) {
        self.near.steer(FLOW, true);
        self.far.steer(FLOW, true);
    }

    /// A request from near to far, cut to the longest frame.
    pub(super) fn spec(&self, number: u64, len: usize) -> Spec {
        Spec::new(self.far.caps().address, number, len.min(self.max_frame()))
    }

    /// The longest frame that both ends carry.
    pub(super) fn max_frame(&self) -> usize {
        self.near.caps().max_frame.min(self.far.caps().max_frame)
    }

    /// Build the frame of a spec in the near end's pool. `None` if the pool is empty.
    pub(super) fn build(&self, spec: &Spec) -> Option<Frame> {
        let caps = self.near.caps();
        spec.build(&caps.pool, caps.address)
    }

    /// Ring the doorbell at each end, and receive at the far end.
    pub(super) fn turn(&mut self, each: &mut dyn FnMut(Frame)) -> usize {
        self.near.flush();
        let taken = self.far.receive(BURST, each);
        self.far.flush();
        taken
    }

    /// Build and send a frame. Turns until there is a frame and room.
    pub(super) fn send(&mut self, spec: &Spec, each: &mut dyn FnMut(Frame)) -> Checked {
        let mut frame = None;
        self.until("the pool stayed empty", each, &mut |pair| {
            frame = pair.build(spec);
            frame.is_some()
        })?;
        frame.map_or(Ok(()), |frame| self.send_frame(spec.to, &frame, each))
    }

    /// Send a frame. Turns until there is room.
    pub(super) fn send_frame(&mut self, to: Address, frame: &Frame, each: &mut dyn FnMut(Frame)) -> Checked {
        self.until("a frame could not be sent", each, &mut |pair| pair.near.send(to, frame))
    }

    /// Run steps until one is [`StepResult::Done`].
    pub(super) fn repeat_until_done(
        &mut self,
        hope: &str,
        step: &mut dyn FnMut(&mut Pair) -> Result<StepResult, CheckFailure>,
    ) -> Checked {
        let mut since = Instant::now();
        loop {
            match step(self)? {
                StepResult::Done => return Ok(()),
                StepResult::Progress => since = Instant::now(),
                StepResult::Nothing => std::thread::yield_now(),
            }
            ensure!(since.elapsed() < PROGRESS_TIMEOUT, "{hope}: nothing happened for {PROGRESS_TIMEOUT:?}");
        }
    }

    /// Turn until `done` is true.
    pub(super) fn until(
        &mut self,
        hope: &str,
        each: &mut dyn FnMut(Frame),
        done: &mut dyn FnMut(&mut Pair) -> bool,
    ) -> Checked {
        self.repeat_until_done(hope, &mut |pair| {
            Ok(match done(pair) {
                true => StepResult::Done,
                false if pair.turn(each) > 0 => StepResult::Progress,
                false => StepResult::Nothing,
            })
        })
    }

    /// Send these frames and receive them at the far end. On a lossy link, missing frames are sent again. Every bit is
    /// checked. Returns the numbers in the order of arrival.
    pub(super) fn deliver(&mut self, specs: &[Spec]) -> Result<Vec<u64>, CheckFailure> {
        let mut arrivals = Arrivals::new(specs);
        for spec in specs {
            self.send(spec, &mut |frame| arrivals.add(frame))?;
        }
        let hope = format!("not all frames of {:?} arrived", specs.iter().map(|spec| spec.number).collect::<Vec<_>>());
        let mut since = Instant::now();
        self.repeat_until_done(&hope, &mut |pair| {
            if arrivals.missing.is_empty() || arrivals.damaged.is_some() {
                return Ok(StepResult::Done);
            }
            if pair.turn(&mut |frame| arrivals.add(frame)) > 0 {
                since = Instant::now();
                return Ok(StepResult::Progress);
            }
            if !pair.near.caps().reliable && since.elapsed() > QUIET_TIME {
                since = Instant::now();
                for spec in arrivals.missing.clone() {
                    pair.send(&spec, &mut |frame| arrivals.add(frame))?;
                }
            }
            Ok(StepResult::Nothing)
        })?;
        arrivals.done()
    }

    /// Send a frame, and turn if `turn` is true. The numbers of the frames that arrive meanwhile go into `arrived`.
    pub(super) fn send_and_collect(&mut self, spec: &Spec, turn: bool, arrived: &mut Vec<u64>) -> Checked {
        let mut arrivals = Arrivals::new(&[]);
        self.send(spec, &mut |frame| arrivals.add(frame))?;
        if turn {
            self.turn(&mut |frame| arrivals.add(frame));
        }
        arrived.extend(arrivals.done()?);
        Ok(())
    }

    /// Turn until no frame has arrived for a while. Returns the numbers that arrived.
    pub(super) fn drain(&mut self) -> Result<Vec<u64>, CheckFailure> {
        let mut arrivals = Arrivals::new(&[]);
        let mut since = Instant::now();
        while since.elapsed() < QUIET_TIME {
            if self.turn(&mut |frame| arrivals.add(frame)) > 0 {
                since = Instant::now();
            }
        }
        arrivals.done()
    }
}

/// The frames that have arrived, and those that are missing.
struct Arrivals {
    missing: Vec<Spec>,
    numbers: Vec<u64>,
    damaged: Option<CheckFailure>,
}

impl Arrivals {
    fn new(specs: &[Spec]) -> Arrivals {
        Arrivals { missing: specs.to_vec(), numbers: vec![], damaged: None }
    }

    fn add(&mut self, frame: Frame) {
        match frames::read_number(&frame) {
            Ok(number) => {
                self.missing.retain(|spec| spec.number != number);
                self.numbers.push(number);
            }
            Err(failure) => self.damaged = Some(failure),
        }
    }

    fn done(self) -> Result<Vec<u64>, CheckFailure> {
        self.damaged.map_or(Ok(self.numbers), Err)
    }
}
