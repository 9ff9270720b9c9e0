//! Copies frames from received streams into frames of the pool.

use am_ring::{Frame, Pool};
use am_transport::Steering;
use am_wire::Buffer;

use super::deframer::{Deframer, InvalidLength};

pub(super) struct Inbox {
    pub(super) steering: Steering,
    pub(super) pool: Pool,
    /// A frame of the pool for the next received frame.
    pub(super) spare_frame: Option<Frame>,
    /// How often the pool had no frame for a received one.
    pub(super) no_frame: u64,
}

impl Inbox {
    /// Pass whole frames to `each`, at most `budget`. Returns how many, and whether those are all.
    #[inline]
    pub(super) fn deliver_frames(
        &mut self,
        cutter: &mut Deframer,
        budget: usize,
        each: &mut dyn FnMut(Frame),
    ) -> Result<(usize, bool), InvalidLength> {
        let mut taken = 0;
        while let Some(bytes) = cutter.peek()? {
            if taken == budget {
                return Ok((taken, false));
            }
            let Some(mut frame) = self.spare_frame.take().or_else(|| self.pool.take()) else {
                // The frame stays here, and later ones stay with the kernel and the peer.
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
                None => self.spare_frame = Some(frame),
            }
            cutter.consume();
        }
        Ok((taken, true))
    }
}
