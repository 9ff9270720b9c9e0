//! The one header that every framing carries.

/// Bytes of a word argument.
pub const WORD_BYTES: usize = 8;

/// The most word arguments of a message (AM-II's and FM's four).
pub const MAX_WORDS: usize = 4;

/// The words of a [head](crate::long::Head): the head itself, and room for the word arguments of its message.
pub const HEAD_WORDS: usize = MAX_WORDS + 1;

/// A flow id: chosen by the receiver of the frames that carry it, 14 bits.
/// Flow 0 is the node itself: discovery and set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow(u16);

impl Flow {
    /// Bits of a flow id.
    pub const BITS: u32 = 14;
    /// How many flow ids there are.
    pub const COUNT: usize = 1 << Self::BITS;
    /// The node itself, not a flow that was set up.
    pub const NODE: Flow = Flow(0);

    /// The flow with this number, or `None` where it needs more than 14 bits.
    #[inline]
    pub const fn new(id: u16) -> Option<Self> {
        if (id as usize) < Self::COUNT { Some(Flow(id)) } else { None }
    }

    /// The flow of the low 14 bits.
    #[inline]
    pub(crate) const fn truncated(bits: u64) -> Self {
        Flow((bits & (Self::COUNT as u64 - 1)) as u16)
    }

    /// Its number, less than [`Flow::COUNT`].
    #[inline]
    pub const fn id(self) -> u16 {
        self.0
    }

    /// Its number, to index a table with. The compiler sees that it is less than [`Flow::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize & (Self::COUNT - 1)
    }
}

/// The two classes of messages. Each has sequence numbers, acknowledgements
/// and credits of its own, so that a reply can always be sent (AM-II's
/// separate request and reply channels, Chun et al., "NIC protocols").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A message that its receiver may answer once.
    Request,
    /// The answer.
    Reply,
}

impl Class {
    /// Both, requests first.
    pub const ALL: [Class; 2] = [Class::Request, Class::Reply];

    /// 0 for requests, 1 for replies.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a frame is. Two bits on the wire for the kinds of every message, the
/// handler field as a longer code for the rest ("extended").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A request for the handler named in the header.
    Request,
    /// A reply for the handler named in the header.
    Reply,
    /// Acknowledgements and credits alone; body: [`Acks`](crate::Acks).
    Ack,
    /// Discovery and set-up; body: [`control::Control`](crate::control::Control).
    /// Only on [`Flow::NODE`], and no other kind is there.
    Control,
    /// A message was not accepted (FM 1.0, §4.5); body: [`Reject`](crate::Reject). `seq` is the message's number. Its
    /// sender has kept the message.
    Reject,
    /// Several messages of a class in one frame; body: [`Body`](crate::coalesced::Body).
    /// The header's sequence number is the first one's.
    Coalesced(Class),
    /// A segment of a bulk transfer, in the class of requests; body:
    /// [`Segment`](crate::bulk::Segment), then its data.
    Put,
    /// A bulk transfer is requested, or has ended, in the class of requests; body: [`Notice`](crate::bulk::Notice).
    Get,
    /// A frame of a group; body: [`GroupHeader`](crate::group::GroupHeader), then the payload. Only on [`Flow::NODE`], and in
    /// `plain` framing.
    Group,
}

impl Kind {
    /// The code of [`Kind::Group`].
    const GROUP: u8 = 7;

    /// Whether it is of the node itself, and so on [`Flow::NODE`].
    #[inline]
    pub(crate) const fn is_of_node(self) -> bool {
        matches!(self, Kind::Control | Kind::Group)
    }

    /// Whether it needs a receiver's room for requests. Without room it is rejected.
    #[inline]
    pub const fn is_request(self) -> bool {
        matches!(self.class(), Some(Class::Request)) || matches!(self, Kind::Coalesced(Class::Request))
    }

    /// The two bits of the kind field.
    pub(crate) const fn field(self) -> u8 {
        match self {
            Kind::Request => 0,
            Kind::Reply => 1,
            _ => 2,
        }
    }

    /// What the handler field holds: the code of an extended kind, or `handler`.
    pub(crate) const fn code(self, handler: u8) -> u8 {
        match self {
            Kind::Request | Kind::Reply => handler,
            Kind::Ack => 0,
            Kind::Control => 1,
            Kind::Reject => 2,
            Kind::Coalesced(Class::Request) => 3,
            Kind::Coalesced(Class::Reply) => 4,
            Kind::Put => 5,
            Kind::Get => 6,
            Kind::Group => Kind::GROUP,
        }
    }

    /// The kind of the two fields, or `None` for one that this version does not know.
    #[inline]
    pub(crate) const fn from_fields(field: u8, code: u8) -> Option<Kind> {
        match (field, code) {
            (0, _) => Some(Kind::Request),
            (1, _) => Some(Kind::Reply),
            (2, 0) => Some(Kind::Ack),
            (2, 1) => Some(Kind::Control),
            (2, 2) => Some(Kind::Reject),
            (2, 3) => Some(Kind::Coalesced(Class::Request)),
            (2, 4) => Some(Kind::Coalesced(Class::Reply)),
            (2, 5) => Some(Kind::Put),
            (2, 6) => Some(Kind::Get),
            _ => None,
        }
    }

    /// The same in `plain` framing.
    #[inline]
    pub(crate) const fn from_plain_fields(field: u8, code: u8) -> Option<Kind> {
        match (field, code) {
            (2, Kind::GROUP) => Some(Kind::Group),
            _ => Kind::from_fields(field, code),
        }
    }

    /// The class of a message, `None` for frames that are not one message.
    #[inline]
    pub const fn class(self) -> Option<Class> {
        match self {
            Kind::Request | Kind::Put | Kind::Get => Some(Class::Request),
            Kind::Reply => Some(Class::Reply),
            Kind::Ack | Kind::Control | Kind::Reject | Kind::Coalesced(_) | Kind::Group => None,
        }
    }
}

/// The class of a message of this kind; requests for all that are not one message.
impl From<Kind> for Class {
    #[inline(always)]
    fn from(kind: Kind) -> Class {
        if matches!(kind, Kind::Reply) { Class::Reply } else { Class::Request }
    }
}

impl From<Class> for Kind {
    #[inline]
    fn from(class: Class) -> Kind {
        match class {
            Class::Request => Kind::Request,
            Class::Reply => Kind::Reply,
        }
    }
}

/// Everything in a frame besides its body. The rest of the system sees this and never the bits of a framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// The flow, by the receiver's id.
    pub flow: Flow,
    /// Names this use of the flow id, so that a frame for an earlier use is
    /// recognised. Carried by `split` and `plain`; `bare` has no room and reads 0.
    pub nonce: u16,
    /// Index into the receiver's handler table; for requests and replies.
    /// 0 in all other kinds.
    pub handler: u8,
    /// How many word arguments start the body, 0 to [`MAX_WORDS`]; or [`HEAD_WORDS`] for the [head](crate::long::Head) of a
    /// long message.
    pub words: u8,
    /// Sequence number within flow and class. `bare` carries its low 12 bits, `split` 24:
    /// see [`Framing::seq_bits`](crate::Framing::seq_bits) and [`expand`](crate::expand).
    pub seq: u32,
}
