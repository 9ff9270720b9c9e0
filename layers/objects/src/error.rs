//! Why a call has no result.

/// Why a call has no result.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Whether the write has run, or will, is not known.
    #[error(
        "whether the write has run is not known, because this process was apart from the others, or has left them: read the object, and decide"
    )]
    Unknown,
    /// The operation has changed nothing, and will not: a write has not run, or a read was not answered within the space's
    /// [patience](crate::Builder::patience).
    #[error("the operation has changed nothing, and will not: call it again")]
    NotRun,
    /// Too many calls wait to leave this process, this number, or 64 MiB of arguments. The write has not run.
    #[error("{0} calls wait to leave: wait for some of them, and poll the space")]
    Full(usize),
    /// The space has ended for this process.
    #[error("this process is no member of the space any more: join it again")]
    Ended,
    /// The process that kept the object is gone, and the object with it.
    #[error("the process that kept this object is gone, and the object with it: create it again")]
    Lost,
    /// The object stays where it is.
    #[error(
        "the object stays where it is: its value is longer than a message; open all nodes of the space with a larger `Builder::max_message`"
    )]
    NotMoved,
    /// No process of the space has this name.
    #[error("no process of the space has this name: see `Space::view`")]
    NoSuchProcess,
    /// The object is of another space.
    #[error("the object is of another space: place it there")]
    OtherSpace,
    /// A write of the object has panicked, at every process. It keeps its name: objects cannot be removed.
    #[error("a write of this object has panicked, so its value is not to be trusted: create an object of another name")]
    Poisoned,
    /// The operation's bytes are not what its type says.
    #[error(
        "the arguments or the result of the operation cannot be written or read: correct the `Encode` and `Decode` of their types"
    )]
    Malformed,
    /// There is an object of this name, and it has another type.
    #[error(
        "the space has an object of this name with another type, or another version of the type: choose another name"
    )]
    TypeDiffers,
    /// A process of the space has an object whose type this program does not have.
    #[error("the space has an object of a type that this program does not know: name all types with `Builder::object`")]
    TypeUnknown,
    /// The arguments are longer than a message.
    #[error(
        "the arguments have {needs} bytes, and {most} are possible: open all nodes of the space with a larger `Builder::max_message`"
    )]
    TooLong {
        /// Bytes of the message.
        needs: usize,
        /// The most that are possible.
        most: usize,
    },
    /// The result is longer than a message. A write has run.
    #[error(
        "the operation has run, and its result is longer than a message: open all nodes of the space with a larger `Builder::max_message`"
    )]
    ResultTooLong,
    /// An operation would wait for itself.
    #[error(
        "an operation runs on this thread, which cannot read the object that it has, nor wait for a call: use `self`, and give what else it needs as an argument"
    )]
    InOperation,
    /// A thread that polls the space would wait for itself.
    #[error("this thread polls the space, and cannot wait for it: use `Space::block_on`")]
    OnNodeThread,
}

am_api::debug_as_display!(CallError);
