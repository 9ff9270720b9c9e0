//! An endpoint's translation table: connections by small numbers (AM-II's `AM_Map` and `AM_Unmap`).

use crate::endpoint::Translation;
use crate::{ConnectError, Connection, Endpoint, NotOpen};

/// The most entries of an endpoint's translation table: as many as a node has connections.
pub const MAX_TRANSLATIONS: usize = 16_383;

/// Why nothing was mapped.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The table is shorter.
    #[error("there is no index {0}: a translation table has {MAX_TRANSLATIONS} entries, from 0 on")]
    NoSuchIndex(usize),
    /// The entry has a connection that is open, or being set up.
    #[error("index {0} is in use: unmap it first")]
    InUse(usize),
    /// No index is free.
    #[error("all {MAX_TRANSLATIONS} entries of this endpoint's translation table are in use: unmap some")]
    Full,
    /// The connection could not even be tried.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

am_transport::debug_as_display!(MapError);

impl<S> Endpoint<S> {
    /// Connect to an endpoint that has this tag, and enter the connection into the translation table. An entry whose connection has
    /// ended can be mapped again.
    ///
    /// ```
    /// use am_api::{Endpoint, HandlerId, MapError};
    ///
    /// /// The members of a job by their ranks.
    /// fn map_all(endpoint: &Endpoint<()>, nodes: &[&str]) -> Result<(), MapError> {
    ///     nodes.iter().enumerate().try_for_each(|(rank, node)| endpoint.map(rank, node, "main", 0).map(drop))
    /// }
    ///
    /// /// A request to a rank. False: try again later.
    /// fn send(endpoint: &Endpoint<()>, rank: usize) -> bool {
    ///     endpoint.translation(rank).is_some_and(|to| endpoint.try_request(to, HandlerId(1), &[], b"").is_ok())
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`MapError`]. Whether the peer exists, and takes the tag, shows later: [`Endpoint::ready`].
    pub fn map(&self, index: usize, node: &str, endpoint: &str, tag: u64) -> Result<Connection, MapError> {
        if index >= MAX_TRANSLATIONS {
            return Err(MapError::NoSuchIndex(index));
        }
        if let Some(connection) = self.translation(index) {
            if matches!(self.ready(connection), Ok(()) | Err(NotOpen::Connecting)) {
                return Err(MapError::InUse(index));
            }
            self.unmap(index);
        }
        let connection = self.connect_with_tag(node, endpoint, tag)?;
        let mut table = self.shared.translations.borrow_mut();
        if table.len() <= index {
            table.resize_with(index + 1, || None);
        }
        table[index] = Some(Translation { node: node.into(), endpoint: endpoint.into(), connection });
        Ok(connection)
    }

    /// The same at the first index that is free, which is returned.
    ///
    /// # Errors
    /// As for [`Endpoint::map`].
    pub fn map_any(&self, node: &str, endpoint: &str, tag: u64) -> Result<usize, MapError> {
        let table = self.shared.translations.borrow();
        let index = table.iter().position(Option::is_none).unwrap_or(table.len());
        drop(table);
        if index == MAX_TRANSLATIONS {
            return Err(MapError::Full);
        }
        self.map(index, node, endpoint, tag).map(|_| index)
    }

    /// Close the connection at this index, and free the index. What was not delivered comes back. Returns whether there was one.
    pub fn unmap(&self, index: usize) -> bool {
        let entry = self.shared.translations.borrow_mut().get_mut(index).and_then(Option::take);
        entry.inspect(|entry| self.close(entry.connection)).is_some()
    }

    /// The connection at this index.
    pub fn translation(&self, index: usize) -> Option<Connection> {
        self.shared.translations.borrow().get(index)?.as_ref().map(|entry| entry.connection)
    }

    /// The first index that is mapped to this endpoint of this node.
    pub fn translation_index(&self, node: &str, endpoint: &str) -> Option<usize> {
        let is_it = |entry: &Translation| entry.node == node && entry.endpoint == endpoint;
        self.shared.translations.borrow().iter().position(|entry| entry.as_ref().is_some_and(is_it))
    }
}
