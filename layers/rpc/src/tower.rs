//! A method of a client as a service of `tower`.

use std::fmt;
use std::task::{Context as PollContext, Poll};

use crate::error::CallError;
use crate::peer::{Call, Peer, Room};

/// A method of a client as a [`tower_service::Service`]: for its limits, time-outs and balancers. It is ready while no call waits for room at the
/// peer. It stays on the node's thread, as all calls.
///
/// ```
/// use am_rpc::{MethodService, Peer, service};
///
/// #[service]
/// trait Store {
///     fn get(&self, key: &str) -> Vec<u8>;
/// }
///
/// fn lookup(peer: &Peer) -> impl tower_service::Service<String, Response = Vec<u8>> {
///     let store = StoreClient::new(peer);
///     MethodService::new(peer, move |key: String| store.get(&key))
/// }
/// ```
#[derive(Clone)]
pub struct MethodService<F> {
    room: Room,
    begin: F,
}

impl<F> MethodService<F> {
    /// A service whose requests begin calls of this peer.
    pub fn new(peer: &Peer, begin: F) -> MethodService<F> {
        MethodService { room: peer.room(), begin }
    }
}

impl<R, V, E, F: FnMut(R) -> Call<V, E>> tower_service::Service<R> for MethodService<F> {
    type Response = V;
    type Error = CallError<E>;
    type Future = Call<V, E>;

    fn poll_ready(&mut self, context: &mut PollContext<'_>) -> Poll<Result<(), CallError<E>>> {
        self.room.poll(context).map(Ok)
    }

    fn call(&mut self, request: R) -> Call<V, E> {
        (self.begin)(request)
    }
}

impl<F> fmt::Debug for MethodService<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodService").finish_non_exhaustive()
    }
}
