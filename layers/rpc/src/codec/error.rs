//! Why a value was not written, or not read.

/// Why a value was not written. Its message must not leave.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value writes more than it announced.
    #[error("`encode` wrote more bytes than `size` announced: correct the `Encode` of this type")]
    Excess,
    /// The value writes less than it announced.
    #[error("`encode` wrote {0} bytes less than `size` announced: correct the `Encode` of this type")]
    Missing(usize),
    /// A collection has more elements than a length can say.
    #[error("a collection of {0} elements, but at most {max} can be sent; send it in parts", max = u32::MAX)]
    Length(usize),
    /// Boxes and collections within each other.
    #[error("the value is nested deeper than {max} levels; send it as a list", max = super::MAX_DEPTH)]
    Depth,
    /// `size` or `encode` panicked.
    #[error("`encode` panicked: correct the `Encode` of this type")]
    Panicked,
    /// What serde says of the value.
    #[cfg(feature = "serde")]
    #[error("the value cannot be written by postcard: {0}")]
    Serde(postcard::Error),
}

/// Why bytes are no value of the type. The peer has another version of the type, or it is hostile.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message ends within the value.
    #[error("the message ends early: {need} more bytes wanted, {left} left")]
    Short {
        /// Bytes that the next part takes.
        need: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// The message goes on behind the value.
    #[error("{0} bytes are left over behind the value")]
    Left(usize),
    /// A `bool` that is neither.
    #[error("{0} is no bool: 0 or 1 was expected")]
    Bool(u8),
    /// A number that is no character.
    #[error("{0:#x} is no character")]
    Char(u32),
    /// A variant that the enum does not have.
    #[error("`{of}` has no variant {tag}")]
    Variant {
        /// The enum's name.
        of: &'static str,
        /// The position of the variant that the bytes name.
        tag: u8,
    },
    /// Text that is no UTF-8.
    #[error("the text is no UTF-8 from byte {0} on")]
    Utf8(usize),
    /// A collection that claims more elements than the rest of the message can hold.
    #[error("{count} elements are claimed, and {left} bytes are left for them")]
    Length {
        /// The claim.
        count: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// Boxes and collections within each other.
    #[error("the value is nested deeper than {max} levels", max = super::MAX_DEPTH)]
    Depth,
    /// A map or set with one key twice.
    #[error("a key appears twice in a map or set")]
    Duplicate,
    /// Bytes that the type's own rules exclude.
    #[error("the bytes are no {0}")]
    Invalid(&'static str),
    /// What serde says of the bytes.
    #[cfg(feature = "serde")]
    #[error("the bytes cannot be read by postcard: {0}")]
    Serde(postcard::Error),
}

am_api::debug_as_display!(EncodeError);
am_api::debug_as_display!(DecodeError);
