//! Writing messages along edges.

use am_api::{NotOpen, ReturnReason};

use crate::WriteError;
use crate::dp::{Dp, PointState, note_sending, point_mut};
use crate::edge::{Left, Target};
use crate::point::{Point, PointId};

/// The first messages of a row each get their own doorbell, up to [`ALONE`]. In a longer row, which is a stream, [`TOGETHER`] messages share
/// one.
const ALONE: u32 = 16;
const TOGETHER: u32 = 8;

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// Send a message along the endpoint's edge. This never waits: if the receiver has no room, it returns [`WriteError::Full`]. A message
    /// longer than a frame is copied, and this call and later ones send it; until it is sent, the next write is `Full`. In a row of more
    /// than 16 messages, without a call that polls, up to 7 wait for the next call of any kind.
    ///
    /// # Errors
    /// See [`WriteError`].
    #[inline]
    pub fn write(&mut self, point: &Point, message: &[u8]) -> Result<(), WriteError> {
        let mut is_second = false;
        loop {
            let Dp { points, sender, needs_flush, streak, sending, inboxes, .. } = self;
            let state = point_mut(points, point.id).ok_or(WriteError::Closed)?;
            if message.is_empty() {
                return Err(WriteError::Empty);
            }
            let Some(edge) = &mut state.edge else { return Err(WriteError::NotConnected) };
            let Target::Remote(to) = edge.target else { return self.write_local(point.id, message) };
            match edge.write(to, sender, message) {
                Ok(left) => {
                    *streak += 1;
                    *needs_flush = *streak > ALONE && !streak.is_multiple_of(TOGETHER);
                    if !*needs_flush {
                        sender.flush();
                    }
                    if left == Left::Part {
                        note_sending(sending, point.id);
                    }
                    state.traffic.written += 1;
                    state.traffic.bytes_written += message.len() as u64;
                    return Ok(());
                }
                // Poll once and try again, because credit may have arrived.
                Err(WriteError::Full) if !is_second => is_second = true,
                Err(error) => {
                    state.traffic.stalls += u64::from(error == WriteError::Full);
                    if let (WriteError::TooLong { .. }, Some(inbox)) = (error, inboxes.get_mut(point.id)) {
                        inbox.forget_too_long();
                    }
                    return Err(error);
                }
            }
            self.poll();
        }
    }

    /// Send to an endpoint of this process.
    fn write_local(&mut self, from: PointId, message: &[u8]) -> Result<(), WriteError> {
        let closed = WriteError::Ended(NotOpen::Dead(ReturnReason::Closed));
        let edge = self.point(from).and_then(|state| state.edge.as_ref()).map(|edge| edge.target);
        let Some(Target::Local(to)) = edge else { return Err(closed) };
        if self.point(to).is_none_or(|state| state.is_closing) {
            return Err(closed);
        }
        let inbox = self.inboxes.get_mut(to).ok_or(closed)?;
        let (len, most) = (message.len(), inbox.pool.size());
        let is_taken = inbox.on_short(message);
        let Some(PointState { traffic, .. }) = self.point_mut(from) else { return Err(closed) };
        if !is_taken {
            traffic.stalls += u64::from(len <= most);
            return Err(if len > most { WriteError::TooLong { len, most } } else { WriteError::Full });
        }
        traffic.written += 1;
        traffic.bytes_written += len as u64;
        self.inboxes.note_readable(to);
        self.signal_arrivals(None);
        Ok(())
    }
}
