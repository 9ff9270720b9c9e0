//! A turn: a group of one size is opened, measured, and ended, so that each has the wire and the cores alone.

use std::thread::sleep;
use std::time::Duration;

use am_measure::members::{Place, Process, Seat, end, member};
use am_measure::{Amount, DriverOptions, Error, Progress, RoundTrips, Watch, XdpArg, round_trips};

use crate::corosync;
use crate::protocol::{Answer, Job, Opening, Order, Received, Sent};
use crate::work::{Load, Stack, Work};

/// What is measured, and where.
pub struct Setup<'a> {
    /// Where the members run.
    pub place: &'a Place,
    /// How their transports are opened.
    pub how: DriverOptions,
    /// How much is measured.
    pub amount: Amount,
    /// Of messages, besides null messages.
    pub sizes: &'a [usize],
    /// What is measured now.
    pub progress: &'a Progress,
    /// Says when to stop.
    pub watch: &'a Watch,
}

/// What one measurement has found.
#[derive(Debug)]
pub struct Sample {
    /// From sending to the sender's own delivery, in nanoseconds. In turn alone.
    pub own: RoundTrips,
    /// To that at the last member.
    pub last: RoundTrips,
    /// Messages a second at the slowest member.
    pub rate: f64,
}

/// What a turn has measured, and why it ended before the rest.
pub type Given = (Vec<(Work, Sample)>, Result<(), Error>);

/// Deliveries of the survivors after which a group goes on.
const RESUMED: u64 = 20;

impl Setup<'_> {
    /// Measure a stack in a group of this size.
    pub(crate) fn take(&self, stack: Stack, members: usize) -> Given {
        self.take_rows(stack, members, Work::all_of(stack, members, self.sizes))
    }

    /// Measure these rows of a stack in a group of this size.
    pub fn take_rows(&self, stack: Stack, members: usize, rows: Vec<Work>) -> Given {
        let mut given = vec![];
        let result = self.open(stack, members).and_then(|mut group| {
            let result = rows.into_iter().try_for_each(|work| {
                self.progress.say(&format!("{} of {} by {}", work.size, members, stack.name()));
                given.push((work, self.measure(&mut group, work)?));
                self.progress.done();
                Ok(())
            });
            end(group);
            result
        });
        (given, result)
    }

    /// Kill the sequencer while another member sends. Returns the longest time without a delivery to a survivor.
    pub(crate) fn fail_over(&self, members: usize) -> Result<Duration, Error> {
        self.progress.say(&format!("the end of a sequencer of {members}"));
        let mut group = self.open(Stack::Agreed, members)?;
        let gap = self.survive(&mut group);
        end(group);
        self.progress.done();
        gap
    }

    fn survive(&self, group: &mut [Process<Answer>]) -> Result<Duration, Error> {
        group.iter_mut().try_for_each(|process| process.order(&Order::Lead))?;
        let leads = self.all(group, |answer| if let Answer::Leads(leads) = answer { Some(leads) } else { None })?;
        // On a busy machine another member may have taken over from the founder.
        let sequencer = leads.iter().position(|leads| *leads);
        let sequencer = sequencer.ok_or_else(|| Error::Lost("no member says that it is the sequencer".to_owned()))?;
        group.swap(0, sequencer);
        let last = group.len() - 1;
        for (index, process) in group.iter_mut().enumerate() {
            process.order(&Order::Survive { sends: index == last })?;
        }
        self.all(group, |answer| matches!(answer, Answer::Begun).then_some(()))?;
        sleep(self.amount.warm_up.max(Duration::from_millis(100)));
        let [sequencer, survivors @ ..] = group else { return Ok(Duration::ZERO) };
        sequencer.kill()?;
        for survivor in survivors.iter_mut() {
            survivor.order(&Order::Resume { count: RESUMED })?;
        }
        let gap = |answer| if let Answer::Resumed { gap } = answer { Some(gap) } else { None };
        let gaps = self.all(survivors, gap)?;
        Ok(Duration::from_nanos(gaps.into_iter().max().unwrap_or_default()))
    }

    /// Start all members, and wait until they are a group.
    fn open(&self, stack: Stack, members: usize) -> Result<Vec<Process<Answer>>, Error> {
        let processes = if stack == Stack::Am { 2 } else { members };
        self.place.connect(members)?;
        let mut group = vec![];
        for index in 0..processes {
            group.push(self.start(stack, index, processes, members)?);
        }
        self.all(&group, |answer| matches!(answer, Answer::Ready).then_some(()))?;
        Ok(group)
    }

    fn start(&self, stack: Stack, index: usize, processes: usize, members: usize) -> Result<Process<Answer>, Error> {
        let place = self.place;
        let seat = place.seat(index, processes, members, self.how_of(stack));
        if stack == Stack::Corosync {
            let mut command = corosync::command(&place.addresses[..members], index, seat.core);
            return place.at(index, || Process::start(&mut command, index))?;
        }
        let opening = Opening {
            stack,
            seat: Seat {
                spins: seat.spins && stack != Stack::Asleep,
                core: seat.core.filter(|_| stack != Stack::Store),
                ..seat
            },
            addresses: place.addresses[..processes].to_vec(),
        };
        let mut command = member("member")?;
        let mut process = place.at(index, || Process::start(&mut command, index))??;
        process.order(&Order::Open(opening))?;
        Ok(process)
    }

    /// The program sends copies only in the driver's path, and a veth takes the generic one by default.
    fn how_of(&self, stack: Stack) -> DriverOptions {
        let xdp = if stack.copies() && self.how.xdp == XdpArg::Auto { XdpArg::Native } else { self.how.xdp };
        DriverOptions { xdp, ..self.how }
    }

    /// The answers of all members.
    fn all<T>(&self, group: &[Process<Answer>], what: fn(Answer) -> Option<T>) -> Result<Vec<T>, Error> {
        group.iter().map(|process| process.expect(what, self.watch)).collect()
    }

    fn measure(&self, group: &mut [Process<Answer>], work: Work) -> Result<Sample, Error> {
        let count = group.len();
        let senders = work.senders.count(count);
        let nanos = |time: Duration| time.as_nanos() as u64;
        let (warm_up, time) = (nanos(self.amount.warm_up), nanos(self.amount.time));
        for (index, process) in group.iter_mut().enumerate() {
            // The last members send, so that a sender is no sequencer if it need not be.
            let job = Job { size: work.size, rank: count - 1 - index, senders, window: work.window(), warm_up, time };
            process.order(&Order::Begin(job))?;
        }
        self.all(group, |answer| matches!(answer, Answer::Begun).then_some(()))?;
        group.iter_mut().try_for_each(|process| process.order(&Order::Go))?;
        let sent = |answer| if let Answer::Done(sent) = answer { Some(sent) } else { None };
        let sent: Vec<Sent> = self.all(&group[count - senders..], sent)?;
        let total = sent.iter().map(|one| one.sent).sum();
        group.iter_mut().try_for_each(|process| process.order(&Order::Finish { total }))?;
        let received = |answer| if let Answer::Finished(received) = answer { Some(received) } else { None };
        let received: Vec<Received> = self.all(group, received)?;
        Ok(sample(work.load, &sent, &received))
    }
}

