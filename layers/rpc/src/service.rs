//! A service: an implementation of a trait, behind its dispatch.

use crate::incoming::Incoming;
use crate::method::ServiceInfo;

/// A service that can be served. [`service`](crate::service) makes one of an implementation of its trait: for `trait Store` it is
/// `StoreServer`.
pub trait Service: 'static {
    /// Its name and its methods.
    fn info(&self) -> &'static ServiceInfo;

    /// Run the method of this index, where its call has arrived.
    fn handle(&self, method: usize, call: Incoming<'_>);
}
