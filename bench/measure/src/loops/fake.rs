//! A wire in memory that loses and delays messages, for the tests of the measurement loops.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::OpenDriver;
use crate::channel::{Arrived, Channel, ChannelInfo, ControlMessage, Timeouts};
use crate::driver::Driver;
use crate::error::Error;
use crate::watch::Watch;

/// Long enough for a busy machine.
pub(crate) const TIMEOUTS: Timeouts = Timeouts { open: Duration::from_secs(20), silence: Duration::from_secs(10) };

/// For tests of a silent peer.
pub(crate) const SHORT_TIMEOUTS: Timeouts =
    Timeouts { open: Duration::from_millis(50), silence: Duration::from_millis(20) };

/// The window of a fake channel.
pub(crate) const WINDOW: u64 = 64;

/// The faults of the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The delay of each message.
    pub(crate) delay: Duration,
    /// Every nth data message is lost; 0: none.
    pub(crate) lose_data: u64,
    /// Every nth data message arrives after later ones, as if it were sent again, on a wire with credits instead of a
    /// window; 0: none.
    pub(crate) late_data: u64,
    /// Every nth data message arrives a byte short; 0: none.
    pub(crate) cut_data: u64,
    /// Every nth control message is lost; 0: none.
    pub(crate) lose_controls: u64,
}

/// The delay of a late message.
const LATE_BY: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
enum Item {
    Data(usize),
    ControlMessage(ControlMessage),
}

/// One direction: each item with its time of arrival.
type Queue = Arc<Mutex<VecDeque<(Instant, Item)>>>;

/// One end of the wire.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    out: Queue,
    back: Queue,
    faults: Faults,
    size: usize,
    echo: bool,
    data: u64,
    controls: u64,
    /// Data messages of this end that were lost, cut, and late.
    pub(crate) lost: u64,
    pub(crate) cut: u64,
    pub(crate) late: u64,
    /// The largest number of data messages in the queue to the other side.
    pub(crate) most_on_the_way: u64,
}

impl Fake {
    fn new(out: &Queue, back: &Queue, faults: Faults) -> Fake {
        Fake { out: Arc::clone(out), back: Arc::clone(back), faults, ..Fake::default() }
    }

    fn put(&mut self, item: Item, delay: Duration) {
        let mut out = self.out.lock().unwrap();
        out.push_back((Instant::now() + delay, item));
        let data = out.iter().filter(|(_, item)| matches!(item, Item::Data(_))).count();
        self.most_on_the_way = self.most_on_the_way.max(data as u64);
    }

    /// Send one data message; `false` without a credit.
    fn data(&mut self) -> bool {
        let Faults { lose_data, late_data, cut_data, delay, .. } = self.faults;
        if late_data > 0 && self.out.lock().unwrap().len() as u64 >= WINDOW {
            return false;
        }
        self.data += 1;
        let is_cut = is_nth(self.data, cut_data);
        let data = Item::Data(self.size - usize::from(is_cut));
        self.cut += u64::from(is_cut);
        if is_nth(self.data, lose_data) {
            self.lost += 1;
        } else if is_nth(self.data, late_data) {
            self.late += 1;
            self.put(data, delay + LATE_BY);
        } else {
            self.put(data, delay);
        }
        true
    }

    fn take(&mut self) -> Option<Item> {
        let (mut back, now) = (self.back.lock().unwrap(), Instant::now());
        let first = back.iter().position(|(due, _)| *due <= now)?;
        back.remove(first).map(|(_, item)| item)
    }
}

fn is_nth(count: u64, every: u64) -> bool {
    every > 0 && count.is_multiple_of(every)
}

impl Channel for Fake {
    fn info(&self) -> &ChannelInfo {
        static INFO: LazyLock<ChannelInfo> = LazyLock::new(|| ChannelInfo::new("fake", 1500));
        &INFO
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.size = size;
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    fn send(&mut self, count: usize) -> Result<usize, Error> {
        Ok((0..count).take_while(|_| self.data()).count())
    }

    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        let mut arrived = Arrived::default();
        while arrived.messages < budget as u64 {
            match self.take() {
                None => break,
                Some(Item::ControlMessage(control)) => {
                    arrived.control = Some(control);
                    break;
                }
                Some(Item::Data(size)) => {
                    arrived.messages += 1;
                    arrived.bytes += size as u64;
                    arrived.wrong += u64::from(size != self.size);
                }
            }
        }
        if self.echo {
            self.send(arrived.messages as usize)?;
        }
        Ok(arrived)
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.controls += 1;
        if !is_nth(self.controls, self.faults.lose_controls) {
            self.put(Item::ControlMessage(control), self.faults.delay);
        }
        Ok(())
    }

    fn window(&self) -> Option<u64> {
        (self.faults.late_data == 0).then_some(WINDOW)
    }
}

/// Run the near side against the real far side, across a faulty wire.
pub(crate) fn across<T>(faults: Faults, near: impl FnOnce(&mut Fake) -> Result<T, Error>) -> Result<T, Error> {
    let near = |channel: &mut Fake| {
        let result = near(channel)?;
        open(channel, TIMEOUTS, &Watch::default()).end().map(|()| result)
    };
    let (result, far) = both(faults, near);
    result.and_then(|result| far.map(|()| result))
}

/// As `across`, with the far side's result. A near side that failed does not wait for the far side.
pub(crate) fn both<T>(
    faults: Faults,
    near: impl FnOnce(&mut Fake) -> Result<T, Error>,
) -> (Result<T, Error>, Result<(), Error>) {
    let (there, back) = (Queue::default(), Queue::default());
    let mut far = Fake::new(&back, &there, faults);
    let far = thread::spawn(move || open(&mut far, TIMEOUTS, &Watch::default()).serve());
    let result = near(&mut Fake::new(&there, &back, faults));
    let far = if result.is_ok() { far.join().unwrap() } else { Ok(()) };
    (result, far)
}

pub(crate) fn open<'a>(channel: &'a mut Fake, timeouts: Timeouts, watch: &'a Watch) -> OpenDriver<'a> {
    OpenDriver { channel, driver: Driver::Raw, timeouts, watch }
}

/// An end without a peer.
pub(crate) fn alone() -> Fake {
    Fake::new(&Queue::default(), &Queue::default(), Faults::default())
}
