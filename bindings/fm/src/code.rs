//! What a call returns when it fails: a negative number, and a text that says what to do.

use std::ffi::c_int;

use am_c_runtime::{failures, keep_error};
use am_fm::{MeetError, SendError};

failures! {
    /// An argument that makes no sense.
    Argument = -1, c"an argument makes no sense; FM_error() says which";
    /// The calling thread has no node.
    NotInitialized = -2, c"this thread has no node; call FM_initialize on the thread that uses it";
    /// It has one already.
    Initialized = -3, c"this thread has a node already; call FM_finalize first";
    /// The transport could not be opened.
    Transport = -4, c"the transport could not be opened; FM_error() says why";
    /// The list of nodes.
    Nodes = -5, c"the list of nodes cannot be used; FM_error() says why";
    /// No such destination.
    Dest = -6, c"no message can be sent to a node of this number";
    /// No such handler.
    Handler = -7, c"handlers are numbered from 0 to 255";
    /// More than one frame carries.
    TooLarge = -8, c"more than one message carries; send it in parts, see FM_most()";
    /// Nobody is there, or not any more.
    Unreachable = -9, c"the node is not there, or not any more";
    /// A handler waited for room in vain.
    Stuck = -10, c"a handler waited in vain for room at another node";
    /// Not from within a handler.
    InHandler = -11, c"not from within a handler; handlers may send, and ask";
    /// The time was over.
    Timeout = -12, c"the time was over; FM_error() says what is missing";
    /// A bug of this library.
    Internal = -13, c"a bug in this library; FM_error() has what it said";
    /// A forked child.
    Forked = -14, c"this process was forked: the node is its parent's; call FM_initialize after exec";
    /// The program has closed the node's descriptors.
    Lost = -15, c"this program has closed descriptors of libamfm (closefrom, close_range, dup2), and the node has ended; call FM_initialize again";
}

impl From<SendError> for Failure {
    #[cold]
    fn from(error: SendError) -> Failure {
        let code = match error {
            SendError::NoSuchNode { .. } | SendError::Own(_) => Code::Dest,
            SendError::TooLarge { .. } => Code::TooLarge,
            SendError::Stuck { .. } => Code::Stuck,
            SendError::Unreachable { .. } | SendError::Stranger(_) | SendError::NoFlow => Code::Unreachable,
        };
        Failure::new(code, error)
    }
}

impl From<MeetError> for Failure {
    fn from(error: MeetError) -> Failure {
        match error {
            MeetError::Missing(_) => Failure::new(Code::Timeout, error),
            MeetError::Send(error) => error.into(),
        }
    }
}

/// Keep the text for `FM_error`.
#[cold]
pub(crate) fn keep(failure: Failure) -> c_int {
    keep_error(failure.text);
    failure.code as c_int
}
