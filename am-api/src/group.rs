//! A group: several nodes under one name, each with a thread and a transport of its own, as on the queues of one interface.

use std::fmt;

use am_wire::control::{Name, Refusal};

use crate::group_place::{Place, Placement};
use crate::names::{self, InvalidName};
use crate::{Builder, Node, OpenError};

/// Why there is no such group.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Of the group.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Its last member's name would be longer than 31 bytes, or it contains the mark.
    #[error(
        "`{0}` cannot name a group of {1}: its members are named `{0}#1` and so on, of at most 31 bytes; choose a shorter name without `#`"
    )]
    MemberName(Name, usize),
    /// Too few or too many members.
    #[error("a group has 1 to {max} members, not {0}", max = usize::from(Refusal::MAX_MEMBER) + 1)]
    Size(usize),
}

am_transport::debug_as_display!(GroupError);

/// A member of a group, to be opened as a node on the thread that uses it.
///
/// A group has one name on the network. The first member's node has that name, the next one's is `NAME#1`, and so on. A peer connects to the
/// group's name. The first member chooses a member by the [`Placement`], and the peer's connection goes there without the
/// peer's program having to know: its [`peer`](crate::Endpoint::peer) then names the member. A peer may also connect to one member by name.
///
/// Each member needs all the endpoints that peers connect to.
///
/// Over AF_XDP each member has a queue of its interface (`xdp:eth1,queue=0`, `xdp:eth1,queue=1`), with a link address of its own. Rules of the NIC steer
/// each member's frames to its queue. Opening sets them, and closing removes them. Where the NIC takes no rules, a member receives only what
/// arrives on its queue, and reports the rest ([`Node::health`]). A peer leaves a member that does not answer, after 250 ms, for one
/// that does: on a veth the member on the peer's own queue, elsewhere the first.
///
/// ```
/// use am_api::{GroupMember, HandlerId, Node, Placement};
/// use std::time::Duration;
///
/// const WHO: HandlerId = HandlerId(0);
/// let transports = ["sim:71", "sim:71"]; // or GroupMember::queues("xdp:eth1", 2)
/// let members = GroupMember::group("server", transports, Placement::Load)?;
/// let threads: Vec<_> = members.into_iter().map(|member| std::thread::spawn(move || {
///     // am_api::pin(member.number())
///     let number = member.number() as u64;
///     let mut work = member.open().unwrap().endpoint("work").unwrap();
///     work.on_request(WHO, move |done: &mut u32, request| {
///         request.token.reply(WHO, &[number], b"").unwrap();
///         *done += 1;
///     });
///     let mut done = 0;
///     work.wait_until(&mut done, Duration::from_secs(20), |done| *done == 1);
///     work.wait(&mut done, Duration::from_millis(100));
/// })).collect();
///
/// let node = Node::open("client", "sim:71")?;
/// let mut client = node.endpoint("client")?;
/// client.on_reply(WHO, |seen: &mut Vec<u64>, reply| seen.push(reply.word(0)));
/// let mut seen = vec![];
/// for _ in 0..2 {
///     let to = client.connect("server", "work")?;
///     client.wait_open(&mut seen, to, Duration::from_secs(20))?;
///     client.try_request(to, WHO, &[], b"")?;
/// }
/// assert!(client.wait_until(&mut seen, Duration::from_secs(20), |seen| seen.len() == 2));
/// seen.sort();
/// assert_eq!(seen, [0, 1]);
/// # threads.into_iter().for_each(|thread| thread.join().unwrap());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GroupMember {
    name: Name,
    transport: String,
    place: Place,
}

impl GroupMember {
    /// The members of a group of this name, one for each transport. Several members can share a transport's name where that opens another node
    /// each time, as `shm:` does.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn group<T: Into<String>>(
        name: &str,
        transports: impl IntoIterator<Item = T>,
        placement: Placement,
    ) -> Result<Vec<GroupMember>, GroupError> {
        let (group, transports) =
            (names::parse(name)?, transports.into_iter().map(Into::into).collect::<Vec<String>>());
        let size = transports.len();
        if size == 0 || size > usize::from(Refusal::MAX_MEMBER) + 1 {
            return Err(GroupError::Size(size));
        }
        let names: Option<Vec<Name>> = (1..size).map(|number| group.member(number as u8)).collect();
        let names = std::iter::once(group).chain(names.ok_or(GroupError::MemberName(group, size))?);
        let member = |(place, (name, transport))| GroupMember { name, transport, place };
        Ok(Place::all(size, placement).zip(names.zip(transports)).map(member).collect())
    }

    /// The names of an interface's first queues, one for each member: `xdp:eth1,queue=0` and so on.
    pub fn queues(transport: &str, count: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |queue| format!("{transport},queue={queue}"))
    }

    /// The name of its node.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its number in the group, from 0 on.
    pub fn number(&self) -> usize {
        self.place.number
    }

    /// The name of its transport.
    pub fn transport(&self) -> &str {
        &self.transport
    }

    /// Open its node on this thread.
    ///
    /// # Errors
    /// As [`Node::open`].
    pub fn open(&self) -> Result<Node, OpenError> {
        self.builder().open(&self.transport)
    }

    /// A builder of its node, with settings to choose. To be opened on the member's transport.
    pub fn builder(&self) -> Builder {
        Node::builder(self.name.as_str()).place(self.place.clone())
    }
}

impl fmt::Debug for GroupMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupMember")
            .field("name", &self.name)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(name: &str, count: usize, placement: Placement) -> Result<Vec<GroupMember>, GroupError> {
        GroupMember::group(name, vec!["shm:x"; count], placement)
    }

    #[test]
    fn members_are_named_after_the_group() {
        let all = members("server", 3, Placement::Load).unwrap();
        assert_eq!(all.iter().map(GroupMember::name).collect::<Vec<_>>(), ["server", "server#1", "server#2"]);
        let long = "x".repeat(29);
        assert_eq!(members(&long, 10, Placement::Load).unwrap()[9].name(), format!("{long}#9"));
        for (name, count) in [(&*long, 11), ("a#1", 2)] {
            let error = members(name, count, Placement::Load).unwrap_err();
            assert_eq!(error, GroupError::MemberName(names::parse(name).unwrap(), count));
        }
        assert!(members("server", 128, Placement::Load).is_ok());
        assert_eq!(
            [0, 129].map(|count| members("server", count, Placement::Load).unwrap_err()),
            [0, 129].map(GroupError::Size)
        );
        assert_eq!(GroupMember::queues("xdp:eth1", 2).collect::<Vec<_>>(), ["xdp:eth1,queue=0", "xdp:eth1,queue=1"]);
    }
}
