//! A connection to an endpoint by its name, made when it is needed, and made again after it has ended.

use std::time::Instant;

use am_api::{ConnectError, Connection, Endpoint};

/// A connection to an endpoint by its name. Dropping it does not close the connection.
#[derive(Debug, Default)]
pub struct Link {
    /// Node, endpoint and tag, unless the peer connects to this side.
    name: Option<(String, String, u64)>,
    connection: Option<Connection>,
    /// The earliest time of the next attempt, while there is no connection.
    again_at: Option<Instant>,
}

impl Link {
    /// A link to an endpoint of a node. It does not connect yet.
    pub fn to(node: impl Into<String>, endpoint: impl Into<String>, tag: u64) -> Link {
        Link { name: Some((node.into(), endpoint.into(), tag)), ..Link::default() }
    }

    /// The node's name. `None` if the peer connects to this side.
    pub fn node(&self) -> Option<&str> {
        self.name.as_ref().map(|(node, ..)| node.as_str())
    }

    /// The connection, open or in set-up.
    pub fn connection(&self) -> Option<Connection> {
        self.connection
    }

    /// The peer has connected to this side.
    pub fn adopt(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    /// The connection has ended. The next attempt is not before this time.
    pub fn end(&mut self, again_at: Instant) {
        (self.connection, self.again_at) = (None, Some(again_at));
    }

    /// The end of the pause after a connection, while there is no other connection.
    pub fn paused_until(&self) -> Option<Instant> {
        self.again_at.filter(|_| self.connection.is_none())
    }

    /// The connection, open or in set-up. If there is none, begin the set-up, except in a pause.
    ///
    /// # Errors
    /// As for [`Endpoint::connect_with_tag`].
    pub fn connect<S>(&mut self, endpoint: &Endpoint<S>, now: Instant) -> Result<Option<Connection>, ConnectError> {
        let is_paused = self.paused_until().is_some_and(|until| until > now);
        if let Some((node, name, tag)) = &self.name
            && self.connection.is_none()
            && !is_paused
        {
            self.connection = Some(endpoint.connect_with_tag(node, name, *tag)?);
        }
        Ok(self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use am_api::Node;
    use am_transport::loopback;

    #[test]
    fn a_link_is_made_again_after_its_pause() {
        let [left, _right] = loopback::pair().map(|plug| Box::new(plug.open().expect("memory")));
        let left = Node::open_on("left", left).expect("a node");
        let own = left.endpoint::<()>("own").expect("one");
        let (mut link, now) = (Link::to("right", "main", 7), Instant::now());
        let first = link.connect(&own, now).expect("a name").expect("a connection");
        assert_eq!(
            (link.connection(), link.connect(&own, now), link.paused_until()),
            (Some(first), Ok(Some(first)), None)
        );

        let again_at = now + Duration::from_secs(1);
        link.end(again_at);
        assert_eq!((link.connection(), link.paused_until()), (None, Some(again_at)));
        assert_eq!((link.connect(&own, now), link.connection()), (Ok(None), None), "in the pause");
        let second = link.connect(&own, again_at).expect("a name").expect("another connection");
        assert!(second != first && link.paused_until().is_none());
    }

    #[test]
    fn a_peer_that_connects_has_no_name() {
        let [left, _right] = loopback::pair().map(|plug| Box::new(plug.open().expect("memory")));
        let left = Node::open_on("left", left).expect("a node");
        let own = left.endpoint::<()>("own").expect("one");
        let mut link = Link::default();
        assert_eq!(link.node(), None);
        assert_eq!(link.connect(&own, Instant::now()), Ok(None));
        let to = own.connect("right", "main").expect("a connection");
        link.adopt(to);
        assert_eq!(link.connect(&own, Instant::now()), Ok(Some(to)));
    }
}
