//! Opening a node: its settings, and what can be wrong with them.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use am_engine::{Clock, Engine, Idle, incarnation};
use am_proto::{Config, Core, FramingChoice};
use am_ring::{Owned, Owner, ProcessRc};
use am_transport::{Caps, Transport};
use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::{Address, EtherType, Framing};

use crate::group_place::{Membership, Place};
use crate::names::{self, InvalidName};
use crate::node_settings::NodeSettings;
use crate::node_state::NodeState;
use crate::segment_key::{KeyError, KeySource};
use crate::{Node, PeersFileError, bulk, transports};

/// Why a node could not be opened.
#[derive(thiserror::Error)]
pub enum OpenError {
    /// Its transport could not be opened.
    #[error(transparent)]
    Transport(#[from] transports::OpenError),
    /// Of the node or of a peer in the static table.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The file of peers.
    #[error(transparent)]
    PeersFile(#[from] PeersFileError),
    /// The segment's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A node on several transports rewrites its addresses in frames, which an authentication code does not allow.
    #[error("`{0}` is several transports, and a segment key works over one only: name one of them")]
    KeyOverSeveral(String),
    /// The transport's frames cannot even carry the set-up.
    #[error("`{transport}` carries frames of at most {longest} bytes, a node needs {}: raise the MTU", FRAME_LEAST)]
    FrameTooSmall {
        /// The transport.
        transport: String,
        /// Its longest frame, Ethernet header included.
        longest: usize,
    },
    /// Too little memory.
    #[error(
        "`{transport}` has {free} unused frames, but {needed} are needed to receive, to send and to answer: give its pool more"
    )]
    PoolTooSmall {
        /// The transport.
        transport: String,
        /// Frames that its pool has left.
        free: usize,
        /// Frames that the settings ask for.
        needed: usize,
    },
    /// Too little memory for the node itself.
    #[error("no memory for a node: {0}; `ulimit -v` and `ulimit -d` show the limits")]
    NoMemory(io::Error),
    /// No thread could be started for heartbeats.
    #[error(
        "no thread can be started, which says that the node lives while its program does not poll: {error}; `ulimit -u` says how many a user may have, and raises it"
    )]
    NoThread {
        /// Why.
        error: io::Error,
    },
    /// A setting that leaves nothing to work with.
    #[error("`{0}` is 0: a node would never get anywhere; leave it out for the usual, or give it more")]
    ZeroSetting(&'static str),
    /// A longer message than a node can accept.
    #[error(
        "`max_message` is {0} bytes, and a node accepts at most {MAX_MESSAGE}; for more there are transfers (`Endpoint::put`)"
    )]
    MaxMessage(usize),
}

am_transport::debug_as_display!(OpenError);

const FRAME_LEAST: usize = am_wire::control::Control::MAX_FRAME;

/// Frames for what the protocol writes itself: acknowledgements, set-up.
const OWN_FRAMES: usize = 32;

/// The memory for long messages in each direction, unless it is set.
const MESSAGE_MEMORY: usize = 64 << 20;

/// The longest payload that a node can accept.
const MAX_MESSAGE: usize = 1 << 30;

/// The time-out after which a message is sent again contains twice this delay.
const LONGEST_ACK_DELAY: Duration = Duration::from_millis(10);

/// Settings of a node to be opened.
#[must_use = "nothing is opened before `open`"]
#[derive(Debug, Default)]
pub struct Builder {
    name: String,
    is_unique: bool,
    peers: Vec<(String, Address)>,
    clock: Option<(Clock, Incarnation)>,
    idle: Idle,
    framing: FramingChoice,
    ethertype: EtherType,
    window: Option<u16>,
    no_coalescing: bool,
    patience: Option<Duration>,
    poll_patience: Option<Duration>,
    ack_delay: Option<Duration>,
    beacon: Option<Duration>,
    keepalive: Option<Duration>,
    member_timeout: Option<Duration>,
    key: Option<KeySource>,
    receive_frames: Option<usize>,
    send_frames: Option<usize>,
    max_message: Option<usize>,
    message_memory: Option<usize>,
    place: Option<Place>,
}

