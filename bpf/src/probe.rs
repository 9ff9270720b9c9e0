use std::fmt;
use std::io;

use am_wire::Reason;
use am_wire::frame::MIN_FRAME;
use am_wire::gate::{GateError, SOURCES};
use am_wire::stamp::Refusal;
use am_wire::steer::{Decision, PassReason};
use aya::maps::{Array, MapData, MapError};
use aya::programs::{TestRun, TestRunOptions, TestRunResult};

use crate::error::root_cause;
use crate::steer::OBJECT;
use crate::{Config, Kernel, LoadError, Steer};

/// Runs the kernel's twin of [`am_wire::steer::steer`] without an interface and without moving a frame: for tests, and
/// to find out why a frame does not arrive.
pub struct Probe {
    steer: Steer,
    buckets: Array<MapData, u64>,
}

/// The index of the gate's clock: `GATE_CLOCK` in `gate.h`.
const CLOCK: u32 = SOURCES as u32 + 1;

/// The twin of the program that addresses copies.
const COPY: &str = "copy_probe";

/// What that program returns for a frame to be sent.
const XDP_PASS: u32 = 2;

/// The program could not run on a frame.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel does not run programs on such a frame.
    #[error("the kernel does not run a program on {length} bytes: {source}")]
    Refused {
        /// The frame's length. The kernel takes 14 to about 3500 bytes.
        length: usize,
        /// Why.
        source: io::Error,
    },
    /// The program's answer is no decision.
    #[error("{0:#x} is not a decision")]
    Answer(u32),
}

impl Probe {
    /// Load the decision part of the program.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, and what to do about it.
    pub fn load(config: &Config) -> Result<Probe, LoadError> {
        Probe::load_object(OBJECT, config)
    }

    /// Load another build of the program, aligned to 4 bytes.
    ///
    /// # Errors
    /// As [`Probe::load`].
    pub fn load_object(object: &[u8], config: &Config) -> Result<Probe, LoadError> {
        let mut steer = Steer::load_program(object, "steer_probe", config)?;
        if Kernel::running().has_sequencer() {
            steer.object.load_program(COPY)?;
        }
        Ok(Probe { buckets: steer.object.map("buckets")?, steer })
    }

    /// The steering table that it decides by.
    pub fn steer(&self) -> &Steer {
        &self.steer
    }

    /// The first 60 bytes and the length of a frame that the program rejected.
    ///
    /// # Errors
    /// As [`Probe::decide`].
    pub fn bounce(&mut self, frame: &[u8]) -> Result<([u8; MIN_FRAME], usize), ProbeError> {
        let mut out = vec![0; frame.len().max(MIN_FRAME)];
        let result = self.run(frame, Some(&mut out))?;
        let mut start = [0; MIN_FRAME];
        start.copy_from_slice(&out[..MIN_FRAME]);
        Ok((start, result.data_size_out as usize))
    }

    /// What the program makes of a frame to be stamped, at this time in nanoseconds: whether it had a number already, and the
    /// frame as it is sent on.
    ///
    /// # Errors
    /// As [`Probe::decide`].
    pub fn sequence(&mut self, frame: &[u8], now: u64) -> Result<(Result<bool, Refusal>, Vec<u8>), ProbeError> {
        self.set_clock(frame, now)?;
        let mut out = vec![0; frame.len()];
        let answer = self.run(frame, Some(&mut out))?.return_value;
        let outcome = match answer >> 12 {
            again @ (0 | 1) => Ok(again == 1),
            refused => Err(*Refusal::ALL.get(refused as usize - 2).ok_or(ProbeError::Answer(answer))?),
        };
        Ok((outcome, out))
    }

    /// The next copy of a stamped frame as the program addresses it. `None`: it has no receiver.
    ///
    /// # Errors
    /// As [`Probe::decide`].
    pub fn copy(&mut self, frame: &[u8]) -> Result<Option<Vec<u8>>, ProbeError> {
        let mut out = vec![0; frame.len()];
        let action = self.run_program(COPY, frame, Some(&mut out))?.return_value;
        Ok((action == XDP_PASS).then_some(out))
    }

    fn set_clock(&mut self, frame: &[u8], now: u64) -> Result<(), ProbeError> {
        let failed = |error: MapError| ProbeError::Refused { length: frame.len(), source: root_cause(&error) };
        self.buckets.set(CLOCK, now, 0).map_err(failed)
    }

    /// What the program decides about a frame of at least 14 bytes.
    ///
    /// # Errors
    /// [`ProbeError::Refused`] for a frame that is too short or too long.
    pub fn decide(&mut self, frame: &[u8]) -> Result<Decision, ProbeError> {
        let answer = self.run(frame, None)?.return_value;
        decode(answer).ok_or(ProbeError::Answer(answer))
    }

    /// Why the program's [gate](am_wire::gate) refuses a control frame at this time in nanoseconds; `None` if it admits
    /// and counts the frame.
    ///
    /// # Errors
    /// As [`Probe::decide`].
    pub fn gate_refusal(&mut self, frame: &[u8], now: u64) -> Result<Option<GateError>, ProbeError> {
        self.set_clock(frame, now)?;
        let answer = self.run(frame, None)?.return_value;
        match answer >> 12 {
            0 => Ok(None),
            1 => Ok(Some(GateError::Malformed)),
            2 => Ok(Some(GateError::OverLimit)),
            _ => Err(ProbeError::Answer(answer)),
        }
    }

    fn run(&mut self, data_in: &[u8], data_out: Option<&mut [u8]>) -> Result<TestRunResult, ProbeError> {
        let decides = self.steer.object.program.clone();
        self.run_program(&decides, data_in, data_out)
    }

    fn run_program(
        &mut self,
        program: &str,
        data_in: &[u8],
        data_out: Option<&mut [u8]>,
    ) -> Result<TestRunResult, ProbeError> {
        let options = TestRunOptions { data_in: Some(data_in), data_out, repeat: 1, ..TestRunOptions::default() };
        let refused = |source| ProbeError::Refused { length: data_in.len(), source };
        let program = self.steer.object.named(program).map_err(|error| refused(io::Error::other(error)))?;
        program.test_run(options).map_err(|error| refused(root_cause(&error)))
    }
}

/// `PASS`, `DROP`, `SOCKET` and so on of `decide.h`.
fn decode(answer: u32) -> Option<Decision> {
    let detail = (answer & 0xff) as u8;
    match answer >> 8 & 0xf {
        1 => [PassReason::Foreign, PassReason::OtherHost].get(detail as usize).copied().map(Decision::Pass),
        2 => Reason::ALL.get(detail as usize).copied().map(Decision::Drop),
        3 => Some(Decision::Socket(detail)),
        4 => Some(Decision::Bounce(detail)),
        5 => Some(Decision::Control(detail)),
        6 => Some(Decision::Sequence(detail)),
        _ => None,
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("steer", &self.steer).finish_non_exhaustive()
    }
}
