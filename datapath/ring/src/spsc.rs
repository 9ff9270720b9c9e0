//! A bounded queue from one thread to one other.
//!
//! Values are written in place and shown to the other side in batches: one
//! release store for as many as there are, as a NIC's rings do it.
//!
//! ```text
//!   producer                                  consumer
//!
//!   reserve  room for so many?                peek     how many are there?
//!   push     write one, not visible yet       pop      read one, its place not free yet
//!   submit   now all of them are visible      release  now all of their places are free
//! ```
//!
//! # Barriers
//!
//! After the kernel's `net/xdp/xsk_queue.h`: `submitted` is written by the producer
//! only, `released` by the consumer only; both only grow (and wrap).
//!
//! ```text
//!   producer                                  consumer
//!
//!   load released        (A) Acquire          load submitted      (C) Acquire
//!   write slots                               read slots
//!   store submitted      (B) Release          store released      (D) Release
//! ```
//!
//! B pairs with C: a consumer that sees the number sees the slots. D pairs with A: the producer writes a slot again
//! only after its value was read. Each side keeps the last number that it saw of the other, and looks again only if
//! that number does not suffice. So a full batch costs one transfer of a cache line each way.
//!
//! ```
//! let (mut producer, mut consumer) = am_ring::spsc::queue(4);
//! producer.push("one").unwrap();
//! producer.push("two").unwrap();
//! assert_eq!(consumer.peek(), 0, "not submitted");
//! producer.submit();
//! assert_eq!(consumer.peek(), 2);
//! assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some("one"), Some("two"), None));
//! consumer.release();
//! ```

use core::fmt;
use core::mem::MaybeUninit;

use crate::sync::{Arc, AtomicU32, Line, Ordering::*, UnsafeCell};

/// The most values of a queue: numbers wrap at 2^32, and may differ by no more than half of it.
const MAX_CAPACITY: usize = 1 << 31;

struct Ring<T> {
    /// Values ever submitted: the producer's line.
    submitted: Line<AtomicU32>,
    /// Values ever released: the consumer's line.
    released: Line<AtomicU32>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: each slot is used by one side at a time, handed over by the barriers
// above, and what is handed over is `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: whoever drops the ring drops the values in it, which are `Send`.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    #[inline]
    fn slot(&self, number: u32) -> &UnsafeCell<MaybeUninit<T>> {
        // A power of two, so that the mask is right even where numbers wrap.
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// # Safety
    /// The slot is free, and the producer's.
    #[inline]
    unsafe fn write(&self, number: u32, value: T) {
        // SAFETY: nobody else uses the slot.
        self.slot(number).with_mut(|slot| unsafe { (*slot).write(value) });
    }

    /// # Safety
    /// The slot holds a value that was not read before, and is the consumer's.
    #[inline]
    unsafe fn read(&self, number: u32) -> T {
        // SAFETY: nobody else uses the slot, and a value is in it.
        self.slot(number).with_mut(|slot| unsafe { (*slot).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both sides are gone, and have submitted and released what they had.
        let (mut number, end) = (self.released.0.load(Relaxed), self.submitted.0.load(Relaxed));
        while number != end {
            // SAFETY: values from `released` to `submitted` are in their slots, unread.
            drop(unsafe { self.read(number) });
            number = number.wrapping_add(1);
        }
    }
}

/// A queue that holds at least `capacity` values (the next power of two).
///
/// # Panics
/// If that is more than 2^31.
pub fn queue<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity <= MAX_CAPACITY, "a queue of {capacity} values: the most are {MAX_CAPACITY}");
    let ring = Arc::new(Ring {
        submitted: Line(AtomicU32::new(0)),
        released: Line(AtomicU32::new(0)),
        slots: (0..capacity.next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    (
        Producer { written: 0, submitted: 0, released: 0, ring: ring.clone() },
        Consumer { read: 0, released: 0, submitted: 0, ring },
    )
}

/// The side that fills the queue.
pub struct Producer<T> {
    /// Values ever written; from `submitted` on the other side does not see them.
    written: u32,
    submitted: u32,
    /// What `ring.released` was when we last looked.
    released: u32,
    ring: Arc<Ring<T>>,
}

impl<T> Producer<T> {
    #[inline]
    fn room(&self) -> u32 {
        self.ring.capacity() - self.written.wrapping_sub(self.released)
    }

    /// How many values can be pushed now, looking no further than `wanted`:
    /// the answer may be larger, and is smaller only if there is no more room.
    #[inline]
    pub fn reserve(&mut self, wanted: usize) -> usize {
        if (self.room() as usize) < wanted {
            self.released = self.ring.released.0.load(Acquire); // A, matches D
        }
        self.room() as usize
    }

    /// Write a value; the other side sees it after [`submit`](Self::submit).
    ///
    /// # Errors
    /// The queue is full: the value comes back.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.reserve(1) == 0 {
            return Err(value);
        }
        // SAFETY: `reserve` has seen that this number's slot was released.
        unsafe { self.ring.write(self.written, value) };
        self.written = self.written.wrapping_add(1);
        Ok(())
    }

    /// Show the other side everything that has been pushed.
    #[inline]
    pub fn submit(&mut self) {
        if self.submitted != self.written {
            self.submitted = self.written;
            self.ring.submitted.0.store(self.submitted, Release); // B, matches C
        }
    }

    /// Whether the other side is gone: nobody will pop what is pushed.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.ring) == 1
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.submit();
    }
}

/// The side that empties the queue.
pub struct Consumer<T> {
    /// Values ever read; from `released` on their places are not free yet.
    read: u32,
    released: u32,
    /// What `ring.submitted` was when we last looked.
    submitted: u32,
    ring: Arc<Ring<T>>,
}

impl<T> Consumer<T> {
    #[inline]
    fn known(&self) -> usize {
        self.submitted.wrapping_sub(self.read) as usize
    }

    /// How many values are there. Looks at the other side's line.
    #[inline]
    pub fn peek(&mut self) -> usize {
        self.submitted = self.ring.submitted.0.load(Acquire); // C, matches B
        self.known()
    }

    /// The next value. Looks at the other side's line only if no value is known
    /// to be there. Its place is free after [`release`](Self::release).
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.known() == 0 && self.peek() == 0 {
            return None;
        }
        // SAFETY: this number is submitted, and `read` passes it only once.
        let value = unsafe { self.ring.read(self.read) };
        self.read = self.read.wrapping_add(1);
        Some(value)
    }

    /// Give the other side the places of everything that has been popped.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.read {
            self.released = self.read;
            self.ring.released.0.store(self.released, Release); // D, matches A
        }
    }

    /// Whether the other side is gone: nothing comes after what is there now.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.ring) == 1
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Drop unread values now: frames should not wait for the producer's end. Each is released before it is dropped,
        // so that the ring does not drop it again if that panics.
        loop {
            let value = self.pop();
            self.release();
            if value.is_none() {
                break;
            }
        }
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("written", &self.written).field("submitted", &self.submitted).finish()
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("read", &self.read).field("released", &self.released).finish()
    }
}