impl Node {
    /// A node of this name (1 to 31 bytes), on the transport of that name, as in `udp:10.0.0.7:7000`
    /// (see [`transports`]), with the settings that suit most.
    pub fn open(name: &str, transport: &str) -> Result<Node, OpenError> {
        Node::builder(name).open(transport)
    }

    /// The same on a transport that is open, which may be one of the program's own.
    pub fn open_on(name: &str, transport: Box<dyn Transport>) -> Result<Node, OpenError> {
        Node::builder(name).open_on(transport)
    }

    /// A node of this name, with settings to choose. A [unique name](Builder::unique_name) may have an empty beginning.
    pub fn builder(name: &str) -> Builder {
        Builder { name: name.to_owned(), ..Builder::default() }
    }
}

impl Builder {
    /// Send with this framing, whatever the network is. Without this call the
    /// node probes the network to each peer and chooses.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = FramingChoice::Fixed(framing);
        self
    }

    /// Add random letters to the name, so that it is free on every network: `client` becomes `client-k3m9x2q7rt`, and an
    /// empty name `k3m9x2q7rt`. For clients, which any number of programs may be at a time, and which are asked for by
    /// no name. Of two nodes with one name, peers talk only with the one that was started last. [`Node::name`]
    /// returns the whole name. A beginning of more than 20 bytes is cut.
    pub fn unique_name(mut self) -> Self {
        self.is_unique = true;
        self
    }

    /// The network's EtherTypes; all its nodes must have the same.
    pub fn ethertype(mut self, ethertype: EtherType) -> Self {
        self.ethertype = ethertype;
        self
    }

    /// A peer that is known without discovery: an entry of the static table, as [`Node::load_peers`] makes them from a file.
    pub fn peer(mut self, name: &str, address: Address) -> Self {
        self.peers.push((name.to_owned(), address));
        self
    }

    /// The most requests of one connection on their way to this node, 128 without this, at most [`am_proto::WINDOW`].
    pub fn window(mut self, messages: u16) -> Self {
        self.window = Some(messages);
        self
    }

    /// Whether small messages that wait for the same peer share frames, as
    /// they do by default. No message waits for another one to share with.
    pub fn coalesce(mut self, on: bool) -> Self {
        self.no_coalescing = !on;
        self
    }

    /// A peer whose host has been silent so long while we asked again and again is given up, and messages for it come back: 1.5 s
    /// without this. A peer that is connected to has so long to answer, too.
    ///
    /// A program that does not poll, because its handler sleeps or it computes, is not silent: its process says for it that it
    /// lives, from half a second after its last poll on, five times a second. With a patience below a second some of these signs
    /// may come too late. See [`poll_patience`](Builder::poll_patience).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// How long a peer may live and not poll while messages wait for it. After that they come back with
    /// [`ReturnReason::NotPolling`](crate::ReturnReason::NotPolling). Without this call they wait for as long as the peer's process lives. See
    /// [`Endpoint::not_polling_for`](crate::Endpoint::not_polling_for).
    pub fn poll_patience(mut self, patience: Duration) -> Self {
        self.poll_patience = Some(patience);
        self
    }

    /// How long an acknowledgement waits for a message that it can travel with: 50 µs without this, at most 10 ms, and up to twice as long where
    /// answers take longer. On its own it costs a frame and, where the peer sleeps, a wake-up: programs that share few processors and
    /// answer each other late have a longer one. A message that is lost with those behind it is then sent again later by as much.
    pub fn ack_delay(mut self, delay: Duration) -> Self {
        self.ack_delay = Some(delay.min(LONGEST_ACK_DELAY));
        self
    }

    /// A peer that has not been heard for so long, and answers no question, is given up though nothing was sent to it: 20 s
    /// without this. It is asked four times in that time, and noticed a quarter later at most. A process that is stopped for
    /// longer loses its connections; those with messages on their way are given up after the [patience](Builder::patience).
    pub fn keepalive(mut self, keepalive: Duration) -> Self {
        self.keepalive = Some(keepalive);
        self
    }

    /// How often the node tells the network where it is: every 5 s without this.
    pub fn beacon(mut self, every: Duration) -> Self {
        self.beacon = Some(every);
        self
    }

    /// Where an endpoint [watches members](crate::Endpoint::on_members): a node that was silent for this time, and answered no
    /// question, is said to be gone, at most a tenth later. 1 s without this. A process that does not poll for so long counts as gone until it
    /// polls again. A node that watches introduces itself three times in this time.
    pub fn member_timeout(mut self, timeout: Duration) -> Self {
        self.member_timeout = Some(timeout);
        self
    }

    /// The key that all nodes of the segment have: 32 random bytes, a secret. Control frames and rejects without an authentication code of
    /// this key are dropped, so a program without it can take no name and end no connection. Messages are not
    /// authenticated; `docs/promises.md` says what a stranger can still do. The XDP program rejects nothing then; the host does.
    pub fn segment_key(mut self, key: [u8; 32]) -> Self {
        self.key = Some(KeySource::Bytes(key));
        self
    }

    /// The same from a file with 64 hexadecimal digits, as `openssl rand -hex 32` writes it. A file that every
    /// user can read or write is refused; its group may read it.
    pub fn segment_key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key = Some(KeySource::File(path.into()));
        self
    }

    /// Frames for messages that have arrived, of all connections together:
    /// 2048 without this, or half of what the transport has.
    pub fn receive_frames(mut self, frames: usize) -> Self {
        self.receive_frames = Some(frames);
        self
    }

    /// Messages on their way, of all connections together: 2048 without this, or what the transport has left, and at least 3:
    /// one each for a request, a reply and a part of a transfer.
    pub fn send_frames(mut self, frames: usize) -> Self {
        self.send_frames = Some(frames);
        self
    }

    /// The longest payload that this node accepts in one message: 1 MiB without this, at most 1 GiB. Peers learn it when they
    /// connect. It is for messages longer than a frame: a node accepts each message that fits one, and no other with 0.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = Some(bytes);
        self
    }

    /// The memory for messages that are longer than a frame: 64 MiB for those that arrive, and as much for those that are sent, but
    /// at least one message of the [longest payload](Builder::max_message). It is taken when it is needed. A message that finds
    /// none waits with its sender; messages that handlers keep count too.
    pub fn message_memory(mut self, bytes: usize) -> Self {
        self.message_memory = Some(bytes);
        self
    }

    /// What a waiting endpoint does while nothing happens.
    pub fn idle(mut self, idle: Idle) -> Self {
        self.idle = idle;
        self
    }

    /// Another clock, and with it another count of runs: for simulations.
    pub fn clock(mut self, clock: Clock, run: Incarnation) -> Self {
        self.clock = Some((clock, run));
        self
    }

    /// The node is a member of a group.
    pub(crate) fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Open the node on the transport of this name, as in `udp:10.0.0.7:7000`: see [`transports`]. Behind it an operator may set what the
    /// program sets here, as in `udp:10.0.0.7:7000+node:patience=5`.
    pub fn open(self, transport: &str) -> Result<Node, OpenError> {
        let name = self.node_name()?;
        let (settings, transport) = NodeSettings::of(transport).map_err(transports::OpenError::from)?;
        let builder =
            Builder { patience: settings.patience.or(self.patience), window: settings.window.or(self.window), ..self };
        builder.open_as(name, settings.trace(transports::open_for(&transport, Some(name))?)?)
    }

    fn node_name(&self) -> Result<Name, InvalidName> {
        if self.is_unique { names::unique(&self.name) } else { names::parse(&self.name) }
    }

    /// Open the node on a transport that is open, which may be one of the program's own.
    pub fn open_on(self, transport: Box<dyn Transport>) -> Result<Node, OpenError> {
        let name = self.node_name()?;
        self.open_as(name, transport)
    }

    fn open_as(self, name: Name, transport: Box<dyn Transport>) -> Result<Node, OpenError> {
        let peers =
            self.peers.iter().map(|(name, address)| names::fixed(name, *address)).collect::<Result<Vec<_>, _>>()?;
        let caps = transport.caps();
        let config = self.config(name, caps)?;
        let message_memory = self
            .message_memory
            .unwrap_or(MESSAGE_MEMORY)
            .max(bulk::buffer_length(bulk::PAYLOAD_AT + config.max_message as usize));
        let has_own_clock = self.clock.is_none();
        let clock = self.clock.map_or_else(Clock::monotonic, |(clock, _)| clock);
        if config.key.is_some() && caps.name.contains(transports::SEPARATOR) {
            return Err(OpenError::KeyOverSeveral(caps.name.clone()));
        }
        let mut core = Core::new(config, clock.now());
        peers.into_iter().for_each(|peer| core.add_peer(peer));
        self.place.as_ref().and_then(Place::chooser).into_iter().for_each(|choose| core.place_peers(choose));
        let mut engine = Engine::new(core, caps.pool.clone());
        if has_own_clock {
            engine.start_heartbeat(caps).map_err(|error| OpenError::NoThread { error })?;
        }
        let owners = (Owner::new().map_err(OpenError::NoMemory)?, Owner::new().map_err(OpenError::NoMemory)?);
        let mut node = NodeState::new(engine, Owned::new(owners.0, transport), clock, message_memory);
        node.membership = self.place.map(Membership::new);
        node.exhale();
        Ok(Node { state: ProcessRc::new(owners.1, node).map_err(OpenError::NoMemory)?, name, idle: self.idle })
    }

    fn config(&self, name: Name, caps: &Caps) -> Result<Config, OpenError> {
        let run = self.clock.as_ref().map_or_else(incarnation, |(_, run)| *run);
        let mut config = Config::new(NodeId::of(&name), run, name, caps.address);
        if self.clock.is_none() {
            // Nobody else can compute the numbers that it draws.
            config.seed ^= RandomState::new().build_hasher().finish();
        }
        if caps.reliable && caps.ordered {
            config = config.reliable();
        }
        config.key = self.key.as_ref().map(KeySource::read).transpose()?;
        config.framing = self.framing;
        config.hears_all = caps.hears_all;
        config.ethertype = self.ethertype;
        config.max_frame = caps.max_frame;
        if let Some(bytes) = self.max_message {
            let most = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_MESSAGE);
            config.max_message = most.ok_or(OpenError::MaxMessage(bytes))?;
        }
        config.window = self.window.unwrap_or(config.window);
        if self.no_coalescing {
            config.coalesce_below = 0;
        }
        for (name, asked, time) in [
            ("patience", self.patience, &mut config.patience),
            ("beacon", self.beacon, &mut config.beacon),
            ("keepalive", self.keepalive, &mut config.keepalive),
            ("member_timeout", self.member_timeout, &mut config.member_timeout),
        ] {
            *time = asked.unwrap_or(*time);
            if time.is_zero() {
                return Err(OpenError::ZeroSetting(name));
            }
        }
        config.poll_patience = self.poll_patience;
        config.ack_delay = self.ack_delay.unwrap_or(config.ack_delay);
        self.share_frames(&mut config, caps)?;
        if caps.max_frame < FRAME_LEAST {
            return Err(OpenError::FrameTooSmall { transport: caps.name.clone(), longest: caps.max_frame });
        }
        Ok(config)
    }

    /// Every frame has its use promised once, so that no promise fails: half
    /// of those that the transport left are for what arrives, half for what is
    /// on its way. A token's frame counts among the latter, as its reply will.
    fn share_frames(&self, config: &mut Config, caps: &Caps) -> Result<(), OpenError> {
        let free = caps.pool.available();
        let half = free.saturating_sub(OWN_FRAMES) / 2;
        let mut needed = OWN_FRAMES;
        for (name, asked, frames) in [
            ("receive_frames", self.receive_frames, &mut config.receive_frames),
            ("send_frames", self.send_frames, &mut config.send_frames),
        ] {
            *frames = asked.unwrap_or((*frames).min(half));
            if asked == Some(0) {
                return Err(OpenError::ZeroSetting(name));
            }
            needed = needed.saturating_add((*frames).max(3));
        }
        if needed > free {
            return Err(OpenError::PoolTooSmall { transport: caps.name.clone(), free, needed });
        }
        Ok(())
    }
}
