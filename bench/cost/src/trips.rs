//! The measured program: round trips of two nodes on one thread, with a mark where each step begins.

use am_api::{
    Builder, Clock, Connection, Endpoint, Framing, GroupMember, HandlerId, Incarnation, ManualClock, Node, Placement,
    Request,
};
use am_daemon::Daemon;

use crate::Error;
use crate::marks::{Mode, Step, TOGETHER, announce, enter};
use crate::others::Others;
use crate::over::{IDLE_CONNECTIONS, IDLE_ENDPOINTS, Over};

/// What a message carries.
pub(crate) const PAYLOAD: [u8; 16] = [7; 16];

pub(crate) const ECHO: HandlerId = HandlerId(0);

/// So many are opened together, which takes fewer turns.
pub(crate) const TOGETHER_SET_UP: usize = 256;
/// By now they are idle.
pub(crate) const QUIET_TURNS: u32 = 3_000;

struct Side {
    endpoint: Endpoint<u64>,
    #[cfg(feature = "several")]
    several: Option<crate::several::Several>,
    /// Messages that were handled.
    state: u64,
}

impl Side {
    fn open(node: &Node) -> Result<Side, Error> {
        let endpoint = echo(node, "main")?;
        Ok(Side {
            endpoint,
            #[cfg(feature = "several")]
            several: None,
            state: 0,
        })
    }

    /// A side that answers.
    #[cfg(not(feature = "several"))]
    fn open_server(node: &Node, over: Over) -> Result<Side, Error> {
        if over.is_of_several() { Err("build it with the feature `several`".into()) } else { Side::open(node) }
    }

    #[cfg(feature = "several")]
    fn open_server(node: &Node, over: Over) -> Result<Side, Error> {
        if !over.is_of_several() {
            return Side::open(node);
        }
        let several = Some(crate::several::Several::open(node, over)?);
        Ok(Side { endpoint: echo(node, "unused")?, several, state: 0 })
    }

    fn poll(&mut self) {
        #[cfg(feature = "several")]
        if let Some(several) = &mut self.several {
            return several.poll(&mut self.state);
        }
        self.endpoint.poll(&mut self.state);
    }

    /// Until so many were handled in all: what came together may take some turns.
    fn poll_until(&mut self, handled: u64) {
        for _ in 0..TOGETHER {
            self.poll();
            if self.state >= handled {
                break;
            }
        }
    }
}

/// The names of a server's endpoints.
pub(crate) fn name(number: usize) -> String {
    if number == 0 { "main".to_owned() } else { format!("e{number}") }
}

pub(crate) fn echo(node: &Node, name: &str) -> Result<Endpoint<u64>, Error> {
    let mut endpoint = node.endpoint(name)?;
    endpoint.on_request(ECHO, |count, Request { message, token }| {
        *count += 1;
        _ = token.reply(ECHO, &[], message.payload());
    });
    endpoint.on_reply(ECHO, |count, _| *count += 1);
    Ok(endpoint)
}

/// Time between two trips.
pub(crate) const TICK: std::time::Duration = std::time::Duration::from_micros(5);

/// Open so many connections to this endpoint. Returns the last one.
fn connect(
    alpha: &mut Side,
    betas: &mut [Side],
    daemons: &mut [Daemon],
    hand: &ManualClock,
    (to, count): (&str, usize),
) -> Result<Connection, Error> {
    let all = (0..count).map(|_| alpha.endpoint.connect("beta", to));
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    // Many set-ups take longer than one: control frames have a rate.
    let tick = TICK * count as u32;
    while !all.iter().all(|to| alpha.endpoint.is_open(*to)) {
        hand.advance(tick);
        alpha.poll();
        daemons.iter_mut().for_each(|daemon| _ = daemon.turn());
        betas.iter_mut().for_each(Side::poll);
        daemons.iter_mut().rev().for_each(|daemon| _ = daemon.turn());
    }
    all.last().copied().ok_or_else(|| "no connection".into())
}

fn add_idle(node: &Node, over: Over) -> Result<(), Error> {
    let count = if over == Over::Endpoints { IDLE_ENDPOINTS } else { 0 };
    for number in 0..count {
        // To close them takes longer than all trips under valgrind.
        std::mem::forget(node.endpoint::<()>(&format!("idle {number}"))?);
    }
    Ok(())
}

