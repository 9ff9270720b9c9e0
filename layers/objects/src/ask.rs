//! What a process asks of another one that keeps an object, and what it is answered.

use am_rpc::Wire;

use crate::error::CallError;

/// Whose call it is: the process, and its number for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Wire)]
pub(crate) struct Caller {
    pub(crate) process: u64,
    pub(crate) call: u64,
}

/// An operation on an object that is kept at the process that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Wire)]
pub(crate) struct Ask<'a> {
    pub(crate) caller: Caller,
    pub(crate) object: u64,
    /// The caller has this part of the order. The process that is asked has it, too, before it answers.
    pub(crate) after: u64,
    pub(crate) what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
pub(crate) enum What<'a> {
    Read {
        operation: u16,
        arguments: &'a [u8],
    },
    Write {
        operation: u16,
        arguments: &'a [u8],
    },
    /// The caller does not wait for the guard of this call any more.
    Cancel,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Wire)]
pub(crate) struct Answer {
    /// The part of the order that the process had that answers. The caller has it, too, before its call ends: so what one thread has seen
    /// another one sees, whichever objects they look at.
    pub(crate) at: u64,
    pub(crate) fate: Fate,
}

#[derive(Clone, Debug, PartialEq, Wire)]
pub(crate) enum Fate {
    Done(Vec<u8>),
    /// The object is not there. The operation has not run.
    Moved,
    NotRun,
    Poisoned,
    Malformed,
}

impl Fate {
    pub(crate) fn of(outcome: Result<Vec<u8>, CallError>) -> Fate {
        match outcome {
            Ok(bytes) => Fate::Done(bytes),
            Err(CallError::NotRun) => Fate::NotRun,
            Err(CallError::Poisoned) => Fate::Poisoned,
            Err(_) => Fate::Malformed,
        }
    }

    /// `None`: it is asked elsewhere.
    pub(crate) fn outcome(self) -> Option<Result<Vec<u8>, CallError>> {
        match self {
            Fate::Done(bytes) => Some(Ok(bytes)),
            Fate::Moved => None,
            Fate::NotRun => Some(Err(CallError::NotRun)),
            Fate::Poisoned => Some(Err(CallError::Poisoned)),
            Fate::Malformed => Some(Err(CallError::Malformed)),
        }
    }
}

/// Takes the answer, once.
pub(crate) type Reply = Box<dyn FnOnce(Answer)>;

/// An operation that the program has called, as long as it may be called again elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) object: u64,
    pub(crate) is_read: bool,
    /// Whether it may wait for a guard.
    pub(crate) may_wait: bool,
    pub(crate) operation: u16,
    pub(crate) arguments: Vec<u8>,
}

impl Sent {
    pub(crate) fn what(&self) -> What<'_> {
        let Sent { operation, arguments, .. } = self;
        let operation = *operation;
        match self.is_read {
            true => What::Read { operation, arguments },
            false => What::Write { operation, arguments },
        }
    }
}
