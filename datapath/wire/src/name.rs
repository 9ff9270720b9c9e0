//! The names of nodes and endpoints.

use core::fmt;

use crate::codec::{Field, put_bytes};

/// The name of a node or an endpoint: 1 to 31 bytes of UTF-8, without control characters, because programs print names
/// from the network on terminals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    length: u8,
    bytes: [u8; Name::MAX_BYTES],
}

impl Name {
    /// The most bytes of a name.
    pub const MAX_BYTES: usize = 31;

    /// The name, or `None` if it is empty, too long, or has control characters.
    pub fn new(text: &str) -> Option<Name> {
        if text.chars().any(char::is_control) {
            return None;
        }
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty()).then_some(Name { length: text.len() as u8, bytes })
    }

    /// The name of another member of a group, whose first member has this name: `server#2`. `None` for 0, for the name of such
    /// a member, and if it would be too long.
    pub fn member(&self, number: u8) -> Option<Name> {
        let text = self.as_str();
        if number == 0 || text.contains(Self::MEMBER_MARK) {
            return None;
        }
        let digits = [number / 100, number / 10 % 10, number % 10].map(|digit| b'0' + digit);
        let digits = &digits[if number >= 100 {
            0
        } else if number >= 10 {
            1
        } else {
            2
        }..];
        let mut name = *self;
        let length = text.len() + 1 + digits.len();
        let (mark, rest) = name.bytes.get_mut(text.len()..length)?.split_first_mut()?;
        *mark = Self::MEMBER_MARK as u8;
        rest.copy_from_slice(digits);
        name.length = length as u8;
        Some(name)
    }

    /// The name of the group, if this is the name of its [member](Name::member) with this number.
    pub fn group_of_member(&self, number: u8) -> Option<Name> {
        let (group, _) = self.as_str().rsplit_once(Self::MEMBER_MARK)?;
        Name::new(group).filter(|group| group.member(number) == Some(*self))
    }

    /// Separates a group's name from the number of a member.
    const MEMBER_MARK: char = '#';

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length as usize]).unwrap_or("?")
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == text
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Field for Name {
    fn put(&self, to: &mut &mut [u8]) {
        self.length.put(to);
        put_bytes(to, self.as_str().as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Name> {
        let length = u8::take(from)?;
        let (text, rest) = from.split_at_checked(length.into())?;
        *from = rest;
        Name::new(core::str::from_utf8(text).ok()?)
    }
}
