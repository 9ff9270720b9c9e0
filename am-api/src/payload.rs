//! What the program gives as a payload: bytes in one piece, in several, shared with the node, or written when the frame is there.

use std::io::IoSlice;
use std::ops::Deref;

/// A payload, in one piece or in several.
pub(crate) trait Payload {
    /// Its length.
    fn bytes(&self) -> usize;
    /// Copy it into the frame, to `place`, which has its length.
    fn put(&self, place: &mut [u8]);
    /// How much of its start is copied, if the program shares the rest.
    fn own_bytes(&self) -> usize {
        self.bytes()
    }
    /// Copy that start to `place`, which has its length.
    fn put_own(&self, place: &mut [u8]) {
        self.put(place);
    }
    /// A handle on the rest for the node.
    fn share(&self) -> Option<Box<dyn AsRef<[u8]>>> {
        None
    }
}

/// A payload of which the program shares all behind a front with the node.
pub(crate) struct Shared<'a, D>(pub(crate) &'a [u8], pub(crate) &'a D);

/// The node's handle on a shared payload.
struct Handle<D>(D);

impl<D: Deref<Target: AsRef<[u8]>>> AsRef<[u8]> for Handle<D> {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl<D: Deref<Target: AsRef<[u8]>> + Clone + 'static> Payload for Shared<'_, D> {
    fn bytes(&self) -> usize {
        self.0.len().saturating_add((**self.1).as_ref().len())
    }

    fn own_bytes(&self) -> usize {
        self.0.len()
    }

    fn put_own(&self, place: &mut [u8]) {
        place.copy_from_slice(self.0);
    }

    fn put(&self, place: &mut [u8]) {
        let (front, place) = place.split_at_mut(self.0.len());
        front.copy_from_slice(self.0);
        // Its length may change from call to call.
        match (**self.1).as_ref().get(..place.len()) {
            Some(bytes) => place.copy_from_slice(bytes),
            None => place.fill(0),
        }
    }

    fn share(&self) -> Option<Box<dyn AsRef<[u8]>>> {
        Some(Box::new(Handle(self.1.clone())))
    }
}

impl Payload for [u8] {
    #[inline]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn put(&self, place: &mut [u8]) {
        place.copy_from_slice(self);
    }
}

impl Payload for [IoSlice<'_>] {
    fn bytes(&self) -> usize {
        self.iter().fold(0, |bytes, part| bytes.saturating_add(part.len()))
    }

    fn put(&self, mut place: &mut [u8]) {
        for part in self {
            let (to, rest) = place.split_at_mut(part.len());
            to.copy_from_slice(part);
            place = rest;
        }
    }
}

/// A payload that the program writes into the frame: its length, and a function that says how many bytes it has written.
pub(crate) struct WrittenBy<F>(pub(crate) usize, pub(crate) F);

impl<F: Fn(&mut [u8]) -> usize> Payload for WrittenBy<F> {
    #[inline]
    fn bytes(&self) -> usize {
        self.0
    }

    #[inline]
    fn put(&self, place: &mut [u8]) {
        let written = (self.1)(place);
        // The peer never gets bytes of an earlier message.
        if let Some(rest) = place.get_mut(written..) {
            rest.fill(0);
        }
    }
}
