//! From the bytes of a stream to frames of the pool.

use am_ring::{Frame, Pool};
use am_transport::Steering;
use am_wire::Buffer;

use super::cutter::{Cutter, Nonsense};

pub(super) struct Inbox {
    pub(super) steering: Steering,
    pub(super) pool: Pool,
    /// For what arrives next.
    pub(super) blank: Option<Frame>,
    /// How often there was no frame for what had arrived.
    pub(super) no_frame: u64,
}

impl Inbox {
    /// Hand over what is whole, at most `budget` frames of it; how many, and
    /// whether that is all there is.
    #[inline]
    pub(super) fn cut(
        &mut self,
        cutter: &mut Cutter,
        budget: usize,
        each: &mut dyn FnMut(Frame),
    ) -> Result<(usize, bool), Nonsense> {
        let mut taken = 0;
        while let Some(bytes) = cutter.peek()? {
            if taken == budget {
                return Ok((taken, false));
            }
            let Some(mut frame) = self.blank.take().or_else(|| self.pool.take()) else {
                // It stays, and behind it what the kernel and its sender have.
                self.no_frame += 1;
                return Ok((taken, false));
            };
            let space = frame.space().and_then(|space| space.get_mut(..bytes.len()));
            match space.filter(|_| self.steering.admits(bytes)) {
                Some(space) => {
                    space.copy_from_slice(bytes);
                    frame.set_len(bytes.len());
                    taken += 1;
                    each(frame);
                }
                None => self.blank = Some(frame),
            }
            cutter.next();
        }
        Ok((taken, true))
    }
}
