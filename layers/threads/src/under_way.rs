//! The driver's transfers and regions.

use std::collections::HashMap;

use am_api::{Connection, Endpoint, Region, RegionId, Rights, TransferError, TransferId};

use crate::outcome::{Finish, RegionPost, Task};

/// Transfers of this side that have begun, and the regions of its threads.
#[derive(Default)]
pub(crate) struct UnderWay {
    transfers: HashMap<(Connection, TransferId), Begun>,
    regions: HashMap<RegionId, Region>,
    /// Regions whose memory a thread waits for: ended ones, and those of gets that are complete.
    ending: Vec<(Region, Finish<Box<[u8]>>)>,
}

enum Begun {
    Put(Finish<()>),
    Get(Region, Finish<Box<[u8]>>),
}

impl UnderWay {
    pub(crate) fn is_idle(&self) -> bool {
        self.transfers.is_empty() && self.ending.is_empty()
    }

    /// Begin a transfer on an open connection.
    pub(crate) fn begin<S>(&mut self, endpoint: &Endpoint<S>, to: Connection, task: Task) {
        match task {
            Task::Put { region, offset, data, finish } => match endpoint.put(to, region, offset, data) {
                Ok(id) => _ = self.transfers.insert((to, id), Begun::Put(finish)),
                Err(error) => finish.finish(Err(error.into())),
            },
            Task::Get { memory: Err(error), finish, .. } => finish.finish(Err(error)),
            Task::Get { region, offset, memory: Ok(memory), finish } => {
                let length = memory.len() as u64;
                let into = endpoint.register(memory, Rights::NONE);
                match endpoint.get(to, region, offset, length, &into, 0) {
                    Ok(id) => _ = self.transfers.insert((to, id), Begun::Get(into, finish)),
                    Err(error) => finish.finish(Err(error.into())),
                }
            }
        }
    }

    pub(crate) fn on_post<S>(&mut self, endpoint: &Endpoint<S>, post: RegionPost) {
        match post {
            RegionPost::Register { memory, rights, finish } => {
                let region = endpoint.register(memory, rights);
                let id = region.id();
                self.regions.insert(id, region);
                finish.finish(Ok(id));
            }
            RegionPost::End { region, finish } => match self.regions.remove(&region) {
                Some(region) => self.ending.push((region, finish)),
                None => finish.finish(Err(TransferError::NoRegion.into())),
            },
        }
    }

    /// Cancel the transfers whose futures were dropped.
    pub(crate) fn cancel_dropped<S>(&mut self, endpoint: &Endpoint<S>) {
        for (&(with, id), begun) in &self.transfers {
            let is_dropped = match begun {
                Begun::Put(finish) => finish.is_cancelled(),
                Begun::Get(_, finish) => finish.is_cancelled(),
            };
            if is_dropped {
                endpoint.cancel(with, id);
            }
        }
    }

    /// A transfer of this side has ended.
    pub(crate) fn end(&mut self, transfer: (Connection, TransferId), result: Result<(), TransferError>) {
        match self.transfers.remove(&transfer) {
            Some(Begun::Put(finish)) => finish.finish(result.map_err(Into::into)),
            Some(Begun::Get(into, finish)) => match result {
                Ok(()) => self.ending.push((into, finish)),
                Err(error) => finish.finish(Err(error.into())),
            },
            None => {}
        }
    }

    /// After a poll: give memory to the threads that wait for it.
    pub(crate) fn settle(&mut self) {
        for (region, finish) in std::mem::take(&mut self.ending) {
            match region.into_memory() {
                Ok(memory) => finish.finish(Ok(memory)),
                Err((_, region)) => self.ending.push((region, finish)),
            }
        }
    }
}
