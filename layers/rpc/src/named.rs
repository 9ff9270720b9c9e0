//! Calls whose errors say which method of which peer it was.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use am_api::Name;

use crate::calls::Called;
use crate::error::CallError;
use crate::peer::Call;

/// The future of [`Call::named`].
#[must_use = "the outcome of a call is in its future; dropping it cancels the call"]
pub struct NamedCall<V, E = Infallible> {
    call: Call<V, E>,
    called: Called,
    peer: Option<Name>,
}

impl<V, E> Call<V, E> {
    /// The same call, whose error says which method of which peer it was: ``call of `Store.get` on `beta`: no answer in time; it may have run``. The
    /// text is written only if somebody reads it.
    ///
    /// ```
    /// # use am_rpc::{Rpc, service};
    /// # #[service]
    /// # trait Store {
    /// #     fn get(&self, key: &str) -> Vec<u8>;
    /// # }
    /// fn color(rpc: &mut Rpc, store: &StoreClient) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    ///     Ok(rpc.block_on(store.get("color").named())?)
    /// }
    /// ```
    pub fn named(self) -> NamedCall<V, E> {
        let (called, peer) = self.called();
        NamedCall { call: self, called, peer }
    }
}

impl<V, E> Future for NamedCall<V, E> {
    type Output = Result<V, NamedError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        let NamedCall { call, called, peer } = &mut *self;
        let name = |error| NamedError { service: called.service.name, method: called.method.name, peer: *peer, error };
        Pin::new(call).poll(context).map_err(name)
    }
}

impl<V, E> fmt::Debug for NamedCall<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedCall").field("called", &self.called.method.name).field("peer", &self.peer).finish()
    }
}

/// A [`CallError`], and the call that it belongs to: see [`Call::named`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("call of `{service}.{method}` on {}: {error}", PeerName(*peer))]
pub struct NamedError<E> {
    /// The service.
    pub service: &'static str,
    /// Its method.
    pub method: &'static str,
    /// The node that was called. `None` if it had left before.
    pub peer: Option<Name>,
    /// Why there is no value.
    pub error: CallError<E>,
}

/// As the other errors: programs end with the text.
impl<E: fmt::Debug> fmt::Debug for NamedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

struct PeerName(Option<Name>);

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "`{name}`"),
            None => f.write_str("a peer that has left"),
        }
    }
}
