//! What a call returns when it fails: a negative number, and a text that says what to do.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use fm::{ClusterError, FmError, MeetError, SendError, Unfinished};

use crate::place::PlaceError;

/// The kinds of failure, as `fm.h` numbers them.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An argument that makes no sense.
    Argument = -1,
    /// The calling thread has no node.
    NotInitialized = -2,
    /// It has one already.
    Initialized = -3,
    /// The transport could not be opened.
    Transport = -4,
    /// The list of nodes.
    Nodes = -5,
    /// No such destination.
    Dest = -6,
    /// No such handler.
    Handler = -7,
    /// More than one frame carries.
    TooLarge = -8,
    /// Nobody is there, or not any more.
    Unreachable = -9,
    /// A handler waited for room in vain.
    Stuck = -10,
    /// Not from within a handler.
    InHandler = -11,
    /// The time was over.
    Timeout = -12,
    /// A bug of this library.
    Internal = -13,
}

impl Code {
    /// All of them.
    pub const ALL: [Code; 13] = [
        Code::Argument,
        Code::NotInitialized,
        Code::Initialized,
        Code::Transport,
        Code::Nodes,
        Code::Dest,
        Code::Handler,
        Code::TooLarge,
        Code::Unreachable,
        Code::Stuck,
        Code::InHandler,
        Code::Timeout,
        Code::Internal,
    ];

    /// What it means, in general.
    pub fn text(self) -> &'static CStr {
        match self {
            Code::Argument => c"an argument makes no sense; FM_error() says which",
            Code::NotInitialized => c"this thread has no node; call FM_initialize on the thread that uses it",
            Code::Initialized => c"this thread has a node already; call FM_finalize first",
            Code::Transport => c"the transport could not be opened; FM_error() says why",
            Code::Nodes => c"the list of nodes cannot be used; FM_error() says why",
            Code::Dest => c"no message can be sent to a node of this number",
            Code::Handler => c"handlers are numbered from 0 to 255",
            Code::TooLarge => c"more than one message carries; send it in parts, see FM_most()",
            Code::Unreachable => c"the node is not there, or not any more",
            Code::Stuck => c"a handler waited in vain for room at another node",
            Code::InHandler => c"not from within a handler; handlers may send, and ask",
            Code::Timeout => c"the time was over; FM_error() says what is missing",
            Code::Internal => c"a bug in this library; FM_error() has what it said",
        }
    }

    /// The code with this number.
    pub fn of(number: c_int) -> Option<Code> {
        Code::ALL.into_iter().find(|code| *code as c_int == number)
    }
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: Code, text: impl ToString) -> Failure {
        Failure { code, text: text.to_string() }
    }

    #[cold]
    pub(crate) fn argument(text: impl ToString) -> Failure {
        Failure::new(Code::Argument, text)
    }

    /// Only what the code says.
    #[cold]
    pub(crate) fn plain(code: Code) -> Failure {
        Failure::new(code, code.text().to_string_lossy())
    }
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

impl From<Unfinished> for Failure {
    fn from(error: Unfinished) -> Failure {
        Failure::new(Code::Timeout, error)
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        Failure::new(Code::Nodes, error)
    }
}

impl From<FmError> for Failure {
    fn from(error: FmError) -> Failure {
        Failure::new(Code::Transport, error)
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Failure {
        Failure::new(Code::Transport, error)
    }
}

thread_local! {
    /// The text of the last failure on this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keep the text for [`last`].
#[cold]
pub(crate) fn keep(failure: Failure) -> c_int {
    let text: Vec<u8> = failure.text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // On a thread that is just ending there is nobody left to ask for it.
    let _ = LAST.try_with(|last| last.replace(text));
    failure.code as c_int
}

/// The text of the last failure on this thread; it stays where it is until the next.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
