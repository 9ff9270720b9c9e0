//! The body of a reject: what the frame says of the message with its sequence number.
//!
//! ```text
//!   sender                                         receiver
//!   request 41, handler 9 ────────────────────────▶ it has no handler 9
//!   the message comes back ◀───── NoHandler, 41 ──  41 will not be accepted
//!   ───────────────────────────── Withdrawn, 41 ──▶ 41 counts as arrived, and is acknowledged
//! ```

use crate::codec::by_code;
use crate::{Class, Reason};

/// What a [`Kind::Reject`](crate::Kind) frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// From the receiver of a request: there was no room for it. Its sender sends it again later. The body is empty, so
    /// the XDP program can write this one.
    NoRoom,
    /// From the receiver of a message of this class: it does not have the handler that the message names, and will
    /// accept nothing with this number but [`Reject::Withdrawn`].
    NoHandler(Class),
    /// From the sender of a message of this class: its number carries no message any more.
    Withdrawn(Class),
}

/// By code, counted from 1.
const CODED: [Reject; 4] = [
    Reject::NoHandler(Class::Request),
    Reject::NoHandler(Class::Reply),
    Reject::Withdrawn(Class::Request),
    Reject::Withdrawn(Class::Reply),
];

impl Reject {
    /// The body.
    pub const fn body(self) -> &'static [u8] {
        match self {
            Reject::NoRoom => &[],
            Reject::NoHandler(Class::Request) => &[1],
            Reject::NoHandler(Class::Reply) => &[2],
            Reject::Withdrawn(Class::Request) => &[3],
            Reject::Withdrawn(Class::Reply) => &[4],
        }
    }

    /// From a body.
    ///
    /// # Errors
    /// [`Reason::Body`] if it is too long or has an unknown code.
    pub fn parse(body: &[u8]) -> Result<Reject, Reason> {
        match *body {
            [] => Ok(Reject::NoRoom),
            [code] => by_code(&CODED, code.into()).ok_or(Reason::Body),
            _ => Err(Reason::Body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_and_back() {
        for reject in CODED.into_iter().chain([Reject::NoRoom]) {
            assert_eq!(Reject::parse(reject.body()), Ok(reject));
        }
        for body in [&[0][..], &[5], &[1, 1], &[0, 0]] {
            assert_eq!(Reject::parse(body), Err(Reason::Body), "{body:?}");
        }
    }
}
