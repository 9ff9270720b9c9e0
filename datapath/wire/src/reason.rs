//! Why a frame was dropped. Each reason is counted apart.

use core::fmt;

macro_rules! reasons {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// Why a frame was dropped. The XDP program counts those that steering can see, under the same numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason { $(#[doc = $doc] $name,)* }

        impl Reason {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];
            /// A counter's name.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    Short = "short", "Less than the 60 bytes of the smallest Ethernet frame.";
    Source = "bad_source", "A header for a source address must have group bit 0 and local bit 1.";
    Version = "unknown_version", "Version bits that this version does not know.";
    Kind = "unknown_kind", "A kind that this version does not know.";
    NoFlow = "unknown_flow", "No such flow here: never set up, or closed.";
    NodeFlow = "misused_flow_zero", "Flow 0 carries control frames and nothing else does.";
    Length = "bad_length", "The trailer's length does not fit the frame.";
    Words = "bad_words", "More word arguments than there are, or than the body holds.";
    Body = "bad_body", "The body of an acknowledgement, a control frame, a coalesced frame or a group frame does not parse.";
    Nonce = "stale_nonce", "A frame for an earlier use of the flow id.";
    NoGroup = "unknown_group", "A frame of a group that this node has not joined.";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl core::error::Error for Reason {}
