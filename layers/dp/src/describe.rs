//! What an edge runs over.

use am_api::Description;

use crate::Point;
use crate::dp::Dp;
use crate::edge::Target;

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// How frames leave by the endpoint's edge: the framing, the transport, its mode. `None` without an edge, and of one that leads to
    /// this process.
    pub fn describe(&self, point: &Point) -> Option<Description> {
        match self.point(point.id)?.edge.as_ref()?.target {
            Target::Remote(to) => self.door.describe(to),
            Target::Local(_) => None,
        }
    }
}