/// The figures of a measurement: what the senders have sent, and what all members have received; the last ones are the senders.
fn sample(load: Load, sent: &[Sent], received: &[Received]) -> Sample {
    let rates = received.iter().map(|of| of.counted as f64 * 1e9 / of.took.max(1) as f64);
    let mut sample =
        Sample { own: round_trips(), last: round_trips(), rate: rates.reduce(f64::min).unwrap_or_default() };
    if load == Load::Stream {
        return sample;
    }
    for (sender, own) in sent.iter().zip(&received[received.len() - sent.len()..]) {
        for (nth, at) in &sender.times {
            let delivered = |of: &Received| of.times.get(*nth as usize).map(|then| then.saturating_sub(*at));
            let last = received.iter().map(delivered).reduce(|one, other| Some(one?.max(other?))).flatten();
            if let Some((own, last)) = delivered(own).zip(last) {
                sample.own.saturating_record(own);
                sample.last.saturating_record(last);
            }
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_arrived_when_the_last_member_has_it() {
        let received = |times: [u64; 3], counted| Received { times: times.to_vec(), counted, took: 1_000_000 };
        let all =
            [received([1100, 2300, 3100], 30), received([1050, 2050, 3050], 20), received([1200, 2200, 3200], 25)];
        // Two senders in turn: the last member sends the first and the third message.
        let sent = |times: &[(u64, u64)]| Sent { sent: 2, times: times.to_vec() };
        let sample = sample(Load::InTurn, &[sent(&[(1, 2000)]), sent(&[(0, 1000), (2, 3000)])], &all);
        assert_eq!((sample.own.min(), sample.own.max(), sample.own.len()), (50, 200, 3));
        assert_eq!((sample.last.min(), sample.last.max(), sample.last.len()), (200, 300, 3));
        assert_eq!(sample.rate, 20_000.0);
    }
}
