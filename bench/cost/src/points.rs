//! The same trips by Directed Point's calls: a message along one edge, and one back along another.

use std::task::Poll;

use am_api::{Clock, Framing, Incarnation, ManualClock, Node};
use am_dp::{Dp, Dpid, Nid, Nodes, Point};

use crate::Error;
use crate::marks::{Mode, Step, TOGETHER, announce, enter};
use crate::over::open_loopback;
use crate::trips::{PAYLOAD, TICK};

const POOL: usize = 1 << 16;

struct Side {
    dp: Dp<Vec<u8>>,
    point: Point,
}

impl Side {
    /// Whether it left.
    fn write(&mut self, message: &[u8]) -> bool {
        self.dp.write(&self.point, message).is_ok()
    }

    /// Read a message, and give it back. Returns whether there was one.
    fn take(&mut self) -> bool {
        matches!(self.dp.read(&self.point), Ok(Some(_))) && self.dp.fsync(&self.point, 1)
    }

    /// Take so many: what came together may take some turns. Returns whether all came, and each time `each` said yes.
    fn take_all(&mut self, messages: u64, mut each: impl FnMut(&mut Side) -> bool) -> bool {
        let (mut left, mut turns) = (messages, 2 * TOGETHER);
        while left > 0 && turns > 0 {
            if self.take() && each(self) {
                left -= 1;
            }
            turns -= 1;
        }
        left == 0
    }
}

fn connect([from, other]: [&mut Side; 2], to: u32, hand: &ManualClock) -> Result<(), Error> {
    let mut attempt = from.dp.begin_connect(&from.point, Nid(to), Dpid(to));
    loop {
        if let Poll::Ready(result) = from.dp.connect_step(&mut attempt) {
            return Ok(result?);
        }
        hand.advance(TICK);
        from.dp.poll();
        other.dp.poll();
    }
}

pub(crate) fn run() -> Result<(), Error> {
    let (clock, hand) = Clock::manual();
    let mut ends = open_loopback(2)?;
    let mut open = |nid: u32| -> Result<Side, Error> {
        let nodes = Nodes::list(["alpha", "beta"], Nid(nid)).ok_or("it is in the list")?;
        let builder = Node::builder(nodes.own_name()).framing(Framing::Split).clock(clock.clone(), Incarnation(1));
        let mut dp = Dp::new(builder.open_on(ends.remove(0))?, nodes)?;
        let point = dp.open(Dpid(nid), vec![0; POOL])?;
        Ok(Side { dp, point })
    };
    let (mut alpha, mut beta) = (open(0)?, open(1)?);
    connect([&mut alpha, &mut beta], 1, &hand)?;
    connect([&mut beta, &mut alpha], 0, &hand)?;
    announce()?;
    for messages in Mode::now().trips() {
        hand.advance(TICK);
        trip([&mut alpha, &mut beta], messages)?;
    }
    Ok(())
}

fn trip([alpha, beta]: [&mut Side; 2], messages: u64) -> Result<(), Error> {
    enter(Step::Request as u8);
    let asked = (0..messages).all(|_| alpha.write(&PAYLOAD));
    enter(Step::Serve as u8);
    let served = beta.take_all(messages, |beta| beta.write(&PAYLOAD));
    enter(Step::Answer as u8);
    let answered = alpha.take_all(messages, |_| true);
    let mut more = false;
    if Mode::now().has_idle_turns(messages) {
        enter(Step::Idle as u8);
        more = beta.take() | alpha.take();
    }
    enter(Step::Outside as u8);
    match asked && served && answered && !more {
        true => Ok(()),
        false => Err("not all that was sent was read, once".into()),
    }
}
