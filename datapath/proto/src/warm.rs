//! Endpoints that have messages now, or had some lately. A program with many endpoints looks for messages only there.

use crate::EndpointId;

#[derive(Debug, Default)]
pub(crate) struct WarmEndpoints {
    /// With each: whether it was found idle.
    list: Vec<(EndpointId, bool)>,
    changes: u64,
}

impl WarmEndpoints {
    pub(crate) fn push(&mut self, id: EndpointId) {
        self.list.push((id, false));
        self.changes += 1;
    }

    /// The number changes with the list.
    pub(crate) fn listed(&self) -> (u64, impl Iterator<Item = EndpointId>) {
        (self.changes, self.list.iter().map(|&(id, _)| id))
    }

    pub(crate) fn retain(&mut self, mut is_warm: impl FnMut(EndpointId, &mut bool) -> bool) {
        let before = self.list.len();
        self.list.retain_mut(|(id, was_idle)| is_warm(*id, was_idle));
        self.changes += u64::from(self.list.len() < before);
    }
}