pub(crate) fn run(over: Over) -> Result<(), Error> {
    let (clock, hand) = Clock::manual();
    let (mut daemons, mut ends) = over.open()?;
    let mut others = Others::attach(over, &mut daemons, ends[1].caps().address)?;
    let open = |builder: Builder, on| builder.framing(Framing::Split).clock(clock.clone(), Incarnation(1)).open_on(on);
    let alpha = open(Node::builder("alpha"), ends.remove(0))?;
    let group = GroupMember::group("beta", vec!["loopback"; over.servers()], Placement::Load)?;
    let builders = group.iter().map(|member| if group.len() > 1 { member.builder() } else { Node::builder("beta") });
    let betas = builders.zip(ends).map(|(builder, end)| open(builder, end)).collect::<Result<Vec<_>, _>>()?;
    add_idle(&betas[0], over)?;
    let (mut alpha, betas) =
        (Side::open(&alpha)?, betas.iter().map(|node| Side::open_server(node, over)).collect::<Result<Vec<_>, _>>());
    let mut betas = betas?;
    if over == Over::Connections {
        open_idle_connections(&mut alpha, &mut betas, &hand)?;
    }
    let mut connections = vec![];
    for number in 0..betas.len() * over.active() {
        let endpoint = name(if over.active() > 1 { number } else { 0 });
        let to = connect(&mut alpha, &mut betas, &mut daemons, &hand, (&endpoint, 1))?;
        let name = alpha.endpoint.peer(to).ok_or("it is open")?.node;
        let member = group.iter().position(|member| member.name() == name.as_str()).ok_or("it is a member")?;
        connections.push((to, member));
    }
    announce()?;
    for (number, messages) in Mode::now().trips().into_iter().enumerate() {
        hand.advance(TICK);
        others.send();
        let (to, member) = connections[number % connections.len()];
        trip([&mut alpha, &mut betas[member]], &mut daemons, to, messages)?;
    }
    Ok(())
}

/// Open [`IDLE_CONNECTIONS`], and wait until they are idle.
fn open_idle_connections(alpha: &mut Side, betas: &mut [Side], hand: &ManualClock) -> Result<(), Error> {
    for first in (0..IDLE_CONNECTIONS).step_by(TOGETHER_SET_UP) {
        connect(alpha, betas, &mut [], hand, ("main", TOGETHER_SET_UP.min(IDLE_CONNECTIONS - first)))?;
    }
    for _ in 0..QUIET_TURNS {
        hand.advance(std::time::Duration::from_millis(10));
        alpha.poll();
        betas.iter_mut().for_each(Side::poll);
    }
    Ok(())
}

/// A turn of each daemon that a message passes; for several messages, until it has passed them all.
fn turn<'a>(daemons: impl ExactSizeIterator<Item = &'a mut Daemon>, messages: u64) {
    if daemons.len() > 0 {
        enter(Step::Daemon as u8);
        daemons.for_each(|daemon| while daemon.turn() > 0 && messages > 1 {});
    }
}

fn trip([alpha, beta]: [&mut Side; 2], daemons: &mut [Daemon], to: Connection, messages: u64) -> Result<(), Error> {
    let before = (alpha.state, beta.state);
    enter(Step::Request as u8);
    let asked = (0..messages).try_for_each(|_| alpha.endpoint.try_request(to, ECHO, &[], &PAYLOAD));
    enter(Step::Leave as u8);
    alpha.endpoint.flush();
    turn(daemons.iter_mut(), messages);
    enter(Step::Serve as u8);
    beta.poll_until(before.1 + messages);
    turn(daemons.iter_mut().rev(), messages);
    enter(Step::Answer as u8);
    alpha.poll_until(before.0 + messages);
    if Mode::now().has_idle_turns(messages) {
        enter(Step::Idle as u8);
        beta.poll();
        alpha.poll();
    }
    enter(Step::Outside as u8);
    asked?;
    if (alpha.state, beta.state) != (before.0 + messages, before.1 + messages) {
        return Err("not all that was sent was handled".into());
    }
    Ok(())
}
